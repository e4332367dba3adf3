"""The map of a partition by offset: the class of the record at each offset, and the offsets that each consumer read."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from ...histories.tables import Finding
from ...models.arrays import Ints, Mask
from ..partitions.absences import superseded_values
from ..partitions.partition import Partition
from .series import values_of

# Classes of the record at an offset, worst first. If an offset had several records, the worst class is shown.
CLASSES = (
    "lost-read",  # acknowledged, read, and gone
    "lost",  # acknowledged, never read, and gone
    "duplicate",  # its value is also at another offset
    "unread",  # acknowledged, not gone, and never read
    "read",  # acknowledged and read
    "read-only",  # read, but its send was not acknowledged
    "undecided",  # its send is indeterminate, and it was never read
    "aborted",  # its send failed or its transaction aborted
    "absent",  # legally gone: deleted, compacted or past retention
    "hole",  # no record is known (transaction markers look like this)
)
_CODE = {name: code for code, name in enumerate(CLASSES)}
SEVERE = 4  # classes before this one are always drawn, however small
MAX_BLOCKS = 240
MAX_READERS = 12
MAX_SEGMENTS = 60  # of one reader, and of the lane of second values
MAX_RANGES = 40


def offset_map(
    p: Partition, acknowledged: pl.DataFrame, findings: list[Finding], consumers: list[tuple[str, Ints]]
) -> dict[str, Any] | None:
    """Blocks of offsets with the count of each class, later holders, readers and findings; None without offsets.

    A block is [first, last, {class: offsets}]. It only has several classes if the map was too long.
    """
    offsets, codes = _classes(p, acknowledged, findings)
    if not len(offsets):
        return None
    visible, lost = offsets[codes < _CODE["aborted"]], values_of("lost-write", findings)
    readers, readers_left_out = _readers(p, consumers, visible, lost)
    ranges = [
        [finding.first_offset, finding.last_offset, finding.rule, finding.severity, finding.id]
        for finding in findings
        if finding.first_offset is not None and finding.last_offset is not None
    ]
    return {
        "first": int(offsets[0]),
        "last": int(offsets[-1]),
        "blocks": _blocks(offsets, codes),
        "later": _changed_offsets(p, offsets, codes),
        "readers": readers,
        "readers_left_out": readers_left_out,
        "findings": ranges[:MAX_RANGES],
        "findings_left_out": max(len(ranges) - MAX_RANGES, 0),
    }


def _classes(p: Partition, acknowledged: pl.DataFrame, findings: list[Finding]) -> tuple[Ints, Ints]:
    """Each known offset once, sorted, with the code of its class."""
    placed = acknowledged.filter(pl.col("offset").is_not_null())
    never = placed["first_read"].is_null().to_numpy()
    codes = np.where(never, _CODE["unread"], _CODE["read"])
    codes[placed["legal"].to_numpy()] = _CODE["absent"]
    lost = placed["lost"].to_numpy()
    codes[lost] = np.where(never[lost], _CODE["lost"], _CODE["lost-read"])
    twice = values_of("duplicate", findings)
    if len(twice):
        codes[placed["value"].is_in(twice.implode()).to_numpy() & ~lost] = _CODE["duplicate"]
    offsets = placed["offset"].to_numpy()
    others, other_codes = _classes_of_unacknowledged(p, placed, twice)
    offsets, codes = np.concatenate([offsets, others]), np.concatenate([codes, other_codes])
    order = np.argsort(offsets, kind="stable")
    offsets, codes = offsets[order], codes[order]
    if not len(offsets):
        return offsets, codes
    starts, _ = _runs(np.diff(offsets) > 0)
    return offsets[starts], np.minimum.reduceat(codes, starts)


def _classes_of_unacknowledged(p: Partition, placed: pl.DataFrame, twice: pl.Series) -> tuple[Ints, Ints]:
    """Offsets and class codes of entries that are not acknowledged sends."""
    entries = p.entries
    if len(placed) == len(entries) and bool(entries["sent_ok"].all()):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    rest = entries.join(placed.select("offset", "value"), on=["offset", "value"], how="anti")
    gone = (pl.col("offset") < p.log_start.certain) | pl.col("value").is_in(superseded_values(p)["value"].implode())
    code = (
        pl.when(pl.col("value").is_in(twice.implode()))
        .then(_CODE["duplicate"])
        .when("aborted")
        .then(_CODE["aborted"])
        .when(gone)
        .then(_CODE["absent"])
        .when(pl.col("times") > 0)
        .then(_CODE["read-only"])
        .otherwise(_CODE["undecided"])
    )
    coded = rest.select("offset", code=code.cast(pl.Int64))
    return coded["offset"].to_numpy(), coded["code"].to_numpy()


def _blocks(offsets: Ints, codes: Ints) -> list[list[Any]]:
    """Run-length encodes the classes, with the holes between known offsets, and shortens the result."""
    gap = np.diff(offsets) > 1
    before = np.flatnonzero(gap)
    firsts = np.concatenate([offsets, offsets[before] + 1])
    lasts = np.concatenate([offsets, offsets[before + 1] - 1])
    kinds = np.concatenate([codes, np.full(len(before), _CODE["hole"])])
    order = np.argsort(firsts, kind="stable")
    firsts, lasts, kinds = firsts[order], lasts[order], kinds[order]
    starts, ends = _runs(kinds[1:] != kinds[:-1])
    firsts, lasts, kinds = firsts[starts], lasts[ends], kinds[starts]
    group = _group_runs(kinds)
    counts = np.zeros((int(group[-1]) + 1, len(CLASSES)), np.int64)
    np.add.at(counts, (group, kinds), lasts - firsts + 1)
    begin, end = _runs(np.diff(group) > 0)
    rows = zip(firsts[begin].tolist(), lasts[end].tolist(), counts.tolist(), strict=True)
    return [[first, last, {CLASSES[c]: n for c, n in enumerate(row) if n}] for first, last, row in rows]


def _runs(is_new: Mask) -> tuple[Ints, Ints]:
    """The first and the last index of each run; `is_new`: whether each item but the first begins one."""
    starts = np.flatnonzero(np.append(True, is_new))
    return starts, np.append(starts[1:], len(is_new) + 1) - 1


def _group_runs(kinds: Ints) -> Ints:
    """The group of each run: few runs stay separate; else harmless neighbours are joined; else groups of equal size."""
    count = len(kinds)
    if count <= MAX_BLOCKS:
        return np.arange(count)
    severe = kinds < SEVERE
    begins = severe | np.append(True, severe[:-1])
    spare = MAX_BLOCKS - int(begins.sum())
    if spare <= 0:
        return np.arange(count) * MAX_BLOCKS // count
    # Harmless runs share the remaining blocks.
    harmless = int((~severe).sum())
    starts = np.flatnonzero(begins)
    since_start = np.arange(count) - starts[np.cumsum(begins) - 1]
    runs_in_block = -(-harmless // spare)  # rounded up
    return np.cumsum(begins | (since_start % runs_in_block == 0)) - 1


def _changed_offsets(p: Partition, offsets: Ints, codes: Ints) -> list[list[Any]]:
    """Offsets that lost their record or had several: [first, last, replaced|inconsistent|gone]."""
    entry_offsets = p.entries["offset"].to_numpy()  # sorted
    repeated = np.unique(entry_offsets[1:][np.diff(entry_offsets) == 0])
    lost = (codes == _CODE["lost"]) | (codes == _CODE["lost-read"])
    if not len(repeated) and not lost.any():
        return []
    has_several = np.isin(offsets, repeated)
    kind = np.select([lost & has_several, has_several, lost], [1, 2, 3])
    segments = _segments(offsets, kind, np.append(np.diff(offsets) > 1, False))
    names = {1: "replaced", 2: "inconsistent", 3: "gone"}
    return [[first, last, names.get(code, "several")] for first, last, code in segments]


def _readers(
    p: Partition, consumers: list[tuple[str, Ints]], visible: Ints, lost: pl.Series
) -> tuple[list[dict[str, Any]], int]:
    """Ranges of offsets that each consumer read, by whether it read records that were lost later."""
    known = [item for item in consumers if len(item[1])]
    lanes = []
    for name, rows in known[:MAX_READERS]:
        offsets = p.reads["offset"].gather(rows).to_numpy()
        is_lost = None
        if len(lost):
            is_lost = p.reads["value"].gather(rows).is_in(lost.implode()).fill_null(False).to_numpy()
        lanes.append({"process": name, **_lane(offsets, is_lost, visible)})
    return sorted(lanes, key=lambda lane: str(lane["process"])), max(len(known) - MAX_READERS, 0)


def _lane(offsets: Ints, is_lost: Mask | None, visible: Ints) -> dict[str, Any]:
    """The lane of one consumer. Kinds: read, lost (only the lost record), both (also its successor), several."""
    if is_lost is None or not is_lost.any():
        held = offsets if len(offsets) < 2 or bool((np.diff(offsets) > 0).all()) else np.unique(offsets)
        kind = np.ones(len(held), np.int64)
    else:
        held, inverse = np.unique(offsets, return_inverse=True)
        kind = np.zeros(len(held), np.int64)
        np.bitwise_or.at(kind, inverse, np.where(is_lost, 2, 1))
    # Offsets without a visible record (markers, aborted records) do not interrupt a range.
    rank = np.searchsorted(visible, held, "right")
    gap = np.append(np.diff(rank) > 1, False)
    names = {1: "read", 2: "lost", 3: "both"}
    return {
        "records": len(offsets),
        "segments": [[first, last, names.get(code, "several")] for first, last, code in _segments(held, kind, gap)],
    }


def _segments(offsets: Ints, kind: Ints, gap_after: Mask) -> list[tuple[int, int, int]]:
    """Runs of one kind (0: none) without a gap. If there are too many, groups of equal size become runs of kind -1."""
    starts, ends = _runs((kind[1:] != kind[:-1]) | gap_after[:-1])
    starts, ends = starts[kind[starts] != 0], ends[kind[starts] != 0]
    codes = kind[starts]
    if len(starts) > MAX_SEGMENTS:
        group = np.arange(len(starts)) * MAX_SEGMENTS // len(starts)
        begin, end = _runs(np.diff(group) > 0)
        codes = np.where(begin == end, codes[begin], -1)
        starts, ends = starts[begin], ends[end]
    return list(zip(offsets[starts].tolist(), offsets[ends].tolist(), codes.tolist(), strict=True))
