"""committed-absent: a committed record stays in the log of every later leader. Judged without a client history.

A record below the high watermark is on all replicas of the ISR. Consumers may read it, and acks=all waits for no more.
With a client history lost-write and acknowledged-absent judge the same from acknowledgements, which say more.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from ...histories.references import REPLICATION
from ...histories.tables import Evidence
from ...models.internal_topics import is_internal
from ..partitions.partition import Partition, once
from ..replicas.replica_logs import ReplicaLogs
from ..timelines.facts import Fact
from ..timelines.removals import (
    MAX_TRUNCATIONS,
    CommittedRemoval,
    Removal,
    committed_removals,
    may_have_been_committed,
    recorded_truncations,
    removals,
)
from ..wording import brokers, span
from .rule import Result, Rule, Unknown, finding


@once
def removals_without_clients(p: Partition) -> list[Removal]:
    """The ranges that truncations removed for good, if no client of the run is recorded; none of Kafka's own topics."""
    is_recorded = len(p.sends) or len(p.context)
    return [] if is_recorded or p.timeline is None or is_internal(p.topic) else removals(p.timeline)


@Rule(
    "committed-absent",
    group="loss",
    summary="A committed record was truncated, and the leader lacks it",
    source=REPLICATION,
    needs=("removals",),
    values_are_records=True,
).judged_by
def committed_absent(p: Partition) -> Iterator[Result]:
    """One finding for each range of adjacent offsets that a broker truncated below its high watermark.

    Breach: No client is recorded, a broker truncated records below a high watermark that it had logged, and the last
    leader's log has no record at their offsets, or others.
    Not a breach: All leaders were elected from the ISR, so that what followers truncated had not been committed. The
    broker fetched the same records again. The records were below the log start, or their topic was deleted. The broker
    had returned with an older copy of its log, so that its checkpointed high watermark was that of another log.
    Unknown when: No high watermark in the broker's log is above the records, and a leader may have been elected from
    outside of the ISR, or had just started: it may have lost its tail. The partition has more than 100 truncations. The
    topic is compacted: compaction may have removed the records before. All offsets may have been transaction markers.
    """
    if p.timeline is None:
        return
    removed = removals_without_clients(p)
    if removed and len(recorded_truncations(p.timeline)) > MAX_TRUNCATIONS:
        yield Unknown(f"{p.name} has more than {MAX_TRUNCATIONS} truncations, of which the first were examined")
    committed_ranges = list(committed_removals(p.timeline, removed))
    for removal in removed:
        is_reported = any(one.covers(removal) for one in committed_ranges)
        if not is_reported and may_have_been_committed(p.timeline, removal):
            who, offsets = brokers(sorted({cut.broker for cut in removal.cuts})), span(removal.first, removal.end - 1)
            yield Unknown(f"whether {offsets} of {p.name}, which {who} truncated, had been committed")
    for one in committed_ranges:
        truncated, committed = span(one.removal.first, one.removal.end - 1), span(one.first, one.last)
        if p.settings.is_compacted(p.topic):
            yield Unknown(f"compaction may have removed {committed} of {p.name} before their truncation")
            continue
        least = _least_records(p.timeline.replica_logs, one)
        if least < 1:
            yield Unknown(f"whether {committed} of {p.name} had records, or only transaction markers")
            continue
        part = "which" if committed == truncated else f"of which {committed}"
        yield finding(
            p,
            f"broker {one.cut.broker} truncated {truncated} of {p.name}, {part} had been committed: its high watermark"
            f" was {one.mark.offset}",
            (one.first, one.last),
            [_evidence(one.mark.fact), _evidence(one.cut.fact)],
            count=least,
            values=_values(p.timeline.replica_logs, one),
            brokers=[one.cut.broker],
        )


def _least_records(logs: ReplicaLogs, lost: CommittedRemoval) -> int:
    """The least number of records at the lost offsets, as some may be those of transaction markers.

    Each marker ends a transaction with a record before it: at these offsets, or below them in an open transaction.
    """
    offsets = lost.last - lost.first + 1
    transactional = logs.batches.filter(pl.col("transactional"), snapshot=logs.last).sort("base_offset")
    below = (
        transactional.filter(pl.col("last_offset") < lost.first).group_by("producer_id").agg(pl.col("control").last())
    )
    open_count = len(below.filter(~pl.col("control")))
    return (offsets - open_count + 1) // 2 if len(transactional) else offsets


def _values(logs: ReplicaLogs, lost: CommittedRemoval) -> list[str]:
    """The values of the lost records that an earlier copy of the broker's log has, and the last logs have no more."""
    is_lost = pl.col("offset").is_between(lost.first, lost.last) & pl.col("control").is_null()
    earlier = logs.records.filter(is_lost, pl.col("snapshot") != logs.last, broker=lost.cut.broker)
    gone = earlier.join(logs.last_records, on=["offset", "value"], how="anti", nulls_equal=True)
    return gone.unique("offset").sort("offset")["value"].drop_nulls().to_list()


def _evidence(fact: Fact) -> Evidence:
    return Evidence(fact.sentence, source=fact.source, line=fact.line, byte=fact.byte)
