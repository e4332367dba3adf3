"""`logjudge timeline RUN [TOPIC-PARTITION]`: leaders, ISR, epochs, broker failures, truncations and faults in order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from ..analysis.inspect.events import events_of_partition
from ..analysis.inspect.open_partitions import Inspected
from ..analysis.timelines.facts import Fact
from ..models.internal_topics import is_internal
from ..plots.time_axis import clock
from .document import Document
from .inspection import (
    NO_FILES,
    add_generation,
    add_shared_sentence,
    add_time_origin,
    open_for_inspection,
    parse_partition,
    seconds_text,
    with_time,
)
from .options import Form, LocalPath, form_options, from_option, show

MAX_EVENTS = 400  # of a partition; --json prints all


@click.command()
@click.argument("run", metavar="RUN", type=LocalPath(takes_stdin=True))
@click.argument("partition", metavar="[TOPIC-PARTITION]", required=False)
@from_option
@form_options("Print the events as JSON.")
def command(run: Path, partition: str | None, reader: str | None, form: Form) -> None:
    """List the events of RUN's partitions: elections (clean or unclean), ISR, truncations, broker failures, faults.

    Each event has its source: the file with the line or byte.
    """
    opened = open_for_inspection(run, reader)
    # Internal topics come last: they have many partitions, and few readers look for them.
    names = sorted(opened.labels(parse_partition(partition)), key=is_internal)
    timelines = {name: opened.located(events_of_partition(opened.partition(name))) for name in names}
    if form == "json":
        records = {name: [event.record() for event in events] for name, events in timelines.items()}
        partitions = [{"partition": name, "moments": events} for name, events in records.items()]
        record = {"started_at": opened.started_at or None, "clocks": opened.clocks(), "partitions": partitions}
        click.echo(json.dumps(record, indent=2))
        return
    show(_document(opened, timelines), form)


def _document(opened: Inspected, timelines: dict[str, list[Fact]]) -> Document:
    """The timeline of each partition, then the events of all partitions, then the clocks."""
    document = Document()
    shared = _shared_events(timelines)
    with_events = {name: events for name, events in timelines.items() if events}
    for name, events in with_events.items():
        document.heading(name)
        add_generation(document, opened.partition(name))
        own = [event for event in events if _key(event) not in shared]
        if not own:
            document.sentences("No events other than those of all partitions, below.")
        add_events(document, own, opened)
    if shared:
        is_all = len(with_events) == len(timelines)
        document.heading("All partitions" if is_all else "All partitions with broker files")
        add_events(document, [event for event in next(iter(with_events.values())) if _key(event) in shared], opened)
    add_shared_sentence(document, [name for name in timelines if name not in with_events], NO_FILES)
    clocks = opened.clocks()
    if opened.has_history:
        add_time_origin(document, opened.started_at)
    if opened.with_files():
        document.heading("Clocks")
        read_as = "Times in broker logs are read as UTC" + ", less what a clock below is ahead" * bool(clocks)
        document.sentences(f"{read_as}.", *(f"{clock}." for clock in clocks))
    return document


def _key(event: Fact) -> tuple[Any, ...]:
    return (event.sentence, event.time)


def _shared_events(timelines: dict[str, list[Fact]]) -> set[tuple[Any, ...]]:
    """The events in every partition's timeline: a broker stops and starts for all its partitions."""
    sets = [{_key(event) for event in events} for events in timelines.values() if events]
    return set.intersection(*sets) if len(sets) > 1 else set()


def _when(time: int | None, opened: Inspected) -> str:
    if time is None:
        return "undated"
    if not opened.has_history:
        return seconds_text(time, False)
    return with_time(seconds_text(time), clock(opened.started_at, time))


def add_events(document: Document, events: list[Fact], opened: Inspected) -> None:
    """Adds the first MAX_EVENTS events, each with its time and source."""
    document.dated([(_when(one.time, opened), one.sentence, one.source_text) for one in events[:MAX_EVENTS]])
    if len(events) > MAX_EVENTS:
        document.sentences(f"… and {len(events) - MAX_EVENTS:,} more events; --json prints all")
