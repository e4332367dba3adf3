"""`logjudge simulate`: runs the replication protocol under faults and writes a run bundle."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ..analysis.wording import plural
from ..histories.errors import unknown_name
from ..histories.simulation.bundle import WrittenBundle
from ..histories.simulation.message_page import FORMS, markdown, player
from ..histories.simulation.outcome import outcome
from ..histories.simulation.request import DRAWABLE, FILE_ONLY, late_faults, simulate_request
from ..histories.simulation.scenarios import load, names
from ..histories.simulation.truth_file import handled_again, read_before_loss
from ..models.exploration.message_trace import MAX_MESSAGES, trace_run
from ..models.exploration.schedule import PATTERNS
from ..models.replication.config import SECOND
from ..models.replication.options import OPTIONS
from ..models.replication.scenario import Scenario
from ..models.replication.variants import VARIANTS
from .options import Choice, LocalPath, NewFile, complete_names, quiet_option, setting, write_text


def listed(heading: str, texts: Mapping[str, str]) -> str:
    """Names with a text each, as a part of a command's help; \\b keeps click from wrapping the lines."""
    width = max(map(len, texts))
    return "\n".join(["\b", f"{heading}:", *(f"  {name:{width}}  {text}" for name, text in texts.items())])


VARIANT_HELP = listed(
    "Variants (docs/mechanisms.md has what each breaks)", {name: variant.summary for name, variant in VARIANTS.items()}
)

settings_option = click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting, by Kafka's name."
)


@click.command("simulate", epilog=f"{VARIANT_HELP}\n\nSettings for --set: {', '.join(OPTIONS)}.")
@click.option(
    "--variant", type=Choice(list(VARIANTS)), help="The protocol variant [default: kip-320, or that of the file]."
)
@click.option("--seed", type=int, help="Seed of all randomness [default: 0].")
@click.option("--brokers", type=click.IntRange(1, 99), help="Number of brokers, and of replicas up to 3 [default: 3].")
@click.option("--ops", type=click.IntRange(1), help="Number of records to send [default: 1000].")
@click.option(
    "--faults",
    help=f"Kinds of faults to draw, separated by commas: {DRAWABLE}. Only {FILE_ONLY}.",
    shell_complete=complete_names(lambda: PATTERNS),
)
@click.option(
    "--fault-count",
    default=3,
    show_default=True,
    type=click.IntRange(1, 10_000),
    help="Number of faults to draw, at least one of each kind.",
)
@settings_option
@click.option("--config", "file", metavar="NAME|FILE", help="A scenario of the catalogue, or a scenario file (TOML).")
@click.option("--out", required=True, type=LocalPath(), help="The folder of the bundle; an earlier bundle is replaced.")
@click.option(
    "--trace",
    type=NewFile(*FORMS),
    help="Also write the messages of partition 0 with the log ends and high watermarks after each: a table and a "
    "diagram (.md), or a player (.html). The first 200 that move something.",
)
@click.option(
    "--trace-from", default=0.0, show_default=True, type=click.FloatRange(0, 10**6), help="Trace from this second on."
)
@quiet_option
def command(
    variant: str | None,
    seed: int | None,
    brokers: int | None,
    ops: int | None,
    faults: str | None,
    fault_count: int,
    settings: tuple[str, ...],
    file: str | None,
    out: Path,
    trace: Path | None,
    trace_from: float,
) -> None:
    """Run Kafka's replication protocol under faults, and write a bundle that `check` judges like a real run.

    The same seed and configuration write the same bytes, on every machine.
    """
    kinds, options = (faults or "").split(","), dict(map(option, settings))
    written, scenario = simulate_request(
        out, file, kinds, fault_count, variant=variant, seed=seed, brokers=brokers, ops=ops, settings=options
    )
    warn(scenario, written)
    click.echo(summary(written))
    if trace is not None:
        _write_trace(scenario, trace, round(trace_from * SECOND))
    for line in _expected_breaches(written, scenario):
        click.echo(line)
    click.echo(f"`logjudge check {out} --engine local` judges it")


