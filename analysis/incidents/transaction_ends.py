"""Explains transactions that ended in a partition otherwise than their coordinator decided, or that never ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ...histories.evidence.tables import FINAL
from ...histories.tables import MAX_INT64, Finding
from ...models.internal_topics import TRANSACTIONS_TOPIC, coordinator_partition
from .. import causes
from ..causes.cases import Explanation
from ..causes.transaction_part import TransactionPart
from ..partitions.coordinators import coordinated_transactions, transactions_in_log
from ..partitions.evidence import on_clock_of_history
from ..partitions.partition import Partition, once
from ..timelines.facts import MS
from ..transactions.pieces import ABSENT, Pieces
from ..wording import brokers
from .incident import MAX_TEXT, Explained

Record = dict[str, Any]

CLOCKS_NS = 50 * MS  # between clocks
STATE_PARTITIONS, STATE_REPLICAS = 50, 3  # of `__transaction_state`, by default


def explain_ending(p: Partition, finding: Finding) -> Explanation | None:
    """The cause for the way in which the transaction of a finding's first record ended in the leader's last log.

    None without that log, and if a consumer read a record (aborted-read) that is aborted there.
    """
    part = None if finding.first_offset is None else _part_at(p, finding.first_offset, finding.values)
    if part is None or (
        finding.rule == "aborted-read" and (part.ending_marker is None or part.ending_marker["outcome"] == "abort")
    ):
        return None
    return _explain_part(p, part)


def explain_aborted(p: Partition, finding: Finding) -> Explanation | None:
    """The proved cause for which acknowledged records are aborted in the leader's last log; None without one."""
    part = None if finding.first_offset is None else _part_at(p, finding.first_offset, finding.values)
    if part is None or part.record["value"] not in finding.values or part.ending_marker is None:
        return None
    found = _explain_part(p, part) if part.ending_marker["outcome"] == "abort" else None
    return found if found is not None and found.is_known else None


def with_explanations(p: Partition, pieces: Pieces) -> Pieces:
    """The pieces, with the explanation of each unexpected one that is in the log, as JSON (Explanation.record)."""
    texts: list[str | None] = []
    for row in pieces.unexpected.iter_rows(named=True):
        part = None if row["state"] == ABSENT else _part_at(p, row["first_offset"], [row["value"]])
        known = None if part is None else _explain_part(p, part)
        texts.append(None if known is None else json.dumps(known.record()))
    return pieces._replace(unexpected=pieces.unexpected.with_columns(explanation=pl.Series(texts, dtype=pl.String)))


def with_causes_of_pieces(finding: Finding, explanations: Sequence[str]) -> tuple[Finding, list[Explained]]:
    """A torn transaction with the causes of its pieces, and their explanations."""
    found = [Explanation.from_record(json.loads(text)) for text in explanations]
    explained = [Explained(**vars(one), sentence=finding.sentence[:MAX_TEXT], findings=(finding.id,)) for one in found]
    known = dict.fromkeys(one.cause for one in explained if one.is_known)
    return replace(finding, cause=", ".join(known) or None), explained


def _explain_part(p: Partition, part: TransactionPart) -> Explanation | None:
    """The explanation of a part; None where it ended as its coordinator decided."""
    if p.timeline is None or (part.ending_marker is not None and part.ending_marker == part.own_marker):
        return None
    return causes.explain_ending(p.timeline, part)


def _part_at(p: Partition, offset: int, values: list[str]) -> TransactionPart | None:
    """The part of a transaction that has the record at an offset of the leader's last log, and others of `values`."""
    logs = p.replica_logs
    if logs is None:
        return None
    here = logs.records.filter(logs.is_of_leader, pl.col("transactional") & pl.col("control").is_null())
    record = _first_row(here.filter(offset=offset))
    if record is None:
        return None
    producer = record["producer_id"]
    markers = _markers(p).filter(producer_id=producer).sort("marker")
    earlier, later = markers.filter(pl.col("marker") < offset), markers.filter(pl.col("marker") > offset)
    ending = _first_row(later)
    is_before_end = pl.lit(True) if ending is None else pl.col("offset") < ending["marker"]
    is_of_part = (pl.col("offset") == offset) | ((pl.col("offset") > offset) & pl.col("value").is_in(values))
    mine = here.filter(is_before_end, is_of_part, producer_id=producer).sort("offset")
    process, decision, older = _transaction_of_value(p, producer, record["value"])
    if (last := _last_of_lower_epoch(p, producer, record)) is not None:
        decision, older = None, last
    own = repeated = emptied = None
    if process is not None and ending is None and producer not in _transactions(p)["producer_id"]:
        emptied = _emptied_state(p, process, record, earlier)
    if decision is not None and decision["marker"] is not None:
        own = _first_row(markers.filter(marker=decision["marker"]))
    if ending is not None:
        same = earlier.filter(outcome=ending["outcome"], marker_epoch=ending["marker_epoch"])
        repeated = _first_row(same.tail(1))
    return TransactionPart(
        p.topic,
        p.partition,
        process=process,
        producer=producer,
        first=offset,
        last=mine["offset"].to_list()[-1],
        values=tuple(mine["value"].drop_nulls()),
        created=pl.select(on_clock_of_history(pl.lit(record["timestamp"], pl.Int64), p.settings)).item(),
        record=record,
        decision=decision,
        older_transaction=older,
        emptied_state=emptied,
        own_marker=own,
        ending_marker=ending,
        repeated_marker=repeated,
        is_whole_log=logs.leader_start == 0 and not logs.is_leader_damaged and logs.is_compacted is False,
    )


