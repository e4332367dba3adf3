"""What coordinators recorded: groups in `__consumer_offsets`, transactions in `__transaction_state` and in logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from ...histories.evidence.tables import FINAL, STEPS
from ...histories.settings import Settings
from ...histories.tables import Schema, no_rows, typed
from ...models.internal_topics import TRANSACTIONS_TOPIC, coordinator_partition
from ..extremes import greatest
from ..replicas.leaders import longest_copy
from ..replicas.replica_logs import ReplicaLogs
from .evidence import longest_copies, on_clock_of_history
from .observations import Observations, once
from .topic_generations import TopicGeneration


@once
def group_evidence(p: Observations) -> pl.DataFrame:
    """Rows of GROUPS about this partition at the end of the run, in the order of the log, with `dated` (ns or null).

    All records of a group are in one partition of `__consumer_offsets` (`longest_copies`). There are no rows if the
    topic was deleted during the run (`since_creation`).
    """
    best = longest_copies(p.groups, "group", ("at", "kind", "member"), "offset", ("at",))
    dated = best.with_columns(dated=on_clock_of_history(pl.col("time"), p.settings))
    return dated.sort("group", "at", "member", maintain_order=True)


@once
def committed_at_last(p: Observations) -> pl.DataFrame:
    """The row of each group's last committed offset, unless the offset was removed later."""
    offsets = group_evidence(p).filter(pl.col("kind").is_in(["committed", "removed"]))
    last = offsets.unique("group", keep="last", maintain_order=True)
    return last.filter(kind="committed").sort("group")


DATED = (*STEPS, "last_time")  # ms; the same with `_ns` on the history's clock

# One row for each transaction in the leader's last log.
IN_LOG: Schema = {
    "producer_id": pl.Int64,
    "number": pl.Int64,  # of this producer, from 0
    "first_offset": pl.Int64,  # of its records; null where only its marker is in the log
    "last_offset": pl.Int64,
    "records": pl.Int64,
    "epoch": pl.Int32,  # producer epoch of its last record, and of its marker
    "marker_epoch": pl.Int32,
    "leader_epoch": pl.Int32,  # of its first record; marker_leader_epoch: of its marker
    "marker_leader_epoch": pl.Int32,
    "timestamp": pl.Int64,  # ms, of its first record
    "outcome": pl.String,  # commit or abort; null: it has no marker
    "marker": pl.Int64,  # offset
    "marker_time": pl.Int64,  # ms, the leader's clock
    "file": pl.String,  # of its first record, and the byte of that batch; marker_file and marker_byte
    "byte": pl.Int64,
    "marker_file": pl.String,
    "marker_byte": pl.Int64,
}
# Columns of IN_LOG, each with the column of RECORDS that it has of the first record, or of the marker.
OF_FIRST_RECORD = {"first_offset": "offset"} | {name: name for name in ("leader_epoch", "timestamp", "file", "byte")}
OF_MARKER = {"marker": "offset", "outcome": "control", "marker_time": "timestamp", "marker_epoch": "producer_epoch"} | {
    f"marker_{name}": name for name in ("leader_epoch", "file", "byte")
}


@once
def transactions_in_log(p: Observations) -> pl.DataFrame:
    """Rows of IN_LOG in order of their first offset."""
    return log_transactions(p.replica_logs) if p.replica_logs is not None else no_rows(IN_LOG)


def log_transactions(logs: ReplicaLogs, is_of_log: pl.Expr | None = None) -> pl.DataFrame:
    """Rows of IN_LOG of the log that `is_of_log` selects, by default the leader's last; in order of first offset."""
    is_of_log = logs.is_of_leader if is_of_log is None else is_of_log
    dropped = logs.identical.filter(is_of_log & pl.col("producer_id").is_not_null())
    ranges = dropped.select("producer_id", offset="first_offset", last="last_offset", transactional=pl.lit(True))
    records = logs.records.filter(is_of_log & pl.col("transactional") & pl.col("producer_id").is_not_null())
    if not len(records) and not len(ranges):
        return no_rows(IN_LOG)
    rows = pl.concat([records.with_columns(last="offset"), ranges], how="diagonal")
    is_marker = pl.col("control").is_not_null()
    ordered = rows.filter(pl.col("control").fill_null("") != "other").sort("offset")
    markers = is_marker.cast(pl.Int64)
    numbered = ordered.with_columns(number=markers.cum_sum().over("producer_id") - markers)
    grouped = numbered.group_by("producer_id", "number", maintain_order=True).agg(
        *(pl.col(column).filter(~is_marker).first().alias(name) for name, column in OF_FIRST_RECORD.items()),
        *(pl.col(column).filter(is_marker).first().alias(name) for name, column in OF_MARKER.items()),
        last_offset=pl.col("last").filter(~is_marker).last(),
        records=(pl.col("last") - pl.col("offset") + 1).filter(~is_marker).sum(),
        epoch=pl.col("producer_epoch").filter(~is_marker).last(),
    )
    rows = typed(grouped, IN_LOG)
    return rows.sort(pl.coalesce("first_offset", "marker"))


