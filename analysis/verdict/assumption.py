"""One assumption of a verdict, as verdict.json has it, and those that do not hold."""

from __future__ import annotations

from typing import Any

Record = dict[str, Any]


def assumption(name: str, holds: bool, sentence: str, touches: tuple[str, ...]) -> Record:
    """One assumption as a record of verdict.json. `sentence` is its text, `touches` are the rules that need it."""
    return {"name": name, "holds": holds, "says": sentence, "touches": list(touches)}


def unless_counted(count: int, name: str, sentence: str, otherwise: str, touches: tuple[str, ...]) -> Record:
    """An assumption that holds with this sentence if nothing was counted against it."""
    return assumption(name, not count, otherwise if count else sentence, touches)


def broken_assumptions(report: Record) -> list[Record]:
    """The assumptions of a verdict that do not hold."""
    return [item for item in report["assumptions"] if item["holds"] is not True]
