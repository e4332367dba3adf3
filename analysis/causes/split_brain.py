"""split-brain: two brokers led the same leader epoch at the same time.

One controller raises the leader epoch with every election, so an epoch has one leader. Two controllers that both elect
leaders break this: one that was replaced and that brokers still obey, or those of two quorums. Clients may then write
to both leaders. Fencing (KIP-320) and truncation (KIP-101, KIP-279) compare leader epochs, which are equal here, so
neither the followers nor the clients notice. The later leader continues one of the two logs, and the records that only
the other one has are lost.

Needs: two brokers that each logged that they lead one leader epoch (state-change.log), and that the first still led it
when the second began: it had not died, restarted or followed a later epoch, and no later epoch had begun. For a loss
also: a copy of the log of one of them with the records, written in that epoch or before; that the other led the epoch
without them, as it began at or below them or has other records there; and that the last leader, and every leader
since, is that other one or followed it. For replicas that differ: such records in one copy of each of the two logs.
"""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Any, NamedTuple

import polars as pl

from ..cached import once
from ..replicas.replica_logs import in_snapshot
from ..timelines.facts import Fact, chain, dated, fact_of, is_end_of_process
from ..timelines.terms import Term
from ..timelines.timeline import Timeline
from ..wording import brokers, quoted
from .cases import NOT_THE_CASE, Attempt, Lost, acknowledgement_facts, needs
from .replica_history import snapshots_with_records

CITATION = "KIP-320 (fencing by leader epochs), KIP-595 (a quorum elects one controller), KAFKA-340, KAFKA-6082"
REMEDY = (
    "One controller: brokers that refuse a replaced controller (the controller epoch), and controllers that a quorum"
    " elects (KRaft). Stop one of the two leaders, and keep its log: only it has its records."
)
PREVENTED_BY = [
    "brokers that refuse the requests of a replaced controller (controller epoch; KRaft's quorum elects one, KIP-595)"
]
CONTROLLER_FAULTS = ("fault-controller", "heal-controller")  # prefixes of kinds of facts


class Leader(NamedTuple):
    """A broker that led an epoch, by its own line."""

    broker: str
    start: int  # its log end then
    fact: Fact


class SharedEpoch(NamedTuple):
    """A leader epoch that two brokers led at the same time."""

    epoch: int
    first: Leader
    second: Leader
    elected: list[Fact]  # the controllers' records of the elections

    @property
    def leaders(self) -> tuple[Leader, Leader]:
        """Both leaders, the first one first."""
        return self.first, self.second

    @property
    def facts(self) -> list[Fact]:
        """The facts that two brokers led the epoch."""
        return [*self.elected, self.first.fact, self.second.fact]


def explain_loss(timeline: Timeline, lost: Lost) -> Attempt:
    """Whether the records are in the log of one of two leaders of an epoch, and the other one's log was continued."""
    copies = timeline.replica_logs.records.filter(offset=lost.first)
    held = copies.filter(pl.col("value").is_in(list(lost.values[:1])))
    missing: list[str] = []
    for shared in shared_epochs(timeline):
        if not _concerns(shared, lost, held):
            continue
        sides = [pair for pair in permutations(shared.leaders, 2) if _record_without(shared, *pair, copies, held)]
        if not sides:
            names = f"broker {shared.first.broker} or {shared.second.broker}, which both led epoch {shared.epoch}"
            missing.append(f"a copy of the log of {names}, with the lost records")
            continue
        holder, other = sides[0]
        continued = _continuation_facts(timeline, shared, holder, other, lost)
        if not continued:
            missing.append(f"whether all later leaders followed broker {other.broker} in epoch {shared.epoch}")
            continue
        own = snapshots_with_records(timeline, holder.broker, lost)
        facts = chain(acknowledgement_facts(lost), _controller_facts(timeline, shared), shared.facts, own, continued)
        return Attempt(True, facts, PREVENTED_BY)
    return needs(*missing)


