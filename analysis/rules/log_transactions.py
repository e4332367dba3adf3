"""The brokers' logs of transactions: each ends, producer epochs never go back, and indexes have every aborted one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from ...histories.references import kip
from ...histories.tables import MIN_INT64, Evidence, Finding
from ...models.internal_topics import is_internal
from ..partitions.common import faults_of
from ..partitions.coordinators import (
    coordinated_transactions,
    last_seen,
    log_transactions,
    matched_transactions,
    partition_without_coordinator,
    transactions_in_log,
)
from ..partitions.foreign_clock import foreign_clock
from ..partitions.partition import Partition
from ..replicas.replica_logs import ReplicaLogs, is_of_copy, runs
from ..replicas.resolved_outcomes import missing_leader_log
from ..timelines.facts import MS, SECOND
from ..wording import brokers, definite, short, span, utc_text
from .rule import Result, Row, Rule, Unknown, finding, seconds, where

# The coordinator looks for transactions beyond their timeout every 10 s, and repeats markers until they are written.
GRACE_SECONDS = 30
CLOCK_MARGIN_SECONDS = 2  # between the coordinator's clock and the history's
MAX_TIMEOUT_MS = 900_000  # transaction.max.timeout.ms of the brokers, unless configured
OVER = ("complete-commit", "complete-abort", "empty", "dead", "removed")


@Rule(
    "hanging-transaction",
    group="transactions",
    summary="A transaction never ended, and holds back the last stable offset",
    breach=(
        "The leader's last log has records of a transaction without a marker. Either its coordinator has ended the "
        "transaction already, so that no marker will come: this needs no history. Or it decided the transaction more "
        f"than {GRACE_SECONDS} s before a client last reached the leader, or the transaction is open that long beyond "
        "its timeout, faults not counted. Or its transactional id was initialised again since (init-transactions), "
        "which aborts open transactions. read_committed consumers stop at its first record; the finding names "
        "the records after it."
    ),
    source=kip(890),
    needs=("transactional batches",),
    assumes=("clock", "replicas"),
    explained_as="ending",
).judged_by
def hanging_transaction(p: Partition) -> Iterator[Result]:
    """One finding for each transaction that holds back the last stable offset for ever.

    Not a breach: A transaction within its timeout that is open in __transaction_state, too. The timeout is that of
    __transaction_state, else transaction.timeout.ms of its process in run.json, else 15 minutes, the most that brokers
    allow unless transaction.max.timeout.ms is set. Kafka's own topics, and topics that no client of the history used,
    are not judged.
    Unknown when: The last leader's log was not collected, or is damaged, so that records or markers may be missing. A
    transaction is open in it, and no client reached the leader afterwards, or it is not known when its records were
    written. It is within its timeout, and no collected __transaction_state has its producer, so that its coordinator
    may have ended it already. The partition of __transaction_state that coordinates it had no leader for so long. A
    process recorded its times in another unit or by another clock.
    """
    logs = p.replica_logs
    is_used = len(p.sends) or len(p.reads) or len(p.marks) or p.settings.is_undated
    if logs is None or not is_used or is_internal(p.topic) or not logs.batches["transactional"].any():
        return
    if missing := missing_leader_log(logs):
        yield Unknown(f"{missing}, so open transactions are not known")
        return
    if logs.is_leader_damaged:
        yield Unknown(f"the log of {p.name} is damaged, so records or markers of transactions may be missing")
        return
    for row in transactions_in_log(p).filter(pl.col("outcome").is_null()).iter_rows(named=True):
        if reason := foreign_clock(p):
            yield Unknown(reason)
            return
        txn = _OpenTransaction.of(p, logs, row)
        proof = _why_it_hangs(p, logs, txn)
        if isinstance(proof, Unknown):
            yield proof
        elif proof is not None:
            yield _hanging_finding(p, logs, txn, proof)


class _OpenTransaction(NamedTuple):
    """A transaction without a marker."""

    row: Row  # of IN_LOG
    process: str | None
    coordinated: Row | None  # the coordinator's last transaction of its producer here (TRANSACTIONS)
    ended: str  # how the coordinator has ended this one: committed, aborted, or ended; empty: it has not

    @staticmethod
    def of(p: Partition, logs: ReplicaLogs, row: Row) -> _OpenTransaction:
        known = coordinated_transactions(p).filter(producer_id=row["producer_id"])
        last = known.row(-1, named=True) if len(known) else None
        written = logs.records.filter(logs.is_of_leader, offset=row["first_offset"])["value"]
        owners = p.sends.filter(pl.col("txn") & pl.col("value").is_in(written.drop_nulls().implode()))["process"]
        txn = _OpenTransaction(row, str(owners[0]) if owners.n_unique() == 1 else None, last, "")
        if last is None or last["last_state"] not in OVER:
            return txn
        agreed = matched_transactions(transactions_in_log(p), known)
        if logs.leader_start == 0 and (agreed["number"] == row["number"]).any():
            return txn._replace(ended={"commit": "committed", "abort": "aborted"}.get(last["outcome"], "ended"))
        # The logs of a run are copied at its end. Those of running brokers are not copied at one time: there its
        # producer must have created the record before the coordinator ended the last of its transactions.
        is_over = not p.settings.is_undated or row["timestamp"] + CLOCK_MARGIN_SECONDS * 1_000 < last["last_time"]
        return txn._replace(ended="ended") if is_over else txn

    @property
    def name(self) -> str:
        """Its process and ids in words."""
        transactional_id = self.coordinated["transactional_id"] if self.coordinated else None
        ids = [f"transactional.id {transactional_id}"] if transactional_id else []
        ids += [f"producer id {self.row['producer_id']}", f"epoch {self.row['epoch']}"]
        of = f" of {self.process}" if self.process else ""
        return f"a transaction{of} ({', '.join(ids)})"


def _why_it_hangs(p: Partition, logs: ReplicaLogs, txn: _OpenTransaction) -> str | Unknown | None:
    """A clause that states why no marker will come; None if one may still come."""
    known, seen = txn.coordinated, last_seen(p)
    at = where(p, txn.row["first_offset"])
    if known is not None and txn.ended and _is_in_log_after(p, logs, txn, known):
        return f"its coordinator had {txn.ended} it at {_time_in_words(p, known)}"
    if seen is not None and (again := _initialised_again(p, txn, seen)) is not None:
        return f"its transactional id was initialised again at {seconds(again)}, which aborts an open transaction"
    if known is not None and txn.ended:
        return Unknown(f"{txn.name} is open at {at}; its coordinator may have ended it while the logs were copied")
    if seen is None:
        return Unknown(f"{txn.name} is open at {at}, and no client is known to have reached the leader afterwards")
    is_decided = known is not None and known["state"].startswith("prepare-") and not _is_of_older(txn, known)
    if known is not None and is_decided and known["prepared_ns"] is not None:
        since, what = known["prepared_ns"], f"its coordinator decided to {known['outcome']} it"
    else:
        written, timeout = _time_written(p, txn), _timeout_ms(p, txn)
        if written is None:
            return Unknown(f"{txn.name} is open at {at}, and it is not known since when")
        since, what = written + timeout * MS, f"its timeout of {timeout / 1000:g} s ended"
    due, grace = max(since, _last_disturbance(p)), GRACE_SECONDS * SECOND
    if seen - due > grace:
        if partition := partition_without_coordinator(p, _transactional_id(p, txn), due, seen, grace):
            return Unknown(f"{txn.name} is open at {at}, and no broker led {partition} long enough to end it")
        return f"{what} at {seconds(since)}, and a client reached the leader at {seconds(seen)}"
    if known is None:
        return Unknown(f"{txn.name} is open at {at}, and no collected __transaction_state shows that it had not ended")
    return None


def _is_of_older(txn: _OpenTransaction, known: Row) -> bool:
    """Whether what the coordinator knows is about an older transaction, with a lower producer epoch than this one."""
    coordinated, written = known["producer_epoch"], txn.row["epoch"]
    return coordinated is not None and written is not None and coordinated < written


def _last_disturbance(p: Partition) -> int:
    """The time (ns) of the last fault or heal that may have kept a marker from a leader; MIN_INT64 without one.

    An attempt to initialise transactional ids keeps none: it waits for the markers of their open transactions.
    """
    faults = [fault for fault in faults_of(p.context) if fault.kind != "init-transactions"]
    return max((max(fault.invoked, fault.completed) for fault in faults), default=MIN_INT64)


def _initialised_again(p: Partition, txn: _OpenTransaction, seen: int) -> int | None:
    """The time (ns) at which its transactional id was initialised again while it was open; None: not recorded.

    The coordinator responds when all markers of the open transaction have been written (KIP-98). A client must have
    reached the leader since.
    """
    written, name = _time_written(p, txn), _transactional_id(p, txn)
    for fault in faults_of(p.context):
        ids = fault.details.get("transactional_ids")
        is_its_own = fault.kind == "init-transactions" and isinstance(ids, list) and name in ids
        is_after = written is not None and written < fault.invoked and fault.completed < seen
        if is_its_own and is_after and (fault.type, fault.outcome) == ("fault", "ok"):
            return fault.completed
    return None


def _transactional_id(p: Partition, txn: _OpenTransaction) -> object:
    known = txn.coordinated
    return known["transactional_id"] if known else p.settings.setting_of(txn.process, "transactional.id")


def _is_in_log_after(p: Partition, logs: ReplicaLogs, txn: _OpenTransaction, known: Row) -> bool:
    """Whether the log was copied after the coordinator had ended the transaction: a client reached the leader since
    then, or a batch behind the transaction has a later time."""
    seen, ended = last_seen(p), known["last_time_ns"]
    if seen is not None and ended is not None and ended + CLOCK_MARGIN_SECONDS * SECOND < seen:
        return True
    behind = logs.batches.filter(logs.is_of_leader, pl.col("base_offset") > txn.row["first_offset"])["max_timestamp"]
    latest = behind.max()
    return isinstance(latest, int) and known["last_time"] + CLOCK_MARGIN_SECONDS * 1_000 < latest


def _time_in_words(p: Partition, known: Row) -> str:
    """When the coordinator last changed the state of a transactional id; a time of day where the run has no start."""
    if known["last_time_ns"] is not None and not p.settings.is_undated:
        return seconds(known["last_time_ns"])
    return utc_text(known["last_time"])


def _timeout_ms(p: Partition, txn: _OpenTransaction) -> int:
    if txn.coordinated is not None:
        return int(txn.coordinated["timeout_ms"])
    configured = p.settings.setting_of(txn.process, "transaction.timeout.ms")
    try:
        return int(str(configured))
    except ValueError:
        return MAX_TIMEOUT_MS


def _time_written(p: Partition, txn: _OpenTransaction) -> int | None:
    """A time (ns) at which its first record certainly was in the log: a later record was acknowledged or read."""
    is_behind = (pl.col("offset") >= txn.row["first_offset"]) & (pl.col("outcome") == "ok")
    times = [
        p.sends.filter(is_behind & pl.col("acknowledged"))["completed"].min(),
        p.reads.filter(is_behind)["completed"].min(),
        txn.coordinated["began_ns"] if txn.coordinated and not _is_of_older(txn, txn.coordinated) else None,
    ]
    return min((time for time in times if isinstance(time, int)), default=None)


def _hanging_finding(p: Partition, logs: ReplicaLogs, txn: _OpenTransaction, proof: str) -> Result:
    row, first = txn.row, txn.row["first_offset"]
    # What waits behind it: in the log, all but its own records; of the history, the acknowledged ones.
    is_behind = (pl.col("first_offset") > first) & pl.col("control").is_null()
    behind = logs.leader_stretches.filter(is_behind).sort("last_offset")
    others = behind.filter(pl.col("producer_id").ne_missing(row["producer_id"]) | ~pl.col("transactional"))
    count = int((others["last_offset"] - others["first_offset"] + 1).sum())
    own = logs.records.filter(logs.is_of_leader, producer_id=row["producer_id"]).select("offset")
    waiting = p.acknowledged.filter(pl.col("offset") > first).join(own, on="offset", how="anti", maintain_order="left")
    first_waiting = waiting.sort("offset").head(1).select("process", "value", "at").rows()
    known = txn.coordinated
    writes = f"producer {row['producer_id']} writes {where(p, first)}"
    evidence = [Evidence.in_file(writes, row)]
    if known is not None:
        record = f"transactional.id {known['transactional_id']}: {known['state']}"
        evidence.append(Evidence.in_file(record, known))
    open_in = p.producers.filter(logs.is_of_leader, pl.col("producer_id") == row["producer_id"], open_since=first)
    for at, file, byte in open_in.select("snapshot_offset", "file", "byte").rows():
        is_open = f"the producer snapshot at {where(p, at)} has it open since {first}"
        evidence.append(Evidence(is_open, source=file, byte=byte))
    unread = f" and cannot read {definite(count, 'record')} after it" if count else ""
    return finding(
        p,
        f"{txn.name} is open in the log of broker {logs.leader} since {where(p, first)}, though {proof}:"
        f" read_committed consumers of {p.name} stop there{unread}; kafka-transactions.sh abort --topic {p.topic}"
        f" --partition {p.partition} --start-offset {first} ends it",
        (first, max([first, row["last_offset"], *behind["last_offset"].tail(1)])),
        [*evidence, *((f"{process} sends {short(value)}, which waits", at) for process, value, at in first_waiting)],
        count=max(count, 1),
        values=waiting["value"],
        processes=[txn.process] if txn.process else [],
        brokers=[str(logs.leader)],
    )


@Rule(
    "aborted-index",
    group="transactions",
    summary="A broker's index of aborted transactions lacks one of its log",
    source=kip(98),
    needs=("transactional batches",),
).judged_by
def aborted_index(p: Partition) -> Iterator[Result]:
    """One finding for each transaction that an index lacks.

    Breach: The .txnindex of a segment lacks a transaction that has its ABORT marker in the segment, although it has a
    later one. A broker lists aborted transactions to read_committed consumers from this index, so they get records that
    were never committed.
    Not a breach: An index that ends before the transaction, or that has nothing: it may have been copied before the
    segment, or not at all. A marker without records needs no entry.
    """
    logs = p.replica_logs
    if logs is None:
        return
    for (snapshot, broker), index in p.aborted.group_by("snapshot", "broker", maintain_order=True):
        here = is_of_copy(str(snapshot), str(broker))
        for row in missing_aborted(log_transactions(logs, here), index).iter_rows(named=True):
            yield _missing_finding(p, logs, str(snapshot), str(broker), row)


def missing_aborted(in_log: pl.DataFrame, index: pl.DataFrame) -> pl.DataFrame:
    """The aborted transactions (IN_LOG) that one broker's indexes (ABORTED) lack, though a later one is there."""
    segment = pl.col("file").str.replace(r"\.txnindex$", ".log")
    entries = index.select("producer_id", "last_offset", marker_file=segment)
    ends = entries.group_by("marker_file").agg(end=pl.col("last_offset").max())
    aborted = in_log.filter(pl.col("first_offset").is_not_null(), outcome="abort")
    return (
        aborted.join(ends, on="marker_file", maintain_order="left")
        .filter(pl.col("marker") < pl.col("end"))
        .join(entries, left_on=["producer_id", "marker"], right_on=["producer_id", "last_offset"], how="anti")
        .sort("marker")
    )


