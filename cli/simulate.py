"""`logjudge simulate`: run the replication protocol under faults and write a run bundle."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ..histories.errors import UsageError, did_you_mean
from ..histories.simulation import scenario_file
from ..histories.simulation.bundle import Written, write_bundle
from ..histories.simulation.outcome import outcome
from ..models.exploration.schedule import PATTERNS, draw, is_known, required_options
from ..models.replication.config import OPTIONS, SECOND, ConfigError
from ..models.replication.faults.kinds import FAULTS
from ..models.replication.scenario import Scenario
from ..models.replication.variants import VARIANTS
from .completing import completed
from .folder import SIMULATED, write_whole
from .paths import LocalPath

DRAWN = ", ".join(PATTERNS)
WRITTEN = f"In a scenario file (--config) also {', '.join(sorted(set(FAULTS) - set(PATTERNS)))}"
LOAD = 120 * SECOND  # with faults, the load is spread over at least this long


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
    options: dict[str, Any] = dict(scenario.options)
    if brokers is not None:
        options["simulation.brokers"] = brokers
        options.setdefault("default.replication.factor", min(brokers, 3))
    if ops is not None:
        options["simulation.ops"] = ops
    options.update(option(text) for text in settings)
    scenario = replace(
        scenario,
        name=scenario.name if file else out.name,
        variant=variant or scenario.variant,
        seed=scenario.seed if seed is None else seed,
        options=options,
    )
    try:
        written = write(drawn(scenario, faults, fault_count), out)
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


def drawn(scenario: Scenario, faults: str | None, count: int) -> Scenario:
    """The scenario with faults of these kinds drawn from its seed, over the time of its load."""
    if not faults:
        return scenario
    kinds = [kind.strip() for kind in faults.split(",") if kind.strip()]
    for kind in kinds:
        if not is_known(kind):
            said = f"there are {DRAWN}; {WRITTEN[0].lower()}{WRITTEN[1:]}"
            raise UsageError(f"there is no fault {kind!r}; {said}{did_you_mean(kind, FAULTS)}")
        if kind not in PATTERNS:
            raise UsageError(f"the fault {kind!r} cannot be drawn; write it into a scenario file")
    options = {**required_options(kinds), **scenario.options}
    scenario = replace(scenario, options=options)
    config = scenario.config()
    if "simulation.send.interval.us" not in options:
        options["simulation.send.interval.us"] = max(config.interval, LOAD * config.producers // config.ops)
    load = config.ops * max(config.interval, options["simulation.send.interval.us"]) // config.producers
    found = draw(scenario.seed, config, kinds, count, 2 * SECOND, max(load // 2, SECOND), True)
    return scenario.with_faults(tuple(sorted((*scenario.faults, *found), key=lambda fault: fault.at)))


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


def write(scenario: Scenario, out: Path) -> Written:
    """Simulate into a new folder, or over an earlier bundle of the simulator. Raises UsageError."""
    written: list[Written] = []
    write_whole(out, lambda scratch: written.append(write_bundle(scenario, scratch)), SIMULATED)
    return replace(written[0], folder=out)


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
