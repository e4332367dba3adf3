"""The headline of an incident: a sentence without its full stop that says what was lost, or what rules found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from ...histories.tables import Finding
from ..causes.cases import LostRange
from ..rules.anomalies import count_text
from ..rules.committed_loss import committed_absent
from ..wording import brokers, plural, some
from .incident import Explained


def headline(lost: Sequence[LostRange], findings: Sequence[Finding], explanations: Sequence[Explained]) -> str:
    """The headline of an incident with these lost ranges, or with these findings, the worst first, or with neither."""
    if lost:
        return f"{_lost_text(lost, 'acknowledged write')}{_consumed_text(lost)}"
    if not findings:
        events = [one.event or one.sentence for one in explanations[1:]]
        return some([*(one.sentence for one in explanations[:1]), *events], separator="; also ")
    worst = findings[0]
    if text := _damage_text(findings, explanations):
        return text
    if committed := [LostRange.of(finding) for finding in findings if finding.rule == committed_absent.name]:
        by_partition = sorted(committed, key=lambda one: (one.topic, one.partition))
        return f"at least {_lost_text(by_partition, 'committed record')}"
    if len(findings) == 1:
        return worst.sentence
    others = [finding for finding in findings if finding is not worst]
    if all(worst.id in finding.related for finding in others):
        return f"{worst.sentence}; {', '.join(finding.rule for finding in others)} of the same transactions"
    alike = [finding for finding in findings if finding.rule == worst.rule]
    records = sum(finding.count for finding in alike)
    groups = consumer_groups(alike)
    if worst.rule == "consumer-loss" and len(groups) == 1:
        return (
            f"no member of group {groups[0]} handled {plural(records, 'record')}: {places_of(map(LostRange.of, alike))}"
        )
    if len(alike) == 1:
        return worst.sentence
    return f"{count_text(worst.rule, records, len(alike))} of {worst.rule}, for example: {worst.sentence}"


def _lost_text(lost: Sequence[LostRange], record: str) -> str:
    """How many records were lost, and where; `record` is what one of them is called."""
    records = sum(one.count for one in lost)
    verb = "was" if records == 1 else "were"
    return f"{plural(records, record)} {verb} lost: {places_of(lost)}"


def _damage_text(findings: Sequence[Finding], explanations: Sequence[Explained]) -> str:
    """How many records are damaged, where, and which brokers have all of them intact; empty for other findings."""
    facts = [fact for one in explanations for fact in one.chain]
    damaged = sorted({fact.broker for fact in facts if fact.kind == "damaged" and fact.broker is not None})
    if not damaged or any(finding.rule != "log-corruption" for finding in findings):
        return ""
    holders = [fact.brokers or frozenset() for fact in facts if fact.kind == "intact"]
    intact = sorted(frozenset.intersection(*holders)) if len(holders) == len(explanations) else []
    records = sum(finding.count for finding in findings)
    names = sorted({f"{finding.topic}-{finding.partition}" for finding in findings})
    places = f" in {len(findings)} places" if len(findings) > 1 else ""
    text = f"{plural(records, 'record')} of {some(names, 4)} {'is' if records == 1 else 'are'} damaged{places}"
    them, have = "it" if records == 1 else "them", "has" if len(intact) == 1 else "have"
    return f"{text} on {brokers(damaged)}" + (f"; {brokers(intact)} {have} {them} intact" if intact else "")


def consumer_groups(findings: Iterable[Finding]) -> tuple[str, ...]:
    """The consumer groups of findings of consumer-loss, which name their group first; sorted."""
    return tuple(sorted({name for finding in findings for name in finding.processes[:1]}))


def places_of(lost: Iterable[LostRange]) -> str:
    """orders-0 at offsets 255 to 630, orders-1 at …; several ranges of a partition as their span and number.

    Ranges with other records between the lost ones are counted in records: orders-0 at 12 of the offsets 3 to 40.
    """
    by_partition: dict[str, list[LostRange]] = {}
    for one in lost:
        by_partition.setdefault(one.name, []).append(one)
    return some([_place(name, ranges) for name, ranges in by_partition.items()], 4)


def _place(name: str, ranges: list[LostRange]) -> str:
    known = sorted((one.first, one.last, one.count) for one in ranges if one.first is not None and one.last is not None)
    if not known:
        return name
    first, last = known[0][0], max(end for _, end, _ in known)
    if first == last:
        return f"{name} at offset {first}"
    records = sum(count for *_, count in known)
    # Ranges that overlap, as where producers alternate between acks, may have all offsets together.
    if records == last - first + 1:
        return f"{name} at offsets {first} to {last}"
    if any(count != end - start + 1 for start, end, count in known):
        return f"{name} at {records:,} of the offsets {first} to {last}"
    gaps = sum(start > end + 1 for (_, end, _), (start, _, _) in pairwise(known))
    return f"{name} at offsets {first} to {last}" + (f" in {gaps + 1} ranges" if gaps else "")


def _consumed_text(lost: Sequence[LostRange]) -> str:
    known = [one.read for one in lost if one.read is not None]
    if len(known) < len(lost):
        return ""
    records, read = sum(one.count for one in lost), sum(known)
    if records == 1:
        return "; a consumer had already read it" if read else "; no recorded consumer had read it"
    if read in (0, records):
        return "; consumers had already read all of them" if read else "; no recorded consumer had read them"
    return f"; consumers had already read {read:,} of them"
