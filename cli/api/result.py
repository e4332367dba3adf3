"""`Result`: the verdict of `logjudge.check` as data, as a report, and as an assertion."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Iterable
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .analysis.verdict.assumptions import broken_assumptions
from .analysis.wording import printable
from .histories.output_folder import write_whole

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from .analysis.results import Results


SHOWN = 5  # findings, causes and assumptions of a message
WIDTH = 110  # columns


def raise_unless_valid(*results: Result) -> None:
    """Raise an AssertionError that explains each verdict that is not valid, unless all are."""
    __tracebackhide__ = True
    failed = [result for result in results if result.verdict != "valid"]
    if failed:
        raise AssertionError(
            "\n".join(line for result in failed for line in _explanation(result.report, result.headline))
        )


def _explanation(report: dict[str, Any], headline: str) -> list[str]:
    lines = [f"{report['input']['name']}: {report['verdict']}. {headline}"]
    breaches = [finding for finding in report["findings"] if finding["severity"] == "violation"]
    for finding in breaches[:SHOWN]:
        lines += _item(f"{finding['rule']}: {finding['sentence']}{_place(finding)}")
    total = sum(rule["findings"] for rule in report["rules"].values())
    if total > SHOWN:
        lines.append(f"  … {total - SHOWN:,} more findings")
    causes = [incident for incident in report.get("incidents", ()) if incident.get("cause") not in (None, "unknown")]
    for incident in causes[:SHOWN]:
        lines += _item(f"cause {incident['cause']}: {incident['headline']}")
    for item in broken_assumptions(report)[:SHOWN]:
        lines += _item(f"broken assumption {item['name']}: {item['says']}")
    return lines


def _place(finding: dict[str, Any]) -> str:
    places = [f"{item['source']}:{item['line']}" for item in finding["evidence"] if item["line"] is not None]
    return f" [{', '.join(dict.fromkeys(places[:3]))}]" if places else ""


def _item(text: str) -> list[str]:
    return textwrap.wrap(printable(text), WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


_FRAME_HEIGHT = 420  # pixels of the report's first screen in a notebook


class Result:
    """The verdict on one run.

    result = logjudge.check("examples/unclean-election")
    result.verdict                  # 'invalid'
    result.findings.filter(rule="lost-write")
    """

    def __init__(
        self, report: dict[str, Any], results: Results, judge_again: Callable[[tuple[str, ...]], Result]
    ) -> None:
        self.report = report
        self._results = results
        self._judge_again = judge_again
        self._owned: object = None

    def keep(self, owner: object) -> None:
        """Keep an object alive as long as the result, such as the folder that was judged."""
        self._owned = owner

    @property
    def name(self) -> str:
        """The run's name."""
        return str(self.report["input"]["name"])

    @property
    def verdict(self) -> str:
        """`valid`, `invalid` (a rule is broken) or `unknown` (the evidence is incomplete)."""
        return str(self.report["verdict"])

    @property
    def rules(self) -> dict[str, dict[str, Any]]:
        """The `verdict` and the numbers of each rule (docs/verdict.md)."""
        return dict(self.report["rules"])

    @cached_property
    def findings(self) -> pl.DataFrame:
        """All findings, with the columns of findings.parquet (docs/verdict.md)."""
        return self._results.findings()

    @property
    def causes(self) -> list[dict[str, Any]]:
        """The causes of findings, each with a chain of dated facts."""
        return list(self.report["causes"])

    @property
    def assumptions(self) -> list[dict[str, Any]]:
        """The assumptions of the verdict: `name`, `holds`, `says`, `touches`."""
        return list(self.report["assumptions"])

    @property
    def incidents(self) -> list[dict[str, Any]]:
        """Findings and causes joined by event, the worst first."""
        return list(self.report.get("incidents", ()))

    @property
    def counts(self) -> dict[str, int]:
        """Operations and records by kind."""
        return dict(self.report["counts"])

    @cached_property
    def headline(self) -> str:
        """The outcome of the run in one or two sentences."""
        from .plots.report import headline

        return headline(self.report, self._figures["impact"])

    @cached_property
    def _figures(self) -> dict[str, Any]:
        from .analysis.verdict.document import merged_figures

        return merged_figures(self._results, self.report)

    def to_pandas(self) -> pd.DataFrame:
        """The findings as a DataFrame of pandas."""
        return self.findings.to_pandas()

    def save(self, folder: str | os.PathLike[str], *, plots: bool = True) -> Path:
        """Write the report that `logjudge check --out` writes, and return its folder.

        Raises UsageError if the folder contains files that logjudge did not write.
        """
        from .plots.report.saved import write_result

        target, drawn = Path(folder), "all" if plots else "none"
        report = {**self.report, "headline": self.headline}
        write_whole(target, lambda scratch: write_result(scratch, report, self._results, self._figures, drawn))
        return target

    def assert_valid(self, allow: str | Iterable[str] = ()) -> None:
        """Raise an AssertionError that explains the breach or the missing evidence, unless the run is valid.

        `allow` names rules whose breaches are accepted, as `check` does.
        """
        __tracebackhide__ = True
        names = (allow,) if isinstance(allow, str) else tuple(allow)
        raise_unless_valid(self._judge_again(names) if names else self)

    def __repr__(self) -> str:
        return f"<logjudge.Result {self.name}: {self.verdict}, {len(self.findings)} findings>"

    def _repr_html_(self) -> str:
        """The first screen of the report, for notebooks; a frame keeps its styles from the notebook's."""
        from .plots.report import first_screen

        page = first_screen(self.report, self.findings, self._figures)
        return f'<iframe style="width:100%;height:{_FRAME_HEIGHT}px;border:0" srcdoc="{escape(page)}"></iframe>'
