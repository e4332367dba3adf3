"""The times of findings, and their impact on producers and consumers, also where these do not notice it."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import polars as pl

from ...histories.settings import Settings
from ...histories.tables import Finding
from ..finding_order import SEVERITIES, rank, worst_first
from ..partitions.indeterminate_polls import indeterminate_polls
from ..partitions.partition import Partition
from ..rules.loss import outcomes_of_sends
from .series import Bins, values_of

MAX_CONSUMERS = 40
MAX_DATED = 30  # findings of a partition with times
MAX_PROCESSES = 40  # producers or consumers of a partition that are counted separately
KINDS = ("lost", "lost_read", "duplicated")
TOTALS = ("acknowledged", *KINDS, "legally_gone", "handled_again")


def never_received(p: Partition) -> list[list[Any]]:
    """Acknowledged records that a consumer skipped: it had read a record, truncated since, at the same offset.

    Rows [process, partition, first offset, last offset, records], most records first. A record that any member of the
    consumer's group received counts as received.
    """
    ambiguous = p.entries.filter(pl.col("offset").is_duplicated())["offset"].unique()
    if not len(ambiguous):
        return []
    polled = p.reads.with_columns(owner_of(p.settings))
    reads = polled.filter(pl.col("offset").is_not_null())
    present = (
        outcomes_of_sends(p)
        .filter(~(pl.col("lost") | pl.col("legal") | pl.col("doubtful")))
        .select("offset", present="value")
    )
    saw = reads.filter(pl.col("offset").is_in(ambiguous.implode())).join(present, on="offset")
    received = polled.select("owner", present="value")
    last = reads.group_by("owner").agg(last=pl.col("offset").last())  # rows are sorted by time
    missed = (
        saw.filter(pl.col("value") != pl.col("present"))
        .unique(["process", "offset"])
        .join(received, on=["owner", "present"], how="anti")
        .join(last, on="owner")
        .filter(pl.col("offset") <= pl.col("last"))
    )
    rows = []
    for (process,), missed_by_process in missed.group_by("process"):
        offsets = missed_by_process["offset"].to_numpy()
        offsets = offsets[~indeterminate_polls(p, (str(process),)).hold(offsets)]
        if len(offsets):
            rows.append([process, p.name, int(offsets.min()), int(offsets.max()), len(offsets)])
    return sorted(rows, key=lambda row: (-row[-1], row[0]))[:MAX_CONSUMERS]


def handled_again(p: Partition) -> int:
    """The number of records that a group, or a single consumer, handled again. At-least-once delivery permits it."""
    done = p.marks.filter(kind="handle", outcome="ok")
    if not len(done):
        return 0
    handled = done.group_by(owner_of(p.settings), "offset").len("times")
    read = p.reads.group_by(owner_of(p.settings), "offset").agg(pl.col("value").n_unique())
    # Handling another record at the same offset is not a repetition.
    values = handled.join(read, on=["owner", "offset"], how="left")["value"].fill_null(1)
    return int((handled["times"] > values).sum())


def owner_of(settings: Settings) -> pl.Expr:
    """An expression on rows with a process: its group, else the process itself, as `owner`."""
    groups = {name: f"group {settings.group_of(name)}" for name in settings.processes if settings.group_of(name)}
    return pl.col("process").replace(groups).alias("owner")


def times_of(p: Partition, findings: list[Finding]) -> dict[str, tuple[int, int]]:
    """The first and last time (ns) of each finding's evidence, by its id. Findings without known times are omitted."""
    wanted = {item.place for finding in findings for item in finding.evidence if item.place is not None}
    if not wanted:
        return {}
    places = pl.Series("place", sorted(wanted), dtype=pl.Int64)
    time_at: dict[int, int] = {}
    # A place is the line of an invocation (if the finding quotes the start of a send) or of a completion.
    for place, time in (("invoked_at", "invoked"), ("at", pl.coalesce("completed", "invoked"))):
        for frame in (p.sends, p.reads, p.marks):
            hits = frame.filter(pl.col(place).is_in(places.implode())).select(place, when=time)
            time_at.update(zip(hits[place].to_list(), hits["when"].to_list(), strict=True))
    dated = {}
    for finding in findings:
        times = [time_at[item.place] for item in finding.evidence if item.place in time_at]
        if times:
            dated[finding.id] = (min(times), max(times))
    return dated


