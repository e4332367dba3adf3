"""`logjudge check`: judges runs, prints the verdicts, and writes the reports."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ..histories.errors import UsageError
from ..histories.files import is_uri
from ..histories.readers import CHECKED
from .engines import Engine, Spark, SparkEngine, SteppingEngine, engine_options
from .judging import Judged, Task, judge, judge_or_report, request_of
from .judging_processes import are_for_processes, judge_in_processes
from .main import EXIT_BREACH, EXIT_CRASH, EXIT_UNKNOWN, EXIT_USAGE, EXIT_VALID, worst_exit
from .options import AnyPath, Choice, LocalPath, complete_names, from_formats, write_text
from .output import render
from .runs import check_index, names_of, note_replaced, saved_provenance, write_index
from .runs import render as render_runs

EXAMPLES = (
    ("logjudge check run/", "a run bundle, into logjudge-out/run"),
    ("logjudge check history.jsonl --engine local --open", "without Spark; opens the report"),
    ("zcat history.jsonl.gz | logjudge check -", "from standard input"),
    ("logjudge check run/ --state soak.state", "a growing run: judges what was appended since the last call"),
    ("logjudge check run/ --only lost-write --only unseen", "two rules"),
    ("logjudge check run/ --allow lost-write:acks=1", "accepts losses under acks=1"),
    ("logjudge check history.edn --model snapshot-isolation", "Elle's list-append or rw-register history"),
    ("logjudge check runs/* --format junit --out judged > junit.xml", "several runs, for CI"),
)


class CommandWithRules(click.Command):
    """A command whose help ends with examples and rules. It imports the rules only for the help."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from ..analysis.rules import RULES

        width = max(len(command) for command, _ in EXAMPLES)
        groups: dict[str, list[str]] = {}
        for rule in RULES.values():
            groups.setdefault(f"{rule.group}:", []).append(rule.name)
        # \b keeps click from wrapping the lines.
        self.epilog = "\n".join(
            [
                *("\b", "Examples:"),
                *(f"  {command:{width}}  {about}" for command, about in EXAMPLES),
                *("", "\b", "Rules (`logjudge rules` explains them):"),
                *(f"  {group:13} {', '.join(names)}" for group, names in groups.items()),
            ]
        )
        super().format_epilog(ctx, formatter)


FORMS = Choice(["junit", "sarif", "github"])


def _forms_and_files(
    ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]
) -> list[tuple[str, str | None]]:
    """FORMAT or FORMAT=FILE: each a format, and its file or None."""
    parts = [text.partition("=") for text in texts]
    if lacking := [form for form, given, file in parts if given and not file]:
        raise click.BadParameter(f"found {lacking[0]}=, expected a file after it", ctx, param)
    return [(FORMS.convert(form, param, ctx), file or None) for form, _, file in parts]


EXITS = {
    "valid": EXIT_VALID,
    "invalid": EXIT_BREACH,
    "unknown": EXIT_UNKNOWN,
    "error": EXIT_USAGE,
    "crashed": EXIT_CRASH,
}


def _rule_names() -> Iterable[str]:
    from ..analysis.rules import ALL_RULES

    return ALL_RULES


DEFAULT_OUT = "logjudge-out"
RULE: dict[str, Any] = {"multiple": True, "shell_complete": complete_names(_rule_names)}
SMALL_RUN = 200_000  # operations and broker records: Spark takes longer to start than to judge them


@click.command(cls=CommandWithRules)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=AnyPath(takes_stdin=True))
@click.option(
    "--out", metavar="FOLDER", type=AnyPath(), help="Folder or URI for the report [default: logjudge-out/RUN]."
)
@click.option(
    "--state",
    metavar="FILE",
    type=LocalPath(),
    help="For a history that grows: judge on from this file, and write it for the next call.",
)
@from_formats(*CHECKED)
@click.option("--json", "as_json", is_flag=True, help="Print only verdict.json.")
@click.option(
    "--format",
    "forms",
    metavar=f"[{'|'.join(FORMS.choices)}][=FILE]",
    multiple=True,
    callback=_forms_and_files,
    shell_complete=complete_names(lambda: FORMS.choices),
    help="Print for a CI system; FORMAT=FILE writes a file. May be repeated.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print errors only; the exit code is the verdict.")
