"""operator-abort: a client aborted an open transaction in one partition, and its coordinator then committed it.

`kafka-transactions.sh abort` and AdminClient.abortTransaction let the leader of one partition write an ABORT marker.
They are for hanging transactions, which no coordinator knows. The coordinator of a transaction that is still open does
not learn of the abort: if the producer then commits, only the records in other partitions take effect.

Needs: the transaction in the history, so that its decision to commit in `__transaction_state` is known; and the
leader's log since offset 0, undamaged: an ABORT marker of the records' own producer epoch before the COMMIT marker of
that decision, and no earlier ABORT marker that it may repeat. A coordinator that aborts a transaction after its timeout
raises the epoch.
"""

from __future__ import annotations

from .cases import NOT_THE_CASE, Attempt
from .transaction_part import TransactionPart

CITATION = "KIP-664 (find and abort hanging transactions); kafka-transactions.sh"
REMEDY = (
    "kafka-transactions.sh abort only for transactions that find-hanging lists. A producer that initialises the"
    " transactional.id again (initTransactions) aborts an open one in all partitions."
)
PREVENTED_BY = ["using kafka-transactions.sh abort only for transactions that find-hanging lists"]


def explain_ending(part: TransactionPart) -> Attempt:
    """Whether an ABORT marker that no coordinator decided ended the records before their transaction was committed."""
    ending, own = part.ending_marker, part.own_marker
    if part.decision is None or own is None or ending is None:
        return NOT_THE_CASE  # late-write names the missing evidence
    is_against = ending["outcome"] == "abort" and part.decision["outcome"] == own["outcome"] == "commit"
    is_before = part.first < ending["marker"] < own["marker"]
    is_of_epoch = ending["marker_epoch"] == part.record["producer_epoch"]
    if not (is_against and is_before and is_of_epoch) or part.repeated_marker is not None or not part.is_whole_log:
        return NOT_THE_CASE
    steps = [
        part.records_fact(""),
        part.marker_fact(ending, f", which no coordinator had decided, and which ended {part.them}"),
        *part.decision_facts(),
        part.marker_fact(own, ", after the other one"),
    ]
    return Attempt(True, steps, PREVENTED_BY)
