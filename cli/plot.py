"""`logjudge plot DIR|RUN NAME`: draws one figure from saved results, or from a run, which is judged first."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ..analysis.wording import some
from ..histories.errors import UsageError
from ..histories.output_folder import name_of
from ..plots import PLOTS, draw, under_replicated
from .options import Choice, LocalPath, NewFile, from_option, quiet_option
from .progress import Progress, note

# By plot: what a run must have for the plot to have a subject, for the error message.
SUBJECTS = {
    "around": "findings with client operations",
    "cycles": "cycles of transactions",
    "glance": "recorded sends",
    "heatmap": "findings with a time",
    "lag": "consumers",
    "offsets": "offsets",
    "owners": "groups with several members",
    "replicas": "partition with lost records or differing replicas",
    "swimlane": "changes of leader or ISR",
    "transactions": "transactions that were open for long",
    "under-replicated": "brokers' files with the ISR",
    "unread": "acknowledged sends",
}
# By plot that draws a partition without its subject, too: the record in figures.json that it draws.
OF_QUIET_PARTITIONS = {"replicas": "replicas", "swimlane": "replicas", "transactions": "transactions"}


class PlotName(Choice):
    """The name of a plot. The error for the name of a drawn file, such as swimlane-orders-0, names its options."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        name, _, partition = str(value).removesuffix(".svg").removesuffix(".png").partition("-")
        if name in PLOTS and re.fullmatch(r".+-\d+", partition) and _takes(name, "partition"):
            raise UsageError(f"there is no plot {value}; did you mean {name} --partition {partition}?")
        return super().convert(value, param, ctx)


def _takes(name: str, parameter: str) -> bool:
    return parameter in inspect.signature(PLOTS[name].draw).parameters


def _refuse_format(_: click.Context, __: click.Parameter, value: str | None) -> None:
    """Raises UsageError where a format is given: the ending of --out is the format."""
    if value is not None:
        raise UsageError(f"found --format {value}, expected --out FILE.png or --out FILE.svg: its ending is the format")


@click.command()
@click.argument("source", metavar="DIR|RUN", type=LocalPath(takes_stdin=True))
@click.argument("name", metavar="NAME", type=PlotName(list(PLOTS)))
@click.option(
    "--partition",
    metavar="TOPIC-N",
    help="The partition to draw (offsets, replicas, swimlane, transactions, unread, lag).",
)
@click.option("--finding", metavar="ID", help="The finding to draw (around, cycles).")
@from_option
@click.option("--out", "file", type=NewFile(".png", ".svg"), help="A .png or .svg file. [default: RUN-NAME.png]")
@click.option("--format", "format_name", hidden=True, expose_value=False, callback=_refuse_format)
@click.option(
    "--scale", type=click.IntRange(1, 8), default=1, help="Width of a PNG in units of 1100 pixels [default: 1]."
)
@quiet_option
def command(
    source: Path,
    name: str,
    partition: str | None,
    finding: str | None,
    reader: str | None,
    file: Path | None,
    scale: int,
) -> None:
    """Draw the figure NAME: glance, cycles, offsets, replicas, swimlane, under-replicated, owners, transactions,
    around, unread, lag or heatmap.

    DIR is a folder that `logjudge check` wrote. A RUN is judged first, by the local engine. Without --partition and
    --finding, the figure shows the worst partition or finding.
    """
    from ..plots import style
    from ..plots.escaping import file_name
    from ..plots.report.saved import drawn_from

    with Progress(name_of(str(source))) as progress:
        figures = figures_of(source, progress, reader)
    with drawn_from(source):
        subject = _subject(name, figures, {"partition": partition, "finding": finding})
        target = file or Path(file_name(name_of(str(source)), name, *map(str, subject.values())) + ".png")
        style.save(draw(name, figures, subject), target, scale=scale)
    click.echo(str(target))
    note(PLOTS[name].CAPTION)


def figures_of(
    source: Path, progress: Callable[..., None] = lambda *_: None, reader: str | None = None
) -> dict[str, Any]:
    """The figures of saved results, or of a run, which is judged first."""
    from ..plots.report.saved import is_saved, load_figures

    if is_saved(source):
        return load_figures(source)
    from ..analysis.engines.local import judge_run
    from ..analysis.verdict.document import merged_figures, verdict_of
    from ..histories.bundle import open_run

    results = judge_run(open_run(source, reader), progress)
    results.refuse_unusable()
    return merged_figures(results, verdict_of(results))


def _subject(name: str, figures: dict[str, Any], requested: dict[str, str | None]) -> dict[str, Any]:
    """The arguments of the plot: those of the command line, else the worst partition or finding."""
    known = {
        "partition": [part["name"] for part in figures["partitions"]],
        "finding": [one["id"] for one in figures["cycles" if name == "cycles" else "windows"]],
    }
    subject = {}
    for kind, value in requested.items():
        if value is None:
            continue
        if not _takes(name, kind):
            raise UsageError(f"--{kind}: the plot {name} does not take a {kind}")
        if value not in known[kind]:
            drawable = SUBJECTS[name] if kind == "finding" else "partitions"
            expected = (
                f"expected one of {some(known[kind], 12)}" if known[kind] else f"the run has no {drawable} to draw"
            )
            raise UsageError(f"--{kind} {value}: {expected}")
        subject[kind] = value
    if subject:
        return subject
    default = PLOTS[name].subjects(figures)
    if default:
        return default[0]
    if name != "under-replicated" or not under_replicated.has_isr(figures):
        is_quiet = any(part.get(OF_QUIET_PARTITIONS.get(name)) for part in figures["partitions"])
        hint = "; to draw a partition anyway, add --partition TOPIC-N" if is_quiet else ""
        raise UsageError(f"the run has no {SUBJECTS[name]}, so the plot {name} has nothing to draw{hint}")
    return {}
