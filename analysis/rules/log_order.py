"""epoch-order, checkpoint-order and log-corruption: each replica's files against themselves."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import polars as pl

from ...histories.evidence.tables import FINAL
from ...histories.tables import Evidence, Finding
from ..partitions.partition import Partition
from ..replicas.replica_logs import Judgement, ReplicaLogs, extents, runs, where
from ..wording import brokers, span
from .evidence import judge_logs
from .rule import Rule

# A tail that a crash cut off, or that was preallocated, is what Kafka itself drops at the next start.
HARMLESS = ("torn-tail", "zeros")
CORRUPT = ("crc", "magic", "length", "decode", "order")


@Rule(
    "epoch-order",
    summary="Leader epochs are out of order in a log",
    breach=(
        "Leader epochs decrease along a log. Or a batch's epoch is not that of the leader-epoch-checkpoint "
        "entry that covers its offset (KIP-101). Or two brokers each logged that they lead the same leader "
        "epoch, which takes two controllers."
    ),
    not_a_breach="An entry at the log end without a batch, and a gap.",
    unknown_when="Only when the run's evidence is incomplete.",
    in_jepsen="Not judged: they carry no brokers' files.",
    needs=("batches",),
).judged_by
def epoch_order(p: Partition) -> Iterator[Finding]:
    return judge_logs(p, "epoch-order", judge_epochs)


def judge_epochs(logs: ReplicaLogs, sends: pl.DataFrame) -> Judgement:  # noqa: ARG001
    """Leader epochs that decrease along a log, that the leader-epoch-checkpoint contradicts, or that two brokers led.

    An entry without a batch (at the log end, or over a gap) is none, nor are batches below the first entry.
    A batch of an epoch later than the last entry means that the file was copied before the segment.
    """
    out = Judgement()
    batches = logs.batches.filter(pl.col("leader_epoch").is_not_null() & pl.col("crc_ok"))
    for replica in batches.partition_by("snapshot", "broker", maintain_order=True):
        snapshot, broker = replica["snapshot"][0], replica["broker"][0]
        ordered = replica.sort("base_offset", "byte").with_row_index("position")
        ordered = ordered.with_columns(
            pl.col("position").cast(pl.Int64), pl.col("leader_epoch").shift().alias("before")
        )
        for row in ordered.filter(pl.col("leader_epoch") < pl.col("before")).iter_rows(named=True):
            says = f"epoch {row['leader_epoch']} at {span(row['base_offset'], row['last_offset'])}"
            sentence = f"{where(snapshot)} leader epochs decrease along broker {broker}'s log of {logs.name}: {says} "
            sentence += f"follows epoch {row['before']}"
            out.findings.append(_finding(logs, "epoch-order", sentence, snapshot, broker, row, says))
        entries = logs.epochs.filter((pl.col("snapshot") == snapshot) & (pl.col("broker") == broker))
        if entries.height:
            _against_entries(logs, out, ordered, entries, snapshot, broker)
    _led_by_two(logs, out)
    return out


def _led_by_two(logs: ReplicaLogs, out: Judgement) -> None:
    """Leader epochs that two brokers led, as each says of itself: what others say of leaders may be an old view.

    A topic that was made again begins again at epoch 0. Its id tells it apart; without one epoch 0 proves nothing, nor
    do claims that go back in time.
    """
    claims: dict[str, dict[int, dict[str, dict[str, Any]]]] = {}
    told = logs.log_events.filter(pl.col("kind") == "leader").sort("time", "file", "line", nulls_last=True)
    for row in told.iter_rows(named=True):
        fields = json.loads(row["fields"])
        epochs = claims.setdefault(fields.get("topic_id", ""), {})
        if not fields.get("topic_id") and fields["leader_epoch"] < max(epochs, default=0):
            return
        epochs.setdefault(fields["leader_epoch"], {}).setdefault(row["broker"], {**row, **fields})
    for topic_id, epochs in claims.items():
        for epoch, led in epochs.items():
            if len(led) > 1 and (topic_id or epoch > 0):
                out.findings.append(_rivals(logs, epoch, led))


def _rivals(logs: ReplicaLogs, epoch: int, led: dict[str, dict[str, Any]]) -> Finding:
    says = {name: f"broker {name} from offset {row['offset']}" for name, row in led.items()}
    names = sorted(led)
    offsets = [row["offset"] for row in led.values()]
    return Finding(
        "epoch-order",
        f"{brokers(names)} led {logs.name} in one leader epoch, {epoch}: {', '.join(says.values())}",
        logs.topic,
        logs.partition,
        first_offset=min(offsets),
        last_offset=max(offsets),
        evidence=[
            Evidence(f"epoch {epoch}: {says[name]}", None, row["file"], row["line"]) for name, row in led.items()
        ],
        replicas=names,
    )


def _against_entries(
    logs: ReplicaLogs, out: Judgement, ordered: pl.DataFrame, entries: pl.DataFrame, snapshot: str, broker: str
) -> None:
    start = extents(logs).filter((pl.col("snapshot") == snapshot) & (pl.col("broker") == broker))["start"]
    entry = entries.sort("start_offset", "leader_epoch").select(
        "start_offset", pl.col("leader_epoch").alias("expected"), pl.col("line").alias("entry_line")
    )
    joined = ordered.join_asof(entry, left_on="base_offset", right_on="start_offset", strategy="backward")
    newest = entries["leader_epoch"].max()
    wrong = joined.filter(
        (pl.col("expected") != pl.col("leader_epoch"))
        & (pl.col("base_offset") >= (start[0] if len(start) else 0))
        & ~((pl.col("leader_epoch") > newest) & (pl.col("expected") == newest))
    )
    for run in runs(wrong, "position", "leader_epoch", "expected"):
        row = {**run.row(0, named=True), "last_offset": run["last_offset"][-1]}
        says = f"batches of epoch {row['leader_epoch']} at {span(row['base_offset'], row['last_offset'])}"
        sentence = f"{where(snapshot)} broker {broker}'s leader-epoch-checkpoint of {logs.name} says epoch "
        sentence += f"{row['expected']} from offset {row['start_offset']}, and its log has {says}"
        finding = _finding(logs, "epoch-order", sentence, snapshot, broker, row, says)
        file, line = entries["file"][0], row["entry_line"]
        finding.evidence.append(
            Evidence(f"epoch {row['expected']} begins at offset {row['start_offset']}", source=file, line=line)
        )
        out.findings.append(finding)


def _finding(
    logs: ReplicaLogs, rule: str, sentence: str, snapshot: str, broker: str, row: dict[str, object], says: str
) -> Finding:
    first, last, byte = row["base_offset"], row["last_offset"], row["byte"]
    assert isinstance(first, int)
    assert isinstance(last, int)
    assert isinstance(byte, int)
    return Finding(
        rule,
        sentence,
        logs.topic,
        logs.partition,
        first_offset=first,
        last_offset=last,
        count=last - first + 1,
        evidence=[Evidence(says, source=str(row["file"]), byte=byte)],
        replicas=[broker],
        snapshot=snapshot or None,
    )


@Rule(
    "checkpoint-order",
    summary="A broker's checkpoints contradict its log or each other",
    breach=(
        "One of these does not hold: log start <= recovery point, recovery point <= log end, high watermark "
        "<= log end. Or a high watermark goes back between snapshots."
    ),
    not_a_breach=(
        "A checkpoint that lags behind its log. Files of a running broker, copied at different times, are a note."
    ),
    unknown_when="The brokers may have been running during the copy. High watermarks of undated snapshots differ.",
    in_jepsen="Not judged: they carry no brokers' files.",
    needs=("batches",),
).judged_by
def checkpoint_order(p: Partition) -> Iterator[Finding]:
    return judge_logs(p, "checkpoint-order", judge_checkpoints)


def judge_checkpoints(logs: ReplicaLogs, sends: pl.DataFrame) -> Judgement:  # noqa: ARG001
    """Log start <= recovery point, and recovery point and high watermark <= log end; no high watermark that
    goes back between snapshots. Checkpoints lag, so only one that is ahead of its log means anything.
    """
    out = Judgement()
    # Where the end of a log is broken (not merely torn off) nobody knows how far it went.
    broken = logs.damage.filter(
        pl.col("first_offset").is_not_null() & pl.col("last_offset").is_null() & ~pl.col("kind").is_in(list(HARMLESS))
    )
    bounds = extents(logs).join(broken, on=["snapshot", "broker"], how="anti", maintain_order="left")
    for row in bounds.iter_rows(named=True):
        for name, column in (("high watermark", "high_watermark"), ("recovery point", "recovery_point")):
            if row[column] is not None and row[column] > row["end"]:
                sentence = (
                    f"{where(row['snapshot'])} broker {row['broker']}'s log of {logs.name} ends at {row['end']}, "
                )
                sentence += f"below its checkpointed {name} {row[column]}: {span(row['end'], row[column] - 1)} it had"
                _ahead(logs, out, row, column, sentence)
        if row["log_start"] is not None and row["log_start"] > row["end"]:
            sentence = f"{where(row['snapshot'])} broker {row['broker']}'s log of {logs.name} ends at {row['end']}, "
            _ahead(logs, out, row, "log_start", f"{sentence}below its checkpointed log start {row['log_start']}")
    _going_back(logs, out)
    return out


def _ahead(logs: ReplicaLogs, out: Judgement, row: dict[str, object], column: str, sentence: str) -> None:
    snapshot, broker = str(row["snapshot"]), str(row["broker"])
    point = _checkpoint(logs, snapshot, broker, column.replace("_", "-"))
    end, value = row["end"], row[column]
    assert isinstance(end, int)
    assert isinstance(value, int)
    raced = _may_be_raced(logs, snapshot, broker, end, value)
    if raced:
        sentence += "; the files of a running broker may have been copied at different times"
    if raced and not logs.at_rest:
        out.unknown.append(f"checkpoint-order: {sentence}")
    out.findings.append(
        Finding(
            "checkpoint-order",
            sentence,
            logs.topic,
            logs.partition,
            severity="note" if raced else "violation",
            first_offset=end,
            last_offset=value - 1,
            count=value - end,
            evidence=point,
            replicas=[broker],
            snapshot=snapshot or None,
        )
    )


def _may_be_raced(logs: ReplicaLogs, snapshot: str, broker: str, end: int, value: int) -> bool:
    """Whether the log went on after its segment was copied: a later snapshot has all that was missing, and
    nothing was torn off here. The end of a run is copied from brokers at rest; of a folder that was found nobody knows.
    """
    if snapshot == logs.snapshots[-1]:
        return not logs.at_rest
    here = (pl.col("snapshot") == snapshot) & (pl.col("broker") == broker)
    if logs.damage.filter(here).height:
        return False
    later = logs.snapshots[logs.snapshots.index(snapshot) + 1 :]
    gap = (pl.col("base_offset") < value) & (pl.col("last_offset") >= end)
    after = logs.batches.filter(pl.col("snapshot").is_in(later) & (pl.col("broker") == broker) & gap)
    return after.filter(pl.col("snapshot") == after["snapshot"][0])["count"].sum() > 0 if after.height else False


def _checkpoint(logs: ReplicaLogs, snapshot: object, broker: object, name: str) -> list[Evidence]:
    rows = logs.checkpoints.filter(
        (pl.col("snapshot") == snapshot) & (pl.col("broker") == broker) & (pl.col("name") == name)
    )
    return [
        Evidence(f"{name} of {logs.name} is {row['offset']}", None, row["file"], row["line"])
        for row in rows.iter_rows(named=True)
    ]


def _going_back(logs: ReplicaLogs, out: Judgement) -> None:
    marks = logs.checkpoints.filter(pl.col("name") == "high-watermark")
    for replica in marks.partition_by("broker", maintain_order=True):
        by_snapshot = {row["snapshot"]: row for row in replica.iter_rows(named=True)}
        known = [name for name in logs.snapshots if name in by_snapshot]
        undated = [name for name in known if name != FINAL and name not in logs.times]
        if undated and len({by_snapshot[name]["offset"] for name in known if name != FINAL}) > 1:
            mark = f"broker {replica['broker'][0]}'s high watermark of {logs.name}"
            out.unknown.append(
                f"checkpoint-order: {mark} differs in snapshots, and nobody knows when {undated[0]} was copied"
            )
        pairs = [*itertools.pairwise(name for name in known if name not in undated)]
        pairs += [(name, FINAL) for name in undated if FINAL in by_snapshot]
        for before, after in ((by_snapshot[one], by_snapshot[other]) for one, other in pairs):
            if after["offset"] >= before["offset"]:
                continue
            sentence = f"broker {after['broker']}'s checkpointed high watermark of {logs.name} went back from "
            sentence += (
                f"{before['offset']} ({where(before['snapshot'])}) to {after['offset']} ({where(after['snapshot'])})"
            )
            out.findings.append(
                Finding(
                    "checkpoint-order",
                    sentence,
                    logs.topic,
                    logs.partition,
                    first_offset=after["offset"],
                    last_offset=before["offset"] - 1,
                    count=before["offset"] - after["offset"],
                    evidence=[
                        Evidence(f"high-watermark is {row['offset']}", None, row["file"], row["line"])
                        for row in (before, after)
                    ],
                    replicas=[after["broker"]],
                    snapshot=after["snapshot"] or None,
                )
            )


@Rule(
    "log-corruption",
    summary="A segment is damaged",
    breach="A batch's CRC, magic, length or offset order is broken, at a file and byte.",
    not_a_breach="A torn tail, as a crash leaves it, is a note: recovery truncates it.",
    unknown_when="A part of a segment could not be read, or a segment is missing between two others.",
    in_jepsen="Not judged: they carry no brokers' files.",
    needs=("batches",),
).judged_by
def log_corruption(p: Partition) -> Iterator[Finding]:
    return judge_logs(p, "log-corruption", judge_segments)


def judge_segments(logs: ReplicaLogs, sends: pl.DataFrame) -> Judgement:  # noqa: ARG001
    """CRC, magic, length or offset order broken in a segment. A torn tail is a note: Kafka drops it."""
    out = Judgement()
    for row in logs.damage.iter_rows(named=True):
        if row["kind"] in CORRUPT or (row["kind"] in HARMLESS and row["last_offset"] is not None):
            severity = "violation"
        elif row["kind"] in HARMLESS:
            severity = "note"
        else:
            out.unknown.append(f"log-corruption: {row['file']} {row['reason']}")
            continue
        first, last = row["first_offset"], row["last_offset"]
        at = f"{row['file']} at byte {row['byte']}"
        out.findings.append(
            Finding(
                "log-corruption",
                f"{at}: {row['reason']}",
                logs.topic,
                logs.partition,
                severity=severity,
                first_offset=first,
                last_offset=last,
                count=last - first + 1 if first is not None and last is not None else 1,
                evidence=[Evidence(row["reason"], source=row["file"], byte=row["byte"], line=row["line"])],
                replicas=[row["broker"]],
                snapshot=row["snapshot"] or None,
            )
        )
    for replica in logs.batches.filter("crc_ok").partition_by("snapshot", "broker", maintain_order=True):
        _offsets_in_order(logs, out, replica)
    return out


def _offsets_in_order(logs: ReplicaLogs, out: Judgement, replica: pl.DataFrame) -> None:
    snapshot, broker = replica["snapshot"][0], replica["broker"][0]
    ordered = replica.sort("file", "byte").with_columns(
        pl.col("last_offset").shift().alias("before"), pl.col("file").shift().alias("file_before")
    )
    for row in ordered.filter(pl.col("base_offset") <= pl.col("before")).iter_rows(named=True):
        says = f"a batch of {span(row['base_offset'], row['last_offset'])} stands after offset {row['before']}"
        sentence = f"{row['file']} at byte {row['byte']}: {says}"
        out.findings.append(_finding(logs, "log-corruption", sentence, snapshot, broker, row, says))
    if logs.compacted:
        return
    here = (pl.col("snapshot") == snapshot) & (pl.col("broker") == broker)
    cleaned = logs.checkpoints.filter(here & (pl.col("name") == "cleaned")).height
    gaps = ordered.filter((pl.col("base_offset") > pl.col("before") + 1) & (pl.col("file") != pl.col("file_before")))
    damaged = logs.damage.filter(here).height
    for row in gaps.iter_rows(named=True):
        if not damaged and (logs.compacted is False or not cleaned):
            missing = span(row["before"] + 1, row["base_offset"] - 1)
            out.unknown.append(
                f"log-corruption: {missing} of broker {broker} {where(snapshot)} are in no segment: one is "
                f"missing between {row['file_before']} and {row['file']}"
            )
