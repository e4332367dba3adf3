"""`logjudge explain RUN|DIR [TOPIC-PARTITION[@OFFSET]]`: why it happened, as a story with sources."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..analysis.wording import either
from ..histories.errors import UsageError
from .document import Document
from .looking import LocalPath, Where, dated, moment, open_to_look, tell_the_zero, where_of
from .saved import Saved, is_saved, load

if TYPE_CHECKING:
    from ..analysis.looking.inspecting import Inspected
    from ..plots.whys import Why

Record = dict[str, Any]


@click.command()
@click.argument("source", metavar="RUN|DIR", type=LocalPath())
@click.argument("place", metavar="[TOPIC-PARTITION[@OFFSET]]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the causes, moments and facts as JSON.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown.")
def command(source: Path, place: str | None, as_json: bool, as_markdown: bool) -> None:
    """Tell the story of a run, of a partition, or of one offset, each fact with where it is written.

    A RUN is judged by the local engine. Of a DIR that `logjudge check` wrote, the causes are told that stand in it.
    """
    asked = where_of(place)
    if as_json:
        click.echo(json.dumps(_told(source, asked), indent=2))
        return
    document = Document()
    if is_saved(source):
        _of_saved(document, load(source), asked)
    else:
        opened = open_to_look(source, as_markdown, asked and asked.offset)
        _of_run(document, opened, asked)
        if opened.has_history:
            tell_the_zero(document, opened.started_at)
    click.echo(document.markdown() if as_markdown else document.terminal())


def _of_saved(document: Document, saved: Saved, asked: Where | None) -> None:
    verdict = saved.verdict
    told = _saved_causes(saved, asked)
    if not told:
        name = verdict["input"]["name"] if asked is None else asked.partition
        document.say(f"{name}: no cause stands in the results; explain the run itself to see the logs")
    _whys(document, told, verdict["input"].get("started_at"))
    tell_the_zero(document, verdict["input"].get("started_at"))
    if asked is not None and asked.offset is not None:
        document.say("What each replica holds there is told when the run itself is explained.")


def _saved_causes(saved: Saved, asked: Where | None) -> list[Record]:
    found = _found_at(saved, asked) if asked else set()
    return [c for c in saved.verdict.get("causes", []) if asked is None or _concerns(c, asked, found)]


def _found_at(saved: Saved, asked: Where) -> set[str]:
    """The ids of the findings that cover an offset."""
    import polars as pl

    if asked.offset is None:
        return set()
    here = pl.concat_str("topic", "partition", separator="-") == asked.partition
    within = (pl.col("first_offset") <= asked.offset) & (pl.coalesce("last_offset", "first_offset") >= asked.offset)
    return set(saved.findings.filter(here & within)["id"])


def _concerns(cause: Record, asked: Where, found: set[str]) -> bool:
    from ..analysis.looking.offset_story import covers

    if asked.offset is not None:
        return covers(cause, asked.partition, asked.offset, found)
    lost = cause.get("lost")
    if lost is not None:
        return f"{lost['topic']}-{lost['partition']}" == asked.partition
    # ids are rule/topic-partition/number
    return asked.partition in [finding.split("/", 1)[-1].rsplit("/", 1)[0] for finding in cause["findings"]]


def _told(source: Path, asked: Where | None) -> Record:
    """`causes` as verdict.json has them, of a run's partition also its `moments`, of its offset all that is known."""
    if is_saved(source):
        return {"causes": _saved_causes(load(source), asked)}
    opened = open_to_look(source, True, asked and asked.offset)
    if asked is not None and asked.offset is not None:
        return _story(opened, asked.partition, asked.offset)
    names = [opened.partition(asked.partition).name] if asked else opened.names()
    causes = [cause for name in names for cause in opened.judged(opened.partition(name))[1]]
    moments = {"moments": _moments(opened, names[0])} if asked else {}
    return {"causes": causes, **opened.located(moments)}


def _of_run(document: Document, opened: Inspected, asked: Where | None) -> None:
    if asked is not None and asked.offset is not None:
        _offset(document, opened, asked.partition, asked.offset)
        return
    names = [opened.partition(asked.partition).name] if asked else opened.names()
    told = 0
    for name in names:
        p = opened.partition(name)
        _, causes = opened.judged(p)
        told += len(causes)
        if asked:
            _partition(document, opened, name)
        _whys(document, causes, opened.started_at)
        if asked and not causes:
            document.say("No loss or other finding was made here that has a cause to tell.")
    if not asked and not told:
        document.say(f"{opened.run.settings.name}: nothing was found that has a cause to tell")
    if asked:
        from .timeline import tell

        document.heading("What happened")
        tell(document, opened.located({"moments": _moments(opened, names[0])})["moments"], opened)


