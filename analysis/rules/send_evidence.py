"""The evidence about sends: consumers that skipped them, idempotence, proofs of losses; and what stays unknown."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import polars as pl

from ...histories.settings import idempotence
from ...histories.tables import MAX_INT64
from ..partitions.indeterminate_polls import has_left_out_lines, lacks_lines
from ..partitions.open_transactions import describe_open_transaction, is_in_leaders_log
from ..partitions.partition import Partition, once
from ..partitions.truncated_sends import with_later_end
from ..partitions.unknown_acks import describe_unknown_acks
from ..replicas.replica_logs import with_aborted
from ..wording import brokers, plural, short, some, some_values
from .rule import MissingSetting, Unknown, distinct, missing_isolation_levels, seconds


def passed_over(p: Partition, sent: pl.DataFrame) -> pl.Series:
    """Whether each send is gone: no read returned it, but a consumer read before and after it (Jepsen's lost-write).

    A consumer that read another record at this offset does not count: it read that one before a truncation.
    """
    unread = sent["first_read"].is_null() & sent["offset"].is_not_null()
    if not unread.any():
        return unread
    rows = unread.arg_true().to_numpy()
    spans = p.reads.group_by("process").agg(low=pl.col("offset").min(), high=pl.col("offset").max())
    offset = sent["offset"].gather(rows).to_numpy()
    others = p.reads.filter(pl.col("offset").is_in(pl.Series(offset).implode()))
    passed = np.zeros(len(rows), bool)
    for process, low, high in spans.drop_nulls().iter_rows():  # polls may have no offsets
        own = others.filter(process=process)["offset"].to_numpy()
        passed |= (offset > low) & (offset < high) & ~np.isin(offset, own)
    held = is_in_leaders_log(p, sent.select("offset", "value")[rows[passed]]).to_numpy()
    found = np.zeros(len(sent), bool)
    found[rows[passed]] = ~held
    return pl.Series(found)


@once
def known_since(p: Partition) -> pl.DataFrame:
    """The time from which on a record is known to be in the log: its acknowledgement, or its first read if earlier.

    Columns: offset, value, process, completed (ns), at, how.
    """
    acked = p.acknowledged.filter(pl.col("offset").is_not_null() & pl.col("completed").is_not_null())
    sent = p.sends.select(pl.col("invoked", "completed", "synthetic").gather(p.entries["send"]))
    early = ~p.entries["sent_ok"] | (p.entries["first_read"] < sent["completed"]).fill_null(True)
    # A read before the send is a phantom-read, and proves nothing here.
    early &= (sent["synthetic"] | (p.entries["first_read"] >= sent["invoked"])).fill_null(True)
    return pl.concat(
        [
            acked.select("offset", "value", "process", "completed", "at", how=pl.lit("acknowledged")),
            p.entries.filter(early & (pl.col("times") > 0)).select(
                "offset",
                "value",
                process="first_reader",
                completed="first_read",
                at="first_read_at",
                how=pl.lit("read"),
            ),
        ]
    )


@once
def placed_sends(p: Partition) -> pl.DataFrame:
    """Sends with a known invocation and offset: acknowledged with an offset, or sent once and read at one.

    Columns: value, process, invoked (ns), invoked_at, offset, at, how.
    """
    columns = ("value", "process", "invoked", "invoked_at", "offset", "at", "how")
    acked = p.acknowledged.filter(
        pl.col("offset").is_not_null() & pl.col("completed").is_not_null() & ~pl.col("synthetic")
    ).with_columns(how=pl.lit(" acknowledged"))
    if not len(p.elsewhere):
        return acked.select(columns)
    sent = p.possible_sends.filter(~pl.col("value").is_duplicated())
    lost = sent.filter(pl.col("offset").is_null() & (pl.col("outcome") != "fail") & ~pl.col("synthetic"))
    read = (
        lost.drop("offset", "at")
        .join(
            p.elsewhere.select("offset", "value", "first_read", at="first_read_at", how=pl.lit("")),
            on="value",
            maintain_order="left",
        )
        .filter(pl.col("first_read") >= pl.col("invoked"))
    )
    return pl.concat([acked.select(columns), read.select(columns)])


def without_idempotence(p: Partition, values: pl.Series) -> set[tuple[str | None, str]]:
    """The sends (process, value) of these values that certainly lack idempotence.

    Evidence is the producer's configuration, acks 0 or 1 (KIP-98 needs acks=all), a record without a producer id, or
    that all records of the producer in the logs have none. The process is None if no send of the value is recorded.
    """
    wanted = values.drop_nulls().unique()
    sent = p.possible_sends.filter(pl.col("value").is_in(wanted.implode())).select("process", "value", "acks")
    without_id = _without_producer_id(p, wanted)
    configured = {
        (process, acks): idempotence(p.settings.processes.get(process, {}), acks)
        for process, acks in sent.select("process", "acks").unique().iter_rows()
    }
    undecided = {process for (process, _), setting in configured.items() if setting is None}
    without_any = _processes_without_producer_ids(p, undecided)
    return {(None, value) for value in without_id.difference(sent["value"])} | {
        (process, value)
        for process, value, acks in sent.iter_rows()
        if configured[process, acks] is False
        or (configured[process, acks] is None and (value in without_id or process in without_any))
    }


def _processes_without_producer_ids(p: Partition, processes: Collection[str]) -> set[str]:
    """Those of the processes that have records in the brokers' logs, all without a producer id."""
    if p.replica_logs is None or not processes:
        return set()
    sent = p.possible_sends.filter(pl.col("process").is_in([*processes])).select("process", "value").drop_nulls()
    held = p.replica_logs.records.filter(pl.col("control").is_null()).select("value", "producer_id")
    by_process = sent.join(held, on="value").group_by("process").agg(without_id=pl.col("producer_id").is_null().all())
    return set(by_process.filter("without_id")["process"])


def _without_producer_id(p: Partition, values: pl.Series) -> set[str]:
    if p.replica_logs is None:
        return set()
    held = p.replica_logs.records.filter(pl.col("control").is_null() & pl.col("value").is_in(values.unique().implode()))
    by_value = held.group_by("value").agg(without_id=pl.col("producer_id").is_null().all())
    return set(by_value.filter("without_id")["value"])


def missing_sends(p: Partition) -> tuple[str, pl.Expr]:
    """What suggests that sends are missing from the history, and a filter of the reads that they may have written."""
    if has_left_out_lines(p):
        return "lines of the history are missing or could not be read", pl.lit(True)
    senders = p.context.filter(kind="sends")["process"]
    silent = [name for name in p.settings.producers() if name not in senders]
    if silent:
        return f"run.json names {some(silent)}, but the history has no event of them", pl.lit(True)
    undecided = p.context.filter(kind="txn without steps").sort("process")
    if not len(undecided):
        return _end_of_producers(p)
    since = undecided["invoked"].min()
    reason = f"a transaction of {some(distinct(undecided['process']))} has no recorded steps and no outcome"
    return reason, pl.lit(True) if since is None else pl.col("first_read") >= since


def _end_of_producers(p: Partition) -> tuple[str, pl.Expr]:
    """If the recorder was killed, or the history was cut: the end of the producer that stopped first, and the reads
    since then.

    The last lines of a killed recorder are missing, while other processes of the run may record for longer.
    """
    ends = p.possible_sends.group_by("process").agg(end=pl.max_horizontal("invoked", "completed").max()).drop_nulls()
    reason = (
        "the recorder did not finish (run.json has finished: false)" if p.settings.is_unfinished else lacks_lines(p)
    )
    if not reason or not len(ends):
        return "", pl.lit(False)
    process, end = ends.sort("end", "process").row(0)
    return f"{reason}, and the last line of {process} here is of {seconds(end)}", pl.col("first_read") >= end


def unknown_sends(p: Partition, outcomes: pl.DataFrame) -> Iterator[Unknown | MissingSetting]:
    """The sends that may be lost or not, and the reason. `outcomes` are those of loss.outcomes_of_sends."""
    if not outcomes["doubtful"].any():
        return
    doubtful = outcomes.filter("doubtful")
    if p.final and doubtful["hidden_by_open_txn"].any():
        yield from missing_isolation_levels(p, p.final.processes)
    yield from (MissingSetting(f"acks of {name}") for name in distinct(doubtful.filter("unsure_acks")["process"]))
    count, values = plural(len(doubtful), "acknowledged record"), some_values(doubtful["value"].to_list())
    which = f"{count} of {p.name} ({values})"
    if p.final is not None or not doubtful["first_read"].count():
        which = f"{'the final reads did not return' if p.final else 'no read returned'} {which}, which"
    yield Unknown(f"{which} may be lost or not: {_why_doubtful(p, doubtful)}")


def unknown_ends(p: Partition, not_lost: pl.DataFrame) -> list[MissingSetting]:
    """The missing isolation levels of clients whose end offset proves a loss, unless it is a last stable offset."""
    ends = p.unsure_ends
    shrunk = with_later_end(p, ends, not_lost)
    return missing_isolation_levels(p, ends["process"].unique()) if shrunk["later_end"].count() else []


def proof_of_loss(p: Partition, run: pl.DataFrame) -> str:
    """A clause that states why adjacent lost sends are gone."""
    one, replaced, others = len(run) == 1, int(run["replaced"].sum()), run["other"].drop_nulls()
    if one and replaced:
        return f"its offset now holds {short(others[0])}"
    if replaced == 1:
        return f"1 of their offsets now holds another record ({short(others[0])})"
    if replaced:
        offsets = "their offsets" if replaced == len(run) else f"{replaced:,} of their offsets"
        return f"{offsets} now hold other records ({short(others[0])}, … {replaced - 1:,} more)"
    if run["displaced"].any():
        return f"the final reads returned {'another record at its offset' if one else 'other records at their offsets'}"
    if run["shrunk"].any():
        return f"a later end offset is {run['later_end'].drop_nulls()[0]}"
    if aborted := _markers_text(p, run):
        return aborted
    if run["not_in_logs"].any():
        return f"{_logs_without(p, run)} not have {'it' if one else 'them'}"
    if run["absent"].any() and p.final:
        return f"the final reads reached offset {p.final.end} without {'it' if one else 'them'}"
    return "a later record was read"


def _logs_without(p: Partition, run: pl.DataFrame) -> str:
    """The subject of `do not have them` for lost sends: the last leader's log if another has them, else all logs."""
    logs = p.replica_logs
    if logs is None or logs.leader is None or not logs.last_records.join(run, on="value", how="semi").height:
        return "the brokers' last logs do"
    return f"the last log of broker {logs.leader}, the last leader, does"


def _markers_text(p: Partition, run: pl.DataFrame) -> str:
    """The markers of lost sends in the last logs, as a clause; empty unless the leader's log has these as aborted."""
    logs = p.replica_logs
    if logs is None:
        return ""
    ended = pl.when(pl.col("control").is_not_null()).then("offset").fill_null(strategy="backward")
    ordered = with_aborted(logs.last_records.sort("broker", "offset"))
    held = ordered.with_columns(marker=ended.over("broker", "producer_id")).join(
        run, on=["offset", "value"], how="semi"
    )
    by_log = held.group_by("broker").agg(pl.len(), pl.col("aborted").all(), pl.col("marker").min())
    if logs.leader in {*by_log["broker"]}:
        is_aborted = by_log.filter(broker=logs.leader, len=len(run))["aborted"].any()
    else:
        is_aborted = bool((by_log["aborted"].fill_null(False) & (by_log["len"] == len(run))).any())
    if not is_aborted:
        return ""
    kinds = {True: "an ABORT marker", False: "a COMMIT marker", None: "no marker"}
    texts = []
    for aborted, marker, names in (
        by_log.sort("broker").group_by("aborted", "marker", maintain_order=True).agg("broker").iter_rows()
    ):
        where_text = "" if aborted is None or marker is None else f" at offset {marker}"
        texts.append(f"{kinds[aborted]}{where_text} on {brokers(names)}")
    return f"the log still has {'it' if len(run) == 1 else 'them'}, but aborted: {some(texts)}"


def _why_doubtful(p: Partition, doubtful: pl.DataFrame) -> str:
    them = "it" if len(doubtful) == 1 else "them"
    if doubtful["unsure_acks"].any():
        return describe_unknown_acks(doubtful.filter("unsure_acks")["process"])
    if doubtful["hidden"].any():
        return f"a poll without a known outcome may have returned {them}"
    if doubtful["not_permitted"].any():
        were = "it was" if len(doubtful) == 1 else "they were"
        by = " (by the time of the send, as the history has no timestamps)" if doubtful["timestamp"].has_nulls() else ""
        return (
            f"the log start moved to offset {p.log_start.certain} while {were} younger than retention.ms{by}, and no"
            " delete-records is recorded: did another client send one, was a broker's clock wrong, or were segments"
            " removed?"
        )
    if doubtful["maybe_deleted"].any():
        return f"retention or delete-records may have removed {them}"
    if doubtful["maybe_returned"].any():
        return (
            f"the log was truncated below {them}, but {_legal_reasons(p)} may have removed {them} before that, or"
            f" after the log came back with {them} (copies of the old leader's log, and the epochs of the last one,"
            " would show it)"
        )
    if doubtful["maybe_compacted"].any() and "cleanup.policy" not in p.settings.topic(p.topic):
        return f"compaction may have removed {them}, and run.json does not set cleanup.policy of {p.topic}"
    if doubtful["maybe_compacted"].any():
        return f"compaction may have removed {them}, if the log has a later record with the same key"
    if doubtful["hidden_by_open_txn"].any():
        hiding = describe_open_transaction(p, p.final.hides if p.final else MAX_INT64)
        held = int(is_in_leaders_log(p, doubtful).sum())
        of_them = f"; the leader's log holds {'all' if held == len(doubtful) else f'{held:,}'} of them" if held else ""
        return f"{hiding} may hide {them} from the final reads{of_them}"
    return f"the final reads ended before {'it was' if len(doubtful) == 1 else 'they were'} acknowledged"


def _legal_reasons(p: Partition) -> str:
    """What may remove records of the topic by its cleanup.policy, as the subject of a clause."""
    if "cleanup.policy" not in p.settings.topic(p.topic):
        return "retention, delete-records or compaction"
    return "compaction" if p.settings.is_compacted(p.topic) else "retention or delete-records"
