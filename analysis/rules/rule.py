"""What a rule is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from ...histories.tables import Finding
from ..partitions.partition import Partition

Judge = Callable[[Partition], Iterator[Finding]]
# What a rule may take for granted, beside lines that are well formed: that values are unique, clocks go forward, events
# have an order in time, failures are certain, partitions and invocations were recorded, all replicas' logs kept.
Assumed = Literal["values", "clock", "order", "outcomes", "partitions", "invocations", "replicas"]


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
    assumes: tuple[Assumed, ...] = ()
    follows: Literal["offset", "value"] | None = None  # how a finding is known to follow from a loss
    of_records: bool = False  # a finding's values are the records concerned, and nothing else
