"""`logjudge record`: records a workload against a real cluster, and judges it."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ..analysis.wording import nodes_of
from ..histories.errors import UsageError, unknown_name
from ..histories.output_folder import check_target
from .check import command as check
from .main import EXIT_USAGE
from .options import LocalPath, complete_names, settings_of
from .progress import silenced

if TYPE_CHECKING:
    from ..histories.recording.session import Progress

ALWAYS = frozenset(("out", "judges", "quiet", "bootstrap", "scenario"))
OF_SCENARIOS = frozenset(("kafka",))
_UNITS = {"s": 1, "m": 60, "h": 3600, "": 1}


def _scenarios() -> Iterable[str]:
    from ..histories.recording.scenarios import names

    return names()


def _workloads() -> Iterable[str]:
    from ..histories.recording.workloads import WORKLOADS

    return WORKLOADS


def _seconds(_: Any, __: Any, text: str) -> float:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([smh]?)", text)
    if not found:
        raise UsageError(f"found --duration {text}, expected a time such as 60s, 5m or 1h")
    return float(found[1]) * _UNITS[found[2]]


@click.command("record")
@click.option("--bootstrap-server", "bootstrap", metavar="HOST:PORT[,...]", help="The cluster to record against.")
@click.option(
    "--lab",
    "scenario",
    metavar="SCENARIO",
    shell_complete=complete_names(_scenarios),
    help="Start a cluster and record this scenario, or a .toml file; `list` prints all scenarios.",
)
@click.option("--kafka", default="", metavar="VERSION", help="Kafka's version, with --lab [default: the scenario's].")
@click.option(
    "--workload",
    default="append-and-read",
    show_default=True,
    shell_complete=complete_names(_workloads),
    help="The workload of the clients; `list` prints all workloads.",
)
@click.option(
    "--duration",
    "seconds",
    default="60s",
    show_default=True,
    callback=_seconds,
    metavar="TIME",
    help="Duration of the load: 60s, 5m or 1h.",
)
@click.option("--out", type=LocalPath(), help="The folder of the bundle [default: ./SCENARIO or ./WORKLOAD].")
@click.option(
    "--producer", "producer", multiple=True, metavar="NAME=VALUE", help="A producer's setting; may be repeated."
)
@click.option(
    "--consumer", "consumer", multiple=True, metavar="NAME=VALUE", help="A consumer's setting; may be repeated."
)
@click.option(
    "--client-config", "file", type=LocalPath(), help="A file with settings of all clients, such as TLS and SASL."
)
@click.option("--topic", default="", help="A topic that does not exist yet [default: logjudge-TIME].")
@click.option("--topic-config", "topic_config", multiple=True, metavar="NAME=VALUE", help="A setting of the topic.")
@click.option("--partitions", default=3, show_default=True, type=click.IntRange(1, 1000))
@click.option(
    "--replication-factor", "replicas", type=click.IntRange(1, 9), help="[default: 3, at most the number of brokers]"
)
@click.option("--producers", default=2, show_default=True, type=click.IntRange(1, 100))
@click.option("--consumers", default=2, show_default=True, type=click.IntRange(1, 100))
@click.option(
    "--rate",
    default=200.0,
    show_default=True,
    type=click.FloatRange(0.1),
    help="Sends per second of all producers together.",
)
@click.option("--size", default=0, type=click.IntRange(0, 900_000), help="Minimum size of a value in bytes.")
@click.option(
    "--keys", default=20, show_default=True, type=click.IntRange(1), help="Number of keys, for workloads with keys."
)
@click.option("--handle-ms", default=0, type=click.IntRange(0), help="Time that a group member takes to handle a poll.")
@click.option("--judge/--no-judge", "judges", default=True, help="Judge the run at the end, with the local engine.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    bootstrap: str | None,
    scenario: str | None,
    out: Path | None,
    judges: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Record the operations of real clients on a real cluster, and judge the run.

    --bootstrap-server runs a workload on your cluster, in a new topic that is not deleted. --lab starts a cluster on
    this machine, runs a workload with faults, and adds the brokers' files. Ctrl-C ends the load early; the final reads
    follow.

    Writes the bundle to OUT and the report to OUT-judged. The exit code is that of `check`.
    """
    if scenario == "list" or options["workload"] == "list":
        _show_list(scenario == "list")
        return
    if (scenario is None) == (bootstrap is None):
        raise UsageError("expected either --bootstrap-server (your cluster) or --lab (a cluster on this machine)")
    _refuse_options_without_effect(ctx, scenario is not None)
    folder = out or Path(Path(scenario).stem if scenario else options["workload"])
    judged = folder.with_name(folder.name + "-judged")
    if judges:
        check_target(judged)  # before anything is recorded
    report = _Report(quiet)
    done = (
        _record_lab(scenario, folder, options, report)
        if scenario
        else _record_cluster(bootstrap, folder, options, report)
    )
    report.summary(done.progress)
    if done.problem:
        click.echo(f"{folder} is incomplete: {done.problem}", err=True)
    if not judges:
        click.echo(f"{folder}: judge it with `logjudge check {folder}`")
        ctx.exit(EXIT_USAGE if done.problem else 0)
    with silenced() if quiet else nullcontext():
        ctx.exit(ctx.invoke(check, runs=(str(folder),), out=str(judged), engine="local"))