def _write_trace(scenario: Scenario, path: Path, since: int) -> None:
    """Run the scenario again, and write its messages."""
    messages, end = trace_run(scenario, since=since)
    messages, left = messages[:MAX_MESSAGES], messages[MAX_MESSAGES:]
    title = scenario.title or scenario.name
    text = player(messages, title) if path.suffix == ".html" else markdown(messages, title)
    write_text("--trace ", path, text)
    shown = plural(len(messages), "message")
    if left:
        shown = (
            f"{len(messages)} of {len(messages) + len(left):,} messages; --trace-from {_seconds(left[0].time)} shows"
        )
        shown += " the next"
    elif not messages and since > end:
        shown = f"no message, as the run ended at {_seconds(end)} s; --trace-from takes an earlier second"
    click.echo(f"{path}: {shown}")


def _seconds(time: int) -> str:
    """A time (us) in seconds, exactly."""
    return f"{time / SECOND:.6f}".rstrip("0").rstrip(".")


def _expected_breaches(written: WrittenBundle, scenario: Scenario) -> list[str]:
    """For each invariant that the scenario file expects to be broken: whether it was."""
    breaks = outcome(written.cluster, scenario).breaks if scenario.breaks else {}
    return [
        f"{name} was broken, as the scenario file expects: {breaks[name]}"
        if name in breaks
        else f"{name} held, but the scenario file expects it to be broken"
        for name in scenario.breaks
    ]


def option(text: str) -> tuple[str, Any]:
    """The name and the value of a setting NAME=VALUE. Raises UsageError."""
    name, value = setting("--set", text)
    if name not in OPTIONS:
        raise unknown_name("setting", repr(name), OPTIONS, "`logjudge simulate --help`")
    if value in ("true", "false"):
        return name, value == "true"
    return name, int(value) if re.fullmatch("-?[0-9]{1,19}", value) else value


def warn(scenario: Scenario, written: WrittenBundle) -> None:
    """Print warnings about faults that came too late on stderr.

    Those of the catalogue are intended, and those of a file were early enough if they broke what the file expects.
    """
    if scenario.name in names() and scenario == load(scenario.name):
        return
    if scenario.breaks and {*scenario.breaks} <= {*outcome(written.cluster, scenario).breaks}:
        return
    for warning in late_faults(scenario, written):
        click.echo(f"Warning: {warning}", err=True)


def _group_line(group: dict[str, Any] | None) -> str:
    if group is None:
        return ""
    return (
        f"; generations of the group: {group['generations']}; "
        f"longest time of a partition without an owner: {group['longest_without_owner'] / SECOND:.1f} s"
    )


def summary(written: WrittenBundle) -> str:
    """The outcome of the simulation in a few lines."""
    truth = written.truth
    lines = [
        f"{written.folder}: {written.lines:,} client events, {truth['protocol_events']:,} protocol events, "
        f"{plural(truth['acknowledged'], 'record')} acknowledged",
        f"elections: {truth['elections']} ({truth['unclean_elections']} unclean); ISR shrinks: {truth['isr_shrinks']}",
    ]
    if truth["not_acknowledged"] is not None:
        lines.append(
            f"records refused or given up: {truth['not_acknowledged']:,}; longest time without an acknowledgement: "
            f"{truth['longest_silence_ms'] / 1000:.1f} s"
        )
    if truth["lost_acked_count"]:
        lines.append(
            f"acknowledged records lost: {truth['lost_acked_count']:,} ({truth['cause']}); {read_before_loss(truth)}"
        )
    else:
        lines.append("no acknowledged record was lost")
    if truth["divergent"]["final"]:
        lines.append(f"replicas differ at the end: {', '.join(truth['divergent']['final'])}")
    for what in ("duplicates", "reordered"):
        if truth[what]:
            lines.append(f"{what}: {sum(one['count'] for one in truth[what])}")
    if truth["handled"]:
        lines.append(f"records handled again: {handled_again(truth):,}" + _group_line(truth.get("group")))
    if not truth["final"]:
        lines.append("a partition had no leader at the end, so there are no final reads")
    return "\n".join(lines)
