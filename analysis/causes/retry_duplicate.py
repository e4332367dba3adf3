"""retry-duplicate: a producer without idempotence retried after a lost acknowledgement and wrote the record twice.

Needs: the producer lacked idempotence (by its configuration, by acks 0 or 1, or by batches without a producer id); and
the record is at both offsets in the log or in the history. An election between the copies, if one is recorded, explains
why the first acknowledgement was lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...histories.settings import idempotence
from ..timelines.facts import Fact, ordered
from ..timelines.timeline import Timeline
from .cases import NOT_THE_CASE, Attempt, Record, needs
from .repeated_values import Repeated, copy_fact, missing_for_idempotent, sent_facts

CITATION = "KIP-98 (idempotent producer), KIP-679 (idempotence by default); retries, delivery.timeout.ms"
REMEDY = "enable.idempotence=true, which needs acks=all."


def explain_duplicate(timeline: Timeline, repeated: Repeated, copies: Sequence[Record]) -> Attempt:
    """Whether a producer without idempotence wrote the copies."""
    producer = repeated.producer
    configured, acks = producer.get("enable.idempotence"), repeated.acks or str(producer.get("acks", "all"))
    idempotent = idempotence(producer, acks)
    if any(row["producer_id"] is not None for row in copies):
        return NOT_THE_CASE
    if idempotent:
        return needs(missing_for_idempotent(copies))
    if idempotent is None and len(copies) < 2:
        return needs("whether the producer was idempotent (run.json, or the batches' producer ids)")
    facts = sent_facts(repeated)
    if idempotent is False:
        text = f"acks={acks} disables idempotence" if configured is None else "enable.idempotence=false"
        facts.append(Fact(f"{text} for {repeated.process}", "configured", source="run.json"))
    facts += [copy_fact(timeline, row, "without a producer id") for row in copies]
    epochs = [row["leader_epoch"] for row in copies if row["leader_epoch"] is not None]
    between = [term for term in timeline.terms.values() if epochs and epochs[0] < term.epoch <= epochs[-1]]
    facts += [term.facts[0] for term in between if term.facts]
    return Attempt(True, ordered(facts), ["enable.idempotence=true (the default of Kafka's own client since 3.0)"])