def _refuse_options_without_effect(ctx: click.Context, is_scenario: bool) -> None:
    """Raises UsageError for an option without effect.

    A scenario sets workload, clients and topic; --kafka needs a scenario.
    """
    for name in ctx.params:
        given = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and name not in ALWAYS and (name in OF_SCENARIOS) != is_scenario:
            option = "--" + {"replicas": "replication-factor", "file": "client-config", "seconds": "duration"}.get(
                name, name.replace("_", "-")
            )
            mode = "--lab, whose scenario sets it" if is_scenario else "--bootstrap-server"
            raise UsageError(f"found {option} with {mode}; leave it out")


def _record_lab(name: str, folder: Path, options: dict[str, Any], report: _Report) -> Any:
    from ..histories.recording.run import record_scenario
    from ..histories.recording.scenarios import load

    scenario = load(name)
    if options["kafka"]:
        scenario = replace(scenario, kafka=options["kafka"])
    return record_scenario(scenario, folder, report.show, report.notice)


def _record_cluster(bootstrap: str | None, folder: Path, options: dict[str, Any], report: _Report) -> Any:
    from datetime import UTC, datetime

    from ..histories.recording.kafka_clients import ClientSettings, admin_client, read_properties
    from ..histories.recording.run import Request, record
    from ..histories.recording.session import Load
    from ..histories.recording.workloads import WORKLOADS

    workload = options["workload"]
    if workload not in WORKLOADS:
        raise unknown_name("workload", workload, WORKLOADS)
    common = read_properties(options["file"]) if options["file"] else {}
    settings = ClientSettings(
        str(bootstrap), dict(common), *(settings_of(f"--{name}", options[name]) for name in ("producer", "consumer"))
    )
    replicas = options["replicas"] or min(3, len(admin_client(settings).list_topics(timeout=10).brokers))
    topic = options["topic"] or f"logjudge-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    same = {
        name: options[name] for name in ("partitions", "producers", "consumers", "rate", "size", "keys", "handle_ms")
    }
    load = Load(
        topic, replication_factor=replicas, topic_config=settings_of("--topic-config", options["topic_config"]), **same
    )
    report.notice(f"recording {workload} in topic {topic} of {bootstrap}")
    return record(Request(folder, workload, options["seconds"], load, settings), report.show, report.notice)


def _show_list(scenarios: bool) -> None:
    from ..histories.recording.scenarios import load, names
    from ..histories.recording.workloads import WORKLOADS

    rows = (
        [(name, load(name).title) for name in names()]
        if scenarios
        else [(n, (m.__doc__ or "").splitlines()[0]) for n, m in WORKLOADS.items()]
    )
    width = max(len(name) for name, _ in rows)
    for name, about in rows:
        click.echo(f"{name:<{width}}  {about}")


class _Report:
    """Progress on stderr: on a terminal one line that is overwritten, otherwise a line every ten seconds."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._is_terminal = sys.stderr.isatty()
        self._calls = 0
        self._last = (time.monotonic(), 0)  # when a line was shown, and the acknowledged sends until then

    def show(self, progress: Progress, left: float | None) -> None:
        """A line of rates, outcomes, lag, faults and the time left."""
        is_terminal = self._is_terminal
        self._calls += 1
        if self._quiet or not (is_terminal or self._calls % 10 == 1):
            return
        faults = "; ".join(f"{kind}: {nodes_of(nodes)}" for kind, nodes in progress.faults.items()) or "no fault"
        (before, sent), now = self._last, time.monotonic()
        self._last = now, progress.sends["ok"]
        rate = (progress.sends["ok"] - sent) / max(now - before, 0.001)
        time_left = "" if left is None else f"; {left:.0f} s left"
        read = "" if progress.has_other_readers else f"{progress.read:,} read, lag {progress.lag:,}; "
        line = f"{_outcomes(progress)} ({rate:.0f}/s); {read}{faults}{time_left}"
        click.echo(f"\r\x1b[K{line}" if is_terminal else line, err=True, nl=not is_terminal)

    def notice(self, text: str) -> None:
        """A step of the recording."""
        if not self._quiet:
            click.echo(("\r\x1b[K" if self._is_terminal else "") + text, err=True)

    def summary(self, progress: Progress) -> None:
        """Prints the outcomes of sends, and their most frequent errors."""
        read = "" if progress.has_other_readers else f"; {progress.read:,} read"
        self.notice(f"{_outcomes(progress)}{read}")
        for error, count in progress.errors.most_common(3):
            self.notice(f"  {count:,} sends: {error}")


def _outcomes(progress: Progress) -> str:
    sends = progress.sends
    return f"{sends['ok']:,} sends ok, {sends['fail']:,} failed, {sends['info']:,} unknown"
