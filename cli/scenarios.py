"""`logjudge scenarios`: lists and runs the catalogue of data-loss scenarios."""

from __future__ import annotations

import inspect
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ..histories.errors import UsageError
from ..histories.output_folder import check_target
from ..histories.simulation.bundle import write_bundle
from ..histories.simulation.index_page import index_page
from ..histories.simulation.outcome import outcome
from ..histories.simulation.pages import digest, page
from ..histories.simulation.request import with_overrides, write_simulated
from ..histories.simulation.scenarios import by_theme, load, load_or_read, names
from ..models.exploration.compare import table
from ..models.replication.scenario import Scenario
from ..models.replication.variants import VARIANTS
from .check import command as check
from .options import Choice, LocalPath, complete_names, quiet_option
from .simulate import VARIANT_HELP, option, settings_option, summary, warn


class _Catalogue(click.Group):
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in names() or cmd_name.endswith(".toml"):
            raise UsageError(f"found the scenario {cmd_name}, expected a command: `logjudge scenarios run {cmd_name}`")
        return super().get_command(ctx, cmd_name)


@click.group("scenarios", cls=_Catalogue, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """List the catalogue; `scenarios run NAME` simulates one scenario."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_all)


@command.command("list")
def list_all() -> None:
    """List the catalogue by theme, as without a command."""
    width = max(map(len, names()))
    for number, (theme, scenarios) in enumerate(by_theme().items()):
        click.echo(("\n" if number else "") + theme)
        for one in scenarios:
            click.echo(f"  {one.name:<{width}}  {one.title}")


@command.command("run", epilog=VARIANT_HELP)
@click.argument("name", metavar="NAME|FILE", shell_complete=complete_names(names))
@click.option("--variant", type=Choice(list(VARIANTS)), help="A protocol variant, instead of the scenario's.")
@click.option("--seed", type=int, help="A seed, instead of the scenario's.")
@settings_option
@click.option(
    "--out",
    type=LocalPath(),
    help="The folder of the bundle; the report is in the folder with -judged appended. "
    "[default: ./NAME, with another variant ./NAME-VARIANT]",
)
@click.option("--page", "page_folder", type=LocalPath(), help="Also write a page with a picture into this folder.")
@quiet_option
@click.pass_context
def run(
    ctx: click.Context,
    name: str,
    variant: str | None,
    seed: int | None,
    settings: tuple[str, ...],
    out: Path | None,
    page_folder: Path | None,
) -> None:
    """Simulate a scenario, print its outcome, and judge it.

    NAME is a scenario of the catalogue, FILE a scenario file (docs/scenario-files.md).

    Writes the bundle to the folder NAME and the report to NAME-judged, and replaces earlier results there; NAME has
    the variant appended if it is not the scenario's own. The exit code is that of `check`: 0 valid, 1 a breach, 3
    unknown. Invariants that the simulator finds broken are printed, but do not change the exit code: clients may not
    see the breach, or the configuration may permit it.
    """
    original = load_or_read(name)
    changes = dict(map(option, settings))
    scenario = with_overrides(original, variant=variant, seed=seed, settings=changes)
    other_variant = f"-{scenario.variant}" if scenario.variant != original.variant else ""
    folder = out or Path(Path(name).stem + other_variant)
    judged = folder.with_name(folder.name + "-judged")
    check_target(judged)  # before the simulation writes anything
    written = write_simulated(scenario, folder)
    is_catalogued = name in names() and scenario == original
    warn(scenario, written)
    note = scenario.story.removesuffix(original.story).strip()  # on what was changed
    for text in (f"{note}\n" if note else "", original.title, original.story):
        if text:
            click.echo(text)
    click.echo()
    click.echo(summary(written))
    result = outcome(written.cluster, scenario)
    for broken, text in result.breaks.items():
        click.echo(f"{broken} was broken: {text}")
    click.echo()
    code = ctx.invoke(check, runs=(str(folder),), out=str(judged), engine="local")  # which needs no Java
    if page_folder is not None:
        overrides = [*(["--variant", variant] if variant else []), *([] if seed is None else ["--seed", str(seed)])]
        arguments = shlex.join([name, *overrides, *(part for text in settings for part in ("--set", text))])
        _write_page(replace(scenario, name=folder.name), page_folder, arguments)
    if wrong := result.difference(scenario):
        if is_catalogued:
            raise UsageError(f"{name}: the outcome differs from its page: {wrong}")
        if scenario.breaks or scenario.causes:
            click.echo(f"The outcome differs from what {name} expects: {wrong}")
    broken_invariants = ", ".join(result.breaks) or "none"
    click.echo(f"Exit code {code}, from the verdict; invariants broken in the simulation: {broken_invariants}")
    ctx.exit(code)


def _write_page(scenario: Scenario, folder: Path, arguments: str = "") -> None:
    """Write the page and the picture of one scenario."""
    folder.mkdir(parents=True, exist_ok=True)
    text = page(scenario, arguments)
    (folder / f"{scenario.name}.md").write_bytes(text.encode())
    picture(scenario, folder / f"{scenario.name}.svg", digest(text))


@command.command("pages")
@click.argument("folder", type=LocalPath())
def pages(folder: Path) -> None:
    """Write a page with a picture for each scenario, and an index, into FOLDER (docs/scenarios of the repository)."""
    for name in names():
        _write_page(load(name), folder)
    (folder / "README.md").write_bytes(index_page().encode())
    click.echo(f"{len(names())} pages in {folder}")


@command.command("compare")
def compare() -> None:
    """Compare ISR, majority quorum and asynchronous replication under the same load and faults (Markdown table)."""
    click.echo(table())


@command.command("placement")
@click.option(
    "--picture", "path", type=LocalPath(), help="Also draw the partitions that each broker leads (SVG or PNG)."
)
def placement(path: Path | None) -> None:
    """Compare the spread of a dead broker's load under each assignment of replicas (Markdown table)."""
    from ..models.exploration import load_spread
    from ..models.replication.placement import ASSIGNMENTS

    found = [load_spread.spread(name) for name in ASSIGNMENTS]
    click.echo(load_spread.INTRODUCTION + "\n")
    click.echo(load_spread.table(found))
    if path is not None:
        from ..plots.comparisons import draw_load_spread

        draw_load_spread({one.assignment: one.after for one in found}, load_spread.DEAD, path)


@command.command("processing")
@click.option("--picture", "path", type=LocalPath(), help="Also draw when each record was copied (SVG or PNG).")
def processing(path: Path | None) -> None:
    """Compare exactly once with at least once under the same faults (Markdown table)."""
    from ..models.exploration import processing_truth

    scenarios = [load(f"processing-{name}") for name in ("exactly-once", "at-least-once")]
    clusters = {scenario.name: scenario.run() for scenario in scenarios}
    click.echo(processing_truth.INTRODUCTION + "\n")
    click.echo(processing_truth.table(clusters))
    if path is not None:
        from ..plots.comparisons import draw_copies

        faults = [(fault.kind, fault.at, fault.at + fault.lasts) for fault in scenarios[0].faults]
        draw_copies({name: processing_truth.copied_ranges(cluster) for name, cluster in clusters.items()}, faults, path)


def picture(scenario: Scenario, path: Path, description: str) -> None:
    """Simulates and judges a scenario, and draws the plot that it names."""
    import tempfile

    from .plot import figures_of

    with tempfile.TemporaryDirectory() as scratch:
        figures = figures_of(write_bundle(scenario, Path(scratch) / scenario.name).folder)
    draw_picture(scenario, figures, path, description)


def draw_picture(scenario: Scenario, figures: dict[str, Any], path: Path, description: str) -> None:
    """Draws the plot that a scenario names, from the figures of its judged run."""
    from ..plots import draw, style

    style.save(draw(scenario.picture, figures, _subject(scenario.picture, figures)), path, description)


def _subject(picture: str, figures: dict[str, Any]) -> dict[str, Any]:
    """What a page's plot shows. A run without breaches may have no subject to report, but its page still has a plot.

    Raises UsageError if the plot shows a finding and the run has none.
    """
    from ..plots import PLOTS

    subjects = PLOTS[picture].subjects(figures)
    if subjects:
        return subjects[0]
    parameters = inspect.signature(PLOTS[picture].draw).parameters
    if "finding" in parameters:
        raise UsageError(
            f"the run has no finding that the plot {picture} could show, so its page gets no picture; "
            "name another plot as `picture` in the scenario file, see `logjudge plot --help`"
        )
    return {"partition": figures["partitions"][0]["name"]} if "partition" in parameters else {}
