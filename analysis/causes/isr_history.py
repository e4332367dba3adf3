"""The ISR when records were acknowledged, and at other times."""

from __future__ import annotations

from itertools import takewhile

from ...histories.tables import MAX_INT64
from ..timelines.facts import SECOND, Fact
from ..timelines.timeline import Timeline
from .losses import Lost


def isr_at_acknowledgement(timeline: Timeline, lost: Lost) -> frozenset[str]:
    """The ISR at the last acknowledgement, without brokers that had died before the first one; empty if not recorded.

    The death counts because not all evidence reports that the ISR shrank. A broker that lost power just before may have
    had the records, so it stays.
    """
    at, began = lost.last_acked, lost.first_acked
    if at is None or began is None:
        return frozenset()
    last = {e.broker: e.kind for e in timeline.events if e.time is not None and e.time < began}
    cut = [f for f in timeline.faults if f.kind == "power-loss" and began - SECOND < f.completed < began]
    lately = {broker for fault in cut for broker in fault.nodes}
    dead = {broker for broker, kind in last.items() if kind == "died"} - lately
    return isr_at(timeline, at) - dead


def isr_at(timeline: Timeline, at: int | None) -> frozenset[str]:
    """The last ISR reported by a time, including brokers that had died; empty if not recorded."""
    known = [isr for time, isr, _ in timeline.isr if at is not None and time is not None and time <= at]
    return known[-1] if known else frozenset()


def had_sole_isr_at_acknowledgement(timeline: Timeline, lost: Lost) -> bool | None:
    """Whether the ISR was one broker at any acknowledgement of the records; None if not recorded."""
    if lost.first_acked is None or lost.last_acked is None:
        return None
    before = isr_at(timeline, lost.first_acked)
    during = [isr for time, isr, _ in timeline.isr if time is not None and lost.first_acked < time <= lost.last_acked]
    if any(len(isr) == 1 for isr in (before, *during, isr_at_acknowledgement(timeline, lost))):
        return True
    return False if before else None


def sole_isr_facts(timeline: Timeline, broker: str, until: int | None) -> list[Fact]:
    """The first report of the ISR that consisted of this broker alone at a time; empty if it had other members."""
    limit = MAX_INT64 if until is None else until + SECOND
    before = [(isr, fact) for time, isr, fact in timeline.isr if time is None or time <= limit]
    # Later reports may repeat that ISR.
    repeated = [fact for _, fact in takewhile(lambda report: report[0] == {broker}, reversed(before))]
    return repeated[-1:]