def _moments(opened: Inspected, name: str) -> list[Record]:
    from ..analysis.looking.chronicle import chronicle

    return chronicle(opened.partition(name))


def _partition(document: Document, opened: Inspected, name: str) -> None:
    """Who wrote and read the partition, and who keeps it, in a few numbers."""
    from ..analysis.looking.differences import differences

    p = opened.partition(name)
    document.heading(name)
    if len(p.sends) or len(p.reads):
        acknowledged = int(p.sends["acknowledged"].sum())
        document.say(f"{len(p.sends):,} sends, {acknowledged:,} of them acknowledged; {len(p.reads):,} records read")
    if p.kept is None:
        document.say("No broker's log of it was kept.")
        return
    for snapshot in differences(p.kept):
        named = f"in snapshot {snapshot['snapshot']}" if snapshot["snapshot"] else "at the end"
        ends = ", ".join(f"broker {one['broker']} {one['start']} to {one['end'] - 1}" for one in snapshot["brokers"])
        spans = ", ".join(f"{one['first']} to {one['last']}" for one in snapshot["divergences"])
        document.say(f"{named}: {ends}" + (f"; they differ at {spans}" if spans else ""))


def _offset(document: Document, opened: Inspected, name: str, offset: int) -> None:
    story = _story(opened, name, offset)
    document.heading(f"{name}@{offset}")
    _facts(document, "Sent", story["sent"], story["sent_left_out"], "No send is known to have written here.")
    _facts(document, "Read", story["read"], story["read_left_out"], "Nobody is known to have read it.")
    _facts(document, "Found", story["found"], story["found_left_out"], "No rule found anything here.")
    if story["held"]:
        document.heading("Held by")
        rows = [[row["where"], f"broker {row['broker']}", *_held(row)] for row in story["held"]]
        document.table(["", "", "epoch", "time (UTC)", "value"], rows)
    if story["led"]:
        document.heading("Led by")
        document.say(*(led["says"] for led in story["led"]))
    if story["absence"]:
        document.heading("Why nothing stands there now")
        absence = story["absence"]
        document.say(f"{absence['cause']}, which is legal ({absence['citation']})")
        _chain(document, absence["chain"], opened.started_at)
    _whys(document, story["causes"], opened.started_at)


def _story(opened: Inspected, name: str, offset: int) -> Record:
    from ..analysis.looking.offset_story import offset_story

    p = opened.partition(name)
    story = offset_story(p, offset, *opened.judged(p))
    if story is None:
        raise UsageError(f"found {name}@{offset}, of which neither the history nor a log knows anything")
    return opened.located(story)


def _held(row: Record) -> list[str]:
    held = row["holds"]
    if held is None:
        return ["", "", row["why_not"]]
    value = (
        f"<{held['control']} marker>" if held["control"] else "tombstone" if held["value"] is None else held["value"]
    )
    value = value if held["key"] is None else f"{held['key']}={value}"
    return ["" if held["epoch"] is None else str(held["epoch"]), moment(held["timestamp"]), value]


def _facts(document: Document, title: str, facts: list[Record], left_out: int, none: str) -> None:
    from ..plots.whys import source_of

    document.heading(title)
    if not facts:
        document.say(none)
    items = []
    for fact in facts:
        when = "" if fact["time"] is None or title == "Sent" else f" at {fact['time'] / 1e9:.3f} s"
        items.append((fact["says"] + when, source_of(fact)))
    document.listed(items)
    if left_out:
        document.say(f"… and {left_out:,} more")


def _whys(document: Document, causes: list[Record], started_at: str | None) -> None:
    from ..plots.whys import whys_of

    for why in whys_of(causes, started_at):
        document.heading(f"Why: {why.cause}" + (f", {why.title}" if why.title else ""))
        _why(document, why)


def _why(document: Document, why: Why) -> None:
    document.numbered([(dated(step.seconds, step.clock, step.says), step.source) for step in why.steps])
    if why.prevented_by:
        document.say(f"Would have been prevented by: {either(why.prevented_by)}")
    if why.citation:
        document.say(f"See {why.citation}")
    if why.readings:
        document.say("The evidence conflicts, so no cause is named; it can be read in these ways:")
        for reading in why.readings:
            document.say(f"As {reading.cause}:")
            _why(document, reading)
    elif not why.known:
        document.say("The cause is not known. To name it, this would be needed:")
        document.listed([(missing, "") for missing in why.missing])


def _chain(document: Document, facts: list[Record], started_at: str) -> None:
    from ..plots.whys import step_of

    steps = [step_of(fact, started_at) for fact in facts]
    document.numbered([(dated(step.seconds, step.clock, step.says), step.source) for step in steps])
