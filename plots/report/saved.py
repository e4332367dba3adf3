"""Writes and reads the results of `check`: verdict.json, findings.parquet and figures.json."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...histories.errors import NO_SUCH_FILE, InputError, LogjudgeError, describe_error, no_json
from ...histories.files import reason_of

if TYPE_CHECKING:
    import polars as pl

    from ...analysis.results import Results

_EXPECTED = "a folder that `logjudge check` wrote"
_AGAIN = "judge the run again with `logjudge check RUN --out DIR`"
_VERDICT = ("format", "verdict", "rules", "assumptions", "counts", "input")
_FIGURES = (
    "format", "name", "started_at", "span", "bins", "faults", "faults_left_out", "series", "latency", "impact",
    "never_received", "heat", "heat_left_out", "partitions", "partitions_left_out", "windows", "times",
)  # fmt: skip

_ADDED = ("topic_generation",)  # columns that findings of format 1 did not have at first


class Saved(NamedTuple):
    """The saved results of one run."""

    verdict: dict[str, Any]
    findings: pl.DataFrame
    figures: dict[str, Any]


def is_saved(folder: Path) -> bool:
    """Whether a folder has results of `logjudge check`."""
    return (folder / "verdict.json").is_file()


def load(folder: Path) -> Saved:
    """Loads the saved results of a run. Raises InputError if a file is missing, damaged, or of another version."""
    if not is_saved(folder):
        raise InputError(str(folder), "no verdict.json", _EXPECTED, _AGAIN)
    verdict = _object(folder / "verdict.json", _VERDICT)
    return Saved(verdict, _findings(folder / "findings.parquet"), load_figures(folder))


def load_figures(folder: Path) -> dict[str, Any]:
    """Loads figures.json. Raises InputError."""
    from ...analysis.figures.series import MAX_BINS

    file = folder / "figures.json"
    figures = _object(file, _FIGURES)
    count = figures["bins"].get("count") if isinstance(figures["bins"], dict) else None
    if not isinstance(count, int) or not 0 <= count <= MAX_BINS:  # a plot draws each of them
        raise InputError(str(file), f"bins.count = {count}", f"a number from 0 to {MAX_BINS}", _AGAIN)
    return figures


def write_result(folder: Path, report: dict[str, Any], results: Results, figures: dict[str, Any], plots: str) -> None:
    """Write verdict.json, findings.parquet, quarantine.jsonl, figures.json and the report into an existing folder.

    `plots`: `all` (SVG and PNG), `findings` (SVG of a run with a breach, a permitted finding or a cause) or `none`.
    """
    from .postmortem import write_report

    findings = results.findings()

    def save() -> None:
        (folder / "verdict.json").write_text(json.dumps(report, indent=2) + "\n")
        # Polars cannot open a path with bytes that are not UTF-8, and hides the error number of a full disk.
        (folder / "findings.parquet").write_bytes(_in_memory(findings.write_parquet))
        (folder / "quarantine.jsonl").write_bytes(_in_memory(results.quarantine().write_ndjson))
        save_figures(folder, figures)

    # A truncation has a cause without a finding if no clients are recorded.
    has_cause = any(cause["cause"] != "unknown" and not cause["findings"] for cause in report["causes"])
    is_drawn = has_cause or bool((findings["severity"] != "note").any())
    endings = {"all": ("svg", "png"), "findings": ("svg",) if is_drawn else (), "none": ()}[plots]
    write_report(folder, report, findings, figures, endings, meanwhile=save)


def _in_memory(write: Callable[[io.BytesIO], None]) -> bytes:
    """The bytes that a writer of polars writes."""
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


def save_figures(folder: Path, figures: dict[str, Any]) -> None:
    """Writes figures.json, the last of the three files. Its checksum of all three reveals later edits."""
    content = {**figures, "sealed": _checksum(folder, figures)}
    (folder / "figures.json").write_text(_text(content) + "\n", encoding="utf-8")


@contextmanager
def drawn_from(folder: Path) -> Iterator[None]:
    """A context for drawing saved results.

    Raises InputError if drawing fails and the files were changed since they were saved. Other failures are bugs of
    logjudge, and are raised as they are.
    """
    try:
        yield
    except (LogjudgeError, OSError):
        raise
    except Exception as error:
        if not is_saved(folder) or _is_unchanged(folder):
            raise
        found = f"results that cannot be drawn ({type(error).__name__}: {describe_error(error)})"
        raise InputError(str(folder), found, "them as `logjudge check` wrote them", _AGAIN) from error


def _is_unchanged(folder: Path) -> bool:
    figures = load_figures(folder)
    return bool(figures.pop("sealed", None) == _checksum(folder, figures))


def _checksum(folder: Path, figures: dict[str, Any]) -> str:
    whole = hashlib.sha256(_text(figures).encode())
    for name in ("verdict.json", "findings.parquet"):
        whole.update((folder / name).read_bytes() if (folder / name).is_file() else b"")
    return whole.hexdigest()


def _text(figures: dict[str, Any]) -> str:
    return json.dumps(figures, separators=(",", ":"))


def _object(file: Path, needed: tuple[str, ...]) -> dict[str, Any]:
    if not file.is_file():
        raise InputError(str(file), NO_SUCH_FILE, _EXPECTED, _AGAIN)
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        found = reason_of(error) if isinstance(error, OSError) else no_json(error)
        raise InputError(str(file), found, "the JSON that `logjudge check` wrote", _AGAIN) from error
    if not isinstance(content, dict) or content.get("format") != 1:
        found = f"format {content.get('format')!r}" if isinstance(content, dict) else "no JSON object"
        raise InputError(str(file), found, "format 1", _AGAIN)
    missing = [name for name in needed if name not in content]
    if missing:
        raise InputError(str(file), f"no key {missing[0]!r}", "a file of this version of logjudge", _AGAIN)
    return content


def _findings(file: Path) -> pl.DataFrame:
    """The saved findings. Columns that were added to format 1 later are null."""
    import polars as pl

    from ...histories.tables import FINDINGS, complete

    if not file.is_file():
        raise InputError(str(file), NO_SUCH_FILE, _EXPECTED, _AGAIN)
    try:
        saved = pl.read_parquet(file.read_bytes())
        first = saved.select([name for name in FINDINGS if name not in _ADDED or name in saved.columns])
        return complete(first, FINDINGS).cast(pl.Schema(FINDINGS))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(
            str(file), describe_error(error), "the findings that `logjudge check` wrote", _AGAIN
        ) from error
