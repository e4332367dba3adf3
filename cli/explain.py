"""`logjudge explain RUN|DIR [TOPIC-PARTITION[@OFFSET]]`: why it happened, as a story with sources."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..analysis.wording import either, plural
from ..histories.errors import UsageError
from ..plots.report.saved import Saved, is_saved, load
from .document import Document
from .forms import Form, form_options, from_option, show
from .held import NO_LOG, content_of, extent, moment, spans_of
from .looking import NO_FILES, Where, dated, open_to_look, tell_the_zero, where_of
from .paths import LocalPath
from .saved_place import causes_at, explained_beside, findings_at, known_partitions, refuse_unknown

if TYPE_CHECKING:
    from ..analysis.causes.incidents import Incident
    from ..analysis.inspect.open_partitions import Inspected
    from ..analysis.partitions.partition import Partition
    from ..histories.tables import Finding
    from ..plots.report.root_causes import RootCause

Record = dict[str, Any]
MAX_FOUND = 12  # findings of a run or a partition
MAX_LEFT = 100  # breaches without a told cause, in JSON


@click.command()
@click.argument("source", metavar="RUN|DIR", type=LocalPath(takes_stdin=True))
@click.argument("place", metavar="[TOPIC-PARTITION[@OFFSET]]", required=False)
@from_option
@form_options("Print the causes, the breaches without one, moments and facts as JSON.")
def command(source: Path, place: str | None, reader: str | None, form: Form) -> None:
    """Tell the story of a run, of a partition, or of one offset, each fact with where it is written.

    A RUN is judged by the local engine. Of a DIR that `logjudge check` wrote, the causes are told that stand in it.
    Breaches without a cause are told too, with why none is known.
    """
    asked = where_of(place)
    if form == "json":
        click.echo(json.dumps(_told(source, asked, reader), indent=2))
        return
    document = Document()
    if is_saved(source):
        _of_saved(document, _saved(source, asked), asked)
    else:
        opened = open_to_look(source, form, reader, asked and asked.offset)
        _of_run(document, opened, asked)
        if opened.has_history:
            tell_the_zero(document, opened.started_at)
    show(document, form)


def _saved(source: Path, asked: Where | None) -> Saved:
    saved = load(source)
    refuse_unknown(saved, asked)
    return saved


def _with_files(saved: Saved) -> Collection[str]:
    """The partitions of which brokers' files may tell."""
    return known_partitions(saved) if saved.verdict["counts"].get("evidence files") else ()


def _of_saved(document: Document, saved: Saved, asked: Where | None) -> None:
    from ..analysis.inspect.findings_without_cause import unexplained

    verdict = saved.verdict
    with_files = _with_files(saved)
    causes, findings = causes_at(saved, asked), findings_at(saved, asked)
    if not causes:
        look = "; explain the run itself to see the logs" if with_files else ""
        document.say(
            f"{asked or verdict['input']['name']}: no cause stands in the results{explained_beside(saved, asked)}{look}"
        )
    _incidents(document, findings, causes, verdict["input"].get("started_at"))
    _unexplained(document, unexplained(findings, causes), with_files)
    tell_the_zero(document, verdict["input"].get("started_at"))
    if with_files and asked is not None and asked.offset is not None:
        document.say("What each replica holds there is told when the run itself is explained.")


def _told(source: Path, asked: Where | None, reader: str | None) -> Record:
    """What docs/verdict.md says of --json."""
    if is_saved(source):
        saved = _saved(source, asked)
        causes = causes_at(saved, asked)
        return {"causes": causes, **_left(findings_at(saved, asked), causes, _with_files(saved))}
    opened = open_to_look(source, "json", reader, asked and asked.offset)
    names = opened.labels(asked and asked.partition)
    judged = [opened.judged(opened.partition(name)) for name in names]
    findings = [finding for found, _ in judged for finding in found]
    causes = [cause for _, told in judged for cause in told]
    if asked is not None and asked.offset is not None:
        told = _stories_of(opened, names, asked, judged)
        findings = _here(findings, asked)
    else:
        moments = [moment for name in names for moment in _moments(opened, name)] if asked else []
        told = {"causes": causes, **({"moments": moments} if asked else {})}
    return opened.located({**told, **_left(findings, causes, opened.with_files())})


