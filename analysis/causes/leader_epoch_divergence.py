"""leader-epoch-divergence: logs that diverged for good although truncation went by leader epochs.

From 0.11 to 1.1 a follower asked the leader for the end of its own last epoch alone. After two quick
changes of leader, where the leader never had that epoch, the answer let the follower keep records that the
leader does not have (KIP-279, fixed in 2.0).

Needs: a version from 0.11 to 1.1; two replicas that hold different records of different epochs at the lost
offset, and the same records later on, so that one followed the other after they had diverged.
"""

from __future__ import annotations

import polars as pl

from .facts import NOT_THE_CASE, Attempt, Fact, Lost, lacks
from .succession import acknowledgement, chain, succession
from .timeline import Timeline

NAME = "leader-epoch-divergence"
CITATION = "KIP-279 (log divergence between leader and follower after fast leader failover), KAFKA-6361"


def explain(timeline: Timeline, lost: Lost) -> Attempt:
    release = timeline.release()
    survived = _survived(timeline, lost)
    if not survived:
        return NOT_THE_CASE
    if release is None:
        return lacks("the version of Kafka")
    if not (0, 11) <= release < (2,) or (timeline.kept.batches["magic"] < 2).any():
        return NOT_THE_CASE
    found = succession(timeline, lost)
    version = [timeline.version_fact] if timeline.version_fact else []
    led = [term.facts[0] for term in (found.old, found.new) if term is not None and term.facts]
    facts = chain(version, led, acknowledgement(lost), survived)
    return Attempt(True, facts, ["Kafka 2.0 or later (KIP-279)"])


def _survived(timeline: Timeline, lost: Lost) -> list[Fact]:
    """What two replicas hold at the lost offset, and where they agree again."""
    kept = timeline.kept
    for snapshot in reversed(kept.snapshots):
        records = kept.records.filter(pl.col("snapshot") == snapshot)
        at = records.filter(pl.col("offset") == lost.first).drop_nulls("leader_epoch").sort("broker")
        losing, winning = (at.filter(pl.col("value").is_in(list(lost.values)) == has) for has in (True, False))
        if not losing.height or not winning.height:
            continue
        one, other = losing.row(0, named=True), winning.row(0, named=True)
        if one["leader_epoch"] == other["leader_epoch"]:
            continue
        later = [
            records.filter((pl.col("broker") == row["broker"]) & (pl.col("offset") > lost.last)) for row in (one, other)
        ]
        shared = later[0].join(later[1], on=["offset", "leader_epoch", "digest"], how="semi")
        if not shared.height:
            continue
        time = kept.times.get(snapshot)
        facts = [
            Fact(
                f"broker {row['broker']} has a record of epoch {row['leader_epoch']} at offset {lost.first}",
                time,
                row["file"],
                None,
                row["byte"],
            )
            for row in (one, other)
        ]
        again = shared.row(0, named=True)
        says = f"both hold the same records from offset {again['offset']} on, so one had followed the other"
        return [*facts, Fact(says, time, again["file"], None, again["byte"])]
    return []
