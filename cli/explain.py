"""`logjudge explain RUN|DIR [TOPIC-PARTITION[@OFFSET]|VALUE|KEY|FINDING]`: the causes of breaches, with sources."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import click

from ..analysis.finding_order import worst_first
from ..analysis.incidents.incident import Explained, Incident
from ..analysis.incidents.joining import incidents_of
from ..analysis.inspect.differences import differences
from ..analysis.inspect.events import events_of_partition
from ..analysis.inspect.findings_without_cause import unexplained_findings, why_no_cause
from ..analysis.inspect.lookup import Match, find_records
from ..analysis.inspect.offset_history import OffsetHistory, fact_of_finding, offset_history
from ..analysis.inspect.open_partitions import Inspected
from ..analysis.partitions.partition import Partition
from ..analysis.replicas.replica_logs import in_snapshot
from ..analysis.rules import RULES
from ..analysis.timelines.facts import Fact
from ..analysis.wording import brokers, either, plural
from ..histories.errors import UsageError
from ..histories.tables import Finding
from ..plots.report.incidents import RootCause, Step, root_cause_of, step_of
from ..plots.report.saved import Saved, is_saved, load
from .document import Document
from .inspection import (
    NO_FILES,
    NO_LOG,
    Place,
    add_generation,
    add_time_origin,
    describe_extent,
    differing_spans,
    finding_partition,
    open_for_inspection,
    parse_place,
    place_of_finding,
    record_text,
    record_time,
    with_time,
)
from .options import Form, LocalPath, form_options, from_option, show
from .saved_causes import causes_at, check_partition_exists, explained_nearby, findings_at, known_partitions
from .timeline import add_events
from .unknown_places import no_such_place

Record = dict[str, Any]

_Judged = tuple[list[Finding], list[Explained]]  # findings and causes of a partition
MAX_MATCHES = 20  # records with a value or a key
MAX_FINDINGS = 12  # of a run or a partition, on the terminal
MAX_UNEXPLAINED = 100  # findings without a cause, in JSON


@click.command()
@click.argument("source", metavar="RUN|DIR", type=LocalPath(takes_stdin=True))
@click.argument("place", metavar="[TOPIC-PARTITION[@OFFSET]|VALUE|KEY|FINDING]", required=False)
@from_option
@form_options("Print causes, findings without a cause, events and facts as JSON.")
def command(source: Path, place: str | None, reader: str | None, form: Form) -> None:
    """Explain a run, a partition, or one record: the causes of its breaches, each fact with its source.

    A record is named by its offset, by its value or by its key; if several have it, they are listed. A finding is named
    by its id, such as lost-write/orders-0/0, and stands for its first record.
    A RUN is judged by the local engine. For a DIR that `logjudge check` wrote, the saved causes are printed.
    Findings without a cause are listed too, with the reason.
    """
    document = Document()
    if is_saved(source):
        saved = load(source)
        partition, findings = finding_partition(place), findings_at(saved, None)
        target = place_of_finding(str(place), partition, findings) if partition else parse_place(place)
        if place is not None and target is None:
            raise no_such_place(place, sorted(known_partitions(saved)), findings, is_saved=True)
        check_partition_exists(saved, target)
        if form == "json":
            click.echo(json.dumps(_saved_explanation(saved, target), indent=2))
            return
        _explain_saved(document, saved, target)
    else:
        opened, target, matches = _open(source, place, reader)
        if form == "json":
            listed = {"matches": [match._asdict() for match in matches]}
            click.echo(json.dumps(_explanation(opened, target) if target or not matches else listed, indent=2))
            return
        if target is None and matches:
            _list_matches(document, str(place), matches)
        else:
            _explain_run(document, opened, target)
        if opened.has_history:
            add_time_origin(document, opened.started_at)
    show(document, form)


def _open(source: Path, text: str | None, reader: str | None) -> tuple[Inspected, Place | None, list[Match]]:
    """The run, the place in it that the text names, and the records that have the text as value or key.

    The place of a single record is that of its offset; several records have none. Raises UsageError.
    """
    partition = finding_partition(text)
    if text is not None and partition is not None:
        opened = open_for_inspection(source, reader)
        found, _ = opened.judged(opened.partition(partition))
        text = str(place_of_finding(text, partition, found))
    target = parse_place(text)
    opened = open_for_inspection(source, reader, target and target.offset)
    if text is None or (target is not None and opened.has(target.partition)):
        return opened, target, []
    matches = find_records(map(opened.partition, opened.names()), text)
    if not matches:
        rule_findings = _judge_all(opened, opened.names())[1] if text in RULES else []
        raise no_such_place(text, opened.names(), rule_findings)
    if len(matches) > 1 or matches[0].offset is None:
        return opened, None, matches
    place = Place(str(matches[0].partition), matches[0].offset)
    logs = opened.partition(place.partition).replica_logs
    if logs is not None and len(logs.identical):  # the records at an offset are decoded as the run is opened
        opened = open_for_inspection(source, reader, place.offset)
    return opened, place, matches


def _list_matches(document: Document, text: str, matches: list[Match]) -> None:
    document.heading(f"{text}: the value or key of {plural(len(matches), 'record')}")
    document.listed([(f"{match.place}: {match.about}", "") for match in matches[:MAX_MATCHES]])
    if len(matches) > MAX_MATCHES:
        document.sentences(f"… and {len(matches) - MAX_MATCHES:,} more; --json prints all")
    if any(match.offset is not None for match in matches):
        document.sentences("`logjudge explain RUN TOPIC-PARTITION@OFFSET` explains one of them.")


def _with_files(saved: Saved) -> Collection[str]:
    """The partitions that may have broker files."""
    return known_partitions(saved) if saved.verdict["counts"].get("evidence files") else ()


def _explain_saved(document: Document, saved: Saved, target: Place | None) -> None:
    verdict = saved.verdict
    with_files = _with_files(saved)
    causes, findings = causes_at(saved, target), findings_at(saved, target)
    if not causes:
        hint = "; explain the run itself to see the logs" if with_files else ""
        name = target or verdict["input"]["name"]
        document.sentences(f"{name}: the saved results name no cause{explained_nearby(saved, target)}{hint}")
    _add_incidents(document, findings, causes, saved.figures["started_at"])
    _add_unexplained(document, unexplained_findings(findings, causes), with_files)
    add_time_origin(document, verdict["input"].get("started_at"))
    if with_files and target is not None and target.offset is not None:
        document.sentences("To see what each replica has at this offset, explain the run itself.")


def _saved_explanation(saved: Saved, target: Place | None) -> Record:
    causes = causes_at(saved, target)
    unexplained = _unexplained_record(findings_at(saved, target), causes, _with_files(saved))
    return {"causes": [cause.record() for cause in causes], **unexplained}


def _explanation(opened: Inspected, target: Place | None) -> Record:
    """The JSON that docs/verdict.md describes."""
    names = opened.labels(target and target.partition)
    judged, findings, causes = _judge_all(opened, names)
    if target is not None and target.offset is not None:
        first, *others = (history.record() for history in _offset_histories(opened, names, target, judged))
        record = {**first, **({"other_generations": others} if len(names) > 1 else {})}
        findings = _findings_at_offset(findings, target)
    else:
        parts = [opened.partition(name) for name in names] if target else []
        events = opened.located(event for p in parts for event in events_of_partition(p))
        record = {"causes": [cause.record() for cause in causes]}
        record |= {"moments": [event.record() for event in events]} if target else {}
    return {**record, **_unexplained_record(findings, causes, opened.with_files())}


def _judge_all(opened: Inspected, names: Iterable[str]) -> tuple[list[_Judged], list[Finding], list[Explained]]:
    """The findings and causes of each partition, all findings, and all causes."""
    judged = [opened.judged(opened.partition(name)) for name in names]
    return judged, [one for found, _ in judged for one in found], [one for _, explained in judged for one in explained]


def _unexplained_record(findings: list[Finding], causes: list[Explained], with_files: Collection[str]) -> Record:
    """The findings without a cause, worst first, and the reasons."""
    without_cause = unexplained_findings(findings, causes)
    shown = worst_first(without_cause)[:MAX_UNEXPLAINED]
    return {
        "unexplained": [{"id": one.id, **fact_of_finding(one).record()} for one in shown],
        "unexplained_left_out": max(len(without_cause) - MAX_UNEXPLAINED, 0),
        "why_no_cause": why_no_cause(without_cause, with_files),
    }


def _explain_run(document: Document, opened: Inspected, target: Place | None) -> None:
    if target is not None:
        names = opened.labels(target.partition)
        if target.offset is not None:
            _explain_offset(document, opened, names, target)
            return
        for name in names:
            _explain_partition(document, opened, name)
        return
    _, findings, causes = _judge_all(opened, opened.names())
    incidents = _add_incidents(document, findings, causes, opened.started_at)
    breaches = unexplained_findings(findings, causes)
    _add_unexplained(document, breaches, opened.with_files())
    if not incidents and not breaches:
        hint = "`logjudge timeline` shows elections and truncations, `logjudge check` what could not be judged"
        document.sentences(f"{opened.run.settings.name}: no breach was found, so there is nothing to explain; {hint}")
    document.sentences(*opened.not_searched())


def _explain_partition(document: Document, opened: Inspected, name: str) -> None:
    p = opened.partition(name)
    findings, causes = opened.judged(p)
    _add_numbers(document, p)
    document.heading("Findings")
    _add_findings(document, worst_first(findings))
    if not findings:
        document.sentences("No rule found a breach here; `logjudge check` lists what could not be judged.")
    document.sentences(*why_no_cause(unexplained_findings(findings, causes), opened.with_files()))
    _add_incidents(document, findings, causes, opened.started_at)
    document.heading("Events")
    events = opened.located(events_of_partition(p))
    add_events(document, events, opened)
    if not events:
        document.sentences(NO_FILES)


def _add_numbers(document: Document, p: Partition) -> None:
    """Sends, reads and replicas of the partition in a few numbers."""
    document.heading(p.label)
    add_generation(document, p)
    if len(p.sends) or len(p.reads):
        acknowledged = int(p.sends["acknowledged"].sum())
        document.sentences(f"{len(p.sends):,} sends ({acknowledged:,} acknowledged), {len(p.reads):,} records read")
    snapshots = differences(p.replica_logs) if p.replica_logs is not None else []
    if not snapshots:
        document.sentences(NO_LOG)
    for snapshot in snapshots:
        ends = ", ".join(describe_extent(broker) for broker in snapshot["brokers"])
        differ = f"; they differ at {differing_spans(snapshot)}" if snapshot["divergences"] else ""
        damaged = sorted({row["broker"] for row in snapshot["damage"] if row["is_corrupt"]})
        damage = f"; damaged batches on {brokers(damaged)}" if damaged else ""
        document.sentences(f"{in_snapshot(snapshot['snapshot'])}: {ends}{differ}{damage}")


def _explain_offset(document: Document, opened: Inspected, names: list[str], target: Place) -> None:
    judged = [opened.judged(opened.partition(name)) for name in names]
    histories = {history.partition: history for history in _offset_histories(opened, names, target, judged)}
    for name, (findings, _) in zip(names, judged, strict=True):
        if name in histories:
            document.heading(str(Place(name, target.offset)))
            here = _findings_at_offset(findings, target)
            _explain_history(document, opened, histories[name], here)


def _explain_history(document: Document, opened: Inspected, history: OffsetHistory, here: list[Finding]) -> None:
    p = opened.partition(history.partition)
    add_generation(document, p)
    _add_facts(document, "Sent", history.sent, history.sent_left_out, "No recorded send was acknowledged here.")
    unread = "No recorded consumer read it." if len(p.reads) else "No reads are recorded."
    _add_facts(document, "Read", history.read, history.read_left_out, unread)
    if history.passed:
        _add_facts(document, "Groups", history.passed, 0, "")
    if history.transaction:
        _add_facts(document, "Transaction", history.transaction, 0, "")
    _add_facts(document, "Findings", history.found, history.found_left_out, "No rule found a breach here.")
    document.sentences(*why_no_cause(unexplained_findings(here, history.causes), opened.with_files()))
    if history.held:
        document.heading("Replicas")
        rows = [
            [row["where"], f"broker {row['broker']}", *_record_cells(row, opened.started_at)] for row in history.held
        ]
        document.table(["", "", "epoch", "time (UTC)", "value"], rows)
    if history.led:
        document.heading("Leaders")
        document.sentences(*history.led.values())
    if absence := history.absence:
        document.heading("Why there is no record now")
        document.sentences(f"{absence.cause}: a legal absence ({absence.citation})")
        _add_steps(document, [step_of(fact, opened.started_at) for fact in absence.chain])
    _add_incidents(document, here, history.causes, opened.started_at)


def _findings_at_offset(findings: list[Finding], target: Place) -> list[Finding]:
    return [one for one in findings if target.offset is not None and one.covers(target.offset)]


def _known_offsets(p: Partition) -> list[int]:
    """The first and the last offset of each source."""
    columns = [p.sends["offset"], p.reads["offset"]]
    columns += [p.replica_logs.records["offset"]] if p.replica_logs is not None else []
    found = [number for column in columns for number in (column.min(), column.max())]
    return [number for number in found if isinstance(number, int)]


def _offset_histories(opened: Inspected, names: list[str], target: Place, judged: list[_Judged]) -> list[OffsetHistory]:
    """The histories of an offset, at least one: in each generation of its topic that has it."""
    assert target.offset is not None
    locate = opened.results.locator()
    histories = [
        history
        for name, results in zip(names, judged, strict=True)
        if (history := offset_history(opened.partition(name), target.offset, locate, *results)) is not None
    ]
    if not histories:
        offsets = [offset for name in names for offset in _known_offsets(opened.partition(name))]
        hint = f"; explain {target.partition} for its truncations and other events"
        expected = f", expected an offset from {min(offsets)} to {max(offsets)}" if offsets else hint
        raise UsageError(f"found {target}, which is neither in the history nor in a broker log{expected}")
    return histories


def _record_cells(row: Record, started_at: str) -> list[str]:
    """Epoch, time and value of a replica's record, or why it has none."""
    record = row["holds"]
    if record is None:
        return ["", "", row["why_not"]]
    return [
        "" if record["epoch"] is None else str(record["epoch"]),
        record_time(record["timestamp"], started_at),
        record_text(record),
    ]


