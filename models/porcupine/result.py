"""The result of a check: the verdict, and the evidence for each independent object."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["ok", "illegal", "unknown"]


@dataclass(frozen=True)
class Part:
    """The verdict on one independent object (the whole history if the model has no partition), and its evidence.

    Operations are indices into the list that was checked.
    """

    key: Hashable
    verdict: Verdict
    operations: Sequence[int] = field(repr=False)
    completed: int  # how many of them completed
    placed: int  # the longest prefix of these, in the order of their ends, that some partial linearization contains
    configurations: int  # how many the search made
    # ok: one complete linearization. Otherwise the longest partial ones, one for each state that they end in.
    linearizations: list[list[int]] = field(repr=False)
    # The first operation to complete that no linearization reaches, and the possible states before it; None and empty
    # if the verdict is ok.
    blocked: int | None = None
    states: list[Any] = field(default_factory=list)
    reason: str = ""  # why the verdict is unknown
    # Which algorithm decided. A monitor returns no linearization. For an illegal part it returns a witness, a few
    # operations that contradict each other; a short search adds the rest.
    method: Literal["search", "monitor"] = "search"
    witness: list[int] = field(default_factory=list)
    others: int = 0  # operations on the object that are not in the list


@dataclass(frozen=True)
class Result:
    """The verdict on a history, and on each part up to the first illegal one.

    `seconds` covers partitioning, ordering of events, and the search with all calls of the model. Validating and
    numbering the actions come before it, collecting evidence after it. Compilation counts unless `warm_up` ran before.
    """

    verdict: Verdict
    seconds: float
    parts: list[Part]
    stage: int = 0  # the step of the check that ended it: the first illegal part of several checks has the least

    @property
    def worst(self) -> Part | None:
        """The part that decides the verdict: the illegal one, otherwise the first unknown, otherwise the first."""
        return next((part for part in self.parts if part.verdict == self.verdict), None)
