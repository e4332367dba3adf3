"""Producers that may have had acks=0, with which no broker acknowledges a record.

If neither run.json nor an event sets acks, the offsets of acknowledgements show it: with acks=0 no broker responds, so
none of them has an offset. An application's log may lack all offsets, so those of other producers decide.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..wording import some
from .observations import Observations, once


@once
def may_have_no_acks(p: Observations) -> list[str]:
    """The producers of unknown acks that got no offset with any acknowledgement of the run, although others did."""
    without = p.context.filter(kind="sends without offsets")["process"].unique()
    with_offsets = p.context.filter(kind="sends with offsets")["process"].unique()
    return sorted({*without} - {*with_offsets}) if len(with_offsets) else []


def describe_unknown_acks(processes: Iterable[str]) -> str:
    """A clause with the reason for which sends of these processes may not have been acknowledged."""
    names = some(sorted({*processes}))
    return f"acks of {names} is not recorded, and may be 0, as no acknowledgement to {names} has an offset"
