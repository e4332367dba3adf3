"""late-write: a leader appended records of a transaction after the marker that had ended it.

A request can reach the leader, or wait in its queue, until the producer has given up and the coordinator has ended the
transaction. Before KIP-890 the leader appends the records in any case. They begin a transaction that no coordinator
knows. The producer's next marker ends it, whatever its outcome, or it stays open and holds back the last stable offset.

Needs: the transaction in the history, so that its decision in `__transaction_state` is known; and in the leader's log
its marker before its records.
"""

from __future__ import annotations

from .cases import NOT_THE_CASE, Attempt, needs
from .transaction_part import TransactionPart

CITATION = "KIP-890 (leaders ask the coordinator before they append)"
REMEDY = (
    "Kafka 3.6 or later with transaction.partition.verification.enable=true, or transaction.version=2 (Kafka 4.0);"
    " kafka-transactions.sh find-hanging and abort end an open one."
)
PREVENTED_BY = ["transaction.partition.verification.enable=true (Kafka 3.6 or later, KIP-890)"]


def explain_ending(part: TransactionPart) -> Attempt:
    """Whether the records are behind the marker that carries out the decision about their transaction."""
    if part.decision is None:
        return needs(f"the coordinator's decision about {part.subject} in __transaction_state")
    if part.own_marker is None:
        return needs(f"the marker of {part.name} that carried out the decision about {part.subject}")
    if part.own_marker["marker"] > part.first:
        return NOT_THE_CASE
    created = "" if part.created is None else f" (created at {part.created / 1e9:.3f} s)"
    late = part.records_fact(f"{created}, but behind its marker, so appended later")
    facts = [*part.decision_facts(), part.marker_fact(part.own_marker), late]
    if part.ending_marker is not None:
        text = f", which ended {part.them} with the producer's next transaction"
        facts.append(part.marker_fact(part.ending_marker, text))
    return Attempt(True, facts, PREVENTED_BY)
