"""Requests to the transaction coordinator and from it, and the records of `__transaction_state`."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..requests import NO_PRODUCER, ProducerIdAndEpoch, Request

INIT, ADD, END = "init", "add", "end"

EMPTY, ONGOING = "Empty", "Ongoing"
PREPARE_COMMIT, PREPARE_ABORT = "PrepareCommit", "PrepareAbort"
COMPLETE_COMMIT, COMPLETE_ABORT = "CompleteCommit", "CompleteAbort"
PREPARED = (PREPARE_COMMIT, PREPARE_ABORT)
# The byte of each state in Kafka's records (TransactionState).
STATES = {EMPTY: 0, ONGOING: 1, PREPARE_COMMIT: 2, PREPARE_ABORT: 3, COMPLETE_COMMIT: 4, COMPLETE_ABORT: 5}


@dataclass(slots=True, eq=False)
class TransactionRequest(Request):
    """InitProducerId, AddPartitionsToTxn (of a client or a partition's leader) or EndTxn, by `kind`."""

    kind: str
    id: str  # transactional.id; a partition's leader only knows the producer id
    pid: int
    epoch: int
    partitions: tuple[int, ...] = ()
    commit: bool = False  # EndTxn
    verify_only: bool = False  # AddPartitionsToTxn: refuse what is not in the transaction
    error: str = field(default="", init=False)
    granted: ProducerIdAndEpoch = field(default=NO_PRODUCER, init=False)  # in the response


@dataclass(slots=True, eq=False)
class MarkerRequest(Request):
    """WriteTxnMarkers of one transaction to the leader of one partition."""

    partition: int
    pid: int
    epoch: int
    commit: bool
    coordinator_epoch: int
    error: str = field(default="", init=False)


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """One record of `__transaction_state`: the new state of a transactional id."""

    id: str
    pid: int
    epoch: int
    state: str
    timeout: int
    last_epoch: int = -1  # before the client's own bump: a request that repeats it is a retry (KIP-360)
    partitions: tuple[int, ...] = ()
    started: int = -1
    updated: int = 0
    number: int = -1  # of the transaction in the ledger

    is_tombstone = False

    @property
    def key(self) -> str:
        """The key of the record."""
        return self.id
