"""Which brokers were up, and which one led, from the dated facts of a partition (analysis/figures/replicas.py)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

Record = dict[str, Any]


class Led(NamedTuple):
    """A time (ns) in which a broker led and was up."""

    term: Record
    broker: str
    since: int
    until: int


class BrokerChange(NamedTuple):
    """A failure or a return of a broker."""

    time: int  # ns
    broker: str
    kind: str  # died, or another kind of event


class TimeSpan(NamedTuple):
    """A time from `since` until `until` (ns)."""

    since: int
    until: int


def broker_changes(evidence: Record) -> list[BrokerChange]:
    """Failures and returns of brokers, each once: of several sources the first."""
    down: dict[str, bool] = {}
    changes = []
    for time, broker, kind in evidence["lives"]:
        if down.get(broker, False) != (kind == "died"):
            changes.append(BrokerChange(time, broker, kind))
        down[broker] = kind == "died"
    return changes


def down_times(evidence: Record, broker: str, low: int, high: int) -> list[TimeSpan]:
    """The times at which a broker was down. Rejoining an ISR ends one: a paused broker returns without a start."""
    own = [(change.time, change.kind) for change in broker_changes(evidence) if change.broker == broker]
    own += [
        (now, "joined") for (_, was), (now, isr) in pairwise(evidence["isr"]) if broker in isr and broker not in was
    ]
    spans, since = [], None
    for time, kind in [*sorted(own), (high, "end of the picture")]:
        if kind == "died":
            since = time
        elif since is not None:
            spans.append(TimeSpan(max(since, low), min(time, high)))
            since = None
    return [span for span in spans if span.since < span.until]


def leaders_between(evidence: Record, low: int, high: int) -> list[Led]:
    """The times in which brokers led, in the order of the terms, rivals included."""
    terms = [term for term in evidence["terms"] if term["time"] is not None and term["time"] <= high]
    found = []
    for term, following in pairwise([*terms, {"time": high}]):
        until = min(end for end in (term["ended"], following["time"], high) if end is not None)
        for broker, since in [(term["leader"], term["time"]), *term["rivals"]]:
            alive = _alive(down_times(evidence, broker, min(since, low), high), TimeSpan(since, until))
            if alive is not None and alive.until > low:
                found.append(Led(term, broker, max(alive.since, low), alive.until))
    return found


def _alive(down: list[TimeSpan], term: TimeSpan) -> TimeSpan | None:
    """The part of a term in which its leader was up: a broker that is down does not lead, even if it is recorded."""
    since, until = term
    for died, back in down:
        if died <= since < back:
            since = back
        elif since < died:
            until = min(until, died)
    return TimeSpan(since, until) if since < until else None


def without_leader(led: list[Led]) -> list[TimeSpan]:
    """The times between two leaders, without a leader."""
    gaps, until = [], None
    for one in sorted(led, key=lambda one: one.since):
        if until is not None and one.since > until:
            gaps.append(TimeSpan(until, one.since))
        until = one.until if until is None else max(until, one.until)
    return gaps


def leader_at(evidence: Record, time: int | None) -> str | None:
    """The broker that led and was up at a time, by the dated terms; without a time the last leader."""
    if time is None:
        return None if evidence["leader"] is None else str(evidence["leader"])
    led = leaders_between(evidence, time, time + 1)
    return max(led, key=lambda one: one.term["epoch"]).broker if led else None
