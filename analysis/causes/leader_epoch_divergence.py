"""leader-epoch-divergence: logs diverged permanently although truncation used leader epochs.

From 0.11 to 1.1 a follower only requested the end of its own last epoch from the leader. After two quick leader
changes the leader may never have had that epoch; its response then let the follower keep records that the leader does
not have (KIP-279, fixed in 2.0). Up to 2.0 a fetch carried no epoch: a replica that missed two leader changes fetched
the records after its own wrong ones (KAFKA-6880, fixed in 2.1 by KIP-320).

Needs: a version from 0.11 to 2.0; two replicas that hold different records of different epochs at one offset, and
the same records at later offsets, so that one followed the other after they had diverged. This cause explains why
replicas differ permanently. The cause of lost records is the election after which their leader lacked them.
"""

from __future__ import annotations

import polars as pl

from ..timelines.facts import Fact, chain, fact_of
from ..timelines.timeline import Timeline
from .cases import NOT_THE_CASE, Attempt, Lost, needs

CITATION = "KIP-279 (log divergence after fast leader failover), KAFKA-6361; KIP-320, KAFKA-6880 (zombie replicas)"
REMEDY = "Kafka 2.1 or later (KIP-279, KIP-320)."


def explain_divergence(timeline: Timeline, differing: Lost) -> Attempt:
    """Whether the replicas differ at the end because truncation by leader epochs left their logs different."""
    divergence = _divergence_facts(timeline, differing)
    if not divergence:
        return NOT_THE_CASE
    release = timeline.release()
    if release is None:
        return needs("the version of Kafka")
    if not (0, 11) <= release < (2, 1) or (timeline.replica_logs.batches["magic"] < 2).any():
        return NOT_THE_CASE
    version = [timeline.version_fact] if timeline.version_fact else []
    at = timeline.replica_logs.last_records.filter(offset=differing.first)
    terms = [timeline.terms.get(epoch) for epoch in at["leader_epoch"].drop_nulls().unique()]
    elections = [term.facts[0] for term in terms if term is not None and term.facts]
    return Attempt(True, chain(version, elections, divergence), ["Kafka 2.1 or later (KIP-279 and KIP-320)"])


def _divergence_facts(timeline: Timeline, differing: Lost) -> list[Fact]:
    """The facts of two replicas' different records at one offset, and of their first equal record after it."""
    logs = timeline.replica_logs
    records = logs.last_records
    at = records.filter(offset=differing.first).drop_nulls("leader_epoch").unique("leader_epoch", keep="first")
    rows = list(at.sort("broker").iter_rows(named=True))
    later = [records.filter(pl.col("offset") > differing.last, broker=r["broker"]) for r in rows]
    for other in range(1, len(rows)):
        shared = later[0].join(later[other], on=["offset", "leader_epoch", "digest"], how="semi").sort("offset")
        if not shared.height:
            continue
        text = "broker {broker} has a record of epoch {leader_epoch} at offset {offset}"
        facts = [
            fact_of(logs, text.format_map(row), "kept", row, epoch=row["leader_epoch"], offset=differing.first)
            for row in (rows[0], rows[other])
        ]
        again = shared.row(0, named=True)
        text = f"both have the same records from offset {again['offset']} on, so one had followed the other"
        return [*facts, fact_of(logs, text, "kept", again, broker=None, offset=again["offset"])]
    return []
