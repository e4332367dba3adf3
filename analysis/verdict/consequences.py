"""Weighs findings as configured, and links those of one event: a lost tail, and the reorderings that follow from it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import polars as pl

from ...histories.settings import Settings
from ...histories.tables import MAX_INT64, Finding
from ...models.arrays import Ints
from ..causes.cases import LOSSES
from ..finding_order import is_consequence
from ..partitions.partition import Partition
from ..rules import RULES, Judgement

OF_RANGES = ("replica-divergence",)  # rules whose findings may span records that were never committed


def findings_of(p: Partition, judgements: Mapping[str, Judgement]) -> list[Finding]:
    """The findings of all rules in order, numbered within their rule, with severity and links as configured."""
    generation = p.generation.number if p.generation and p.generation.count > 1 else None
    findings = [
        replace(
            with_configured_severity(finding, p.settings), id=f"{rule}/{p.label}/{number}", topic_generation=generation
        )
        for rule, judgement in judgements.items()
        for number, finding in enumerate(judgement.findings)
    ]
    return accept_consequences(link_consequences(findings, p), p)


def with_configured_severity(finding: Finding, settings: Settings) -> Finding:
    """The finding with its severity under --strict and --allow."""
    severity = "violation" if settings.strict and finding.severity == "permitted" else finding.severity
    is_allowed = bool({finding.rule, f"{finding.rule}:acks={finding.acks}"}.intersection(settings.allow))
    is_accepted = severity == "violation" and is_allowed
    return replace(finding, severity="permitted" if is_accepted else severity, is_accepted=is_accepted)


def link_consequences(findings: list[Finding], p: Partition) -> list[Finding]:
    """The findings with `related` filled in. It links a loss and its consequences, and adjacent losses of one event, in
    both directions. If only the brokers' logs show the loss, its consequences are related to the acknowledged-absent
    finding. `p` identifies unacknowledged copies that vanished with a loss. Records that wait unseen behind an open
    transaction are related to the hanging-transaction.
    """
    findings = _behind_open_transactions(findings)
    losses = [finding for finding in findings if finding.rule == "lost-write"]
    absent = [finding for finding in findings if finding.rule == "acknowledged-absent"]
    if not losses and not absent:
        return findings
    lost_by_value = {value: loss for loss in losses for value in loss.values}
    absent_by_value = {value: loss for loss in absent for value in loss.values}
    of_losses, of_absent = _ByOffset.of(losses), _ByOffset.of(absent)
    replaced = _replaced_witnesses(findings, of_losses, p)
    related: dict[str, list[str]] = {}

    def relate(one: str, other: str) -> None:
        related.setdefault(one, []).append(other)
        related.setdefault(other, []).append(one)

    for finding in findings:
        for loss in _losses_of(finding, of_losses, lost_by_value) or replaced.get(finding.id, []):
            relate(finding.id, loss.id)
        if finding.rule not in LOSSES and finding.id not in related:
            found = _losses_of(finding, of_absent, absent_by_value)
            related[finding.id] = [loss.id for loss in found] or finding.related
    previous: dict[tuple[str | None, int | None, int], str] = {}
    for loss in losses:
        if loss.event is not None:
            key = (loss.topic, loss.partition, loss.event)
            if key in previous:
                relate(loss.id, previous[key])
            previous[key] = loss.id
    return [replace(finding, related=related.get(finding.id, finding.related)) for finding in findings]


def _behind_open_transactions(findings: list[Finding]) -> list[Finding]:
    """The findings; those of unseen get the hanging transaction behind which all of their records wait."""
    hanging = [(one, frozenset(one.values)) for one in findings if one.rule == "hanging-transaction"]
    if not hanging:
        return findings

    def of(finding: Finding) -> list[str]:
        return [one.id for one, waiting in hanging if finding.values and waiting.issuperset(finding.values)]

    return [replace(one, related=of(one)) if one.rule == "unseen" else one for one in findings]


def accept_consequences(findings: list[Finding], p: Partition) -> list[Finding]:
    """The findings. A consequence becomes permitted if it is only related to permitted losses and only concerns their
    records.

    A truncation also removes records that were never acknowledged. Their absence is no loss, and its consequences are
    no breach. `p` identifies these records.
    """
    losses = [finding for finding in findings if finding.rule == "lost-write"]
    permitted = {loss.id: loss for loss in losses if loss.severity == "permitted"}
    if not permitted:
        return findings
    breaches = _ByOffset.of([loss for loss in losses if loss.id not in permitted])
    accepted = _Accepted.of([*permitted.values()])
    unacknowledged = _Unacknowledged.of(p)

    def is_accepted(finding: Finding) -> bool:
        if finding.severity != "violation" or not is_consequence(finding):
            return False
        alone = permitted.keys() >= set(finding.related) and not breaches.overlapping(finding)
        return alone and _is_covered(finding, accepted, unacknowledged)

    by_allow = {loss.id for loss in permitted.values() if loss.is_accepted}
    return [
        replace(finding, severity="permitted", is_accepted=not by_allow.isdisjoint(finding.related))
        if is_accepted(finding)
        else finding
        for finding in findings
    ]


class _ByOffset(NamedTuple):
    """Findings with the first and the last offset of each; a log with scattered losses has thousands of them."""

    findings: list[Finding]
    firsts: Ints
    lasts: Ints

    @staticmethod
    def of(findings: Iterable[Finding]) -> _ByOffset:
        placed = [one for one in findings if one.first_offset is not None and one.last_offset is not None]
        firsts, lasts = ([getattr(one, name) for one in placed] for name in ("first_offset", "last_offset"))
        return _ByOffset(placed, np.array(firsts, np.int64), np.array(lasts, np.int64))

    def overlapping(self, finding: Finding) -> list[Finding]:
        """Those with an offset between the first and the last one of a finding."""
        if finding.first_offset is None or finding.last_offset is None:
            return []
        overlap = (self.firsts <= finding.last_offset) & (finding.first_offset <= self.lasts)
        return [self.findings[row] for row in np.flatnonzero(overlap)]


class _Accepted(NamedTuple):
    """Permitted losses: their values, the number of their records, and where they are."""

    values: frozenset[str]
    records: int
    placed: _ByOffset

    @staticmethod
    def of(losses: Collection[Finding]) -> _Accepted:
        values = frozenset(value for loss in losses for value in loss.values)
        return _Accepted(values, sum(loss.count for loss in losses), _ByOffset.of(losses))


def _replaced_witnesses(findings: list[Finding], losses: _ByOffset, p: Partition) -> dict[str, list[Finding]]:
    """The losses that also removed a finding's witness (an unacknowledged copy of a record that is not lost).

    The witness is the first value of the finding, at an offset behind the finding. An inconsistent-offsets finding that
    overlaps a loss proves that other records replaced it there. Or the final reads ended at or below it, and the
    records of the finding were written where others were lost.
    """
    lost = {value for finding in findings if finding.rule == "lost-write" for value in finding.values}
    seen = [one for one in findings if RULES[one.rule].follows == "value" and not lost.issuperset(one.values[:1])]
    replaced = [(one, losses.overlapping(one)) for one in findings if one.rule == "inconsistent-offsets"]
    end = p.final.end if p.final is not None and p.final.complete else MAX_INT64
    if not seen or (not replaced and end == MAX_INT64):
        return {}
    copies = p.entries.filter(~pl.col("sent_ok"), pl.col("value").is_in({finding.values[0] for finding in seen}))
    witnesses = {}
    for finding in seen:
        last = finding.last_offset if finding.last_offset is not None else MAX_INT64
        read = (pl.col("value") == finding.values[0]) & (pl.col("first_read_at") == finding.evidence[0].place)
        for offset in copies.filter(read, pl.col("offset") > last)["offset"]:
            held = [loss for other, of in replaced for loss in of if other.covers(offset)]
            witnesses[finding.id] = held or (losses.overlapping(finding) if offset >= end else [])
    return witnesses


class _Unacknowledged(NamedTuple):
    """Records that were never acknowledged: their values, and a mask of the entries of the partition.

    A record that was acknowledged at one offset may have a copy at another, as its producer sent it again. The copy is
    unacknowledged too.
    """

    values: frozenset[str]
    entries: pl.DataFrame  # offset, value, is_unacknowledged; sorted by offset

    @staticmethod
    def of(p: Partition) -> _Unacknowledged:
        named = p.sends.filter(pl.col("value").is_not_null())
        values = frozenset(named["value"]) - frozenset(named.filter("acknowledged")["value"])
        acknowledged = p.entries.filter("sent_ok")["value"]
        is_copy = ~pl.col("sent_ok") & pl.col("value").is_in(acknowledged.implode())
        known = pl.col("value").is_in(list(values)) | is_copy
        return _Unacknowledged(values, p.entries.select("offset", "value", is_unacknowledged=known))

    def within(self, first: int, last: int) -> pl.DataFrame:
        """The entries from offset first to last, both inclusive."""
        start, end = self.entries["offset"].search_sorted(pl.Series([first, last + 1]))
        return self.entries[start:end]


def _is_covered(finding: Finding, accepted: _Accepted, unacknowledged: _Unacknowledged) -> bool:
    """Whether a finding concerns only lost and unacknowledged records."""
    lost = accepted.values
    values_are_records = RULES[finding.rule].values_are_records
    others = [value for value in finding.values if value not in lost and value not in unacknowledged.values]
    if values_are_records and (others or lost.isdisjoint(finding.values)):
        return False
    if finding.first_offset is None or finding.last_offset is None:
        return values_are_records and finding.count <= accepted.records
    within = unacknowledged.within(finding.first_offset, finding.last_offset)
    if finding.rule == "inconsistent-offsets":
        # Each offset may hold one more value: that of the record that replaced it.
        rest = within.filter(~pl.col("is_unacknowledged") & ~pl.col("value").is_in(lost))
        return len(within) > 0 and not rest["offset"].is_duplicated().any()
    beside = _offsets_outside(finding.first_offset, finding.last_offset, accepted.placed.overlapping(finding))
    if values_are_records:
        # The values of such a finding include every committed record of its range.
        return finding.rule in OF_RANGES or finding.count <= accepted.records
    return set(within.filter("is_unacknowledged")["offset"]).issuperset(beside)


def _offsets_outside(first: int, last: int, losses: list[Finding]) -> list[int]:
    """The offsets from first to last, both inclusive, that no loss covers."""
    outside = np.ones(last - first + 1, bool)
    for loss in losses:
        if loss.first_offset is not None and loss.last_offset is not None:
            outside[max(loss.first_offset - first, 0) : max(loss.last_offset - first + 1, 0)] = False
    return (np.flatnonzero(outside) + first).tolist()


def _losses_of(finding: Finding, losses: _ByOffset, lost_by_value: dict[str, Finding]) -> list[Finding]:
    """The losses that a finding follows from, by value or by offset as its rule defines."""
    follows = RULES[finding.rule].follows
    if follows == "value":
        loss = lost_by_value.get(finding.values[0]) if finding.values else None
        if loss or RULES[finding.rule].group != "order":
            return [loss] if loss else []
        # The first value is the witness of the order. If all others were lost, the order went with them.
        others = [lost_by_value.get(value) for value in finding.values[1:]]
        return [*{one.id: one for one in others if one}.values()] if all(others) else []
    if follows == "offset":
        return losses.overlapping(finding)
    return []