@click.option("--open", "opens", is_flag=True, help="Open report.html in a browser.")
@click.option("--only", metavar="RULE", help="Judge only this rule; may be repeated.", **RULE)
@click.option("--skip", metavar="RULE", help="Leave this rule out; may be repeated.", **RULE)
@click.option(
    "--allow",
    metavar="RULE[:acks=1]",
    help="Accept breaches of this rule and their consequences; may be repeated.",
    **RULE,
)
@click.option(
    "--strict",
    is_flag=True,
    help="Count findings that the configuration permits as breaches, unless --allow accepts them.",
)
@click.option(
    "--ww-deps",
    is_flag=True,
    help="In Jepsen histories: also search cycles of ww dependencies, and permit G1c, as Jepsen's ww-deps does.",
)
@click.option(
    "--model",
    metavar="MODEL",
    default="strict-serializable",
    show_default=True,
    help="In Elle's histories: the consistency model to demand; what it allows is permitted.",
)
@click.option(
    "--keys",
    multiple=True,
    type=Choice(["wfr", "sequential", "linearizable"]),
    help="In Elle's register histories: assume this of each key by itself, to order its versions; may be repeated.",
)
@click.option(
    "--plots",
    type=Choice(["none", "findings", "all"]),
    default="findings",
    show_default=True,
    help="findings: SVG plots of runs with breaches, permitted findings or explained truncations; "
    "all: SVG and PNG plots of every run.",
)
@click.option("--no-plots", "plots", flag_value="none", help="Short for --plots none.")
@engine_options(default="spark")
def command(runs: tuple[str, ...], out: str | None, spark: Spark | None, **options: Any) -> int:
    """Judge recorded runs: lost records, order violations, diverged replicas, and the assumptions of each verdict.

    RUN is a run bundle (a folder), a history file (JSON lines, Parquet, Jepsen EDN, or the output of Kafka's
    VerifiableProducer and VerifiableConsumer), broker files (log folders, server.log, the text of kafka-dump-log),
    a URI that Spark reads (s3a://, hdfs://, ...), or - for standard input.

    Histories of transactions on lists or registers, as Elle checks them (--from elle-append, elle-register), are
    judged for isolation anomalies and the consistency models that these rule out.

    Exit code: 0 valid, 1 a breach, 2 the input cannot be read, 3 unknown, 70 a bug of logjudge.
    """
    if options["opens"] and out and is_uri(out):
        raise UsageError(f"found --open with --out {out}, expected a local folder")
    is_quiet = _prints_for_machines(options) or options["quiet"]
    request_of(options)  # before anything is judged
    tasks = _tasks(runs, out, options)
    has_index = len(runs) > 1 and not is_uri(out or "")
    if has_index:
        check_index(out or DEFAULT_OUT)
    engine = _engine(runs, spark, options["state"])
    judged: list[Judged] = []
    earlier = [saved_provenance(task.folder) for task in tasks]
    for run, replaced in zip(_judge_tasks(tasks, engine), earlier, strict=True):
        judged.append(run)
        if not options["quiet"]:
            note_replaced(run, replaced)
        # With several runs, a valid one only has its line in the list at the end.
        if run.report and not is_quiet and (len(runs) == 1 or run.verdict != "valid"):
            click.echo(render(run.report, run.folder, run.seconds))
            if engine.remark:
                click.echo(engine.remark, err=True)
    index = write_index(out or DEFAULT_OUT, judged) if has_index else None
    if len(runs) > 1 and not is_quiet:
        click.echo(render_runs(judged, index))
    _print_for_machines(judged, options)
    if not options["quiet"] and not any(map(is_uri, (*runs, out or ""))):
        _hint(judged, spark)
    if options["opens"]:
        _open([index] if index else [Path(task.folder) / "report.html" for task in tasks])
    return worst_exit(EXITS["crashed" if run.is_bug else run.verdict] for run in judged)


