"""compaction: a newer record of the key replaced the records.

No loss: the legal reason why records are absent.

Needs: a cleaner's offset (cleaner-offset-checkpoint) beyond the records, and a log without them but with later ones.
"""

from __future__ import annotations

import polars as pl

from ..timelines.facts import chain, fact_of
from ..timelines.timeline import Timeline
from .cases import NOT_THE_CASE, Attempt, Lost, acknowledgement_facts, needs

CITATION = "cleanup.policy=compact; Kafka's documentation of log compaction"
REMEDY = "Nothing is wrong. cleanup.policy=delete keeps every record of a key."


def explain_absence(timeline: Timeline, lost: Lost) -> Attempt:
    """Whether the log cleaner has passed the records, and they are missing from the log at the end of the run."""
    logs = timeline.replica_logs
    if logs.is_compacted is False:
        return NOT_THE_CASE
    last = logs.last_stretches
    has_leader_log = logs.leader is not None and (last["broker"] == logs.leader).any()
    of_log = (pl.col("broker") == logs.leader) if has_leader_log else pl.lit(True)
    is_lost = pl.col("offset").is_between(lost.first, lost.last) & pl.col("value").is_in(lost.values)
    if logs.last_records.filter(of_log, is_lost).height:
        return NOT_THE_CASE
    cleaned = logs.checkpoints.filter(pl.col("offset") > lost.last, snapshot=logs.last, name="cleaned")
    if not cleaned.height:
        if logs.is_compacted:
            return needs(f"evidence that the cleaner had passed offset {lost.last} (cleaner-offset-checkpoint)")
        return NOT_THE_CASE
    if not last.filter(of_log & (pl.col("last_offset") > lost.last)).height:
        return NOT_THE_CASE  # the newest record of a log is never compacted away
    facts = []
    for row in cleaned.iter_rows(named=True):
        text = f"broker {row['broker']}'s cleaner has cleaned {lost.name} up to offset {row['offset']}"
        facts.append(fact_of(logs, text, "cleaned", row, offset=row["offset"]))
    return Attempt(True, chain(acknowledgement_facts(lost, "record"), timeline.cleanings[-3:], facts))
