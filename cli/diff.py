"""`logjudge diff RUN [TOPIC-PARTITION]`: the replicas of a partition side by side, around each divergence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..analysis.inspect.differences import differences
from ..analysis.partitions.partition import Partition
from ..analysis.replicas.replica_logs import in_snapshot
from ..analysis.wording import plural, span
from ..histories.errors import UsageError
from .document import Document
from .inspection import (
    NO_LOG,
    add_generation,
    add_shared_sentence,
    describe_extent,
    differing_spans,
    open_for_inspection,
    parse_partition,
    record_text,
    record_time,
    seconds_text,
)
from .main import EXIT_BREACH, EXIT_UNKNOWN, EXIT_VALID
from .options import Form, LocalPath, form_options, from_option, quiet_option, show

if TYPE_CHECKING:
    from ..analysis.inspect.open_partitions import Inspected

MAX_DAMAGED = 12  # damaged batches shown of a snapshot


@click.command()
@click.argument("run", metavar="RUN", type=LocalPath(takes_stdin=True))
@click.argument("partition", metavar="[TOPIC-PARTITION]", required=False)
@from_option
@form_options("Print the comparison as JSON.")
@quiet_option
def command(run: Path, partition: str | None, reader: str | None, form: Form) -> int:
    """Show the replicas of RUN's partitions side by side, offset by offset around each divergence, per snapshot.

    A cell has the leader epoch (as e5), the record's time (UTC), key and value; a dot: no record. Exit code: 0 the
    replicas agree, 1 some differ or a batch is damaged, 3 unknown: no snapshot has two logs of a partition, or a file
    cannot be read.
    """
    _refuse_second_run(partition)
    opened = open_for_inspection(run, reader)
    compared: list[dict[str, Any]] = []
    for name in opened.labels(parse_partition(partition)):
        logs = opened.partition(name).replica_logs
        compared.append({"partition": name, "snapshots": differences(logs) if logs is not None else []})
    if form == "json":
        click.echo(json.dumps(compared, indent=2))
        return _exit_code(compared)
    document = Document()
    for part in compared:
        for snapshot in part["snapshots"]:
            _add_snapshot(document, opened.partition(part["partition"]), snapshot, opened)
    add_shared_sentence(document, [part["partition"] for part in compared if not part["snapshots"]], NO_LOG)
    if set_aside := opened.set_aside():
        document.heading("Not compared")
        document.sentences(*set_aside)
    show(document, form)
    return _exit_code(compared)


def _exit_code(compared: list[dict[str, Any]]) -> int:
    snapshots = [snapshot for part in compared for snapshot in part["snapshots"]]
    damage = [row for snapshot in snapshots for row in snapshot["damage"]]
    if any(snapshot["divergences"] for snapshot in snapshots) or any(row["is_corrupt"] for row in damage):
        return EXIT_BREACH
    if damage:
        return EXIT_UNKNOWN
    return EXIT_VALID if any(len(snapshot["brokers"]) > 1 for snapshot in snapshots) else EXIT_UNKNOWN


def _refuse_second_run(given: str | None) -> None:
    if given and (Path(given).is_file() or (Path(given) / "run.json").is_file()):
        raise UsageError(
            f"found a second run, {given}, expected TOPIC-PARTITION: diff compares the replicas of one run;"
            " to compare two runs, judge each with `logjudge check` and compare verdict.json or report.md"
        )


def _add_snapshot(document: Document, p: Partition, snapshot: dict[str, Any], opened: Inspected) -> None:
    when = seconds_text(snapshot["time"]) if opened.has_history else ""
    document.heading(f"{p.label}, {in_snapshot(snapshot['snapshot'])}" + (f" ({when} s)" if when else ""))
    add_generation(document, p)
    for broker in snapshot["brokers"]:
        mark = broker["high_watermark"]
        document.sentences(
            describe_extent(broker) + (f", checkpointed high watermark {mark}" if mark is not None else "")
        )
    if snapshot["silent"]:
        document.sentences(
            f"no records from broker {', '.join(snapshot['silent'])}: its log is empty or was not collected"
        )
    _add_result(document, snapshot)
    for row in snapshot["damage"][:MAX_DAMAGED]:
        document.sentences(_damage_text(row))
    if len(snapshot["damage"]) > MAX_DAMAGED:
        document.sentences(f"… and {len(snapshot['damage']) - MAX_DAMAGED:,} more damaged batches")
    for divergence in snapshot["divergences"]:
        _add_divergence(document, divergence, [broker["broker"] for broker in snapshot["brokers"]], opened.started_at)
    if snapshot["left_out"]:
        document.sentences(f"… and {snapshot['left_out']:,} more divergences")


def _add_result(document: Document, snapshot: dict[str, Any]) -> None:
    if snapshot["divergences"]:
        count = sum(divergence["count"] for divergence in snapshot["divergences"])
        document.sentences(f"DIFFERENT at {plural(count, 'offset')}: {differing_spans(snapshot)}")
    elif len(snapshot["brokers"]) < 2:
        document.sentences("only one replica was collected, so there is nothing to compare")
    elif snapshot["damage"]:
        document.sentences(
            "NOT COMPARED where a log is damaged or could not be read; equal elsewhere", *snapshot["behind"]
        )
    elif snapshot["behind"]:
        document.sentences(
            "equal up to the shorter log end; a replica that is behind is no divergence:", *snapshot["behind"]
        )
    else:
        document.sentences("equal")


def _damage_text(row: dict[str, Any]) -> str:
    first, last = row["first"], row["last"]
    offsets = "" if first is None else f" at {span(first, last)}" if last is not None else f" from offset {first}"
    what = "DAMAGED" if row["is_corrupt"] else "unreadable"
    byte = "" if row["byte"] is None else f" byte {row['byte']}"
    return f"broker {row['broker']} {what}{offsets}: {row['file']}{byte}, {row['reason']}"


def _add_divergence(document: Document, divergence: dict[str, Any], brokers: list[str], started_at: str) -> None:
    rows = []
    for row in divergence["rows"]:
        if "skipped" in row:
            rows.append(["", "⋮", *([f"{row['skipped']:,} more differ"] + [""] * (len(brokers) - 1))])
            continue
        cells = (_cell(row["held"][broker], started_at) for broker in brokers)
        rows.append(["≠" if row["differs"] else "", str(row["offset"]), *cells])
    document.table(["", "offset", *(f"broker {broker}" for broker in brokers)], rows)


def _cell(record: dict[str, Any] | None, started_at: str) -> str:
    if record is None:
        return "·"
    epoch = "" if record["epoch"] is None else f"e{record['epoch']}"
    return " ".join(part for part in (epoch, record_time(record["timestamp"], started_at), record_text(record)) if part)