def _last_of_lower_epoch(p: Partition, producer: int, record: Record) -> Record | None:
    """A producer's last transaction in `__transaction_state`, if that only has lower producer epochs than the record.

    A coordinator stores a producer epoch before the producer can use it (KIP-98, KIP-890), so it lost what it stored.
    """
    known = _transactions(p).filter(producer_id=producer)
    epochs = [*known["producer_epoch"].drop_nulls(), *known["last_epoch"].drop_nulls()]
    written = record["producer_epoch"]
    is_lower = written is not None and len(epochs) > 0 and max(epochs) < written
    return known.sort("began_ns").row(-1, named=True) if is_lower else None


def _first_row(rows: pl.DataFrame) -> Record | None:
    return rows.row(0, named=True) if len(rows) else None


class _Coordinated(NamedTuple):
    """The process that wrote a value, and what `__transaction_state` has of its transaction."""

    process: str | None = None
    decision: Record | None = None
    older: Record | None = None  # the producer's last transaction before this one, if none can be this one


def _transaction_of_value(p: Partition, producer: int, value: str | None) -> _Coordinated:
    """What is known of the transaction of a value: the only one of its producer that began during its operation.

    For example, a client's second operation lasts from 5 s to 8 s. Of the coordinator's transactions of its producer,
    which began at 1 s, 6 s and 9 s, the one of 6 s is that of the operation.

    The clocks of client and coordinator may differ. By a clock that is ahead, the first operation has no transaction;
    by one that is behind, more transactions began before an operation than there are operations. Both lead to nothing.
    """
    sends = p.sends.filter(pl.col("txn"))
    of_value = sends.filter(value=value)
    if len(of_value) != 1:
        return _Coordinated()
    process, at = of_value.select("process", "at").row(0)
    known = _transactions(p)
    # A coordinator that lost a transactional.id gives it another producer id.
    known = known.join(known.filter(producer_id=producer), on="transactional_id", how="semi").sort("began_ns")
    operations = _operations(p, sends.filter(process=process))
    began = known["began_ns"].to_numpy()
    # By operation: its transactions are those from `first` to `end` (exclusive).
    firsts = np.searchsorted(began, operations["since"].to_numpy() - MS)  # the coordinator rounds down to ms
    ends = np.searchsorted(began, operations["until"].to_numpy(), "right")
    number = operations["at"].to_list().index(at)
    first, end = int(firsts[number]), int(ends[number])
    first_written = np.flatnonzero(operations["is_written"].to_numpy())[0]
    is_clock_ahead = first_written != number and ends[first_written] - firsts[first_written] != 1
    is_clock_behind = first > number
    if is_clock_ahead or is_clock_behind:
        return _Coordinated(process)
    if first < end:
        is_of_one = end - first == 1 and ((firsts <= first) & (first < ends)).sum() == 1
        row = known.row(first, named=True)
        is_decided = is_of_one and row["outcome"] is not None and row["prepared"] is not None
        return _Coordinated(process, row if is_decided else None)
    begins_soon = np.searchsorted(began, operations["until"][number] + CLOCKS_NS) > end
    if begins_soon or not first:
        return _Coordinated(process)
    return _Coordinated(process, older=known.row(first - 1, named=True))