def _missing_finding(p: Partition, logs: ReplicaLogs, snapshot: str, broker: str, row: Row) -> Finding:
    records = span(row["first_offset"], row["last_offset"])
    index = row["marker_file"].replace(".log", ".txnindex")
    lacks = f"lacks that of producer {row['producer_id']} with {records}"
    return finding(
        p,
        f"broker {broker}'s index of aborted transactions of {logs.name} {lacks}, whose ABORT marker is at offset"
        f" {row['marker']}: read_committed consumers get its records",
        (row["first_offset"], row["last_offset"]),
        [
            Evidence(f"the ABORT marker at offset {row['marker']}", source=row["marker_file"], byte=row["marker_byte"]),
            Evidence("the index without it", source=index),
        ],
        count=row["records"],
        brokers=[broker],
        snapshot=snapshot,
    )


EXPIRATION_MS = 86_400_000  # producer.id.expiration.ms, unless configured


@Rule(
    "producer-epoch-order",
    group="transactions",
    summary="Producer epochs go back in a log",
    source=kip(98),
    needs=("batches",),
).judged_by_logs
def producer_epoch_order(logs: ReplicaLogs, _sends: pl.DataFrame) -> Iterator[Result]:
    """One finding for each run of such batches, whatever the replicas and snapshots that have it.

    Breach: A batch of records or a transaction marker has a lower producer epoch than an earlier one of the same
    producer id in the log. A leader refuses such batches: their producer is fenced (a zombie), and a marker of a fenced
    transaction would end another one.
    Not a breach: The lower epoch is at least a day after the greater one: brokers forget a producer after
    producer.id.expiration.ms.
    """
    is_known = pl.col("crc_ok").fill_null(True) & pl.col("producer_id").is_not_null()
    rows = lower_epochs(logs.batches.filter(is_known & pl.col("producer_epoch").is_not_null()))
    if not len(rows):
        return
    batch = ["base_offset", "producer_id", "producer_epoch"]
    held = rows.group_by(batch).agg(holders=pl.col("broker").unique().sort())
    found = rows.unique(batch, keep="first", maintain_order=True).join(held, on=batch, maintain_order="left")
    numbered = found.with_row_index("number").cast({"number": pl.Int64})
    for run in runs(numbered, "number", "producer_id", "highest_at", "holders"):
        yield _finding(logs, run.row(0, named=True), run)


