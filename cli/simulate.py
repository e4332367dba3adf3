"""`logjudge simulate`: run the replication protocol under faults and write a run bundle."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ..histories.errors import UsageError, did_you_mean
from ..histories.simulation import scenario_file
from ..histories.simulation.bundle import Written
from ..histories.simulation.outcome import outcome
from ..histories.simulation.request import DRAWN, WRITTEN, adjusted, with_drawn_faults, write_simulated
from ..models.exploration.schedule import PATTERNS
from ..models.replication.config import OPTIONS, ConfigError
from ..models.replication.scenario import Scenario
from ..models.replication.variants import VARIANTS
from .completing import completed
from .paths import LocalPath


@click.command("simulate", epilog=f"Configurations for --set: {', '.join(OPTIONS)}.")
@click.option("--variant", type=click.Choice(list(VARIANTS)), help="Which protocol; kip-320 unless a file says.")
@click.option("--seed", type=int, help="Everything random follows from it. [default: 0]")
@click.option("--brokers", type=click.IntRange(1, 99), help="How many brokers, and replicas up to 3. [default: 3]")
@click.option("--ops", type=click.IntRange(1), help="How many records the producers send. [default: 1000]")
@click.option(
    "--faults",
    help=f"Kinds of faults to draw, with commas: {DRAWN}. {WRITTEN}.",
    shell_complete=completed(lambda: PATTERNS),
)
@click.option(
    "--fault-count",
    default=3,
    show_default=True,
    type=click.IntRange(1, 10_000),
    help="How many to draw, of each kind at least one.",
)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A configuration, by Kafka's name.")
@click.option("--config", "file", type=LocalPath(), help="A scenario file (TOML).")
@click.option(
    "--out",
    required=True,
    type=LocalPath(),
    help="The folder of the bundle; an earlier one is replaced.",
)
def command(
    variant: str | None,
    seed: int | None,
    brokers: int | None,
    ops: int | None,
    faults: str | None,
    fault_count: int,
    settings: tuple[str, ...],
    file: Path | None,
    out: Path,
) -> None:
    """Run Kafka's replication protocol under faults, and write a bundle that `check` judges like a real run.

    The same seed and configuration write the same bytes, on every machine.
    """
    scenario = scenario_file.read(file) if file else Scenario("simulated", "kip-320")
    base = scenario if file else replace(scenario, name=out.name)
    kinds = [kind for kind in (faults or "").split(",") if kind]
    try:
        asked = adjusted(
            base, variant=variant, seed=seed, brokers=brokers, ops=ops, settings=dict(map(option, settings))
        )
        written = write_simulated(with_drawn_faults(asked, kinds, fault_count), out)
    except ConfigError as error:
        raise UsageError(str(error)) from error
    click.echo(summary(written))
    for line in _as_said(written, scenario):
        click.echo(line)


def _as_said(written: Written, scenario: Scenario) -> list[str]:
    """Whether the invariants that a scenario file says its run breaks broke."""
    came = outcome(written.cluster, scenario).breaks if scenario.breaks else {}
    return [
        f"{name} is broken, as the file says: {came[name]}"
        if name in came
        else f"{name} held, though the file says that this run breaks it"
        for name in scenario.breaks
    ]


def option(text: str) -> tuple[str, Any]:
    """NAME=VALUE as a configuration's name and its value. Raises UsageError."""
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--set takes NAME=VALUE, not {text!r}")
    if name not in OPTIONS:
        said = f"there is no configuration {name!r}; `logjudge simulate --help` lists them"
        raise UsageError(said + did_you_mean(name, OPTIONS))
    if value in ("true", "false"):
        return name, value == "true"
    return name, int(value) if re.fullmatch("-?[0-9]{1,18}", value) else value


def summary(written: Written) -> str:
    """What happened, in a few lines."""
    truth = written.truth
    lines = [
        f"{written.folder}: {written.lines:,} events of clients, {truth['protocol_events']:,} of the protocol, "
        f"{truth['acknowledged']:,} records acknowledged",
        f"elections: {truth['elections']}, of these unclean: {truth['unclean_elections']}; "
        f"ISR shrinks: {truth['isr_shrinks']}",
    ]
    if truth["not_acknowledged"] is not None:
        lines.append(
            f"refused or given up: {truth['not_acknowledged']:,}; longest time without an acknowledgement: "
            f"{truth['longest_silence_ms'] / 1000:.1f} s"
        )
    if truth["lost_acked_count"]:
        lines.append(
            f"lost though acknowledged: {truth['lost_acked_count']:,} ({truth['cause']}), "
            f"read before: {truth['lost_but_read_before']:,}"
        )
    else:
        lines.append("nothing acknowledged was lost")
    if truth["divergent"]["final"]:
        lines.append(f"replicas differ in the end: {', '.join(truth['divergent']['final'])}")
    for what in ("duplicates", "reordered"):
        if truth[what]:
            lines.append(f"{what}: {sum(one['count'] for one in truth[what])}")
    if not truth["final"]:
        lines.append("some partition had no leader in the end, so there are no final reads")
    return "\n".join(lines)
