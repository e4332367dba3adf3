"""The decisive steps, which are added to each chain of a loss: who left the ISR, who returned, which epochs began.

A cause's chain holds the facts that prove it. A reader also needs the steps that made the failure possible: the deaths
that removed the other replicas from the ISR, the ISR that acknowledged the records, the return of the replica that was
elected, and the leader changes between the leader that acknowledged them and the leader that lacked them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from ..timelines.facts import SECOND, Fact
from ..timelines.timeline import DatedIsr, Timeline
from .cases import Lost
from .outages import death_facts, is_dead_or_fenced, reasons_absent

ELECTIONS = ("elected", "elected-unclean", "begins")  # kinds of facts
MAX_ISR_CHANGES = 4  # of a chain; if the ISR flaps, the last ones are decisive


def decisive_steps(timeline: Timeline, lost: Lost, chain: list[Fact]) -> list[Fact]:
    """Facts to add to a proved chain, none later than its last change of the leader or the ISR."""
    if any(fact.kind == "damaged" for fact in chain):
        return []  # what clients read from a damaged copy does not depend on the ISR
    changes_of_state = (*ELECTIONS, "leaderless", "isr")
    times = [fact.time for fact in chain if fact.kind in changes_of_state and fact.time is not None]
    until = max(times, default=lost.last_acked)
    if until is None:
        return []
    since = _last_full_isr(timeline, until) if lost.first_acked is None else lost.first_acked
    changes = _isr_changes(timeline, since, until)
    remained = changes[-1].isr if changes else frozenset()
    # The last change precedes the election, so its leader may have died since. The cause itself names that death.
    absent = sorted(timeline.members - remained) if remained else []
    left = [fact for broker in absent for fact in _deaths_of_absent(timeline, broker, lost.first_acked, since, until)]
    steps = [*left, *(change.fact for change in changes), *_terms_between(timeline, chain, until)]
    steps += _stops_of_leaders(timeline, [*chain, *steps], until)
    return [*steps, *_returns(timeline, [*chain, *steps], until)]


def _isr_changes(timeline: Timeline, since: int, until: int) -> list[DatedIsr]:
    """The last change of the ISR until `since`, and the last MAX_ISR_CHANGES between `since` and `until`."""
    dated = timeline.isr_between(until=until - 1)
    changed = [
        state
        for previous, state in zip([None, *dated], dated, strict=False)
        if previous is None or state.isr != previous.isr or (state.fact.kind == "leaderless" and state.time > since)
    ]
    before = [state for state in changed if state.time <= since][-1:]
    return [*before, *[state for state in changed if state.time > since][-MAX_ISR_CHANGES:]]


def _last_full_isr(timeline: Timeline, until: int) -> int:
    """The last time (ns) before `until` at which the ISR had all replicas; without one, that of its first report."""
    dated = timeline.isr_between(until=until - 1)
    full = [state.time for state in dated if state.isr >= timeline.members]
    return max(full, default=min((state.time for state in dated), default=until))


def _deaths_of_absent(timeline: Timeline, broker: str, acknowledged: int | None, since: int, until: int) -> list[Fact]:
    """The death that removed a broker from the ISR, if it was not up when the records were acknowledged.

    Without acknowledgements: its last death since the ISR was full.
    """
    if acknowledged is None:
        died = death_facts(timeline, broker, until)
        return [fact for fact in died if fact.time is not None and fact.time > since]
    was_down = is_dead_or_fenced(timeline, broker, acknowledged + SECOND, acknowledged + SECOND)
    return death_facts(timeline, broker, min(until, acknowledged)) if was_down else []


def _terms_between(timeline: Timeline, chain: list[Fact], until: int) -> list[Fact]:
    """The first fact of each term between the first and the last that a chain names."""
    named = [fact.epoch for fact in chain if fact.epoch is not None]
    between = range(min(named, default=0) + 1, max(named, default=0))
    terms = [term for epoch, term in timeline.terms.items() if epoch in between and epoch not in named]
    return [fact for term in terms for fact in term.facts[:1] if fact.time is not None and fact.time <= until]


def _elections(chain: list[Fact], until: int) -> list[tuple[int, Fact]]:
    """The elections of a chain and the beginnings of terms up to a time, each with its time (ns), in order of time."""
    dated = [(fact.time, fact) for fact in chain if fact.kind in ELECTIONS and fact.time is not None]
    return sorted((one for one in dated if one[0] <= until), key=lambda one: one[0])


def _stops_of_leaders(timeline: Timeline, chain: list[Fact], until: int) -> Iterator[Fact]:
    """Why each leader was replaced by the next one: its death, or a fault on it, between the two elections."""
    for (since, led), (end, following) in pairwise(_elections(chain, until)):
        if led.broker is None or led.broker == following.broker:
            continue
        stops = [*death_facts(timeline, led.broker, end), *reasons_absent(timeline, led.broker, end)]
        yield from (fact for fact in dict.fromkeys(stops) if fact.time is not None and since < fact.time <= end)


def _returns(timeline: Timeline, chain: list[Fact], until: int) -> Iterator[Fact]:
    """How each leader that a chain shows dead or out of reach came back before it was elected."""
    for elected_at, elected in _elections(chain, until):
        deaths = {event.fact for event in timeline.died(elected.broker)}
        faults = (fact for fact in chain if fact.kind.startswith("fault-") and elected.broker in (fact.brokers or ()))
        stops = [*(fact for fact in chain if fact in deaths), *faults]
        times = sorted((fact.time for fact in stops if fact.time is not None and fact.time < elected_at), reverse=True)
        # The controller may fence the old session of a broker that has already returned.
        ends = (_ends_of_absence(timeline, elected.broker, since, elected_at) for since in times)
        yield from next(filter(None, ends), [])[-1:]


def _ends_of_absence(timeline: Timeline, broker: str | None, since: int, until: int) -> list[Fact]:
    """The starts of a broker between two times, or else the ends of faults on it."""
    starts = [event.fact for time, event in timeline.starts_of(broker) if since <= time <= until]
    heals = [fact for fault, fact in timeline.faults_and_heals(broker) if fault.type == "heal"]
    return starts or [fact for fact in heals if fact.time is not None and since <= fact.time <= until]
