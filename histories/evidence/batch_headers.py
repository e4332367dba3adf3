"""Reads the headers of the batches in a range of a segment, and finds broken and untrusted ones.

The CRC of a batch does not cover its base offset, length and leader epoch. A flipped bit in the length breaks the walk,
which continues at the next complete batch. One in the offset or the epoch only shows against the neighbouring batches.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...models.arrays import Bytes, Ints
from . import batch_layout as layout
from .batch_layout import BASE, BYTE, CRC2, EPOCH, HEADERS, LAST, MAGIC
from .batch_loops import loops_for
from .tables import Row, damage_row

CODEC_BITS, APPEND_TIME_BIT, TRANSACTIONAL_BIT, CONTROL_BIT = 0x07, 0x08, 0x10, 0x20


def walk_headers(data: Bytes, at: int = 0, first_offset: int = 0) -> tuple[Ints, list[Row]]:
    """The headers of all batches in the bytes, as rows of HEADERS, and the damage between them."""
    loops = loops_for(data)
    parts: list[Ints] = []
    damage: list[Row] = []
    pos, end = 0, len(data)
    min_offset = first_offset
    while pos < end:
        n, stopped, status = loops.count_batches(data, pos, end)
        if n:
            out = np.empty((n, len(HEADERS)), dtype=np.int64)
            loops.scan(data, pos, n, layout.CRC32, layout.CRC32C, out)
            parts.append(out)
            good = out[(out[:, CRC2] & 1) == 1]
            good = good[~out_of_order(good[:, BASE], good[:, LAST])]
            if len(good):
                min_offset = max(min_offset, int(good[-1, LAST]) + 1)
        pos = int(stopped)
        if pos >= end:
            break
        if status == layout.ZEROS and not data[pos:end].any():
            damage.append(damage_row("zeros", f"{end - pos} bytes of zeros end the file", at + pos, min_offset))
            break
        found = int(loops.resync(data, pos + 1, end, min_offset, layout.CRC32, layout.CRC32C))
        damage.append(_describe_damage(data, pos, found, end, int(status), at, min_offset))
        pos = found
    return (np.concatenate(parts) if parts else np.empty((0, len(HEADERS)), np.int64)), damage


def out_of_order(first: Ints, last: Ints) -> Any:
    """A mask of the entries of a rising sequence that do not fit between neighbours that fit each other.

    The first and the last entry have one neighbour, and pass.
    """
    wrong = np.zeros(len(first), dtype=bool)
    if len(first) > 2:
        around = last[:-2] < first[2:]
        wrong[1:-1] = around & ((first[1:-1] <= last[:-2]) | (last[1:-1] >= first[2:]))
    return wrong


def trusted_batches(headers: Ints, crc_ok: Any, at: int, damage: list[Row]) -> Any:
    """A mask of the batches with a right CRC and a plausible base offset. Clears implausible leader epochs."""
    sound = np.flatnonzero(crc_ok)
    rows = headers[sound]
    misplaced = _misplaced(rows[:, BASE], rows[:, LAST])
    placed = np.flatnonzero(~misplaced)
    for index in np.flatnonzero(misplaced):
        # After a small step back a batch and its neighbour do not fit: both may have all offsets between the others.
        position = int(np.searchsorted(placed, index))
        before, after = int(rows[placed[position - 1], LAST]), int(rows[placed[position], BASE])
        reason = f"base offset {int(rows[index, BASE])} does not fit between offsets {before} and {after}"
        byte = at + int(rows[index, BYTE])
        damage.append(damage_row("order", reason, byte, before + 1, max(after - 1, before + 1)))
    new = np.flatnonzero(~misplaced & (rows[:, MAGIC] == 2))
    epochs = rows[new, EPOCH]
    # Unlike offsets, epochs may be equal: a span from 2e to 2e - 1 ends before an equal one begins.
    odd = out_of_order(2 * epochs, 2 * epochs - 1)
    for index in np.flatnonzero(odd):
        before, epoch, after = map(int, epochs[index - 1 : index + 2])
        reason = f"leader epoch {epoch} does not fit between {before} and {after}"
        damage.append(damage_row("order", reason, at + int(rows[new[index], BYTE])))
    headers[sound[new[odd]], EPOCH] = -1
    trusted = crc_ok.copy()
    trusted[sound[misplaced]] = False
    return trusted


def _misplaced(base: Ints, last: Ints) -> Any:
    """A mask of the batches that are out of order, without those that only contradict the first or the last batch.

    There either of the two may be wrong: the neighbours in other files show which (analysis/replicas).
    """
    wrong = out_of_order(base, last)
    if len(base) > 2:
        wrong[1] &= last[1] >= base[2] or base[1] > last[0]
        wrong[-2] &= base[-2] <= last[-3] or last[-2] < base[-1]
    return wrong


def _describe_damage(data: Bytes, pos: int, found: int, end: int, status: int, at: int, min_offset: int) -> Row:
    """The damage from `pos`, where no valid batch begins, to the next complete batch at `found`."""
    if found >= end and status == layout.TORN and not _is_whole(data, pos, end):
        reason = f"the last {end - pos} bytes are an incomplete batch"
        return damage_row("torn-tail", reason, at + pos, min_offset)
    kind, reason = {
        layout.TORN: ("length", "the length of the batch reaches beyond the end of the file"),
        layout.BAD_LENGTH: ("length", "the length of the batch is below the minimum"),
        layout.BAD_MAGIC: ("magic", f"found magic {int(data[min(pos + 16, end - 1)])}, expected 0, 1 or 2"),
        layout.ZEROS: ("zeros", "zeros in place of a batch"),
    }[status]
    if found >= end:
        return damage_row(kind, f"{reason}; no complete batch follows", at + pos, min_offset)
    last = int.from_bytes(data[found : found + 8].tobytes(), "big", signed=True) - 1
    reason += f"; the next complete batch begins at byte {at + found}"
    return damage_row(kind, reason, at + pos, min_offset, max(last, min_offset - 1))


def _is_whole(data: Bytes, pos: int, end: int) -> bool:
    """Whether the bytes are one whole batch by its CRC, which does not cover its length."""
    is_header = end - pos >= layout.V2_OVERHEAD and data[pos + 16] == 2
    return is_header and bool(loops_for(data).has_right_crc(data, pos, end - pos, layout.CRC32, layout.CRC32C))


def offsets_of_broken(headers: Ints, sound: Any, index: int, first_offset: int) -> tuple[int, int | None]:
    """The first and last offset that a broken batch may have had: those between its sound neighbours.

    Its own header is not trusted. A last offset of None is unbounded.
    """
    before = np.flatnonzero(sound[:index])
    after = np.flatnonzero(sound[index + 1 :])
    first = int(headers[before[-1], LAST]) + 1 if len(before) else first_offset
    last = int(headers[index + 1 + after[0], BASE]) - 1 if len(after) else None
    return first, last if last is None or last >= first else first