def _left(findings: list[Finding], causes: list[Record], with_files: Collection[str]) -> Record:
    """The breaches without a told cause, the worst first, and why none is."""
    from ..analysis.finding_order import worst_first
    from ..analysis.inspect.findings_without_cause import unexplained, why_no_cause
    from ..analysis.inspect.offset_story import found_record

    left = unexplained(findings, causes)
    return {
        "unexplained": [{"id": one.id, **found_record(one)} for one in worst_first(left)[:MAX_LEFT]],
        "unexplained_left_out": max(len(left) - MAX_LEFT, 0),
        "why_no_cause": why_no_cause(left, with_files),
    }


def _of_run(document: Document, opened: Inspected, asked: Where | None) -> None:
    from ..analysis.inspect.findings_without_cause import unexplained

    if asked is not None:
        names = opened.labels(asked.partition)
        if asked.offset is not None:
            _offset(document, opened, names, asked)
            return
        for name in names:
            _partition(document, opened, name)
        return
    judged = [opened.judged(opened.partition(name)) for name in opened.names()]
    findings = [finding for found, _ in judged for finding in found]
    causes = [cause for _, explained in judged for cause in explained]
    incidents = _incidents(document, findings, causes, opened.started_at)
    breaches = unexplained(findings, causes)
    _unexplained(document, breaches, opened.with_files(), opened.located)
    if not incidents and not breaches:
        hint = "`logjudge check` says what could be judged"
        document.say(f"{opened.run.settings.name}: no breach was found, so there is no cause to tell; {hint}")


def _moments(opened: Inspected, name: str) -> list[Record]:
    from ..analysis.inspect.events import events_of_partition

    return events_of_partition(opened.partition(name))


def _partition(document: Document, opened: Inspected, name: str) -> None:
    from ..analysis.finding_order import worst_first
    from ..analysis.inspect.findings_without_cause import unexplained
    from .timeline import tell

    p = opened.partition(name)
    findings, causes = opened.judged(p)
    _numbers(document, p)
    document.heading("Found")
    _findings(document, worst_first(findings), opened.located)
    if not findings:
        document.say("No rule found anything here; `logjudge check` says what could be judged.")
    _why_not(document, unexplained(findings, causes), opened.with_files())
    _incidents(document, findings, causes, opened.started_at)
    document.heading("What happened")
    moments = _moments(opened, name)
    tell(document, opened.located({"moments": moments})["moments"], opened)
    if not moments:
        document.say(NO_FILES)


def _numbers(document: Document, p: Partition) -> None:
    """Who wrote and read the partition, and who keeps it, in a few numbers."""
    from ..analysis.inspect.differences import differences
    from ..analysis.replicas.replica_logs import where
    from ..analysis.wording import brokers

    document.heading(p.label)
    if p.generation is not None:
        document.say(p.generation.describe(p.topic))
    if len(p.sends) or len(p.reads):
        acknowledged = int(p.sends["acknowledged"].sum())
        document.say(f"{len(p.sends):,} sends, {acknowledged:,} of them acknowledged; {len(p.reads):,} records read")
    snapshots = differences(p.replica_logs) if p.replica_logs is not None else []
    if not snapshots:
        document.say(NO_LOG)
    for snapshot in snapshots:
        ends = ", ".join(extent(broker) for broker in snapshot["brokers"])
        differ = f"; they differ at {spans_of(snapshot)}" if snapshot["divergences"] else ""
        damaged = sorted({row["broker"] for row in snapshot["damage"] if row["is_corrupt"]})
        damage = f"; damaged batches on {brokers(damaged)}" if damaged else ""
        document.say(f"{where(snapshot['snapshot'])}: {ends}{differ}{damage}")


def _offset(document: Document, opened: Inspected, names: list[str], asked: Where) -> None:
    judged = [opened.judged(opened.partition(name)) for name in names]
    first = _stories_of(opened, names, asked, judged)
    stories = {story["partition"]: story for story in (first, *first.get("other_generations", ()))}
    for name, (findings, _) in zip(names, judged, strict=True):
        if name in stories:
            document.heading(str(Where(name, asked.offset)))
            _tell_offset(document, opened, opened.partition(name), stories[name], _here(findings, asked))