def _concerns(shared: SharedEpoch, lost: Lost, held: pl.DataFrame) -> bool:
    """Whether the two leaders of an epoch may have lost the records: written in the epoch, or one of them had them.

    held: the copies of the first lost record.
    """
    epochs = held["leader_epoch"].drop_nulls()
    if len(epochs):
        was_written = shared.epoch in epochs
        if epochs.max() > shared.epoch:  # type: ignore[operator]
            return False
    else:
        was_written = lost.stored_at == 0 or lost.stored_at >= (shared.first.fact.time or 0)
    starts = sorted((shared.first.start, shared.second.start))
    return was_written or starts[0] <= lost.first < starts[1]


def explain_divergence(timeline: Timeline, differing: Lost) -> Attempt:
    """Whether two leaders of an epoch differ at the first of these offsets, in copies of any time."""
    copies = timeline.replica_logs.records.filter(offset=differing.first)
    for shared in shared_epochs(timeline):
        for holder, other in permutations(shared.leaders, 2):
            record = _record_without(shared, holder, other, copies, copies)
            others = copies.filter(broker=other.broker).rows(named=True)
            if record is not None and others:
                records = [_record_fact(timeline, row) for row in (record, others[-1])]
                return Attempt(True, chain(_controller_facts(timeline, shared), shared.facts, records), PREVENTED_BY)
    rewritten = _epochs_with_two_records(timeline, differing.first)
    return needs(
        *(
            f"which of {brokers(names)} led epoch {epoch}, as their records of that epoch differ (state-change.log)"
            for epoch, names in rewritten.items()
            if epoch not in timeline.led_by_two
        )
    )


def explain_leaders(timeline: Timeline, epoch: int) -> Attempt:
    """Whether two brokers led an epoch at the same time, and not one after the other."""
    for shared in shared_epochs(timeline):
        if shared.epoch == epoch:
            return Attempt(True, chain(_controller_facts(timeline, shared), shared.facts), PREVENTED_BY)
    if epoch not in timeline.led_by_two:
        return NOT_THE_CASE
    return needs(f"whether the first leader of epoch {epoch} still led when the second began")


@once
def shared_epochs(timeline: Timeline) -> list[SharedEpoch]:
    """The leader epochs that two brokers led at the same time; each pair of three leaders is one."""
    terms = [timeline.terms[epoch] for epoch in sorted(timeline.led_by_two) if epoch in timeline.terms]
    return [shared for term in terms for shared in _leaders_at_once(timeline, term)]


def _leaders_at_once(timeline: Timeline, term: Term) -> list[SharedEpoch]:
    leaders: dict[str, list[Leader]] = {}
    for fact in term.facts:
        if fact.kind == "begins" and fact.broker is not None and fact.offset is not None and fact.time is not None:
            leaders.setdefault(fact.broker, []).append(Leader(fact.broker, fact.offset, fact))
    elected = [fact for fact in term.facts if fact.kind == "elected"]
    firsts = sorted((own[0] for own in leaders.values()), key=lambda one: one.fact.time or 0)
    return [
        SharedEpoch(term.epoch, first, second, elected)
        for first, second in combinations(firsts, 2)
        if _leads_at(timeline, term, leaders[first.broker], second.fact.time or 0)
    ]


def _leads_at(timeline: Timeline, term: Term, claims: list[Leader], at: int) -> bool:
    """Whether a broker that logged these claims led the term at a time (ns).

    A controller that fences a broker does not end its process, so a fence is no end of its leadership.
    """
    since = max((claim.fact.time or 0 for claim in claims if (claim.fact.time or 0) <= at), default=None)
    if since is None:
        return False
    broker = claims[0].broker
    lives = timeline.life_of(broker, since, at)
    was_over = any(e.kind == "started" or is_end_of_process(e.fact) for e in lives)
    followed = timeline.dated_ends(broker, "followed", since=since, until=at)
    was_over |= any((end.fact.epoch or 0) > term.epoch for end in followed)
    return not was_over and not dated(timeline.terms_after(term.epoch), since, at)


