"""correlated-failure: all in-sync replicas lost their unflushed tails before any other broker had the records.

Kafka acknowledges records that are in the page caches of the in-sync replicas. A failure of all of them at once (power,
a rack) loses these records. The election that follows loses nothing more.

Needs: at least two replicas that were in sync while the records were acknowledged, so that they had them. All of them
died later and were down at the same time: the last of them died before any started again, or all had started again
before any of them had loaded its log. The log of each ended at or below the records when it started again, without a
truncation. Where the history has a broker's power failures, one of them came before the election that lost the records.
Evidence shows of each that it was not shut down cleanly: its death or a fault on its disk in the history, or lines of
its server.log.
"""

from __future__ import annotations

from ...histories.tables import MAX_INT64
from ..timelines.facts import SECOND, Fact, chain, dated
from ..timelines.timeline import Timeline
from ..wording import brokers
from .cases import NOT_THE_CASE, Attempt, Lost, acknowledgement_facts, needs
from .leader_change import find_leader_change
from .log_rolled_back import rollback_facts
from .outages import death_facts, lost_power, may_have_stopped_cleanly
from .prevention import SEPARATE, flush_measures
from .replica_history import facts_had_records, isr_at_acknowledgement, short_log_facts

CITATION = "Kafka's documentation of replication and flush; KIP-966 (data loss by unclean shutdowns)"
REMEDY = "Replicas in separate failure domains (broker.rack); flush.messages=1, which costs throughput."


def explain_loss(timeline: Timeline, lost: Lost) -> Attempt:
    """The proof that all in-sync replicas failed together and lost the records."""
    together = sorted(isr_at_acknowledgement(timeline, lost))
    had = [facts_had_records(timeline, member, lost) for member in together]
    short = [short_log_facts(timeline, member, lost, lost.first) for member in together]
    if len(together) < 2 or not all(had) or not all(short):
        return NOT_THE_CASE
    started = _starts_before_any_load(timeline, together, lost)
    if not started and not _all_died_before_any_start(timeline, together, lost):
        return NOT_THE_CASE
    if any(rollback_facts(timeline, member, lost) for member in together):
        return NOT_THE_CASE
    if in_order := [member for member in together if _may_have_flushed(timeline, member, lost)]:
        return needs(f"how the processes of {brokers(in_order)} that had the records ended (server.log)")
    change = find_leader_change(timeline, lost)
    until = change.successor.time if change.successor else None
    if until is not None and any(_had_power(timeline, member, lost, until) for member in together):
        return NOT_THE_CASE
    died = [death_facts(timeline, member, until) for member in together]
    facts = chain(change.began, had[0], acknowledgement_facts(lost), *died, started, *short, change.succeeded)
    return Attempt(True, facts, [*flush_measures(timeline), SEPARATE])


def _may_have_flushed(timeline: Timeline, broker: str, lost: Lost) -> bool:
    """Whether a broker may have been shut down cleanly, with the records on disk, before it loaded its log again."""
    since = (lost.last_acked or 0) - SECOND
    loads = timeline.dated_ends(broker, "loaded", since=since)
    return may_have_stopped_cleanly(timeline, broker, since, loads[0].when if loads else MAX_INT64)


def _had_power(timeline: Timeline, broker: str, lost: Lost, elected: int) -> bool:
    """Whether a broker only lost its power after the election that lost the records, though its process ended before.

    The page cache keeps what a killed process wrote. Without a recorded power failure this is not known.
    """
    since = lost.last_acked or 0
    return lost_power(timeline, broker, since, MAX_INT64) and not lost_power(timeline, broker, since, elected)


def _all_died_before_any_start(timeline: Timeline, brokers: list[str], lost: Lost) -> bool:
    """Whether all brokers died after the last acknowledgement, the last of them before any started again."""
    since = lost.last_acked or 0
    lives = [timeline.life_of(each, since - 1) for each in brokers]
    died = [next((e.when for e in life if e.kind == "died"), MAX_INT64) for life in lives]
    restarts = [e.when for life in lives for e in dated(life, min(died)) if e.kind == "started"]
    return bool(restarts) and max(died) <= min(restarts)


def _starts_before_any_load(timeline: Timeline, brokers: list[str], lost: Lost) -> list[Fact]:
    """The first start of each broker after the last acknowledgement, if none had loaded its log before all had started.

    A broker serves no log before it has loaded it, and a process that starts follows one that has ended.
    """
    since = lost.last_acked or 0
    # Only the process's own log dates its start well: the history's restart (with a place) began earlier.
    starts = [[e.fact for e in timeline.starts_of(each, since - 1) if e.fact.place is None] for each in brokers]
    loads = [timeline.dated_ends(each, "loaded", since=since - 1) for each in brokers]
    if not all(starts) or not all(loads) or max(own[0].when for own in starts) > min(own[0].when for own in loads):
        return []
    return [own[0] for own in starts]
