"""Several runs in one call: their names, a line for each verdict, and an index of their reports."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..analysis.verdict.assumptions import broken_assumptions
from ..analysis.wording import clipped, plural, printable
from ..histories.errors import UsageError
from ..histories.files import is_uri, local_path
from ..histories.output_folder import MARK, name_of
from ..histories.scratch import replace_file
from .judging import Judged
from .output import COLOURS
from .progress import note

if TYPE_CHECKING:
    from ..plots.report.index_pages import Row

INDEX = "index.html"
ORDER = ("invalid", "error", "unknown", "not-judged", "valid")  # worst first, as for exit codes
MAX_LINES = 200
MAX_VALID = 20  # runs that have a line each
# File names that are the same in many runs, so they do not identify one.
GENERIC = frozenset(("history", "run", "brokers", "data", "kafka-logs", "server", "stdout"))


def names_of(runs: Sequence[str]) -> list[str]:
    """A distinct name for each run: with as many parent folders as needed, else with a number."""
    parts = [_parts(run) for run in runs]
    depths = [2 if each[-1] in GENERIC else 1 for each in parts]
    while True:
        names = ["-".join(each[-depth:]) for each, depth in zip(parts, depths, strict=True)]
        counts = Counter(names)
        deeper = [
            depth + (counts[name] > 1 and depth < len(each))
            for name, each, depth in zip(names, parts, depths, strict=True)
        ]
        if deeper == depths:
            return _number_duplicates(names)
        depths = deeper


def _parts(run: str) -> list[str]:
    """The parent folders of a run, and its name."""
    # Not Path.resolve: it raises RuntimeError for a link to itself before Python 3.13.
    local = Path() if is_uri(run) else Path(os.path.realpath(local_path(run)))
    whole = run.rstrip("/").split("://", 1)[-1].split("/") if is_uri(run) else list(local.parts[1:])
    return [*whole[:-1], name_of(run)]


def _number_duplicates(names: list[str]) -> list[str]:
    """Appends a number to names that occur more than once."""
    taken = {INDEX}
    distinct = []
    for name in names:
        number, candidate = 2, name
        while candidate in taken:
            candidate, number = f"{name}-{number}", number + 1
        taken.add(candidate)
        distinct.append(candidate)
    return distinct


def saved_provenance(folder: str) -> dict[str, Any]:
    """The provenance of the result in a folder; empty without one."""
    try:
        content = {} if is_uri(folder) else json.loads((local_path(folder) / MARK).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    provenance = content.get("provenance") if isinstance(content, dict) else None
    return provenance if isinstance(provenance, dict) else {}


def note_replaced(run: Judged, earlier: dict[str, Any]) -> None:
    """Prints a notice if the result replaced that of another run: of other files, not named in its command."""
    command = earlier.get("command")
    if run.report is None or not isinstance(command, str):
        return
    now = run.report["provenance"]
    is_same = now["inputs"] == earlier.get("inputs") != [] or now["command"] == command
    if not is_same and shlex.quote(run.path) not in command.split(" "):
        judged = printable(clipped(command, 300))
        note(f"{run.folder}: replaces the result of `{judged}`, which judged another run; --out FOLDER keeps both")


def check_index(base: str) -> None:
    """Raises UsageError if index.html exists and logjudge did not write it."""
    from ..plots.report.index_pages import MARK

    file = local_path(base) / INDEX
    if not file.exists() and not file.is_symlink():
        return
    if not file.is_file() or file.is_symlink() or MARK not in file.read_bytes()[:1000].decode(errors="replace"):
        raise UsageError(f"{file}: found a file that logjudge did not write; name another folder with --out")


def write_index(base: str, runs: Sequence[Judged]) -> Path:
    """Writes index.html, which links to the reports of the runs."""
    from ..plots.report.index_pages import index_of

    return write_page(base, index_of([_row(run) for run in _worst_first(runs)]))


def write_page(base: str, text: str) -> Path:
    """Writes index.html whole or not at all; `check_index` has allowed it."""
    file = local_path(base) / INDEX
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, text.encode(errors="replace"))
    return file


def _row(run: Judged) -> Row:
    from ..plots.report.index_pages import Row

    counts = run.report["counts"] if run.report else {}
    rules = run.report["rules"].values() if run.report else ()
    broken = broken_assumptions(run.report) if run.report else []
    return Row(
        name=run.name,
        folder=run.folder.rstrip("/").rsplit("/", 1)[-1] if run.report else "",
        verdict=run.verdict,
        headline=run.headline,
        operations=counts.get("operations", 0),
        findings=sum(rule["findings"] for rule in rules),
        assumptions=", ".join(item["name"] for item in broken),
        causes=", ".join(_causes_of(run)),
    )


def _causes_of(run: Judged) -> list[str]:
    """The causes of its breaches, each once."""
    incidents = run.report.get("incidents", ()) if run.report else ()
    return list(dict.fromkeys(one["cause"] for one in incidents if one["severity"] == "violation"))


def _worst_first(runs: Sequence[Judged]) -> list[Judged]:
    return sorted(runs, key=lambda run: ORDER.index(run.verdict))


def _reason(run: Judged) -> str:
    """The headline, or what is missing where no breach was found."""
    broken = broken_assumptions(run.report) if run.report else []
    return f"{broken[0]['name']}: {broken[0]['says']}" if run.verdict == "unknown" and broken else run.headline


def render(runs: Sequence[Judged], index: Path | None) -> str:
    """The count of each verdict, then a line for each run, worst first; many valid runs share a line."""
    counts = Counter(run.verdict for run in runs)
    total = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ORDER if counts[verdict])
    ordered = _worst_first(runs)
    if is_folded := counts["valid"] > MAX_VALID:
        ordered = ordered[: -counts["valid"]]
    shown = ordered[:MAX_LINES]
    width = max((len(printable(run.name)) for run in shown), default=0)
    columns = min(shutil.get_terminal_size((120, 40)).columns, 160)
    lines = ["", click.style(f"{len(runs)} runs: {total}", bold=True)]
    for run in shown:
        verdict = click.style(f"{run.verdict:10}", fg=COLOURS.get(run.verdict, "red"))
        name = f"{printable(run.name):{min(width, 40)}}"
        lines.append(f"  {verdict} {name}  {clipped(printable(_reason(run)), max(columns - len(name) - 15, 20))}")
    if len(ordered) > len(shown):
        lines.append(f"  … and {len(ordered) - len(shown):,} more")
    if is_folded:
        verdict = click.style(f"{'valid':10}", fg=COLOURS["valid"])
        lines.append(f"  {verdict} {counts['valid']:,} runs, without a breach")
    if causes := Counter(cause for run in runs for cause in _causes_of(run)):
        found = ", ".join(f"{cause} in {plural(count, 'run')}" for cause, count in causes.most_common())
        lines += ["", f"Causes of breaches: {found}"]
    reports = [run.report["counts"] for run in runs if run.report]
    if reports and all(counts.get("evidence files") and not counts.get("operations") for counts in reports):
        lines += [
            "",
            "These are only brokers' files. Those of one cluster are one run: put them into one folder, and name that.",
        ]
    return "\n".join([*lines, *(["", f"Index of the reports: {index}"] if index else [])])
