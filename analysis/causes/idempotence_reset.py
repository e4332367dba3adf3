"""idempotence-reset: an idempotent producer began a new epoch or got a new id, and wrote a record again.

A broker recognises a repeated batch by producer id, producer epoch and sequence number. A client that does not know
whether its last batches were written may raise its epoch, number its batches from 0 again, and repeat them.

Needs: the log shows the record in batches of different producer epochs or ids.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..timelines.facts import ordered
from ..timelines.timeline import Timeline
from .cases import NOT_THE_CASE, Attempt, Record, needs
from .repeated_values import Repeated, copy_fact, missing_for_idempotent, sent_facts

CITATION = "KIP-98 (idempotent producer), KIP-360 (a new producer epoch after an error)"
REMEDY = "Transactions, or consumers that ignore values that they have handled."


def explain_duplicate(timeline: Timeline, repeated: Repeated, copies: Sequence[Record]) -> Attempt:
    """Whether the copies are in batches of different producer epochs or ids."""
    sessions = {(row["producer_id"], row["producer_epoch"]) for row in copies}
    if not sessions or any(number is None for number, _ in sessions):
        return NOT_THE_CASE
    if len(sessions) < len(copies) or len(copies) < 2 or any(epoch is None for _, epoch in sessions):
        return needs(missing_for_idempotent(copies))
    facts = [
        copy_fact(timeline, row, f"of producer id {row['producer_id']}, producer epoch {row['producer_epoch']}")
        for row in copies
    ]
    prevented = ["transactions, so that a reader never sees what the producer gave up"]
    return Attempt(True, ordered([*sent_facts(repeated), *facts]), prevented)
