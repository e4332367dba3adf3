"""Causes: why acknowledged records were lost, why replicas differ at the end, and why consumers missed records.

Each module is one cause: its docstring is its documentation, beside CITATION and REMEDY. It has a function for
each thing that it explains:

- explain_loss: acknowledged records that are gone
- explain_divergence: replicas that differ at the end, so that the next election can lose records
- explain_leaders: a leader epoch that two brokers led
- explain_missed: records that a group skipped
- explain_regression: a committed offset that went back
- explain_duplicate: a value at several offsets
- explain_misread: a read of a damaged copy
- explain_ending: a transaction that did not end as decided, or never ended
- explain_absence: records that were deleted legally

Such a function returns a proof with a chain of dated facts, or the evidence that is missing, or that the evidence
excludes the cause. One proof is the cause; two proofs are a conflict, shown as both readings; no proof is `unknown`,
with the missing evidence. A cause never follows from the absence of evidence for another. To add a cause: a module,
and its entry in CAUSES.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

import polars as pl

from ..timelines.facts import SECOND, ordered
from ..timelines.timeline import Timeline
from . import (
    commit_before_handle,
    commits_lost,
    committed_offset_vanished,
    compaction,
    consumer_reset,
    correlated_failure,
    corruption,
    high_watermark_truncation,
    idempotence_reset,
    last_replica_standing,
    late_write,
    leader_epoch_divergence,
    log_rolled_back,
    metadata_lost,
    offsets_altered,
    operator_abort,
    producer_state_lost,
    repeated_marker,
    retention,
    retry_duplicate,
    single_ack_failover,
    split_brain,
    stale_commit,
    transaction_state_lost,
    truncation_below_position,
    unclean_election,
)
from .cases import NOT_THE_CASE, UNKNOWN, Attempt, Explanation, Lost, Missed, Processes, Record, Regression
from .decisive import decisive_steps
from .leader_change import find_leader_change
from .lost_marker import explanation_of_records, lost_marker, lost_marker_of_part
from .repeated_values import Repeated, held_records
from .transaction_part import TransactionPart

CAUSES: dict[str, ModuleType] = {  # causes of a loss first
    "unclean-election": unclean_election,
    "high-watermark-truncation": high_watermark_truncation,
    "single-ack-failover": single_ack_failover,
    "last-replica-standing": last_replica_standing,
    "correlated-failure": correlated_failure,
    "corruption": corruption,
    "log-rolled-back": log_rolled_back,
    "metadata-lost": metadata_lost,
    "split-brain": split_brain,
    "commit-before-handle": commit_before_handle,
    "committed-offset-vanished": committed_offset_vanished,
    "commits-lost": commits_lost,
    "compaction": compaction,
    "consumer-reset": consumer_reset,
    "idempotence-reset": idempotence_reset,
    "late-write": late_write,
    "leader-epoch-divergence": leader_epoch_divergence,
    "offsets-altered": offsets_altered,
    "operator-abort": operator_abort,
    "producer-state-lost": producer_state_lost,
    "repeated-marker": repeated_marker,
    "retention": retention,
    "retry-duplicate": retry_duplicate,
    "stale-commit": stale_commit,
    "transaction-state-lost": transaction_state_lost,
    "truncation-below-position": truncation_below_position,
}
NO_KNOWN_CAUSE = "the evidence fits no known cause"
NO_START = "when the run started (started_at in run.json), to compare the brokers' times with the history's"


def explain_loss(timeline: Timeline, lost: Lost) -> Explanation:
    """The cause of a lost range; if only the COMMIT marker of the records was lost, the cause of the marker's loss."""
    marker = lost_marker(timeline, lost)
    if isinstance(marker, str):
        return Explanation(UNKNOWN, missing=(marker,))
    if marker is not None:
        return explanation_of_records(_explain_lost_range(timeline, marker.lost), marker)
    found = _explain_lost_range(timeline, lost)
    if not found.is_known and lost.last < timeline.replica_logs.remote_below:
        return replace(found, missing=(f"the segments of {lost.name} in remote storage (KIP-405)",))
    folders = metadata_lost.facts_of_leftovers(timeline, lost)
    if not found.is_known:
        unused = (f"why a broker no longer used a folder as its replica (server.log): {f.sentence}" for f in folders)
        return replace(found, missing=(*found.missing, *unused))
    return replace(found, chain=(*found.chain, *folders))


