"""`logjudge diff RUN [TOPIC-PARTITION]`: the replicas of a partition side by side, around each divergence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from ..histories.errors import UsageError
from .document import Document
from .looking import moment, open_to_look, partition_of, seconds
from .main import EXIT_BREACH, EXIT_UNKNOWN, EXIT_VALID
from .paths import LocalPath


@click.command()
@click.argument("run", metavar="RUN", type=LocalPath())
@click.argument("partition", metavar="[TOPIC-PARTITION]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown.")
def command(run: Path, partition: str | None, as_json: bool, as_markdown: bool) -> int:
    """Show the replicas of RUN's partitions side by side, offset by offset around each divergence, per snapshot.

    A cell is e, the leader epoch, the record's time (UTC), its key, if it has one, and its value. Exit code: 0 where
    no replicas differ, 1 where some do, 3 (unknown) where no snapshot holds two logs of a partition to compare.
    """
    from ..analysis.looking.differences import differences

    _refuse_second_run(partition)
    asked = partition_of(partition)
    opened = open_to_look(run, as_json)
    names = [opened.partition(asked).name] if asked else opened.names()
    told: list[dict[str, Any]] = []
    for name in names:
        kept = opened.partition(name).kept
        told.append({"partition": name, "snapshots": differences(kept) if kept is not None else []})
    if as_json:
        click.echo(json.dumps(told, indent=2))
        return _exit_code(told)
    document = Document()
    for part in told:
        _partition(document, part, opened.has_history)
    click.echo(document.markdown() if as_markdown else document.terminal())
    return _exit_code(told)


def _exit_code(told: list[dict[str, Any]]) -> int:
    snapshots = [snapshot for part in told for snapshot in part["snapshots"]]
    if any(snapshot["divergences"] for snapshot in snapshots):
        return EXIT_BREACH
    return EXIT_VALID if any(len(snapshot["brokers"]) > 1 for snapshot in snapshots) else EXIT_UNKNOWN


def _refuse_second_run(given: str | None) -> None:
    if given and (Path(given).is_file() or (Path(given) / "run.json").is_file()):
        raise UsageError(
            f"found a second run, {given}, expected TOPIC-PARTITION: diff compares the replicas of one run;"
            " of two runs compare the verdict.json or report.md that `logjudge check` writes of each"
        )


def _partition(document: Document, part: dict[str, Any], has_history: bool) -> None:
    if not part["snapshots"]:
        document.heading(part["partition"])
        document.say("The run holds no broker's log of it.")
    for snapshot in part["snapshots"]:
        when = seconds(snapshot["time"], has_history)
        named = f"snapshot {snapshot['snapshot']}" if snapshot["snapshot"] else "at the end"
        document.heading(f"{part['partition']}, {named}" + (f" ({when} s)" if when and has_history else ""))
        for broker in snapshot["brokers"]:
            mark = broker["high_watermark"]
            marked = f", checkpointed high watermark {mark}" if mark is not None else ""
            document.say(f"broker {broker['broker']}: offsets {broker['start']} to {broker['end'] - 1}{marked}")
        if snapshot["silent"]:
            document.say(
                f"no records of broker {', '.join(snapshot['silent'])}: an empty log, or one that was not kept"
            )
        _verdict(document, snapshot)
        for divergence in snapshot["divergences"]:
            _divergence(document, divergence, [broker["broker"] for broker in snapshot["brokers"]])
        if snapshot["left_out"]:
            document.say(f"… and {snapshot['left_out']:,} more divergences")


def _verdict(document: Document, snapshot: dict[str, Any]) -> None:
    if snapshot["divergences"]:
        count = sum(divergence["count"] for divergence in snapshot["divergences"])
        spans = ", ".join(f"{one['first']} to {one['last']}" for one in snapshot["divergences"])
        document.say(f"DIFFERENT at {count:,} offsets: {spans}")
    elif len(snapshot["brokers"]) < 2:
        document.say("one log alone: there is nothing to compare it with")
    elif snapshot["behind"]:
        document.say("the same as far as they go; only behind, which is no divergence:", *snapshot["behind"])
    else:
        document.say("the same")


def _divergence(document: Document, divergence: dict[str, Any], brokers: list[str]) -> None:
    rows = []
    for row in divergence["rows"]:
        if "skipped" in row:
            rows.append(["", "⋮", *([f"{row['skipped']:,} more differ"] + [""] * (len(brokers) - 1))])
            continue
        rows.append(["≠" if row["differs"] else "", str(row["offset"]), *(_cell(row["held"][b]) for b in brokers)])
    document.table(["", "offset", *(f"broker {broker}" for broker in brokers)], rows)


def _cell(held: dict[str, Any] | None) -> str:
    if held is None:
        return "·"
    parts = [] if held["epoch"] is None else [f"e{held['epoch']}"]
    parts.append(moment(held["timestamp"]))
    if held["control"]:
        parts.append(f"<{held['control']} marker>")
    else:
        value = "tombstone" if held["value"] is None else held["value"]
        parts.append(value if held["key"] is None else f"{held['key']}={value}")
    return " ".join(part for part in parts if part)
