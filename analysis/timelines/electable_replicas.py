"""Which replicas could have been elected, by the brokers' logs and those of ZooKeeper's controllers."""

from __future__ import annotations

from .facts import SECOND, Fact, dated
from .terms import Term
from .timeline import Builder


def add_electable_replicas(builder: Builder) -> None:
    """Adds to each term what log lines show of its election: the ISR before it, or a leader from outside of the ISR."""
    terms = [builder.terms[epoch] for epoch in sorted(builder.terms)]
    for term in terms:
        if term.electable is None:
            _add_of_partition_epoch(builder, term)
        if term.electable is None and not _may_be_last_known_leader(builder, term):
            term.chosen_outside_isr = _report_of_unclean_election(builder, term)
    for fact in builder.elected_outside_isr:
        time = fact.time
        led = [term for term in terms if term.leader == fact.broker]
        begun = [term for term in led if term.time is None or time is None or term.time >= time - SECOND]
        for term in begun[:1]:
            term.facts.append(fact)
            term.chosen_outside_isr = fact


def _add_of_partition_epoch(builder: Builder, term: Term) -> None:
    """Adds the ISR before an election: that of the previous partition epoch (zkVersion), if it is recorded.

    A partition epoch counts every change of leader or ISR. A leader that begins with others of that ISR joined it by
    the same change, as a reassignment that ends makes it: after an unclean election the leader is alone in the ISR.
    Before Kafka 4.2 brokers do not log the eligible leader replicas, so a leader from outside of that ISR may have been
    one of these, unless it logged that it was none.
    """
    if not term.partition_epochs:
        return
    epoch = min(term.partition_epochs) - 1
    recorded, elr = builder.isr_by_partition_epoch.get(epoch), builder.elr_by_partition_epoch.get(epoch)
    if recorded is None:
        return
    before, isr = recorded.isr or frozenset(), term.isr or frozenset()
    joined = term.leader in isr and isr & before - {term.leader}
    is_electable = joined or term.leader in before
    if not is_electable and elr is None and builder.may_have_eligible_replicas(before, term.time):
        term.chosen_outside_isr = _report_of_unclean_election(builder, term)
        if term.chosen_outside_isr is None:
            return
    term.eligible = elr or frozenset()
    term.electable = before | term.eligible | ({str(term.leader)} if joined else frozenset())
    term.electable_fact = recorded


def _report_of_unclean_election(builder: Builder, term: Term) -> Fact | None:
    """The line of a term's leader, within a second before it began, that its election was unclean; None without one."""
    began = term.claims.get(term.leader or "")
    marks = [] if began is None else dated(builder.marked_recovering, began - SECOND, began)
    return next((mark for mark in reversed(marks) if mark.broker == term.leader), None)


def _may_be_last_known_leader(builder: Builder, term: Term) -> bool:
    """Whether the leader of a term may have been elected as the last known leader (KIP-966, Kafka 4.0).

    That is the leader before, so it is another broker if that one is known, and no epoch in between had a leader.
    """
    if (release := builder.release()) is not None and release < (4, 0):
        return False
    led = [one for one in builder.led_terms if one.epoch < term.epoch]
    last = max(led, key=lambda one: one.epoch, default=None)
    if last is None or last.has_conflict or last.leader == term.leader:
        return True
    return not builder.leaderless_epochs.issuperset(range(last.epoch + 1, term.epoch))
