"""`logjudge timeline RUN [TOPIC-PARTITION]`: leaders, ISR, epochs, deaths, truncations and faults, in order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .document import Document
from .forms import Form, form_options, from_option, show
from .looking import NO_FILES, dated, open_to_look, partition_of, seconds, tell_alike, tell_the_zero
from .paths import LocalPath

if TYPE_CHECKING:
    from ..analysis.inspect.open_partitions import Inspected

MOST = 400  # moments of a partition; all of them with --json


@click.command()
@click.argument("run", metavar="RUN", type=LocalPath(takes_stdin=True))
@click.argument("partition", metavar="[TOPIC-PARTITION]", required=False)
@from_option
@form_options("Print the moments as JSON.")
def command(run: Path, partition: str | None, reader: str | None, form: Form) -> None:
    """Tell what happened to the partitions of RUN: elections (clean or unclean), ISR, truncations, deaths, faults.

    Each moment names the file and line, or byte, that tells of it.
    """
    from ..analysis.inspect.events import events_of_partition

    asked = partition_of(partition)
    opened = open_to_look(run, form, reader)
    names = opened.labels(asked)
    told = [{"partition": name, "moments": events_of_partition(opened.partition(name))} for name in names]
    opened.located({"all": told})
    if form == "json":
        clocks = opened.clocks()
        click.echo(
            json.dumps({"started_at": opened.started_at or None, "clocks": clocks, "partitions": told}, indent=2)
        )
        return
    document = _document(opened, told)
    show(document, form)


def _document(opened: Inspected, told: list[dict[str, Any]]) -> Document:
    document = Document()
    common = _everywhere(told)
    dated = [part for part in told if part["moments"]]
    for part in dated:
        document.heading(f"{part['partition']}")
        own = [moment for moment in part["moments"] if _key(moment) not in common]
        if not own:
            document.say("Nothing but what is told of all partitions below.")
        tell(document, own, opened)
    if common:
        document.heading("All partitions" if len(dated) == len(told) else "All partitions of which brokers' files tell")
        tell(document, [moment for moment in dated[0]["moments"] if _key(moment) in common], opened)
    tell_alike(document, [part["partition"] for part in told if not part["moments"]], NO_FILES)
    clocks = opened.clocks()
    if opened.has_history:
        tell_the_zero(document, opened.started_at)
    if clocks:
        document.heading("Clocks")
        document.say("Brokers' own times are read as UTC.", *(f"{clock}." for clock in clocks))
    return document


def _key(moment: dict[str, Any]) -> tuple[Any, ...]:
    return (moment["says"], moment["time"])


def _everywhere(told: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    """What every partition's timeline has: brokers die and start for all of them."""
    sets = [{_key(moment) for moment in part["moments"]} for part in told if part["moments"]]
    return set.intersection(*sets) if len(sets) > 1 else set()


def tell(document: Document, moments: list[dict[str, Any]], opened: Inspected) -> None:
    """Adds the moments, each with its time and source."""
    from ..plots.clock import clock
    from ..plots.report.root_causes import source_of

    times = [one["time"] for one in moments[:MOST]]
    if opened.has_history:
        whens = ["" if time is None else dated(seconds(time), clock(opened.started_at, time)) for time in times]
    else:
        whens = [seconds(time, False) for time in times]
    whens = [when or "undated" for when in whens]
    document.dated([(when, one["says"], source_of(one)) for when, one in zip(whens, moments, strict=False)])
    if len(moments) > MOST:
        document.say(f"… and {len(moments) - MOST:,} more moments; --json has all")