def lower_epochs(batches: pl.DataFrame) -> pl.DataFrame:
    """The batches with an epoch below the `highest` before it of their producer, in order of offset.

    Added are its offset `highest_at`, `highest_file` and `highest_byte`.
    """
    copy = ["snapshot", "broker", "producer_id"]
    before = pl.col("producer_epoch").cum_max().shift().over(copy)
    ordered = batches.sort("snapshot", "broker", "base_offset", "byte").with_columns(highest=before)
    is_highest = pl.col("producer_epoch") >= pl.col("highest").fill_null(-1)

    def of_highest(column: str) -> pl.Expr:
        known = pl.when(is_highest).then(column)
        return known.fill_null(strategy="forward").shift().over(copy)

    lower = ordered.with_columns(
        highest_at=of_highest("base_offset"),
        highest_time=of_highest("max_timestamp"),
        highest_file=of_highest("file"),
        highest_byte=of_highest("byte"),
    ).filter(pl.col("producer_epoch") < pl.col("highest"))
    is_forgotten = (pl.col("max_timestamp") - pl.col("highest_time") >= EXPIRATION_MS).fill_null(False)
    return lower.filter(~is_forgotten).sort("base_offset", "snapshot", "broker")


def _finding(logs: ReplicaLogs, row: Row, run: pl.DataFrame) -> Result:
    first, last = row["base_offset"], run["last_offset"].to_list()[-1]
    what = "a transaction marker" if row["control"] else "records"
    epochs = f"{what} of producer {row['producer_id']} with epoch {row['producer_epoch']} at {span(first, last)}"
    earlier = f"epoch {row['highest']} at offset {row['highest_at']}"
    evidence = [
        Evidence(earlier, source=row["highest_file"], byte=row["highest_byte"]),
        Evidence.in_file(f"epoch {row['producer_epoch']} at offset {first}", row),
    ]
    return finding(
        logs,
        f"{epochs} of {logs.name} follow its {earlier} in the log of {brokers(row['holders'])}",
        (first, last),
        evidence,
        count=int(run["count"].fill_null(1).sum()),
        brokers=row["holders"],
    )