def _record_without(
    shared: SharedEpoch, holder: Leader, other: Leader, copies: pl.DataFrame, wanted: pl.DataFrame
) -> dict[str, Any] | None:
    """The record of `wanted` that one leader had in the shared epoch, and without which the other led; None if none is.

    copies: the records of all copies of all logs at its offset.
    """
    same = ["key", "value", "control"]
    others = copies.filter(broker=other.broker)
    own = wanted.filter(broker=holder.broker).join(others, on=same, how="anti", nulls_equal=True)
    for row in own.drop_nulls("leader_epoch").iter_rows(named=True):
        was_written = row["leader_epoch"] == shared.epoch and holder.start <= row["offset"]
        was_held = row["leader_epoch"] < shared.epoch and holder.start > row["offset"]
        began_below = other.start <= row["offset"]
        if (was_written and (began_below or others.height)) or (was_held and began_below):
            return row
    return None


def _continuation_facts(
    timeline: Timeline, shared: SharedEpoch, holder: Leader, other: Leader, lost: Lost
) -> list[Fact]:
    """The facts that the leaders after the shared epoch continued the log of the other leader; empty without proof."""
    logs = timeline.replica_logs
    later = {term.leader for term in timeline.terms_after(shared.epoch) if term.leader is not None}
    leader = logs.leader
    if leader is None or not all(_continues(timeline, shared, name, holder, other) for name in {*later, leader}):
        return []
    own = logs.last_records.filter(offset=lost.first, broker=leader).rows(named=True)
    ends = [end.fact for end in timeline.ends_of(leader, "snapshot") if end.snapshot == logs.last]
    return [_record_fact(timeline, row) for row in own[:1]] or ends


def _continues(timeline: Timeline, shared: SharedEpoch, broker: str, holder: Leader, other: Leader) -> bool:
    """Whether a broker is the other leader of the shared epoch, or followed it, and not the holder."""
    facts = timeline.terms[shared.epoch].facts
    followed = {
        name for fact in facts if (fact.kind, fact.broker) == ("followed", broker) for name in fact.brokers or ()
    }
    return broker == other.broker or (broker != holder.broker and followed == {other.broker})


def _record_fact(timeline: Timeline, row: dict[str, Any]) -> Fact:
    what = f"value {quoted(row['value'])}" if row["control"] is None else f"a {row['control']} marker"
    offset, epoch = row["offset"], row["leader_epoch"]
    text = f"{in_snapshot(row['snapshot'])} broker {row['broker']} has at offset {offset} {what} of epoch {epoch}"
    return fact_of(timeline.replica_logs, text, "kept", row, epoch=epoch, offset=offset)


def _controller_facts(timeline: Timeline, shared: SharedEpoch) -> list[Fact]:
    """The last changes of the controller before the second leader began, and the faults that hit controllers."""
    until = shared.second.fact.time or 0
    faults = [fact for fact in timeline.fault_facts if fact.kind.startswith(CONTROLLER_FAULTS)]
    return [*dated(timeline.controllers, until=until)[-2:], *dated(faults, until=until)]


def _epochs_with_two_records(timeline: Timeline, offset: int) -> dict[int, list[str]]:
    """The epochs in which two brokers wrote different records at an offset, with these brokers.

    A leader that lost its tail and led on in its epoch writes the offset again, too.
    """
    records = timeline.replica_logs.last_records.filter(offset=offset).drop_nulls("leader_epoch")
    found: dict[int, list[str]] = {}
    for own in records.partition_by("leader_epoch"):
        if own.select(pl.struct("key", "value", "control").n_unique()).item() > 1:
            found[own["leader_epoch"][0]] = sorted(own["broker"].unique())
    return found