def explain_divergence(timeline: Timeline, differing: Lost) -> Explanation:
    """The cause for replicas that differ in a range of offsets at the end of the run."""
    return _explain_range(timeline, _attempts("explain_divergence", timeline, differing))


def explain_leaders(timeline: Timeline, epoch: int) -> Explanation:
    """The cause for which two brokers led a leader epoch."""
    return _combine_attempts(_attempts("explain_leaders", timeline, epoch))


def explain_absence(timeline: Timeline, lost: Lost) -> Explanation:
    """The legal reason for absent records: retention or compaction."""
    return _explain_range(timeline, _attempts("explain_absence", timeline, lost))


def explain_missed(events: pl.DataFrame, missed: Missed, processes: Processes) -> Explanation:
    """The cause of records that a group missed though no broker lost them; processes: its members, as in run.json."""
    attempts = _attempts("explain_missed", events.sort("time", "place"), missed, processes)
    return _combine_attempts(attempts, "what the members of the group did with these records")


def explain_regression(events: pl.DataFrame, regression: Regression) -> Explanation:
    """The cause of a group's committed offset that went back."""
    attempts = _attempts("explain_regression", events.sort("time", "place"), regression)
    return _combine_attempts(attempts, "what lowered the committed offset")


def explain_duplicate(timeline: Timeline, repeated: Repeated, records: Sequence[Record]) -> Explanation:
    """The cause of a value at several offsets; `records` are the brokers' records there (repeated_values.records_at).

    If another record has a copy's offset now, that copy was truncated, and the cause is that of the truncation: it made
    the producer write the record again. But if consumers had read all copies before, the truncation caused none.
    """
    held = held_records(timeline, repeated, records)
    replaced = [row["offset"] for row in held if row["value"] != repeated.value]
    if replaced:
        lost = repeated.lost(replaced)
        successor = find_leader_change(timeline, lost).successor
        elected = None if successor is None else successor.time
        missing = ("what truncated the copy that another record has replaced",)
        if elected is not None and lost.replaced is not None and lost.replaced < elected - SECOND:
            return Explanation(UNKNOWN, missing=missing)  # an earlier election took the copy
        read = [time for time in repeated.read.values() if time is not None]
        were_read_before = elected is not None and len(read) == len(repeated.offsets) and max(read) < elected
        if not were_read_before:
            found = explain_loss(timeline, lost)
            # Without what concerns one offset, so that all copies of a truncation have one explanation.
            steps = tuple(fact for fact in found.chain if fact.place is None or fact.place != lost.replaced_place)
            return replace(found, chain=steps) if found.is_known else replace(found, missing=missing)
        held = [row for row in held if row["value"] == repeated.value]
    attempts = _attempts("explain_duplicate", timeline, repeated, held)
    return _combine_attempts(attempts, "how the producer wrote a record twice")


def explain_misread(timeline: Timeline, offset: int, *, is_read: bool = True) -> Explanation:
    """The cause of a read that returned a damaged copy of the record at an offset; without `is_read`, of the damage."""
    return _combine_attempts(_attempts("explain_misread", timeline, offset, is_read=is_read))


def explain_ending(timeline: Timeline, part: TransactionPart) -> Explanation:
    """The cause of a transaction that did not end in a partition as its coordinator decided, or never ended there.

    If its marker was written and then lost, this is the cause of that loss.
    """
    marker = lost_marker_of_part(timeline, part)
    if marker is not None:
        return explanation_of_records(_explain_lost_range(timeline, marker.lost), marker)
    why = f"why {part.subject} did not end in {part.name} as decided"
    return _combine_attempts(_attempts("explain_ending", part), why)