def _emptied_state(p: Partition, process: str, record: Record, markers: pl.DataFrame) -> str | None:
    """The final copies of the partition of `__transaction_state` that must have a client's transaction, and have none.

    None unless all copies were collected, each with every record since offset 0, and no marker before the record may
    be that of its transaction (late-write). `markers`: those of its producer before it.
    """
    transactional_id = p.settings.setting_of(process, "transactional.id")
    topic, replicas = p.settings.topic(TRANSACTIONS_TOPIC), p.state_metadata.drop_nulls("replicas").sort("offset")
    # The brokers that each partition of it is assigned to, as far as the metadata log has them.
    assigned = {part: set(map(str, brokers)) for part, brokers in replicas.select("partition", "replicas").iter_rows()}
    number = topic.get("partitions", len(assigned) or STATE_PARTITIONS)
    factor = topic.get("replication.factor", STATE_REPLICAS)
    if not isinstance(number, int) or not isinstance(factor, int) or number < 1:
        return None
    copies = p.state_logs.filter(snapshot=FINAL)
    name, needed = f"every partition of {TRANSACTIONS_TOPIC}", range(number)
    if isinstance(transactional_id, str) and (assigned or "partitions" in topic):
        own = coordinator_partition(transactional_id, number)
        copies, name, needed = copies.filter(state_partition=own), f"{TRANSACTIONS_TOPIC}-{own}", range(own, own + 1)
    for each in needed:
        collected = {*copies.filter(state_partition=each)["broker"]}
        if not (collected >= assigned[each] if each in assigned else len(collected) >= factor):
            return None
    if copies["records"].null_count() or not copies["intact"].all() or _may_be_late(p, process, record, markers):
        return None
    are = f"have every record since offset 0, and none of producer id {record['producer_id']}"
    are = are if copies["records"].sum() else "are empty"
    return f"all copies of {name} {are} ({brokers(sorted(copies['broker'].unique()))})"


def _may_be_late(p: Partition, process: str, record: Record, markers: pl.DataFrame) -> bool:
    """Whether the last of a producer's markers before a record may be that of the record's own transaction.

    Not if it was written before the transaction began, or ended records of other transactions only.
    """
    if not len(markers):
        return False
    sends = p.sends.filter(pl.col("txn"), process=process)
    own = sends.filter(value=record["value"])
    last = markers["marker_ns"].max() if not markers["marker_ns"].null_count() else MAX_INT64
    if isinstance(last, int) and len(own) == 1 and last < own["invoked"][0] - CLOCKS_NS:
        return False
    logs = p.replica_logs
    assert logs is not None
    since, until = [-1, *markers["marker"]][-2:]
    is_ended = pl.col("offset").is_between(since, until) & pl.col("control").is_null()
    ended = logs.records.filter(logs.is_of_leader, is_ended, producer_id=record["producer_id"])["value"]
    senders = sends.filter(pl.col("value").is_in(ended.drop_nulls().implode()))
    is_known = len(own) == 1 and len(ended) == len(senders) > 0
    return not is_known or own["at"][0] in senders["at"]


def _operations(p: Partition, sends: pl.DataFrame) -> pl.DataFrame:
    """The transactions of a process that sent here: `at`, `since`, `until` (ns) and whether a record is in the log.

    An operation without an outcome lasts until the next one.
    """
    logs = p.replica_logs
    assert logs is not None
    written = logs.records.filter(logs.is_of_leader)["value"].drop_nulls()
    is_written = pl.col("value").is_in(written.implode()).any()
    columns = (pl.col("invoked").first().alias("since"), pl.col("completed").first(), is_written.alias("is_written"))
    ordered = sends.group_by("at").agg(*columns).sort("since")
    until = pl.coalesce("completed", pl.col("since").shift(-1), pl.lit(MAX_INT64 - CLOCKS_NS))
    return ordered.with_columns(until=until)


@once
def _markers(p: Partition) -> pl.DataFrame:
    """The markers of the leader's last log (IN_LOG), with `marker_ns` on the history's clock."""
    marked = transactions_in_log(p).filter(pl.col("marker").is_not_null())
    return marked.with_columns(marker_ns=on_clock_of_history(pl.col("marker_time"), p.settings))


@once
def _transactions(p: Partition) -> pl.DataFrame:
    """The coordinator's transactions with this partition (TRANSACTIONS), with the offset of the `marker` of each.

    It is the first marker of the producer with the decided outcome since the decision. A marker that is the first one
    for several decisions belongs to the last of them.
    """
    of_both = ["producer_id", "outcome"]
    times = coordinated_transactions(p).with_columns(since=pl.col("prepared") - CLOCKS_NS // MS)
    is_decided = pl.col("since").is_not_null() & pl.col("outcome").is_not_null()
    markers = _markers(p).drop_nulls("marker_time").select(*of_both, "marker", since="marker_time").sort("since")
    decided = times.filter(is_decided).sort("since")
    found = decided.join_asof(markers, on="since", by=of_both, strategy="forward", check_sortedness=False)
    is_last = pl.col("prepared") == pl.col("prepared").max().over("marker")
    found = found.with_columns(marker=pl.when(is_last).then("marker"))
    return pl.concat([found, times.filter(~is_decided)], how="diagonal").drop("since").sort("began_at")
