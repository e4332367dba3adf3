"""The generations of a topic: a topic that is deleted and recreated has a new topic id, and its logs begin at 0 again.

Several sources date them: TopicRecord and RemoveTopicRecord of `__cluster_metadata`, before KRaft the controller's
lines on deletions, the faults delete-topic and create-topic of the history, the topic ids in partition.metadata of
dated copies, and, where none of these has a deletion, the ids in the lines of leaders in brokers' logs. A deletion or
creation is a span of time, as no source records the moment at which the brokers applied it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple

import polars as pl

from ...histories.evidence.duplicate_copies import same_id
from ...histories.evidence.tables import FINAL
from ...histories.observations import json_object
from ...histories.tables import MAX_INT64, MIN_INT64
from ..timelines.facts import MS
from ..wording import utc_text

MAX_CLOCK_SKEW_NS = 1_000_000_000  # between a controller's clock and the history's
MAX_DURATION_NS = 315_360_000_000_000_000  # ten years: no run takes longer
DELETE, CREATE = "delete-topic", "create-topic"  # faults


class Span(NamedTuple):
    """The earliest and the latest time (ns) at which something happened."""

    earliest: int
    latest: int


ANY_TIME = Span(MIN_INT64, MAX_INT64)  # of a change without a time on the history's clock


class TopicChange(NamedTuple):
    """A deletion or a creation of a topic, as one source records it."""

    kind: str  # DELETE or CREATE
    span: Span
    topic_id: str | None = None
    is_certain: bool = True  # False: the fault's outcome is unknown
    order: int = 0  # among changes at ANY_TIME


class TopicCopy(NamedTuple):
    """The topic id in the partition.metadata of one broker's copy, and when it was copied (None: not recorded)."""

    snapshot: str
    broker: str
    topic_id: str
    time: int | None


