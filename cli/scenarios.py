"""`logjudge scenarios`: lists and runs the catalogue of data-loss scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..histories.errors import UsageError
from ..histories.output_folder import check_target
from ..histories.simulation.bundle import write_bundle
from ..histories.simulation.outcome import outcome
from ..histories.simulation.pages import digest, page
from ..histories.simulation.request import write_simulated
from ..histories.simulation.scenarios import load, names
from ..models.exploration.compare import table
from ..models.replication.scenario import Scenario
from .check import command as check
from .completing import completed
from .forms import quiet_option
from .paths import LocalPath
from .simulate import summary

# A simulated run is small, and the local engine needs no Java.
AS_LOCAL = {"engine": "local"}


class _Catalogue(click.Group):
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in names():
            raise UsageError(f"found the scenario {cmd_name}, expected a command: `logjudge scenarios run {cmd_name}`")
        return super().get_command(ctx, cmd_name)


@click.group("scenarios", cls=_Catalogue, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """List the catalogue; `scenarios run NAME` simulates one scenario."""
    if ctx.invoked_subcommand is None:
        width = max(len(name) for name in names())
        for name in names():
            click.echo(f"{name:<{width}}  {load(name).title}")


@command.command("run")
@click.argument("name", shell_complete=completed(names))
@click.option(
    "--out",
    type=LocalPath(),
    help="The folder of the bundle; the report is written to the same name with -judged. [default: ./NAME]",
)
@quiet_option
@click.pass_context
def run(ctx: click.Context, name: str, out: Path | None) -> None:
    """Simulate a scenario, print its outcome, and judge it.

    Writes two folders, or replaces their earlier results: NAME, the bundle, and NAME-judged, the report of `check`.
    The exit code is that of the verdict, as with `check`: 0 valid, 1 a breach, 3 unknown. The invariants that the
    simulator saw broken are printed and do not change it: clients may not see the breach, or the configuration may
    permit it.
    """
    scenario = load(name)
    folder = out or Path(name)
    judged = folder.with_name(folder.name + "-judged")
    check_target(judged)  # before the simulation writes anything
    written = write_simulated(scenario, folder)
    click.echo(scenario.title)
    click.echo(scenario.story)
    click.echo()
    click.echo(summary(written))
    result = outcome(written.cluster, scenario)
    for broken, text in result.breaks.items():
        click.echo(f"{broken} was broken: {text}")
    click.echo()
    code = ctx.invoke(check, runs=(str(folder),), out=str(judged), **AS_LOCAL)
    wrong = result.difference(scenario)
    if wrong:
        raise UsageError(f"{name}: the outcome differs from its page: {wrong}")
    broken_invariants = ", ".join(result.breaks) or "none"
    click.echo(f"Exit code {code}, from the verdict; invariants broken in the simulation: {broken_invariants}")
    ctx.exit(code)


@command.command("pages")
@click.argument("folder", type=LocalPath())
def pages(folder: Path) -> None:
    """Write a page with a picture for each scenario into FOLDER (docs/scenarios of the repository)."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names():
        scenario = load(name)
        text = page(scenario)
        (folder / f"{name}.md").write_bytes(text.encode())
        picture(scenario, folder / f"{name}.svg", digest(text))
    click.echo(f"{len(names())} pages in {folder}")


@command.command("compare")
def compare() -> None:
    """Compare ISR, majority quorum and asynchronous replication under the same load and faults (Markdown table)."""
    click.echo(table())


def picture(scenario: Scenario, path: Path, description: str) -> None:
    """Simulates and judges a scenario, and draws the plot that it names."""
    import tempfile

    from .plot import figures_of

    with tempfile.TemporaryDirectory() as scratch:
        figures = figures_of(write_bundle(scenario, Path(scratch) / scenario.name).folder)
    draw_picture(scenario, figures, path, description)


def draw_picture(scenario: Scenario, figures: dict[str, Any], path: Path, description: str) -> None:
    """Draws the plot that a scenario names, from the figures of its judged run."""
    from ..plots import PLOTS, draw, style

    subjects = PLOTS[scenario.picture].subjects(figures)
    # A run without breaches may have no subject to report, but its page still shows the plot.
    subject = subjects[0] if subjects else {"partition": figures["partitions"][0]["name"]}
    style.save(draw(scenario.picture, figures, subject), path, description)
