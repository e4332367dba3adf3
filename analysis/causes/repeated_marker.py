"""repeated-marker: a leader wrote the marker of a transaction again, and it ended the producer's next transaction.

A coordinator sends a marker until the leader responds, and its successor sends it again. If the producer's next
transaction has begun by then, in the same producer epoch, the repeated marker ends that transaction, whatever the
coordinator decides later. With an epoch for each transaction (KIP-890, part 2), the leader refuses an older marker.

Needs: the transaction in the history, so that its decision in `__transaction_state` is known; and in the leader's log a
marker before that decision, which repeats an earlier one.
"""

from __future__ import annotations

from .cases import NOT_THE_CASE, Attempt, needs
from .transaction_part import TransactionPart

CITATION = "KIP-890 (part 2, an epoch for each transaction), KIP-1228"
REMEDY = "transaction.version=2 (Kafka 4.0), and Kafka 4.2, whose leaders also refuse a marker without its transaction."
PREVENTED_BY = ["transaction.version=2 (Kafka 4.0 or later, KIP-890)"]


def explain_ending(part: TransactionPart) -> Attempt:
    """Whether a repeated marker ended the records before the coordinator had decided about their transaction."""
    if part.decision is None or part.own_marker is None or part.ending_marker is None:
        return NOT_THE_CASE  # late-write names the missing evidence
    if part.own_marker["marker"] < part.first:
        return NOT_THE_CASE  # late-write
    if part.repeated_marker is None:
        return needs(f"which marker the one at offset {part.ending_marker['marker']} of {part.name} repeats")
    steps = [
        part.marker_fact(part.repeated_marker, ", which ended an earlier transaction of the producer"),
        part.records_fact(""),
        part.marker_fact(part.ending_marker, f", which repeats it and ended {part.them}"),
        *part.decision_facts(),
        part.marker_fact(part.own_marker),
    ]
    return Attempt(True, steps, PREVENTED_BY)