def _time_text(time: int) -> str:
    """A time (ns) in words. Those of a run without a history count from 1970, not from the start of the run."""
    return f"{time / 1e9:.3f} s" if time < MAX_DURATION_NS else utc_text(time // 1_000_000)


def in_words(span: Span) -> str:
    """A span in words, in seconds of the run; in a run without a history in UTC."""
    earliest, latest = map(_time_text, span)
    if abs(span.earliest) >= MAX_INT64:
        return "at an unknown time" if abs(span.latest) >= MAX_INT64 else f"before {latest}"
    if span.latest - span.earliest == 2 * MAX_CLOCK_SKEW_NS:
        return f"at about {_time_text(span.earliest + MAX_CLOCK_SKEW_NS)}"
    return f"after {earliest}" if span.latest >= MAX_INT64 else f"between {earliest} and {latest}"


@dataclass(frozen=True)
class TopicGeneration:
    """The time between a topic's creation and its deletion; all its logs have one topic id."""

    number: int = 1
    created: Span | None = None  # None: before the recording, or not recorded
    deleted: Span | None = None  # None: it exists at the end
    is_deletion_certain: bool = True
    is_deletion_dated: bool = True  # False: it was at some time between two copies, or lines, of the brokers
    topic_id: str | None = None
    count: int = 1  # of the generations that were observed

    def describe(self, topic: str) -> str:
        """A sentence with its number, and when it was created and deleted."""
        id_text = f" (id {self.topic_id})" if self.topic_id else ""
        name = f"topic {topic}{id_text}" if self.count == 1 else f"generation {self.number} of topic {topic}{id_text}"
        changes = (("created", self.created), ("deleted", self.deleted))
        times = [f"{verb} {in_words(span)}" for verb, span in changes if span]
        earlier = " A topic of this name was deleted before." if self.count == 1 < self.number else ""
        return f"This is {name}" + (f", {' and '.join(times)}." if times else ".") + earlier

    @property
    def is_alone(self) -> bool:
        """Whether the topic's name means this one at the end of the run and during it: others were deleted before."""
        return self.count == 1 and self.deleted is None and self.created is not None

    @property
    def existed_until(self) -> Span:
        """The time (ns) of its deletion; MAX_INT64: never."""
        return self.deleted or Span(MAX_INT64, MAX_INT64)


def generations_of(
    recorded: Sequence[TopicChange],
    faults: Sequence[TopicChange],
    copies: Sequence[TopicCopy],
    is_metadata_complete: bool,
) -> list[TopicGeneration]:
    """The generations of a topic in the order of time; one without any evidence of a deletion.

    `recorded` are the changes of the metadata log, which `is_metadata_complete` if it was copied at the end of the run.
    """
    generations = _generations_between(_merge_changes(recorded, faults, is_metadata_complete))
    generations = _with_ids(generations, copies)
    return [replace(generation, number=number) for number, generation in enumerate(generations, 1)]


def _merge_changes(
    recorded: Sequence[TopicChange], faults: Sequence[TopicChange], is_metadata_complete: bool
) -> list[TopicChange]:
    """All changes, each once: a fault and its record in the metadata log are one change.

    Records without a fault are mostly the first ones, such as that of the creation before the recording began.
    """
    out: list[TopicChange] = []
    for kind in (DELETE, CREATE):
        records = [change for change in recorded if change.kind == kind]
        unmatched: list[TopicChange] = []
        for fault in (change for change in reversed(faults) if change.kind == kind):
            first, last = fault.span
            at_once = (one for one in reversed(records) if one.span.earliest <= last and first <= one.span.latest)
            record = next(at_once, None)
            if record is None:
                unmatched.insert(0, fault)
            else:
                records.remove(record)
                earliest = max(record.span.earliest, fault.span.earliest)
                out.append(record._replace(span=Span(earliest, min(record.span.latest, fault.span.latest))))
        sure = [fault for fault in unmatched if fault.is_certain]
        if len(sure) <= len(records):
            # The controller's clock may be ahead or behind: assign the last records to the faults.
            late, records = records[len(records) - len(sure) :], records[: len(records) - len(sure)]
            out += [record._replace(span=fault.span) for record, fault in zip(late, sure, strict=True)]
        else:
            out += sure
        if not is_metadata_complete:
            out += [fault for fault in unmatched if not fault.is_certain]
        out += records
    # A deletion precedes a creation at the same time.
    return sorted(out, key=lambda one: (one.span.earliest, one.order, one.kind == CREATE, one.span.latest))


def _generations_between(changes: Iterable[TopicChange]) -> list[TopicGeneration]:
    out: list[TopicGeneration] = []
    current = TopicGeneration()
    for change in changes:
        if change.kind == CREATE:
            if current.deleted is not None:
                # A topic can only be created if it does not exist.
                latest = min(current.deleted.latest, change.span.latest)
                certain = current.is_deletion_certain or change.is_certain
                span = Span(min(current.deleted.earliest, latest), latest)
                out.append(replace(current, deleted=span, is_deletion_certain=certain))
                current = TopicGeneration(created=change.span, topic_id=change.topic_id)
            elif current.created is None:
                current = replace(current, created=change.span, topic_id=current.topic_id or change.topic_id)
        else:
            # After a certain deletion the topic was recreated; of two others the first may have failed.
            if current.deleted is not None and current.is_deletion_certain:
                out.append(current)
                current = TopicGeneration()
            topic_id = current.topic_id or change.topic_id
            current = replace(current, deleted=change.span, is_deletion_certain=change.is_certain, topic_id=topic_id)
    return [*out, current]


def _with_ids(found: list[TopicGeneration], copies: Sequence[TopicCopy]) -> list[TopicGeneration]:
    """The generations with the topic ids of the copies. The ids may add generations."""
    dated = sorted(((copy.time, copy.topic_id) for copy in copies if copy.time is not None), key=itemgetter(0))
    for time, topic_id in dated:
        number = None if _has_id(found, topic_id) else existing_at(found, time)
        if number is not None and found[number].topic_id is None:
            found[number] = replace(found[number], topic_id=topic_id)
    for time, topic_id in dated:  # of a copy from around a deletion, if only one generation without an id may have it
        possible = [
            number
            for number, (begun, ended) in enumerate(lifetimes(found))
            if found[number].topic_id is None
            and begun.earliest <= time <= ended.latest
            # After a certain deletion at an unknown time, the copy at the end is of another topic.
            and not (time == MAX_INT64 and found[number].deleted and found[number].is_deletion_certain)
        ]
        if len(possible) == 1 and not _has_id(found, topic_id):
            found[possible[0]] = replace(found[possible[0]], topic_id=topic_id)
    final = next((copy.topic_id for copy in copies if copy.snapshot == FINAL), None)
    found = _resolve_deletions(found, final, [time for time, _ in dated])
    if len(found) == 1 and found[0].deleted is None:
        return _generations_of_copies(found[0], copies)
    last = found[-1]
    has_another = last.topic_id or (last.deleted == ANY_TIME and last.is_deletion_certain)
    if final and last.deleted is not None and has_another and not _has_id(found, final):
        return [*found[:-1], replace(last, is_deletion_certain=True), TopicGeneration(topic_id=final)]
    return found


def _has_id(found: Iterable[TopicGeneration], id_: str) -> bool:
    return any(one.topic_id is not None and same_id(one.topic_id, id_) for one in found)


def _resolve_deletions(found: list[TopicGeneration], final: str | None, copied: list[int]) -> list[TopicGeneration]:
    """The generations; topic ids from before and after a deletion of unknown outcome decide whether it took effect.

    `copied` are the times of copies, in order.
    """
    out: list[TopicGeneration] = []
    for number, one in enumerate(found):
        current = one
        if out and out[-1].deleted is None:  # its deletion did not take effect, so this is the same generation
            current = replace(out.pop(), deleted=one.deleted, is_deletion_certain=one.is_deletion_certain)
        topic_id, deleted = current.topic_id, current.deleted
        if deleted is not None and not current.is_deletion_certain and topic_id:
            later = [each.topic_id for each in found[number + 1 :] if each.topic_id]
            if any(not same_id(topic_id, id_) for id_ in later):
                current = replace(current, is_deletion_certain=True)
            elif final and same_id(final, topic_id) and copied and copied[0] <= deleted.earliest:
                current = replace(current, deleted=None, is_deletion_certain=True)
        out.append(current)
    return out


def _generations_of_copies(first: TopicGeneration, copies: Sequence[TopicCopy]) -> list[TopicGeneration]:
    """One generation for each topic id of the copies, if no other source records a deletion.

    The deletion was between the copies. An undated snapshot was copied at some time before the end.
    """
    seen: dict[str, list[int]] = {}  # topic id -> the times (ns) of the copies with it, in order
    for time, copy in sorted(((MIN_INT64 if copy.time is None else copy.time), copy) for copy in copies):
        known = next((one for one in seen if same_id(one, copy.topic_id)), copy.topic_id)
        seen.setdefault(known, []).append(time)
    if len(seen) < 2:
        return [first]
    between = [sorted((one[-1], later[0])) for one, later in pairwise(seen.values())]
    changes = [first.created, *(Span(*times) for times in between), None]
    return [
        TopicGeneration(created=created, deleted=deleted, is_deletion_dated=False, topic_id=topic_id)
        for topic_id, (created, deleted) in zip(seen, pairwise(changes), strict=True)
    ]


def existing_at(found: Sequence[TopicGeneration], time: int) -> int | None:
    """The position of the generation that certainly existed at a time; None: not known."""
    existed = enumerate(lifetimes(found))
    return next((number for number, (begun, ended) in existed if begun.latest <= time <= ended.earliest), None)


def lifetimes(found: Sequence[TopicGeneration]) -> list[tuple[Span, Span]]:
    """When each generation began and ended. One without a recorded creation may have begun as the one before ended."""
    ends = [one.existed_until for one in found]
    before = [Span(MIN_INT64, MIN_INT64), *ends[:-1]]
    return [(one.created or start, end) for one, start, end in zip(found, before, ends, strict=True)]


def faults_on(topic: str, context: pl.DataFrame) -> list[TopicChange]:
    """The deletions and creations of a topic that the history records as faults."""
    if not len(context):
        return []
    faults = context.filter(
        pl.col("outcome") != "fail", pl.col("detail").str.contains("-topic", literal=True), kind="fault"
    )
    out = []
    for row in faults.unique().sort("invoked", "at").iter_rows(named=True) if len(faults) else ():
        fault = json_object(row["detail"])
        if fault.get("kind") not in (DELETE, CREATE) or fault.get("topic") != topic:
            continue
        certain = row["outcome"] == "ok"
        latest = row["completed"] if certain and row["completed"] is not None else MAX_INT64
        span = Span(row["invoked"], max(row["invoked"], latest))
        topic_id = fault.get("topic_id") if isinstance(fault.get("topic_id"), str) else None
        out.append(TopicChange(fault["kind"], span, topic_id, certain))
    return out


def without_other_changes(topic: str, context: pl.DataFrame, generation: TopicGeneration) -> pl.DataFrame:
    """The context without the deletions and creations of a topic that began or ended other generations of it."""
    since = generation.created.earliest if generation.created else MIN_INT64
    is_other = (pl.col("invoked") > generation.existed_until.latest) | (pl.col("completed") < since)
    mentioned = context.filter(is_other & pl.col("detail").str.contains("-topic", literal=True), kind="fault")
    faults = {text: json_object(text) for text in mentioned["detail"].unique()}
    changes = [(DELETE, topic), (CREATE, topic)]
    details = [text for text, fault in faults.items() if (fault.get("kind"), fault.get("topic")) in changes]
    own = (pl.col("kind") == "fault") & pl.col("detail").is_in(details) & is_other
    return context.filter(~own.fill_null(False))


def recorded_changes(topic: str, copy: pl.DataFrame, started: int | None) -> tuple[list[TopicChange], bool]:
    """The deletions and creations of a topic in the longest copy of the metadata log, and whether that copy is final.

    `copy`: METADATA with its location. `started`: ms since the epoch; None: the changes may be at any time.
    """
    if not len(copy):
        return [], False
    own = copy.filter(pl.col("kind").is_in(["topic", "remove-topic"]), ~pl.col("is_copy").fill_null(False), topic=topic)
    out = []
    for number, row in enumerate(own.iter_rows(named=True), 1):
        kind = CREATE if row["kind"] == "topic" else DELETE
        if started is None:
            out.append(TopicChange(kind, ANY_TIME, row["topic_id"], order=number))
            continue
        time = (row["time"] - started) * MS
        out.append(TopicChange(kind, Span(time - MAX_CLOCK_SKEW_NS, time + MAX_CLOCK_SKEW_NS), row["topic_id"]))
    return out, copy["snapshot"][0] == FINAL


def since_metadata_began(copies: Sequence[TopicCopy], began_ms: int | None, started: int | None) -> list[TopicCopy]:
    """The copies without those from before the first record of the metadata log at the end of the run.

    That log is of a new cluster, which never had the topic of an earlier copy: no one deleted that topic. `began_ms`
    (None: not known) and `started`: ms since the epoch.
    """
    if began_ms is None or started is None:
        return list(copies)
    began = (began_ms - started) * MS - MAX_CLOCK_SKEW_NS
    return [copy for copy in copies if copy.time is None or copy.time > began]


def copies_of(properties: pl.DataFrame, times: dict[str, int]) -> list[TopicCopy]:
    """The topic ids of a partition's copies. Final copies have the time MAX_INT64, undated snapshots None."""
    if not len(properties):
        return []
    ids = properties.filter(pl.col("file").str.ends_with("partition.metadata"), key="topic_id")
    rows = ids.select("snapshot", "broker", "value").unique(maintain_order=True).sort("snapshot", "broker", "value")
    return [
        TopicCopy(snapshot, broker, value, MAX_INT64 if snapshot == FINAL else times.get(snapshot))
        for snapshot, broker, value in rows.iter_rows()
    ]
