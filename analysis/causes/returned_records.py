"""Older records that a leader brings back, so that those written in between are lost."""

from __future__ import annotations

import polars as pl

from ...histories.tables import MAX_INT64
from ..timelines.terms import Term
from ..timelines.timeline import Timeline
from .cases import Lost
from .replica_history import snapshots_with_records, truncations


def brings_back(timeline: Timeline, term: Term, old_leader: str | None, lost: Lost, now: int | None) -> bool:
    """Whether a leader from outside the ISR still had the records, and so held them until the next leader.

    The old leader did unless it had truncated its log, or had the record of epoch `now` that is there at the end. Of
    another leader a snapshot since its election proves it.
    """
    if not term.elected_uncleanly or (term.start or 0) <= lost.last or followed_another(timeline, term, lost, now):
        return False
    held = snapshots_with_records(timeline, term.leader, lost)
    since = MAX_INT64 if term.time is None else term.time
    if term.leader == old_leader:
        cuts = truncations(timeline, term.leader, lost.last_acked or 0, lost.last)
        return not any(cut.time is None or cut.time < since for cut in cuts)
    return any(fact.time is not None and fact.time >= since for fact in held)


def returned_term(timeline: Timeline, now: int, after: list[Term], old_leader: str | None, lost: Lost) -> Term | None:
    """The term that a leader began with records of the older epoch `now` at the offsets of the lost ones.

    `after`: the terms after the lost records. The result is the next term of another leader if that had the older
    records, or else the first one after which only their writer led.
    """
    following = next((t for t in after if t.leader != old_leader), None)
    if following is not None and began_with_older(timeline, following, lost, now):
        return following
    wrote = timeline.terms.get(now)
    if wrote is None:
        return None
    others = [t.epoch for t in after if t.leader != wrote.leader or t.has_conflict]
    return next((t for t in after if t.epoch > max(others, default=-1)), None)


def began_with_older(timeline: Timeline, term: Term, lost: Lost, now: int | None) -> bool:
    """Whether the leader of a term began it with a record of the older epoch `now` at the first lost offset.

    It wrote that record. Or a last log with it has the term's epoch above the lost records: such a log begins with what
    the term's leader had.
    """
    wrote = timeline.terms.get(-1 if now is None else now)
    if wrote is None or term.has_conflict:
        return False
    return term.leader == wrote.leader or followed_another(timeline, term, lost, now)


def followed_another(timeline: Timeline, term: Term, lost: Lost, now: int | None) -> bool:
    """Whether a last log has a term's epoch above the lost records, and the record of epoch `now` at the first of them.

    Then the leader of the term began with that record, too.
    """
    if now is None:
        return False
    logs = timeline.replica_logs
    held = logs.last_records.filter(offset=lost.first, leader_epoch=now)["broker"].to_list()
    begun = logs.epochs.filter(pl.col("broker").is_in(held), snapshot=logs.last, leader_epoch=term.epoch)
    return begun.filter(pl.col("start_offset") > lost.last).height > 0
