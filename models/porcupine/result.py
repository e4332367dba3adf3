"""The result of a check: the verdict, and what was found out about each independent object."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["ok", "illegal", "unknown"]


@dataclass(frozen=True)
class Part:
    """What was found out about one independent object (all of the history where the model has no partition).

    Operations are given as indices into the list that was checked.
    """

    key: Hashable
    verdict: Verdict
    operations: Sequence[int] = field(repr=False)
    completed: int  # how many of them completed
    placed: int  # how many of those, by the order of their ends, some linearization places: how far it came
    configurations: int  # how many were looked at
    # ok: one complete linearization. Else the longest partial ones, one for each state that they end in.
    linearizations: list[list[int]] = field(repr=False)
    # The operation that could not be placed (the first to complete that no linearization reaches), and the
    # states possible before it; None and empty where the verdict is ok.
    blocked: int | None = None
    states: list[Any] = field(default_factory=list)
    reason: str = ""  # why it is unknown
    # Which algorithm decided. A monitor gives no linearization; of an illegal part it gives a few operations that
    # contradict each other, beside what a short search finds.
    method: Literal["search", "monitor"] = "search"
    witness: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Result:
    """The verdict on a history, and what was found out about each part that was looked at.

    The parts after an illegal one are not looked at. `seconds` is the time from the numbered actions to the verdict:
    partition, order of events, and search with all steps of the model. Checking and numbering the actions come
    before it, the collection of evidence after it; compilation counts unless `warm_up` came before.
    """

    verdict: Verdict
    seconds: float
    parts: list[Part]

    @property
    def worst(self) -> Part | None:
        """The part that decides the verdict: the illegal one, or the first unknown, or else the first."""
        return next((part for part in self.parts if part.verdict == self.verdict), None)
