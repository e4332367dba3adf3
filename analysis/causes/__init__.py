"""Causes: why acknowledged records were lost, why replicas differ at the end, and why consumers missed records.

Each module is one cause: NAME, CITATION, REMEDY and `explain`. `explain` returns a proof with a chain of dated facts,
or the evidence that is missing, or that the evidence excludes the cause. `explain_loss` tries all causes: one proof is
the cause; two proofs are a conflict, shown as both readings; no proof is `unknown`, with the missing evidence. A cause
never follows from the absence of evidence for another. To add a cause: a module, and one line in CAUSES. Records that
consumers missed, and duplicates, are not lost: consumers.py and duplicates.py explain them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..timelines.facts import Fact, ordered
from ..timelines.timeline import Timeline
from . import (
    correlated_failure,
    corruption,
    high_watermark_truncation,
    last_replica_standing,
    leader_epoch_divergence,
    legal_absence,
    log_rolled_back,
    single_ack_failover,
    unclean_election,
)
from .attempts import Attempt, Explanation, combine_attempts
from .decisive import decisive_steps
from .losses import Lost
from .lost_marker import lost_marker, with_marker

Cause = Callable[[Timeline, Lost], Attempt]

CAUSES: dict[str, tuple[Cause, str]] = {
    module.NAME: (module.explain, module.CITATION)
    for module in (
        unclean_election,
        high_watermark_truncation,
        single_ack_failover,
        last_replica_standing,
        correlated_failure,
        corruption,
        log_rolled_back,
    )
}
# Causes of replicas that differ at the end. This is no loss yet, but the next election can lose the records.
DIVERGING: dict[str, tuple[Cause, str]] = {
    high_watermark_truncation.NAME: (high_watermark_truncation.explain_divergence, high_watermark_truncation.CITATION),
    leader_epoch_divergence.NAME: (leader_epoch_divergence.explain, leader_epoch_divergence.CITATION),
}
# Reasons for legal absences: `explain` uses them for an offset at which no rule finds a loss.
LEGAL: dict[str, tuple[Cause, str]] = {
    legal_absence.RETENTION: (legal_absence.retention, legal_absence.RETENTION_CITATION),
    legal_absence.COMPACTION: (legal_absence.compaction, legal_absence.COMPACTION_CITATION),
}


def explain_loss(timeline: Timeline, lost: Lost) -> Explanation:
    """The cause of a lost range; if only the COMMIT marker of the records was lost, the cause of the marker's loss."""
    marker = lost_marker(timeline, lost)
    if marker is not None:
        return with_marker(_explain(CAUSES, timeline, marker.lost, decisive_steps), marker, lost)
    return _explain(CAUSES, timeline, lost, decisive_steps)


def explain_divergence(timeline: Timeline, differ: Lost) -> Explanation:
    """The cause for replicas that differ in a range of offsets at the end of the run."""
    return _explain(DIVERGING, timeline, differ)


def explain_absence(timeline: Timeline, lost: Lost) -> Explanation:
    """The legal reason for absent records: retention or compaction."""
    return _explain(LEGAL, timeline, lost)


def _explain(
    causes: dict[str, tuple[Cause, str]],
    timeline: Timeline,
    lost: Lost,
    further: Callable[[Timeline, Lost, list[Fact]], list[Fact]] = lambda *_: [],
) -> Explanation:
    """The explanation from the attempts of all causes. Each proved chain gets the `further` facts, in order of time."""
    attempts = {}
    for name, (explain, citation) in causes.items():
        attempt = explain(timeline, lost)
        facts = [*attempt.chain, *further(timeline, lost, attempt.chain)] if attempt.proved else attempt.chain
        chain = ordered([timeline.merged.get(fact, fact) for fact in facts])
        attempts[name] = (replace(attempt, chain=chain), citation)
    return combine_attempts(attempts, "the evidence fits no known cause")
