"""repeated-marker: a leader wrote the marker of a transaction again, and it ended the producer's next transaction.

A coordinator sends a marker until the leader answers, and its successor sends it again. If the leader gets one of them
when the producer's next transaction has begun in the same producer epoch, it ends that one, whatever its coordinator
decides later. With an epoch for each transaction (KIP-890, part 2), the leader refuses a marker of an earlier one.

Needs: the transaction in the history, so that its decision in `__transaction_state` is known; and in the leader's log a
marker before that decision, which repeats an earlier one.
"""

from __future__ import annotations

from .cases import NOT_THE_CASE, Attempt, needs
from .transaction_part import TransactionPart

CITATION = "KIP-890 (part 2, an epoch for each transaction), KIP-1228"
REMEDY = "transaction.version=2 (Kafka 4.0), and Kafka 4.2, whose leaders also refuse a marker without its transaction."
PREVENTION = ["transaction.version=2 (Kafka 4.0 or later, KIP-890)"]


def explain_ending(part: TransactionPart) -> Attempt:
    """Whether a repeated marker ended the records before the coordinator had decided about their transaction."""
    if part.decision is None or part.own is None or part.ended is None:
        return NOT_THE_CASE  # late-write names the missing evidence
    if part.ended["marker"] >= part.own["marker"] or part.own["marker"] < part.first:
        return NOT_THE_CASE
    if part.repeated is None:
        return needs(f"which marker the one at offset {part.ended['marker']} of {part.name} repeats")
    steps = [
        part.marker(part.repeated, ", which ended an earlier transaction of the producer"),
        part.written(""),
        part.marker(part.ended, ", which repeats it and ended these records"),
        *part.decided(),
        part.marker(part.own),
    ]
    return Attempt(True, steps, PREVENTION)