def _prints_for_machines(options: dict[str, Any]) -> bool:
    """Whether stdout is for a machine. Raises UsageError if it would get two forms."""
    printed = [form for form, file in options["forms"] if file is None]
    both = [*(["--json"] if options["as_json"] else []), *(f"--format {form}" for form in printed)]
    if len(both) > 1:
        hint = f"; --format {printed[-1]}=FILE writes a file"
        raise UsageError(f"found {' and '.join(both)}, expected one of them: both print to stdout{hint}")
    return bool(both)


def _tasks(runs: tuple[str, ...], out: str | None, options: dict[str, Any]) -> list[Task]:
    """A task for each run. The results of a single run go to --out, those of several to folders below it."""
    names, base = names_of(runs), (out or DEFAULT_OUT).rstrip("/")
    folders = [out] if out and len(runs) == 1 else [f"{base}/{name}" for name in names]
    places = zip(runs, names, folders, strict=True)
    return [Task(run, name, folder, options, len(runs) > 1) for run, name, folder in places]


def _judge_tasks(tasks: list[Task], engine: Engine) -> Iterator[Judged]:
    """The tasks in their order. An error of one does not stop the others, unless they would fail like it."""
    if engine.name == Engine.name and are_for_processes([task.path for task in tasks]):
        yield from judge_in_processes(tasks, engine)
    elif len(tasks) == 1 and not tasks[0].options["forms"]:
        yield judge(tasks[0], engine)
    else:
        for task in tasks:
            yield judge_or_report(task, engine)


def _engine(runs: tuple[str, ...], spark: Spark | None, state: Path | None) -> Engine:
    if state is None:
        return Engine() if spark is None else SparkEngine(spark, len(runs))
    if spark is not None and (any(spark) or _is_engine_chosen()):
        raise UsageError("found --state with Spark, expected the local engine, which judges in steps")
    if len(runs) > 1:
        raise UsageError(f"found --state with {len(runs)} runs, expected one: a state belongs to one run")
    return SteppingEngine(state)


def _is_engine_chosen() -> bool:
    source = click.get_current_context().get_parameter_source
    return any(source(name) is not ParameterSource.DEFAULT for name in ("engine", "is_spark"))


def _open(files: list[Path]) -> None:
    import webbrowser

    for report in files:
        if report.is_file() and not webbrowser.open(report.absolute().as_uri()):
            click.echo(f"could not start a browser; the report is {report}", err=True)


def _hint(judged: list[Judged], spark: Spark | None) -> None:
    """Recommends the local engine where Spark was started by default for a small run."""
    if _is_engine_chosen() or any(spark or ()) or not sys.stderr.isatty():
        return
    counts = [run.report["counts"] for run in judged if run.report and run.report["input"]["engine"] == "spark"]
    if 0 < sum(each.get("operations", 0) + each.get("kept records", 0) for each in counts) < SMALL_RUN:
        click.echo("This is a small run: --engine local judges it without starting Spark.", err=True)


def _print_for_machines(judged: list[Judged], options: dict[str, Any]) -> None:
    """Prints the report of one run, or a list: judged runs, then runs that could not be judged."""
    if options["as_json"]:
        reports = [run.report for run in judged if run.report]
        failures = [{"input": {"name": run.name}, "error": run.headline} for run in judged if not run.report]
        content = [*reports, *failures]
        json.dump(content if len(judged) > 1 else content[0], sys.stdout, indent=2)
        sys.stdout.write("\n")
    for form, file in options["forms"]:
        from .formats import FORMATS

        text = FORMATS[form](judged)
        if file is None:
            click.echo(text)
        else:
            write_text(f"--format {form}=", Path(file), f"{text}\n")
