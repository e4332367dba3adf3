"""What a rule is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ...histories.tables import Finding
from ..partition import Partition

Judge = Callable[[Partition], Iterator[Finding]]


@dataclass(frozen=True)
class Rule:
    """One guarantee, checked. The texts are what `logjudge rules` and docs/rules.md say."""

    name: str
    breach: str  # one line
    about: str  # paragraphs
    example: str  # a history in the mini-language that breaks it (tests/notation.py)
    needs: tuple[str, ...]  # counts of a run without which there is nothing to judge
    native: Judge | None  # None: this dialect does not have the rule
    jepsen: Judge | None
    needs_final: bool = field(default=False)  # without final reads an absence of findings proves nothing
