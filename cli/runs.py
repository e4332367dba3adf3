"""Several runs in one call: a name for each, a line with each verdict, and an index of their reports."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..histories.errors import UsageError
from ..histories.files import is_uri, local_path
from ..histories.output_folder import name_of
from .output import COLOURS, printable

if TYPE_CHECKING:
    from ..plots.report.runs import Row

INDEX = "index.html"
ORDER = ("invalid", "error", "unknown", "not-judged", "valid")  # the worst first, as exit codes have it
MAX_LINES = 200
# File names that each run of a kind has, so that they name none.
GENERIC = frozenset(("history", "run", "brokers", "data", "kafka-logs", "server", "stdout"))


class Judged(NamedTuple):
    """One run of a call, judged or not."""

    name: str
    folder: str
    report: dict[str, Any] | None  # verdict.json
    headline: str  # or why it could not be judged

    @property
    def verdict(self) -> str:
        return self.report["verdict"] if self.report else "error"


def names_of(runs: Sequence[str]) -> list[str]:
    """A name for each run that tells it from the others: as many folders above it as that takes, else a number."""
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
            return _numbered(names)
        depths = deeper


def _parts(run: str) -> list[str]:
    """The folders above a run, and its name."""
    whole = run.rstrip("/").split("://", 1)[-1].split("/") if is_uri(run) else list(local_path(run).resolve().parts[1:])
    return [*whole[:-1], name_of(run)]


def _numbered(names: list[str]) -> list[str]:
    """The same run given twice gets a number."""
    taken = {INDEX}
    distinct = []
    for name in names:
        number, candidate = 2, name
        while candidate in taken:
            candidate, number = f"{name}-{number}", number + 1
        taken.add(candidate)
        distinct.append(candidate)
    return distinct


def check_index(base: str) -> None:
    """Refuses to write an index over a file that is none. Raises UsageError."""
    from ..plots.report.runs import MARK

    file = local_path(base) / INDEX
    if not file.exists() and not file.is_symlink():
        return
    if not file.is_file() or file.is_symlink() or MARK not in file.read_bytes()[:1000].decode(errors="replace"):
        raise UsageError(f"{file}: found a file that logjudge did not write; name another folder with --out")


def write_index(base: str, runs: Sequence[Judged]) -> Path:
    """Writes index.html, which links to the reports of the runs."""
    from ..plots.report.runs import index_of

    file = local_path(base) / INDEX
    file.parent.mkdir(parents=True, exist_ok=True)
    scratch = file.with_name(f".{INDEX}.new")
    scratch.write_text(index_of([_row(run) for run in _worst_first(runs)]), encoding="utf-8", errors="replace")
    scratch.replace(file)
    return file


def _row(run: Judged) -> Row:
    from ..plots.report.runs import Row

    counts = run.report["counts"] if run.report else {}
    rules = run.report["rules"].values() if run.report else ()
    broken = [item for item in run.report["assumptions"] if item["holds"] is not True] if run.report else []
    return Row(
        name=run.name,
        folder=run.folder.rstrip("/").rsplit("/", 1)[-1] if run.report else "",
        verdict=run.verdict,
        headline=run.headline,
        operations=counts.get("operations", 0),
        findings=sum(rule["findings"] for rule in rules),
        assumptions=", ".join(item["name"] for item in broken),
    )


def _worst_first(runs: Sequence[Judged]) -> list[Judged]:
    return sorted(runs, key=lambda run: ORDER.index(run.verdict))


def render(runs: Sequence[Judged], index: Path | None) -> str:
    """A line for each run, the worst first, and how many there are of each verdict."""
    counts = Counter(run.verdict for run in runs)
    total = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ORDER if counts[verdict])
    ordered = _worst_first(runs)
    shown = ordered[:MAX_LINES]
    width = max(len(printable(run.name)) for run in shown)
    columns = min(shutil.get_terminal_size((120, 40)).columns, 160)
    lines = ["", click.style(f"{len(runs)} runs: {total}", bold=True)]
    for run in shown:
        verdict = click.style(f"{run.verdict:10}", fg=COLOURS.get(run.verdict, "red"))
        name = f"{printable(run.name):{min(width, 40)}}"
        lines.append(f"  {verdict} {name}  {_clipped(printable(run.headline), columns - len(name) - 15)}")
    if len(runs) > len(shown):
        lines.append(f"  … and {len(runs) - len(shown):,} more")
    return "\n".join([*lines, *(["", f"Index of the reports: {index}"] if index else [])])


def _clipped(text: str, most: int) -> str:
    most = max(most, 20)
    return text if len(text) <= most else text[: most - 1] + "…"
