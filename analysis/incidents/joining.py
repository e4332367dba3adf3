"""Joins all findings and explanations of one event into an incident, once. Every output renders these.

Rules find ranges of records, and causes explain them part by part. An election that loses 345 writes gives a finding
at each change of acks, another finding for each from the brokers' logs, and consequences of all of them. An incident
joins these:

- lost writes of one event (`related` to each other), with their consequences;
- a lost update of transactions on lists or registers, with the cycle that these form;
- a hanging transaction with the records that wait behind it unseen, and a read of aborted records with the torn
  transaction that they are of;
- findings with the same cause and the same change of leader, or the same death, in one partition or in several;
- records that a group missed, or committed offsets that a member moved back, for the same cause at the same time, in
  one partition or in several;
- commits that `__consumer_offsets` lost, and the truncation of that log;
- lost writes of one partition with an unknown cause and the same missing evidence, as without brokers' files;
- other breaches of one rule in one partition, with the same cause;
- other findings of one rule that the configuration permits, or notes, in one partition or in several.

Losses of one event with different causes, or by different elections, are one incident each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import polars as pl

from ...histories.tables import MAX_INT64, Finding
from ..causes.cases import LOSSES, UNKNOWN, LostRange
from ..causes.prevention import INCLUDED
from ..finding_order import rank, worst_first
from ..timelines.facts import SECOND, Fact, dated
from .chains import DEATH_KINDS, GROUP_KINDS, decisive_fact, election_of, merge_chains
from .headlines import consumer_groups, headline
from .incident import Explained, Incident, RuleCounts

MAX_APART_NS = 2 * SECOND  # between effects of one event on two partitions
MAX_EXAMPLES = 3  # findings without lost records that add their facts to an incident
FINDING_COLUMNS = (
    *("id", "rule", "severity", "topic", "partition", "first_offset", "last_offset", "count", "processes", "sentence"),
    "related",
)

LOST_COMMITS = ("commits-lost", "committed-offset-vanished")  # causes of what a group missed or read again


@dataclass
class _Group:
    """The findings and explanations of an incident, while they are collected."""

    cause: str
    findings: dict[str, Finding] = field(default_factory=dict)
    explanations: list[Explained] = field(default_factory=list)

    def add(self, other: _Group) -> None:
        self.findings |= other.findings
        self.explanations += other.explanations

    @property
    def lost_ranges(self) -> list[LostRange]:
        """The lost records that its explanations explain."""
        return [one.lost for one in self.explanations if one.lost is not None]


def findings_in(frame: pl.DataFrame) -> Iterator[Finding]:
    """The findings of a frame with the columns of FINDINGS, with what incidents need (FINDING_COLUMNS)."""
    return (Finding(**row) for row in frame.select(FINDING_COLUMNS).iter_rows(named=True))


def saved_incidents(verdict: Mapping[str, Any], findings: pl.DataFrame) -> list[Incident]:
    """The incidents of a verdict.json, joined anew if an earlier version wrote it."""
    if "incidents" in verdict:
        return [Incident.from_record(record) for record in verdict["incidents"]]
    return incidents_of(findings_in(findings), map(Explained.from_record, verdict.get("causes", ())))


def incidents_of(findings: Iterable[Finding], explanations: Iterable[Explained]) -> list[Incident]:
    """The incidents of a run or a partition, the worst first. Explanations of other findings only are left out."""
    found = {finding.id: finding for finding in findings}
    events = _events(found)
    groups: dict[_Key, _Group] = {}
    # Losses go first: the explanation of a consequence joins its loss.
    for explanation in sorted(explanations, key=lambda one: one.lost is None):
        known = [name for name in explanation.findings if name in found]
        if not known and explanation.findings:
            continue
        group = groups.setdefault(_key(explanation, known, found, events, groups), _Group(explanation.cause))
        group.explanations.append(explanation)
        group.findings |= {name: found[name] for name in known}
    _place_unexplained(groups, found, events)
    separate = _join_by_missing_evidence(groups.values())
    joined = _join_truncations_of_commits(_join_by_decisive_fact(separate))
    made = sorted((_incident(group) for group in joined), key=_order)
    return [replace(incident, number=number) for number, incident in enumerate(made, 1)]


def _events(findings: Mapping[str, Finding]) -> dict[str, str]:
    """By finding: the first finding of its event. An event has losses, or findings that are related to another one."""
    first: dict[str, str] = {}
    heads = {other for finding in findings.values() for other in finding.related}
    for name, finding in sorted(findings.items(), key=lambda item: (_loss_order(item[1]), item[0] not in heads)):
        before = next((first[other] for other in finding.related if other in first), None)
        if before is not None or finding.rule in LOSSES or name in heads:
            first[name] = before or name
    return first


def _loss_order(finding: Finding) -> int:
    """Losses that clients see come first, then those that only the logs show, then others."""
    return LOSSES.index(finding.rule) if finding.rule in LOSSES else len(LOSSES)


class _Key(NamedTuple):
    """The key of a group: explanations with the same key are one incident."""

    event: Any  # its first finding; without an event, what alike findings have in common
    cause: str
    part: Any = None  # of an event: the election; else the missing evidence


def _key(
    explanation: Explained,
    known: list[str],
    findings: Mapping[str, Finding],
    events: Mapping[str, str],
    groups: Iterable[_Key],
) -> _Key:
    """The key of the group to which an explanation belongs; `known`: its findings."""
    cause, election = explanation.cause, election_of(explanation.chain)
    event = next((events[name] for name in known if name in events), None)
    if explanation.lost is not None:
        return _Key(event or tuple(known[:1]) or id(explanation), cause, election)
    if event is not None:
        # A consequence joins losses of its event with the same cause; without a cause, any of them.
        same = [key for key in groups if key.event == event and cause in (key.cause, UNKNOWN)]
        if same:
            return next((key for key in same if key.part == election), same[0])
        if event in known or cause == UNKNOWN:
            return _Key(event, cause, election)
    if not known:
        return _Key(explanation.sentence, cause)
    return _Key(_grouping_key(findings[known[0]]), cause, explanation.missing)


def _grouping_key(finding: Finding) -> tuple[Any, ...]:
    """The key of findings that are one incident without a common event: breaches of a rule in a partition, or all that
    the configuration permits of a rule."""
    where = (finding.topic, finding.partition) if finding.severity == "violation" else ()
    return finding.rule, finding.severity, *where


def _place_unexplained(groups: dict[_Key, _Group], findings: Mapping[str, Finding], events: Mapping[str, str]) -> None:
    """Adds findings without an explanation to the group of their event, or of their rule in the partition.

    Of several groups of an event: to the largest that explains lost records at the finding's offsets, else the largest.
    """
    placed = {name for group in groups.values() for name in group.findings}
    of_event: dict[str, list[_Group]] = {}
    for group in sorted(groups.values(), key=_size, reverse=True):
        for first in dict.fromkeys(events[name] for name in group.findings if name in events):
            of_event.setdefault(first, []).append(group)
    for name, finding in findings.items():
        if name in placed:
            continue
        event = events.get(name)
        if event in of_event:
            same = of_event[event]
            group = next((group for group in same if _lost_at(group, finding)), same[0])
        else:
            group = groups.setdefault(_Key(event or _grouping_key(finding), UNKNOWN), _Group(UNKNOWN))
            if event:
                of_event[event] = [group]
        group.findings[name] = finding


def _lost_at(group: _Group, finding: Finding) -> bool:
    """Whether a group explains lost records at the offsets of a finding."""
    if finding.topic is None or finding.first_offset is None:
        return False
    own = LostRange.of(finding)
    return any(lost.overlaps(own) for lost in group.lost_ranges)


def _size(group: _Group) -> int:
    return sum(lost.count for lost in group.lost_ranges)


def _join_by_missing_evidence(groups: Iterable[_Group]) -> list[_Group]:
    """Joins losses of one partition and severity with an unknown cause and the same missing evidence.

    Without brokers' files a loss has no explanation: all evidence is missing.
    """
    out: dict[Any, _Group] = {}
    for group in groups:
        undecided = [one for one in group.explanations if one.missing and not one.readings]
        missing = {(one.lost.name, one.missing) for one in undecided if one.lost is not None}
        losses = [one for one in group.findings.values() if one.rule in LOSSES]
        if not group.explanations:
            missing = {(LostRange.of(one).name, ()) for one in losses}
        severities = frozenset(one.severity for one in losses)
        key = (severities, missing.pop()) if len(missing) == 1 else id(group)
        if key in out:
            out[key].add(group)
        else:
            out[key] = group
    return [*out.values()]


def _join_by_decisive_fact(groups: list[_Group]) -> list[_Group]:
    """Joins groups with the same cause and decisive fact: at the same time leaders changed, a broker died, or a member
    of one consumer group crashed, was assigned its partitions, or committed."""
    out: list[_Group] = []
    alike: dict[Any, list[tuple[int, _Group]]] = {}
    for group in groups:
        decisive = decisive_fact(group.explanations[0].chain) if group.cause != UNKNOWN else None
        if decisive is None or decisive.time is None:
            out.append(group)
        else:
            alike.setdefault((group.cause, *_event_key(decisive, group)), []).append((decisive.time, group))
    for same in alike.values():
        latest: int | None = None
        for time, group in sorted(same, key=lambda item: item[0]):
            if latest is not None and time - latest <= MAX_APART_NS:
                out[-1].add(group)
            else:
                out.append(group)
            latest = time
    return out


def _join_truncations_of_commits(groups: list[_Group]) -> list[_Group]:
    """Adds to lost commits the facts of the truncation that removed them, which is then no incident of its own."""
    known = [one for group in groups if group.cause != UNKNOWN for one in group.explanations]
    truncations = [one for one in known if not one.findings]  # few: thousands of findings are not compared in pairs
    added: set[int] = set()
    for group in groups:
        causal = [one for one in truncations if any(truncated_commits(one, other) for other in group.explanations)]
        group.explanations += [replace(one, prevented_by=()) for one in causal]
        added |= {id(one) for one in causal}
    return [group for group in groups if group.findings or not {id(one) for one in group.explanations} <= added]


def _event_key(decisive: Fact, group: _Group) -> tuple[Any, ...]:
    """What decisive facts of one event have in common, beside their time."""
    if decisive.kind in GROUP_KINDS:
        return decisive.kind, consumer_groups(group.findings.values())
    # One death may change the leaders of many partitions, and each may get another one.
    return (decisive.kind, decisive.broker) if decisive.kind in DEATH_KINDS else ("leader change",)


def _incident(group: _Group) -> Incident:
    ranked = worst_first(group.findings.values())
    lost = _lost(group)
    first = max(group.explanations, key=lambda one: one.lost.count if one.lost else 0, default=None)
    counts: dict[str, list[int]] = {}  # of records, for each finding of a rule
    for finding in ranked:
        counts.setdefault(finding.rule, []).append(finding.count)
    chains = [one.chain for one in _examples(group, ranked)] if group.cause != UNKNOWN else []
    return Incident(
        number=0,
        headline=headline(lost, ranked, group.explanations),
        severity=ranked[0].severity if ranked else "note",
        cause=group.cause,
        findings=tuple(finding.id for finding in ranked),
        rules=tuple(RuleCounts(rule, len(of), sum(of)) for rule, of in counts.items()),
        lost=lost,
        chain=tuple(merge_chains(chains, lost)),
        prevented_by=_measures(group),
        citation=first.citation if first else "",
        missing=tuple(dict.fromkeys(item for one in group.explanations for item in one.missing)),
        readings=first.readings if first else (),
    )


def _examples(group: _Group, ranked: list[Finding]) -> list[Explained]:
    """The explanations of losses, and of the worst other findings: thousands of duplicates have the same facts."""
    position = {finding.id: number for number, finding in enumerate(ranked)}

    def worst(explanation: Explained) -> int:
        return min((position[name] for name in explanation.findings if name in position), default=0)

    others = sorted((one for one in group.explanations if one.lost is None), key=worst)
    left_out = {id(one) for one in others[MAX_EXAMPLES:]}
    return [one for one in group.explanations if id(one) not in left_out]


def _measures(group: _Group) -> tuple[str, ...]:
    """Measures that would have prevented the event. Those that only help some records come last, marked as such."""
    of_losses = [one for one in group.explanations if one.lost is not None and one.prevented_by]
    of_parts = [one.prevented_by for one in of_losses or group.explanations if one.prevented_by]
    measures = list(dict.fromkeys(measure for part in of_parts for measure in part))
    whole = [one for one in measures if all(one in part or INCLUDED.get(one) in part for part in of_parts)]
    rest = [one for one in measures if one not in {*whole, *map(INCLUDED.get, whole)}]
    return *whole, *(f"for some of the records {measure}" for measure in rest)


def _lost(group: _Group) -> tuple[LostRange, ...]:
    """The lost ranges, most records first. One that both the clients and the brokers' logs show counts once."""
    explained = {name for one in group.explanations if one.lost is not None for name in one.findings}
    seen = {name for name, finding in group.findings.items() if finding.rule == LOSSES[0]}  # lost writes
    found = [(not seen.isdisjoint(one.findings), one.lost) for one in group.explanations if one.lost is not None]
    found.sort(key=lambda one: (not one[0], -one[1].count))
    unexplained = [one for name, one in group.findings.items() if name not in explained and one.rule in LOSSES]
    found += [(one.rule == LOSSES[0], LostRange.of(one)) for one in sorted(unexplained, key=_loss_order)]
    # acknowledged-absent counts only without an overlapping lost-write: both are about the same records.
    ranges: list[LostRange] = []
    for is_lost_write, lost in found:
        if is_lost_write or not any(lost.overlaps(other) for other in ranges):
            ranges.append(lost)
    return tuple(sorted(ranges, key=lambda lost: (-lost.count, lost.topic, lost.partition, lost.first or 0)))