def _add_facts(document: Document, title: str, facts: list[Fact], left_out: int, none: str) -> None:
    document.heading(title)
    if not facts:
        document.sentences(none)
    items = []
    for fact in facts:
        when = "" if fact.time is None or title == "Sent" else f" at {fact.time / 1e9:.3f} s"
        items.append((fact.sentence + when, fact.source_text))
    document.listed(items)
    if left_out:
        document.sentences(f"… and {left_out:,} more")


def _add_unexplained(document: Document, breaches: list[Finding], with_files: Collection[str]) -> None:
    if breaches:
        document.heading("Findings without a cause")
        _add_findings(document, worst_first(breaches))
        document.sentences(*why_no_cause(breaches, with_files))


def _add_findings(document: Document, findings: list[Finding]) -> None:
    facts = map(fact_of_finding, findings[:MAX_FINDINGS])
    document.listed([(fact.sentence, fact.source_text) for fact in facts])
    if len(findings) > MAX_FINDINGS:
        document.sentences(
            f"… and {len(findings) - MAX_FINDINGS:,} more; `logjudge check` writes all to findings.parquet"
        )


def _add_incidents(
    document: Document, findings: Iterable[Finding], causes: list[Explained], started_at: str | None
) -> list[Incident]:
    """Adds each explained incident with its sequence of events, and returns these incidents."""
    incidents = [one for one in incidents_of(findings, causes) if one.was_investigated]
    for incident in incidents:
        document.heading(f"Cause: {incident.cause}, {incident.headline}")
        _add_root_cause(document, root_cause_of(incident, started_at))
    return incidents


def _add_root_cause(document: Document, cause: RootCause) -> None:
    _add_steps(document, cause.steps)
    if cause.steps_left_out:
        document.sentences(f"… and {plural(cause.steps_left_out, 'more step')}; --json prints all")
    if cause.prevented_by:
        document.sentences(f"Prevented by: {either(cause.prevented_by)}")
    if cause.citation:
        document.sentences(f"See {cause.citation}")
    if cause.readings:
        document.sentences("The evidence conflicts, so no cause is named. Possible causes:")
        for reading in cause.readings:
            document.sentences(f"{reading.cause}:")
            _add_root_cause(document, reading)
    elif not cause.is_known:
        document.sentences("The cause is unknown. Missing evidence:")
        document.listed([(missing, "") for missing in cause.missing])


def _add_steps(document: Document, steps: list[Step]) -> None:
    document.numbered([(with_time(step.seconds, step.clock, step.text), step.source) for step in steps])
