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
        records = {name: [moment.record() for moment in moments] for name, moments in timelines.items()}
        partitions = [{"partition": name, "moments": moments} for name, moments in records.items()]
        record = {"started_at": opened.started_at or None, "clocks": opened.clocks(), "partitions": partitions}
        click.echo(json.dumps(record, indent=2))
        return
    show(_document(opened, timelines), form)


def _document(opened: Inspected, timelines: dict[str, list[Fact]]) -> Document:
    """The timeline of each partition, then the events of all partitions, then the clocks."""
    document = Document()
    shared = _shared_events(timelines)
    with_events = {name: moments for name, moments in timelines.items() if moments}
    for name, moments in with_events.items():
        document.heading(name)
        add_generation(document, opened.partition(name))
        own = [moment for moment in moments if _key(moment) not in shared]
        if not own:
            document.sentences("No events other than those of all partitions, below.")
        add_events(document, own, opened)
    if shared:
        is_all = len(with_events) == len(timelines)
        document.heading("All partitions" if is_all else "All partitions with broker files")
        add_events(document, [moment for moment in next(iter(with_events.values())) if _key(moment) in shared], opened)
    add_shared_sentence(document, [name for name in timelines if name not in with_events], NO_FILES)
    clocks = opened.clocks()
    if opened.has_history:
        add_time_origin(document, opened.started_at)
    if opened.with_files():
        document.heading("Clocks")
        read_as = "Times in broker logs are read as UTC" + ", less what a clock below is ahead" * bool(clocks)
        document.sentences(f"{read_as}.", *(f"{clock}." for clock in clocks))
    return document


def _key(moment: Fact) -> tuple[Any, ...]:
    return (moment.sentence, moment.time)


def _shared_events(timelines: dict[str, list[Fact]]) -> set[tuple[Any, ...]]:
    """The events in every partition's timeline: a broker stops and starts for all its partitions."""
    sets = [{_key(moment) for moment in moments} for moments in timelines.values() if moments]
    return set.intersection(*sets) if len(sets) > 1 else set()


def _when(time: int | None, opened: Inspected) -> str:
    if time is None:
        return "undated"
    if not opened.has_history:
        return seconds_text(time, False)
    return with_time(seconds_text(time), clock(opened.started_at, time))


def add_events(document: Document, moments: list[Fact], opened: Inspected) -> None:
    """Adds the first MAX_EVENTS events, each with its time and source."""
    document.dated([(_when(one.time, opened), one.sentence, one.source_text) for one in moments[:MAX_EVENTS]])
    if len(moments) > MAX_EVENTS:
        document.sentences(f"… and {len(moments) - MAX_EVENTS:,} more events; --json prints all")