def _order(incident: Incident) -> tuple[Any, ...]:
    """Breaches first, then losses, then incidents with a known cause, then those with more records."""
    worst = incident.rules[0].rule if incident.rules else "lost-write"
    gravity, _, position = rank(worst, incident.severity)
    records = incident.records or sum(rule.records for rule in incident.rules[:1])
    has_no_cause = not incident.is_known
    return gravity, not incident.lost, has_no_cause, position, -records, incident.findings[:1], incident.headline


def truncated_commits(truncation: Explained, explanation: Explained) -> bool:
    """Whether a truncation removed the commits that an explanation is about.

    The log with another commit of the group was truncated by a leader change between the lost commit and the next
    assignment, and the coordinator did not remove the commit.
    """
    if explanation.cause not in LOST_COMMITS or truncation.findings:
        return False
    lost_by, chain = decisive_fact(truncation.chain), explanation.chain
    if lost_by is None or lost_by.time is None or any(fact.kind == "removed" for fact in chain):
        return False
    logs = {PurePosixPath(fact.source or "").parent.name for fact in chain if fact.byte is not None}
    by_clients = [fact for fact in chain if fact.byte is None and fact.kind in ("committed", "assigned")]
    recorded = [fact.when for fact in dated(by_clients)]
    if not recorded or lost_by.partition not in logs:
        return False
    until = max(recorded) if len(recorded) > 1 else MAX_INT64 - SECOND
    return min(recorded) - SECOND <= lost_by.time <= until + SECOND
