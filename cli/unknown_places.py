"""The error of `explain` for text that names no place of a run."""

from __future__ import annotations

from collections.abc import Iterable

from ..analysis.rules import RULES
from ..analysis.wording import short, some
from ..histories.errors import UsageError, close_names
from ..histories.tables import Finding
from .inspection import MAX_NAMES, TO_LOOK_UP


def no_such_place(text: str, names: list[str], findings: Iterable[Finding], is_saved: bool = False) -> UsageError:
    """The error for text that names no partition, offset, value, key or finding of a run.

    `names` are the partitions, `findings` those of the rule that the text may name. In saved results (`is_saved`) no
    values and keys are looked up.
    """
    if text in RULES:
        ids = [finding.id for finding in findings if finding.rule == text]
        known = f"name one of its findings: {some(ids, MAX_NAMES)}" if ids else "it has no finding in this run"
        return UsageError(f"{text} is a rule; {known}")
    partition, separator, offset = text.replace(":", "@", 1).partition("@")
    if separator and partition in names:
        is_colon = ":" in text and offset.isdecimal()
        hint = f"did you mean {partition}@{offset}?" if is_colon else f"found {offset!r} as offset, expected a number"
        return UsageError(f"{text}: {hint}")
    of_topic = [name for name in names if name.rpartition("-")[0] == text]
    if of_topic:
        return UsageError(f"{text} is a topic; name one of its partitions: {some(of_topic, MAX_NAMES)}")
    close = " or ".join(f"{name}{separator}{offset}" for name in sorted(close_names(partition, names)[:2]))
    found = f"found {short(text)}" if text else "found an empty text"
    problem = found if is_saved or not text else f"{found}, which is no partition, and no record's value or key"
    looked_up = "" if is_saved else "the value or the key of a record that is in the files, "
    return UsageError(
        f"{problem}; {f'did you mean {close}? ' if close else ''}expected one of: a partition"
        f" ({some(names, MAX_NAMES) or 'there is none'}), an offset (such as {names[0] if names else 'orders-0'}@4711),"
        f" {looked_up}a finding (such as {next(iter(RULES))}/{names[0] if names else 'orders-0'}/0)"
        + (f"; {TO_LOOK_UP}" if is_saved else "")
    )