@once
def coordinated_transactions(p: Observations) -> pl.DataFrame:
    """The result of `final_transactions` for this partition; empty if its topic was deleted during the run."""
    return final_transactions(p.coordinated, p.settings)


def since_creation(
    tables: Mapping[str, pl.DataFrame], generation: TopicGeneration, settings: Settings
) -> dict[str, pl.DataFrame]:
    """The tables of BESIDE_LOGS that are about a generation; none unless it is the only one of the run.

    Coordinators record topics by name, so their rows are about it if they are younger than its creation.
    """
    if not generation.is_alone or generation.created is None:
        return {}
    since = generation.created.earliest
    dates = {"groups": "time", "coordinated": "began"}
    return {
        name: rows.filter(on_clock_of_history(pl.col(dates[name]), settings) >= since) if name in dates else rows
        for name, rows in tables.items()
    }


def final_transactions(transactions: pl.DataFrame, settings: Settings) -> pl.DataFrame:
    """Rows of TRANSACTIONS about a partition at the end of the run, in the order in which they began.

    All records of a transactional id are in one partition of `__transaction_state` (`longest_copies`). Columns DATED
    with `_ns` are times on the history's clock, null where run.json has no started_at.
    """
    best = longest_copies(transactions, "transactional_id", ("began_at",), "outcome", ("at", "last_time"))
    dated = [on_clock_of_history(pl.col(name), settings).alias(f"{name}_ns") for name in DATED]
    return best.with_columns(dated).sort("began_at", "transactional_id")


def source_of(row: Mapping[str, Any], step: str) -> dict[str, Any]:
    """Where `__transaction_state` has one of the STEPS of a transaction: the fields source and byte of a fact."""
    folder = str(row["file"]).rpartition("/")[0]
    return {"source": f"{folder}/{row[f'{step}_file']}", "byte": row[f"{step}_byte"]}


def matched_transactions(in_log: pl.DataFrame, transactions: pl.DataFrame) -> pl.DataFrame:
    """The coordinator's transactions, each with its `number` in the log (IN_LOG), of producers with matching ones.

    They match if coordinator and log have equally many, and each has the coordinator's outcome in the log, or no
    marker.
    """
    numbered = transactions.with_columns(number=pl.int_range(pl.len()).over("producer_id"))
    logged = in_log.select("producer_id", "number", ended="outcome", is_logged=True)
    pairs = logged.join(numbered.with_columns(is_decided=True), on=["producer_id", "number"], how="full", coalesce=True)
    is_alike = (
        pl.col("is_logged")
        & pl.col("is_decided")
        & (pl.col("ended").is_null() | (pl.col("ended") == pl.col("outcome")))
    )
    differ = pairs.filter(~is_alike.fill_null(False))
    return numbered.join(differ, on="producer_id", how="anti", maintain_order="left")


def confirmed_producers(logs: ReplicaLogs, transactions: pl.DataFrame) -> list[int]:
    """Producer ids for which `__transaction_state` and the leader's log have the same outcomes, one by one."""
    ended = [frame.drop_nulls("outcome") for frame in (log_transactions(logs), transactions)]
    return matched_transactions(*ended)["producer_id"].unique().to_list()


def partition_without_coordinator(
    p: Observations, transactional_id: object, since: int, until: int, grace: int
) -> str | None:
    """A partition of `__transaction_state` that no broker led for more than `grace` ns between two times; else None.

    It is the one of the transactional id; any, if the id is not known (no string). The metadata log dates leaders. If
    the run has no started_at, only its last leader counts.
    """
    led = longest_copy(p.state_metadata.filter(snapshot=FINAL)).filter(pl.col("leader").is_not_null())
    count = led["partition"].n_unique()
    if isinstance(transactional_id, str) and count:
        led = led.filter(partition=coordinator_partition(transactional_id, count))
    if p.settings.started_ms is None:
        led = led.unique("partition", keep="last", maintain_order=True)
    is_first = pl.col("time").cum_count().over("partition") == 1  # the log may begin with it: it was so before
    began = pl.when(~is_first).then(on_clock_of_history(pl.col("time"), p.settings).clip(since, until))
    terms = led.with_columns(began=began.fill_null(since), term=pl.col("leader").rle_id().over("partition"))
    terms = terms.with_columns(ended=pl.col("began").shift(-1).over("partition").fill_null(until))
    lasted = terms.group_by("partition", "term").agg(
        is_long=(pl.col("leader").first() >= 0) & (pl.col("ended").max() - pl.col("began").min() > grace)
    )
    unled = lasted.group_by("partition").agg(pl.col("is_long").any()).filter(~pl.col("is_long"))["partition"].sort()
    return f"{TRANSACTIONS_TOPIC}-{unled[0]}" if len(unled) else None


def last_seen(p: Observations) -> int | None:
    """The last time (ns) at which clients are known to have reached the partition's leader; None: never."""
    is_ok = (pl.col("outcome") == "ok") & pl.col("completed").is_not_null()
    sends = p.sends.filter(is_ok & pl.col("acknowledged"))["completed"]
    reads = p.reads.filter(is_ok & pl.col("offset").is_not_null())["completed"]
    return greatest(pl.concat([sends, reads, p.marks.filter(is_ok, kind="end_offsets")["completed"]]), None)
