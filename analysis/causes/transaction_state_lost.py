"""transaction-state-lost: __transaction_state lost the coordinator's record of a transaction.

A coordinator notes a transaction in its partition of __transaction_state before the producer writes. If that log is
truncated, or a replica without its tail leads it, the next coordinator does not know the transaction and writes no
marker. The transaction stays open, or the producer's next marker ends it, also with the other outcome. It also stays
open if all replicas of that log were emptied.

Needs: the transaction in the history, and the brokers' final copies of __transaction_state, undamaged: they have an
older transaction of the same transactional.id, and none that began while the client was in this one, or only lower
producer epochs of its producer: a coordinator stores an epoch before the producer uses it. Compaction would have
removed the older one. Or all replicas of the partition have every record since offset 0, or are empty, and none
has a transaction of the producer, although no marker ended the transaction's records. That partition follows from the
transactional.id and the number of partitions in run.json; if they are not recorded, this must hold for all partitions.
"""

from __future__ import annotations

from ..partitions.coordinators import source_of
from ..timelines.facts import Fact
from .cases import NOT_THE_CASE, Attempt, needs
from .transaction_part import TransactionPart

CITATION = "transaction.state.log.replication.factor, transaction.state.log.min.isr; TransactionStateManager"
REMEDY = "Three replicas of __transaction_state, transaction.state.log.min.isr=2, and no unclean elections of it."
PREVENTED_BY = [
    "transaction.state.log.replication.factor=3 with transaction.state.log.min.isr=2",
    "unclean.leader.election.enable=false for __transaction_state",
]


def explain_ending(part: TransactionPart) -> Attempt:
    """Whether the copies of __transaction_state lack the transaction and have an older one of its producer."""
    if part.decision is not None or part.process is None:
        return NOT_THE_CASE
    older = part.older_transaction
    if part.emptied_state is not None:
        text = f"{part.emptied_state}, so no coordinator knows a transaction of {part.process}"
        known = Fact(text, "state", partition=part.name)
    elif older is None:
        return needs(f"transactions of producer {part.producer} in __transaction_state from before this one")
    elif not older["intact"]:
        return needs(f"an undamaged copy of __transaction_state with the transactions of producer {part.producer}")
    else:
        text = f"the brokers' copies of __transaction_state have an older transaction of {older['transactional_id']}"
        text += f" with {part.name}, and none that began while {part.process} wrote these records"
        known = Fact(text, "decided", older["began_ns"], **source_of(older, "began"), partition=part.name)
    if part.ending_marker is None:
        ending = [part.records_fact(f", and no marker ended {part.them}")]
    else:
        ending = [part.records_fact(""), part.marker_fact(part.ending_marker, f", which ended {part.them}")]
    return Attempt(True, [known, *ending], PREVENTED_BY)