def heat(
    acknowledged: pl.DataFrame, findings: list[Finding], times: dict[str, tuple[int, int]], bins: Bins
) -> list[dict[str, Any]]:
    """The bins with findings, by rule and severity, with the number of records.

    Losses count at the acknowledgement of the lost records, other findings at their last evidence.
    """
    cells: defaultdict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    acked = acknowledged.filter("lost").select("value", "acked")
    for severity in SEVERITIES:
        losses = [finding for finding in findings if finding.rule == "lost-write" and finding.severity == severity]
        if losses:
            times_lost = acked.filter(pl.col("value").is_in(values_of("lost-write", losses).implode()))["acked"]
            cells["lost-write", severity].update(bins.of(times_lost.to_numpy()).tolist())
    others = [finding for finding in findings if finding.rule != "lost-write" and finding.id in times]
    when = bins.of(np.array([times[finding.id][1] for finding in others], np.int64)).tolist()
    for finding, number in zip(others, when, strict=True):
        cells[finding.rule, finding.severity][number] += finding.count
    accepted = {(finding.rule, finding.severity) for finding in findings if finding.is_accepted}
    rows = sorted(cells.items(), key=lambda item: rank(*item[0]))
    return [
        {
            "rule": rule,
            "severity": severity,
            "accepted": (rule, severity) in accepted,  # by --allow
            "bins": sorted(records),
            "records": [records[number] for number in sorted(records)],
        }
        for (rule, severity), records in rows
    ]


def with_times(
    findings: list[Finding], times: dict[str, tuple[int, int]], acknowledged: pl.DataFrame
) -> list[dict[str, Any]]:
    """The worst findings with their times; losses also with the acknowledgement times of the lost records."""
    rows = []
    lost = acknowledged.filter("lost").select("value", "acked")
    for finding in worst_first(findings)[:MAX_DATED]:
        start, end = times.get(finding.id, (None, None))
        acked = lost["acked"].clear()
        if finding.rule == "lost-write":
            acked = lost.filter(pl.col("value").is_in(finding.values))["acked"]
        between = {"acked_from": acked.min(), "acked_to": acked.max()}
        rows.append({"id": finding.id, "from": start, "to": end, **between})
    return rows


def impact(p: Partition, acknowledged: pl.DataFrame, findings: list[Finding]) -> dict[str, Any]:
    """Counts of records: lost, lost after they were read, duplicated, legally absent, handled again.

    Also by producer, and lost records by reader.
    """
    lost = values_of("lost-write", findings)
    duplicated = values_of("duplicate", findings)
    gone = acknowledged.filter("lost")
    senders = p.sends.filter(pl.col("value").is_not_null()).select("value", "process")
    by_producer: dict[str, dict[str, int]] = {}
    read = gone.filter(pl.col("first_read").is_not_null())["value"]
    for kind, values in (("lost", gone["value"]), ("lost_read", read), ("duplicated", duplicated)):
        if len(values):
            affected = senders.filter(pl.col("value").is_in(values.implode()))
            first = affected.unique("value", keep="first", maintain_order=True)
            for name, count in first["process"].value_counts().iter_rows():
                by_producer.setdefault(name, {})[kind] = count
    readers: dict[str, int] = {}
    if len(lost):
        lost_reads = p.reads.filter(pl.col("value").is_in(lost.implode())).select("process", "value").unique()
        readers = dict(lost_reads["process"].value_counts().iter_rows())
    counted = _most_affected(by_producer, lambda kinds: sum(kinds.values()))
    return {
        "acknowledged": len(acknowledged),
        "lost": len(gone),
        "lost_read": len(read),
        "duplicated": len(duplicated),
        "legally_gone": int((acknowledged["legal"] & ~acknowledged["lost"]).sum()),
        "handled_again": handled_again(p),
        "by_producer": [[name, *(by_producer[name].get(kind, 0) for kind in KINDS)] for name in counted],
        "by_reader": [[name, readers[name]] for name in _most_affected(readers, int)],
        "processes_left_out": len(by_producer) - len(counted) + max(len(readers) - MAX_PROCESSES, 0),
    }


def _most_affected(counts: dict[str, Any], size: Any) -> list[str]:
    return sorted(counts, key=lambda name: (-size(counts[name]), name))[:MAX_PROCESSES]
