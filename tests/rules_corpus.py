"""The corpus: small histories with and without findings, one file per rule in tests/corpus.

A case is three lines: a comment that explains it, the history in the language of notation.py, and the findings:

    # Permitted: a producer without idempotence writes twice when it retries.
    {p.enable.idempotence=false} p:a@0 c:<a@0,a@1
    => permitted:duplicate@0-1=a | duplicate:valid

`rule@first-last=values(count)` is one finding, with permitted: or note: in front unless it is a violation; one
offset stands alone, `?` is an unknown one, a count of 1 is left out. All findings are listed, or `nothing`.
Behind the bar stand verdicts of rules, and of the whole run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

_FOLDER = Path(__file__).parent / "corpus"


class Case(NamedTuple):
    rule: str
    why: str
    history: str
    found: tuple[str, ...]
    verdicts: dict[str, str]

    @property
    def breaks(self) -> bool:
        return any(rule_of(found) == self.rule for found in self.found)


def load(folder: Path = _FOLDER) -> list[Case]:
    return [case for file in sorted(folder.glob("*.txt")) for case in _cases(file)]


def _cases(file: Path) -> list[Case]:
    cases = []
    for number, paragraph in enumerate(file.read_text().strip().split("\n\n")):
        lines = paragraph.split("\n")
        if len(lines) != 3 or not lines[0].startswith("# ") or not lines[2].startswith("=> "):
            raise ValueError(f"{file.name}, case {number + 1}: expected why, history and findings, found {lines}")
        found, _, verdicts = lines[2].removeprefix("=> ").partition("|")
        expected = tuple(sorted(word for word in found.split() if word != "nothing"))
        expected_verdicts = dict(word.rsplit(":", 1) for word in verdicts.split())
        cases.append(Case(file.stem, lines[0].removeprefix("# "), lines[1], expected, expected_verdicts))
    return cases


def rule_of(found: str) -> str:
    """The rule of a finding as the corpus writes it."""
    return found.partition("@")[0].rpartition(":")[2]


def shown(finding: dict[str, Any]) -> str:
    """A finding as the corpus writes it."""
    first, last = finding["first_offset"], finding["last_offset"]
    where = "?" if first is None else f"{first}" if last == first else f"{first}-{last}"
    severity = "" if finding["severity"] == "violation" else finding["severity"] + ":"
    count = "" if finding["count"] == 1 else f"({finding['count']})"
    return f"{severity}{finding['rule']}@{where}={','.join(finding['values'])}{count}"
