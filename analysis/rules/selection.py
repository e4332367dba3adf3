"""Selects the rules that judge a run, and those with accepted breaches, by the names that a user gives."""

from __future__ import annotations

from collections.abc import Sequence

from ...histories.errors import UsageError, did_you_mean
from . import ANOMALIES, RULES, rules_of


def check_applicable(rules: Sequence[str], dialect: str) -> None:
    """Raises UsageError if none of the chosen rules judges histories of a dialect (no rules: all are chosen)."""
    if rules and not any(name in rules_of(dialect) for name in rules):
        raise UsageError(f"found {', '.join(rules[:3])}, expected a rule for this history ({dialect})")


def select_rules(only: Sequence[str], skip: Sequence[str], allow: Sequence[str]) -> tuple[str, ...]:
    """The rules to judge; empty: all. Raises UsageError if a name does not exist."""
    known = dict.fromkeys([*RULES, *ANOMALIES])
    for name in (*only, *skip, *(item.split(":", 1)[0] for item in allow)):
        if name not in known:
            expected = f"one of {', '.join(known)}; `logjudge rules` explains them"
            raise UsageError(f"found rule {name}, expected {expected}{did_you_mean(name, known)}")
    for item in allow:
        if ":" in item and item.split(":", 1)[1] not in ("acks=1", "acks=all"):
            raise UsageError(f"found --allow {item}, expected RULE or RULE:acks=1")
    if not only and not skip:
        return ()
    chosen = tuple(name for name in (only or known) if name not in skip)
    if not chosen:
        raise UsageError("found no rule left after --only and --skip, expected one or more")
    return chosen
