"""The decisive steps, which are added to each chain of a loss: who left the ISR, who returned, which epochs began.

A cause's chain holds the facts that prove it. A reader also needs the steps that made the failure possible: the deaths
that removed the other replicas from the ISR, the ISR that acknowledged the records, the return of the replica that was
elected, and the leader changes between the leader that acknowledged them and the leader that lacked them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from ..timelines.changes import IsrReport
from ..timelines.facts import SECOND, Fact, dated
from ..timelines.timeline import Timeline
from .cases import Lost
from .outages import death_facts, is_dead_or_fenced, reasons_absent

ELECTIONS = ("elected", "elected-unclean", "begins")  # kinds of facts
MAX_ISR_CHANGES = 4  # of a chain; if the ISR flaps, the last ones are decisive


def decisive_steps(timeline: Timeline, lost: Lost, chain: list[Fact]) -> list[Fact]:
    """Facts to add to a proved chain, none later than its last change of the leader or the ISR."""
    if any(fact.kind == "damaged" for fact in chain):
        return []  # what clients read from a damaged copy does not depend on the ISR
    changes_of_state = (*ELECTIONS, "leaderless", "isr")
    times = [fact.when for fact in dated(chain) if fact.kind in changes_of_state]
    until = max(times, default=lost.last_acked)
    if until is None:
        return []
    since = lost.first_acked
    if since is None:  # since the last time at which the ISR had all replicas, or since its first report
        reports = timeline.isr_between(until=until - 1)
        full = [report.when for report in reports if report.isr >= timeline.members]
        since = max(full, default=min((report.when for report in reports), default=until))
    changes = _isr_changes(timeline, since, until)
    remained = changes[-1].isr if changes else frozenset()
    # The last change precedes the election, so its leader may have died since. The cause itself names that death.
    absent = sorted(timeline.members - remained) if remained else []
    left = [fact for broker in absent for fact in _deaths_of_absent(timeline, broker, lost.first_acked, since, until)]
    steps = [*left, *(change.fact for change in changes), *_terms_between(timeline, chain, until)]
    steps += _stops_of_leaders(timeline, [*chain, *steps], until)
    return [*steps, *_returns(timeline, [*chain, *steps], until)]


def _isr_changes(timeline: Timeline, since: int, until: int) -> list[IsrReport]:
    """The last change of the ISR until `since`, and the last MAX_ISR_CHANGES between `since` and `until`."""
    reports = timeline.isr_between(until=until - 1)
    changed = [
        state
        for previous, state in zip([None, *reports], reports, strict=False)
        if previous is None or state.isr != previous.isr or (state.fact.kind == "leaderless" and state.when > since)
    ]
    return [*dated(changed, until=since)[-1:], *dated(changed, since)[-MAX_ISR_CHANGES:]]


def _deaths_of_absent(timeline: Timeline, broker: str, acknowledged: int | None, since: int, until: int) -> list[Fact]:
    """The death that removed a broker from the ISR, if it was not up when the records were acknowledged.

    Without acknowledgements: its last death since the ISR was full.
    """
    if acknowledged is None:
        return dated(death_facts(timeline, broker, until), since)
    was_down = is_dead_or_fenced(timeline, broker, acknowledged + SECOND, acknowledged + SECOND)
    return death_facts(timeline, broker, min(until, acknowledged)) if was_down else []


def _terms_between(timeline: Timeline, chain: list[Fact], until: int) -> list[Fact]:
    """The first fact of each term between the first and the last that a chain names."""
    named = [fact.epoch for fact in chain if fact.epoch is not None]
    between = range(min(named, default=0) + 1, max(named, default=0))
    terms = [term for epoch, term in timeline.terms.items() if epoch in between and epoch not in named]
    return dated([fact for term in terms for fact in term.facts[:1]], until=until)


def _elections(chain: list[Fact], until: int) -> list[Fact]:
    """The elections of a chain and the beginnings of terms up to a time (ns), in order of time."""
    return sorted((fact for fact in dated(chain, until=until) if fact.kind in ELECTIONS), key=lambda fact: fact.when)


def _stops_of_leaders(timeline: Timeline, chain: list[Fact], until: int) -> Iterator[Fact]:
    """Why each leader was replaced by the next one: its death, or a fault on it, between the two elections."""
    for led, following in pairwise(_elections(chain, until)):
        if led.broker is not None and led.broker != following.broker:
            end = following.when
            stops = [*death_facts(timeline, led.broker, end), *reasons_absent(timeline, led.broker, end)]
            yield from dated(dict.fromkeys(stops), led.when, end)


def _returns(timeline: Timeline, chain: list[Fact], until: int) -> Iterator[Fact]:
    """How each leader that a chain shows dead or out of reach came back before it was elected."""
    for elected in _elections(chain, until):
        deaths = {event.fact for event in timeline.deaths_of(elected.broker)}
        faults = (fact for fact in chain if fact.kind.startswith("fault-") and elected.broker in (fact.brokers or ()))
        stops = [*(fact for fact in chain if fact in deaths), *faults]
        times = sorted((fact.when for fact in dated(stops, until=elected.when - 1)), reverse=True)
        # The controller may fence the old session of a broker that has already returned.
        ends = (_ends_of_absence(timeline, elected.broker, since, elected.when) for since in times)
        yield from next(filter(None, ends), [])[-1:]


def _ends_of_absence(timeline: Timeline, broker: str | None, since: int, until: int) -> list[Fact]:
    """The starts of a broker between two times, or else the ends of faults on it."""
    starts = [start.fact for start in timeline.starts_of(broker, since - 1, until)]
    heals = [fact for fault, fact in timeline.faults_and_heals(broker) if fault.type == "heal"]
    return starts or dated(heals, since - 1, until)
