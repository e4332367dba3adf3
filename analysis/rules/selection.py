"""Which rules judge a run, and whose breaches are accepted, by the names that a user gives."""

from __future__ import annotations

from collections.abc import Sequence

from ...histories.errors import UsageError, did_you_mean
from . import RULES


def select_rules(only: Sequence[str], skip: Sequence[str], allow: Sequence[str]) -> tuple[str, ...]:
    """The rules to judge; empty: all. Raises UsageError where a name does not exist."""
    for name in (*only, *skip, *(item.split(":", 1)[0] for item in allow)):
        if name not in RULES:
            expected = f"one of {', '.join(RULES)}; `logjudge rules` explains them"
            raise UsageError(f"found rule {name}, expected {expected}{did_you_mean(name, RULES)}")
    for item in allow:
        if ":" in item and item.split(":", 1)[1] not in ("acks=1", "acks=all"):
            raise UsageError(f"found --allow {item}, expected RULE or RULE:acks=1")
    if not only and not skip:
        return ()
    chosen = tuple(name for name in (only or RULES) if name not in skip)
    if not chosen:
        raise UsageError("found no rule left after --only and --skip, expected one or more")
    return chosen
