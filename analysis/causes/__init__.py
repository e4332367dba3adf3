"""Why acknowledged records were lost, why replicas differ for ever, and why consumers missed some.

Each module is one cause: its NAME, its CITATION, and `explain`, which proves it from the evidence with a
chain of dated facts, says what evidence it lacks, or that it is not the case. `explain_loss` asks all: one
proof is the cause; two are a conflict, shown as both readings; none is `unknown`, with what is missing. A
cause never follows from the absence of evidence for another. To add one: a module, and one line in CAUSES. What
consumers missed and what stands twice is not lost: consumers.py and retry_duplicate.py tell why.
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
# Why replicas differ in the end, as no truncation made them alike: no loss, but what may become one.
DIVERGING: dict[str, tuple[Cause, str]] = {
    high_watermark_truncation.NAME: (high_watermark_truncation.explain_divergence, high_watermark_truncation.CITATION),
    leader_epoch_divergence.NAME: (leader_epoch_divergence.explain, leader_epoch_divergence.CITATION),
}
# Why a record is legally absent: asked where no rule finds a loss, to tell the story of an offset.
LEGAL: dict[str, tuple[Cause, str]] = {
    legal_absence.RETENTION: (legal_absence.retention, legal_absence.RETENTION_CITATION),
    legal_absence.COMPACTION: (legal_absence.compaction, legal_absence.COMPACTION_CITATION),
}


def explain_loss(timeline: Timeline, lost: Lost) -> Explanation:
    """The cause of a lost range; of records that lack no more than their COMMIT marker, the cause of its loss."""
    marker = lost_marker(timeline, lost)
    if marker is not None:
        return with_marker(_explain(CAUSES, timeline, marker.lost, decisive_steps), marker, lost)
    return _explain(CAUSES, timeline, lost, decisive_steps)


def explain_divergence(timeline: Timeline, differ: Lost) -> Explanation:
    """Why replicas differ in a range of offsets in the end."""
    return _explain(DIVERGING, timeline, differ)


def explain_absence(timeline: Timeline, lost: Lost) -> Explanation:
    """The reason why records that no rule misses are absent: retention or compaction."""
    return _explain(LEGAL, timeline, lost)


def _explain(
    causes: dict[str, tuple[Cause, str]],
    timeline: Timeline,
    lost: Lost,
    further: Callable[[Timeline, Lost, list[Fact]], list[Fact]] = lambda *_: [],
) -> Explanation:
    """What the causes come to. Each proved chain gets the `further` facts, and is put in order of time."""
    attempts = {}
    for name, (explain, citation) in causes.items():
        attempt = explain(timeline, lost)
        facts = [*attempt.chain, *further(timeline, lost, attempt.chain)] if attempt.proved else attempt.chain
        chain = ordered([timeline.merged.get(fact, fact) for fact in facts])
        attempts[name] = (replace(attempt, chain=chain), citation)
    return combine_attempts(attempts, "no cause that is known fits what the evidence shows")
