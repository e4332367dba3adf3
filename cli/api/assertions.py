"""`logjudge.assert_valid`: the assertion of a test, with a message that explains a failure."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .result import Result

SHOWN = 5  # findings, causes and assumptions of a message
WIDTH = 110  # columns


def assert_valid(run: Any, allow: str | Iterable[str] = (), **options: Any) -> Result:
    """Judge a run and raise an AssertionError unless it is valid; return the result.

    `run` is what `logjudge.check` takes, a Recorder (which is finished first), or a Result. `options` are those of
    `logjudge.check`.
    """
    from .histories.recording.recorder import Recorder
    from .judging import check
    from .result import Result

    if isinstance(run, Result):
        run.assert_valid(allow)
        return run
    path = run.finish() if isinstance(run, Recorder) else run
    result: Result = check(os.fspath(path) if isinstance(path, os.PathLike) else path, allow=allow, **options)
    raise_unless_valid(result)
    return result


def raise_unless_valid(result: Result) -> None:
    """Raise an AssertionError that explains the verdict, unless it is valid."""
    __tracebackhide__ = True
    if result.verdict != "valid":
        raise AssertionError("\n".join(_explanation(result)))


def _explanation(result: Result) -> list[str]:
    lines = [f"{result.name}: {result.verdict}. {result.headline}"]
    breaches = [finding for finding in result.report["findings"] if finding["severity"] == "violation"]
    for finding in breaches[:SHOWN]:
        lines += _item(f"{finding['rule']}: {finding['sentence']}{_place(finding)}")
    total = sum(rule["findings"] for rule in result.rules.values())
    if total > SHOWN:
        lines.append(f"  … {total - SHOWN:,} more findings")
    causes = [incident for incident in result.incidents if incident.get("cause") not in (None, "unknown")]
    for incident in causes[:SHOWN]:
        lines += _item(f"cause {incident['cause']}: {incident['headline']}")
    broken = [item for item in result.assumptions if item["holds"] is not True]
    for item in broken[:SHOWN]:
        lines += _item(f"not known, {item['name']}: {item['says']}")
    return lines


def _place(finding: dict[str, Any]) -> str:
    places = [f"{item['source']}:{item['line']}" for item in finding["evidence"] if item["line"] is not None]
    return f" [{', '.join(dict.fromkeys(places[:3]))}]" if places else ""


def _item(text: str) -> list[str]:
    printable = "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)
    return textwrap.wrap(printable, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
