"""epoch-order, checkpoint-order and log-corruption: each replica's files are consistent with themselves."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

import polars as pl

from ...histories.evidence.tables import FINAL
from ...histories.references import MESSAGE_FORMAT, REPLICATION, kip
from ...histories.tables import Evidence, Finding
from ..replicas.leaders import epochs_with_two_leaders
from ..replicas.missing_logs import COPY
from ..replicas.replica_logs import ReplicaLogs, in_snapshot, is_of_copy, runs
from ..wording import brokers, span
from .rule import Result, Row, Rule, Unknown, finding

# A tail that a crash tore off, or that was preallocated: Kafka truncates it at the next start.
HARMLESS = ("torn-tail", "zeros")
CORRUPT = ("crc", "magic", "length", "decode", "order")


@Rule(
    "epoch-order",
    group="replicas",
    summary="Leader epochs are out of order in a log",
    source=kip(101),
    needs=("batches",),
).judged_by_logs
def epoch_order(logs: ReplicaLogs, _sends: pl.DataFrame) -> Iterator[Result]:
    """Leader epochs that decrease along a log, that contradict the leader-epoch-checkpoint, or that two brokers led.

    Breach: Leader epochs decrease along a log. Or a batch's epoch is not that of the leader-epoch-checkpoint entry that
    covers its offset (KIP-101). Or two brokers each logged that they lead the same leader epoch, which takes two
    controllers, or one that came back with an older metadata log.
    Not a breach: A checkpoint entry without a batch, at the log end or over a gap.
    """
    sound = logs.batches.filter(pl.col("leader_epoch").is_not_null() & pl.col("crc_ok"))
    batches = sound.sort("base_offset", "byte", maintain_order=True).with_columns(
        position=pl.int_range(pl.len()).over(COPY), before=pl.col("leader_epoch").shift().over(COPY)
    )
    yield from _decreasing_epochs(logs, batches)
    yield from _epochs_against_checkpoint(logs, batches)
    yield from _epochs_with_two_leaders(logs)


def _decreasing_epochs(logs: ReplicaLogs, batches: pl.DataFrame) -> Iterator[Finding]:
    for row in batches.filter(pl.col("leader_epoch") < pl.col("before")).iter_rows(named=True):
        batch = f"epoch {row['leader_epoch']} at {span(row['base_offset'], row['last_offset'])}"
        sentence = (
            f"{in_snapshot(row['snapshot'])} leader epochs decrease along broker {row['broker']}'s log of {logs.name}:"
            f" {batch} follows epoch {row['before']}"
        )
        yield _batch_finding(logs, sentence, row, batch)


def _epochs_against_checkpoint(logs: ReplicaLogs, batches: pl.DataFrame) -> Iterator[Finding]:
    """Batches that have another epoch than the leader-epoch-checkpoint entry that covers their offset.

    An entry without a batch (at the log end, or over a gap) is no breach, nor is a batch below the first entry. A batch
    with an epoch later than the last entry means that the checkpoint was copied before the segment.
    """
    newest = pl.col("leader_epoch").max().over(COPY)
    entries = logs.epochs.sort("start_offset", "leader_epoch").select(
        *(*COPY, "start_offset"), expected="leader_epoch", newest=newest, entry_line="line", entry_file="file"
    )
    dated = batches.join_asof(  # both are sorted
        entries, left_on="base_offset", right_on="start_offset", by=COPY, check_sortedness=False
    )
    wrong = dated.join(logs.extents.select(*COPY, "start"), on=COPY, how="left", maintain_order="left").filter(
        (pl.col("expected") != pl.col("leader_epoch"))
        & (pl.col("base_offset") >= pl.col("start").fill_null(0))
        & ~((pl.col("leader_epoch") > pl.col("newest")) & (pl.col("expected") == pl.col("newest")))
    )
    for run in (run for copy in wrong.partition_by(COPY) for run in runs(copy, "position", "leader_epoch", "expected")):
        row = {**run.row(0, named=True), "last_offset": run["last_offset"][-1]}
        batch = f"batches of epoch {row['leader_epoch']} at {span(row['base_offset'], row['last_offset'])}"
        entry = f"epoch {row['expected']} at offset {row['start_offset']}"
        begins = f"epoch {row['expected']} begins at offset {row['start_offset']}"
        sentence = (
            f"{in_snapshot(row['snapshot'])} the leader-epoch-checkpoint of broker {row['broker']} for {logs.name}"
            f" begins {entry}, but the broker's log has {batch}"
        )
        proof = Evidence(begins, source=row["entry_file"], line=row["entry_line"])
        yield _batch_finding(logs, sentence, row, batch, proof)


def _epochs_with_two_leaders(logs: ReplicaLogs) -> Iterator[Finding]:
    """Leader epochs that two brokers led, by their own lines."""
    for epoch, leaders in epochs_with_two_leaders(logs.log_events):
        claims = {name: f"broker {name} from offset {row['offset']}" for name, row in leaders.items()}
        names = sorted(leaders)
        offsets = [row["offset"] for row in leaders.values()]
        yield finding(
            logs,
            f"{brokers(names)} led {logs.name} in the same leader epoch {epoch}: {', '.join(claims.values())}",
            (min(offsets), max(offsets)),
            [Evidence.in_file(f"epoch {epoch}: {claims[name]}", row) for name, row in leaders.items()],
            brokers=names,
        )


def _batch_finding(logs: ReplicaLogs, sentence: str, row: Row, batch: str, *evidence: Evidence) -> Finding:
    first, last = int(row["base_offset"]), int(row["last_offset"])
    proof = [Evidence.in_file(batch, row), *evidence]
    about = {"brokers": [row["broker"]], "snapshot": row["snapshot"]}
    return finding(logs, sentence, (first, last), proof, count=last - first + 1, **about)


@Rule(
    "checkpoint-order",
    group="replicas",
    summary="A broker's checkpoints contradict its log or each other",
    source=REPLICATION,
    needs=("batches", "checkpoints"),
    follows="offset",
).judged_by_logs
def checkpoint_order(logs: ReplicaLogs, _sends: pl.DataFrame) -> Iterator[Result]:
    """Checkpoints that are ahead of their log, and high watermarks that go back between snapshots.

    Breach: One of these does not hold: log start <= recovery point, recovery point <= log end, high watermark <= log
    end. Or a high watermark goes back between snapshots; this follows from a loss of the records between.
    Not a breach: A checkpoint that lags behind its log. Files of a running broker, copied at different times, are a
    note.
    Unknown when: The brokers may have been running during the copy. High watermarks of undated snapshots differ. The
    log of a checkpoint is missing or cannot be read.
    """
    # The end of a log is not known if it is damaged there (not only torn off). That of an empty segment is known,
    # though other files may show that it had records.
    is_empty = pl.col("file").is_in(logs.segments["file"].implode())
    broken = logs.damage.filter(
        pl.col("first_offset").is_not_null() & pl.col("last_offset").is_null(),
        ~pl.col("kind").is_in(list(HARMLESS)) & ~is_empty,
    )
    bounds = logs.extents.join(broken, on=["snapshot", "broker"], how="anti", maintain_order="left")
    for row in bounds.iter_rows(named=True):
        for column in ("high_watermark", "recovery_point", "log_start"):
            if row[column] is not None and row[column] > row["end"]:
                yield from _ahead_of_log(logs, row, column)
    yield from _receding_high_watermarks(logs)
    yield from _without_log_end(logs, bounds)


def _without_log_end(logs: ReplicaLogs, bounds: pl.DataFrame) -> Iterator[Unknown]:
    """The checkpoints of logs that are missing at their end."""
    ends = {*bounds.select(COPY).rows()}
    for one in logs.missing:
        points = logs.checkpoints.filter(pl.col("offset") > one.first, is_of_copy(one.snapshot, one.broker))
        if one.last is None and (one.snapshot, one.broker) not in ends and points.height:
            yield Unknown(f"{one.description}, so the checkpoints of {logs.name} cannot be compared with it")


def _ahead_of_log(logs: ReplicaLogs, row: Row, column: str) -> Iterator[Result]:
    snapshot, broker, end, offset = str(row["snapshot"]), str(row["broker"]), int(row["end"]), int(row[column])
    sentence = (
        f"{in_snapshot(snapshot)} broker {broker}'s log of {logs.name} ends at {end}, below its checkpointed"
        f" {column.replace('_', ' ')} {offset}"
    )
    if column != "log_start":
        sentence += f": {span(end, offset - 1)} had been in the log"
    torn = logs.damage.filter(is_of_copy(snapshot, broker), pl.col("last_offset").is_null(), kind="torn-tail")
    if torn.height:
        sentence += "; the log ends within a batch: the disk lost the rest, or the copy was interrupted"
    may_have_grown = _may_have_grown(logs, snapshot, broker, end, offset)
    if may_have_grown:
        sentence += "; the files of a running broker may have been copied at different times"
    if may_have_grown and not logs.at_rest:
        yield Unknown(sentence)
    name = column.replace("_", "-")
    lines = logs.checkpoints.filter(is_of_copy(snapshot, broker), name=name)
    yield finding(
        logs,
        sentence,
        (end, offset - 1),
        [Evidence.in_file(f"{name} of {logs.name} is {row['offset']}", row) for row in lines.rows(named=True)],
        count=offset - end,
        severity="note" if may_have_grown else "violation",
        brokers=[broker],
        snapshot=snapshot,
    )


def _may_have_grown(logs: ReplicaLogs, snapshot: str, broker: str, end: int, value: int) -> bool:
    """Whether the log may have grown after its segment was copied and before its checkpoint was.

    That is so if a later snapshot has all missing records, and this copy is undamaged. At the end of a run with a
    history brokers do not run.
    """
    if snapshot == logs.snapshots[-1]:
        return not logs.at_rest
    here = is_of_copy(snapshot, broker)
    if logs.damage.filter(here).height:
        return False
    later = logs.snapshots[logs.snapshots.index(snapshot) + 1 :]
    gap = (pl.col("base_offset") < value) & (pl.col("last_offset") >= end)
    after = logs.batches.filter(pl.col("snapshot").is_in(later), gap, broker=broker)
    return after.filter(snapshot=after["snapshot"][0])["count"].sum() > 0 if after.height else False


def _receding_high_watermarks(logs: ReplicaLogs) -> Iterator[Result]:
    """High watermarks that go back from one snapshot to the next, by time. An undated one is before the end."""
    marks = logs.checkpoints.filter(name="high-watermark")
    unordered: dict[str, list[str]] = {}  # by undated snapshot: brokers
    for replica in marks.partition_by("broker", maintain_order=True):
        by_snapshot = {row["snapshot"]: row for row in replica.iter_rows(named=True)}
        known = [name for name in logs.snapshots if name in by_snapshot]
        undated = [name for name in known if name != FINAL and name not in logs.times]
        if undated and len({by_snapshot[name]["offset"] for name in known if name != FINAL}) > 1:
            unordered.setdefault(undated[0], []).append(replica["broker"][0])
        pairs = [*itertools.pairwise(name for name in known if name not in undated)]
        pairs += [(name, FINAL) for name in undated if FINAL in by_snapshot]
        for earlier, later in pairs:
            if by_snapshot[later]["offset"] < by_snapshot[earlier]["offset"]:
                yield _receding_finding(logs, by_snapshot[earlier], by_snapshot[later])
    for snapshot, names in unordered.items():
        yield Unknown(
            f"the high watermarks of {brokers(names)} for {logs.name} differ between snapshots, and the time of"
            f" snapshot {snapshot} is not recorded"
        )


def _receding_finding(logs: ReplicaLogs, before: Row, after: Row) -> Finding:
    return finding(
        logs,
        f"broker {after['broker']}'s checkpointed high watermark of {logs.name} went back from {before['offset']}"
        f" ({in_snapshot(before['snapshot'])}) to {after['offset']} ({in_snapshot(after['snapshot'])})",
        (after["offset"], before["offset"] - 1),
        [Evidence.in_file(f"high-watermark is {row['offset']}", row) for row in (before, after)],
        count=before["offset"] - after["offset"],
        brokers=[after["broker"]],
        snapshot=after["snapshot"],
    )


@Rule(
    "log-corruption",
    group="replicas",
    summary="A segment is damaged",
    source=MESSAGE_FORMAT,
    needs=("batches",),
    explained_as="misread",
).judged_by_logs
def log_corruption(logs: ReplicaLogs, _sends: pl.DataFrame) -> Iterator[Result]:
    """Damaged batches, batches out of order, and missing segments. A torn tail is a note: Kafka truncates it.

    Breach: A batch's CRC, magic, length or offset order is broken, at a file and byte.
    Not a breach: A torn tail, as a crash leaves it, is a note: recovery truncates it.
    Unknown when: A part of a segment could not be read, or a segment is missing between two others.
    """
    for row in _each_place_once(logs):
        if row["kind"] in CORRUPT or (row["kind"] in HARMLESS and row["last_offset"] is not None):
            yield _damage(logs, row, "violation")
        elif row["kind"] in HARMLESS:
            yield _damage(logs, row, "note")
        else:
            yield Unknown(f"{row['file']}: {row['reason']}")
    yield from _batches_out_of_order(logs)


def _each_place_once(logs: ReplicaLogs) -> list[Row]:
    """Damaged places as their last copy has them, with the rows of all snapshots as `copies`.

    The same damage in a later snapshot is not another one.
    """
    places: dict[Any, list[Row]] = {}
    order = {name: number for number, name in enumerate(logs.snapshots)}
    for row in sorted(logs.damage.rows(named=True), key=lambda row: order.get(row["snapshot"], len(order))):
        place = (row["broker"], PurePosixPath(row["file"]).name, row["byte"], row["line"])
        places.setdefault((*place, row["kind"], row["reason"]), []).append(row)
    return [{**copies[-1], "copies": copies} for copies in places.values()]


def _damage(logs: ReplicaLogs, row: Row, severity: str) -> Finding:
    first, last = row["first_offset"], row["last_offset"]
    return finding(
        logs,
        f"{row['file']} at byte {row['byte']}: {row['reason']}",
        (first, last),
        [Evidence.in_file(one["reason"], one) for one in row["copies"]],
        count=last - first + 1 if first is not None and last is not None else 1,
        severity=severity,
        brokers=[row["broker"]],
        snapshot=row["snapshot"],
    )


def _batches_out_of_order(logs: ReplicaLogs) -> Iterator[Result]:
    before = pl.col("last_offset").shift().over(COPY, order_by=("file", "byte"))
    follows = logs.batches.filter("crc_ok").with_columns(before=before)
    odd = follows.filter(pl.col("base_offset") <= pl.col("before")).sort("snapshot", "broker", "file", "byte")
    for row in odd.iter_rows(named=True):
        batch = f"a batch of {span(row['base_offset'], row['last_offset'])} comes after offset {row['before']}"
        yield _batch_finding(logs, f"{row['file']} at byte {row['byte']}: {batch}", row, batch)
    for one in logs.missing:
        if one.is_hole and one.last is not None:
            missing = f"{span(one.first, one.last)} of broker {one.broker} {in_snapshot(one.snapshot)}"
            yield Unknown(f"{missing} are in no segment: {one.description}")