def _attempts(explain: str, *about: Any, **how: Any) -> dict[str, Attempt]:
    """The attempt of each cause that has the function `explain`."""
    return {name: getattr(cause, explain)(*about, **how) for name, cause in CAUSES.items() if hasattr(cause, explain)}


def _explain_lost_range(timeline: Timeline, lost: Lost) -> Explanation:
    """The cause of a lost range in brokers' logs, with the decisive steps."""
    attempts = _attempts("explain_loss", timeline, lost)
    if undecided := attempts.get("split-brain", NOT_THE_CASE).missing:
        # While two brokers lead, the ISR and the elections that one controller records prove no other cause.
        return Explanation(UNKNOWN, missing=tuple(undecided))
    if metadata_lost.were_set_aside(timeline, lost):
        # The brokers lost no tail. Epochs and log ends of the new cluster are not those of the old one.
        attempts = {"metadata-lost": attempts["metadata-lost"]}
    for name, attempt in attempts.items():
        if attempt.is_proved:
            steps = decisive_steps(timeline, lost, attempt.chain)
            attempts[name] = replace(attempt, chain=[*attempt.chain, *steps])
    return _explain_range(timeline, attempts)


def _explain_range(timeline: Timeline, attempts: Mapping[str, Attempt]) -> Explanation:
    """The explanation of a range in brokers' logs; each event is one fact of its chain, whatever sources report it."""
    merged = timeline.merged
    chains = {name: [merged.get(fact, fact) for fact in attempt.chain] for name, attempt in attempts.items()}
    found = _combine_attempts({name: replace(each, chain=ordered(chains[name])) for name, each in attempts.items()})
    if found.is_known or timeline.started is not None or not timeline.led_terms:
        return found
    return replace(found, missing=(NO_START, *(item for item in found.missing if item != NO_KNOWN_CAUSE)))


def _combine_attempts(attempts: Mapping[str, Attempt], otherwise: str = NO_KNOWN_CAUSE) -> Explanation:
    """The explanation from all attempts; `otherwise` is the missing evidence if no attempt names any."""
    proved = [
        Explanation(name, tuple(attempt.chain), tuple(attempt.prevented_by), CAUSES[name].CITATION)
        for name, attempt in attempts.items()
        if attempt.is_proved
    ]
    if len(proved) == 1:
        return proved[0]
    if proved:
        conflict = "the evidence conflicts: it supports " + " and ".join(each.cause for each in proved)
        return Explanation(UNKNOWN, missing=(conflict,), readings=tuple(proved))
    missing = dict.fromkeys(item for attempt in attempts.values() for item in attempt.missing)
    return Explanation(UNKNOWN, missing=tuple(missing) or (otherwise,))


class Cause(NamedTuple):
    """A cause as it is documented."""

    name: str
    title: str
    about: str  # paragraphs
    evidence: str  # needed to prove it
    remedy: str
    citation: str


@cache
def catalogue() -> dict[str, Cause]:
    """All causes by name, causes of a loss first."""
    return {name: _parse_documentation(name, cause) for name, cause in CAUSES.items()}


def title_of(name: str) -> str:
    """A cause in a sentence without its full stop; empty for a name that is no cause, such as "unknown"."""
    cause = catalogue().get(name)
    return cause.title.removesuffix(".") if cause else ""


def _parse_documentation(name: str, cause: ModuleType) -> Cause:
    first, *rest = (" ".join(text.split()) for text in (inspect.getdoc(cause) or "").split("\n\n"))
    evidence = " ".join(text.removeprefix("Needs: ") for text in rest if text.startswith("Needs: "))
    about = "\n\n".join(text for text in rest if not text.startswith("Needs: "))
    return Cause(name, first.partition(": ")[2], about, evidence, cause.REMEDY, cause.CITATION)