def _tell_offset(document: Document, opened: Inspected, p: Partition, story: Record, here: list[Finding]) -> None:
    from ..analysis.inspect.findings_without_cause import unexplained

    if p.generation is not None:
        document.say(p.generation.describe(p.topic))
    _facts(document, "Sent", story["sent"], story["sent_left_out"], "No send is known to have written here.")
    _facts(document, "Read", story["read"], story["read_left_out"], "Nobody is known to have read it.")
    _facts(document, "Found", story["found"], story["found_left_out"], "No rule found anything here.")
    _why_not(document, unexplained(here, story["causes"]), opened.with_files())
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
    _incidents(document, here, story["causes"], opened.started_at)


def _here(findings: list[Finding], asked: Where) -> list[Finding]:
    from ..analysis.inspect.offset_story import within

    return [one for one in findings if asked.offset is not None and within(asked.offset, one)]


def _stories_of(
    opened: Inspected, names: list[str], asked: Where, judged: list[tuple[list[Finding], list[Record]]]
) -> Record:
    """The story of an offset; of several generations of its topic the first, with those of the others beside it."""
    from ..analysis.inspect.offset_story import offset_story

    assert asked.offset is not None
    told = [offset_story(opened.partition(name), asked.offset, *one) for name, one in zip(names, judged, strict=True)]
    stories = [story for story in told if story is not None]
    if not stories:
        raise UsageError(f"found {asked}, of which neither the history nor a log knows anything")
    return opened.located({**stories[0], **({"other_generations": stories[1:]} if len(names) > 1 else {})})


def _held(row: Record) -> list[str]:
    held = row["holds"]
    if held is None:
        return ["", "", row["why_not"]]
    return ["" if held["epoch"] is None else str(held["epoch"]), moment(held["timestamp"]), content_of(held)]


def _facts(document: Document, title: str, facts: list[Record], left_out: int, none: str) -> None:
    from ..plots.report.root_causes import source_of

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


def _unexplained(
    document: Document,
    breaches: list[Finding],
    with_files: Collection[str],
    located: Callable[[Record], Record] = lambda record: record,
) -> None:
    from ..analysis.finding_order import worst_first

    if breaches:
        document.heading("Found, and not explained")
        _findings(document, worst_first(breaches), located)
        _why_not(document, breaches, with_files)


def _findings(document: Document, findings: list[Finding], located: Callable[[Record], Record]) -> None:
    from ..analysis.inspect.offset_story import found_record
    from ..plots.report.root_causes import source_of

    told = located({"found": [found_record(one) for one in findings[:MAX_FOUND]]})["found"]
    document.listed([(one["says"], source_of(one)) for one in told])
    if len(findings) > MAX_FOUND:
        document.say(f"… and {len(findings) - MAX_FOUND:,} more; `logjudge check` writes all to findings.parquet")


def _why_not(document: Document, breaches: list[Finding], with_files: Collection[str]) -> None:
    from ..analysis.inspect.findings_without_cause import why_no_cause

    document.say(*why_no_cause(breaches, with_files))


def _incidents(
    document: Document, findings: Iterable[Finding], causes: list[Record], started_at: str | None
) -> list[Incident]:
    """Each incident whose cause was looked for, with its sequence of events."""
    from ..analysis.causes.incidents import incidents_of
    from ..plots.report.root_causes import root_cause_of

    incidents = [one for one in incidents_of(map(vars, findings), causes) if one.explained]
    for incident in incidents:
        document.heading(f"Why: {incident.cause}, {incident.headline}")
        _root_cause(document, root_cause_of(incident, started_at))
    return incidents


def _root_cause(document: Document, cause: RootCause) -> None:
    document.numbered([(dated(step.seconds, step.clock, step.says), step.source) for step in cause.steps])
    if cause.steps_left_out:
        document.say(f"… and {plural(cause.steps_left_out, 'more step')}; --json prints all")
    if cause.prevented_by:
        document.say(f"Would have been prevented by: {either(cause.prevented_by)}")
    if cause.citation:
        document.say(f"See {cause.citation}")
    if cause.readings:
        document.say("The evidence conflicts, so no cause is named; it can be read in these ways:")
        for reading in cause.readings:
            document.say(f"As {reading.cause}:")
            _root_cause(document, reading)
    elif not cause.known:
        document.say("The cause is not known. To name it, this would be needed:")
        document.listed([(missing, "") for missing in cause.missing])


def _chain(document: Document, facts: list[Record], started_at: str) -> None:
    from ..plots.report.root_causes import step_of

    steps = [step_of(fact, started_at) for fact in facts]
    document.numbered([(dated(step.seconds, step.clock, step.says), step.source) for step in steps])
