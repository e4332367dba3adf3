"""The generations of a topic in one partition, and the tables of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import polars as pl

from ...histories.evidence.clock import QUARTER_MS, Clock, process_starts
from ...histories.evidence.tables import FINAL
from ...histories.tables import MAX_INT64, OBSERVED
from ..extremes import greatest, least
from ..timelines.facts import MS
from ..wording import plural
from .broker_clocks import ahead_of_elections, clocks_by_elections, lines_of_elections
from .common import Common, Frames, evidence_in
from .generation_split import MAX_DELETION_NS, Part, copy_positions, positions_of_records, split_observed
from .marks import IS_LOG_END
from .topic_generations import (
    ANY_TIME,
    DELETE,
    MAX_CLOCK_SKEW_NS,
    Span,
    TopicChange,
    TopicCopy,
    TopicGeneration,
    copies_of,
    faults_on,
    generations_of,
    recorded_changes,
    since_metadata_began,
)

BY_TIME = ("metadata", "log_events")
DELETION = "topic-deletion"
DELETION_LINES = (DELETION, "topic-deleted")  # by which a controller before KRaft begins and completes a deletion
LOGS = ("records", "batches", "segments")
MAX_CREATION_MS = 60_000  # from the request to create a topic to the logs of its partitions
MAX_ZONE_NS = 14 * 3_600_000_000_000  # by which a time zone differs from UTC
_LOGGED_ID = pl.col("fields").str.json_path_match("$.topic_id")


class Recorded(NamedTuple):
    """What is recorded of a partition: its own tables, and what all partitions share."""

    topic: str
    tables: Frames
    common: Common

    def nanoseconds(self, ms: pl.Expr) -> pl.Expr:
        """A time in ms since the epoch as ns since the start of the run; since the epoch if that is not recorded."""
        return (ms - (self.common.settings.started_ms or 0)) * MS


def parts_of(recorded: Recorded) -> tuple[list[Part], list[Part]] | None:
    """The parts of a partition, one for each generation of its topic; None: no deletion of the topic is recorded.

    The second list has the parts if deletions of unknown outcome took effect. It is empty if all are certain.
    """
    found = _generations(recorded)
    if not _has_deletion(found):
        return None
    found = _with_unrecorded(found, recorded)
    certain = _without_uncertain_deletions(found)
    if len(certain) == len(found) and certain[-1] == found[-1]:
        return _parts(recorded, found), []
    return _parts(recorded, certain), _parts(recorded, found)


def topics_with_deletions(topics: Iterable[str], common: Common) -> set[str]:
    """The topics with a recorded deletion, of partitions without brokers' files."""
    has_faults = common.context["detail"].str.contains("-topic", literal=True).any()
    if not (len(evidence_in(common.shared, "metadata")) or has_faults or len(_lines_of_deletions(common))):
        return set()
    return {topic for topic in topics if _has_deletion(_generations(Recorded(topic, {}, common)))}


def _generations(recorded: Recorded) -> list[TopicGeneration]:
    topic, tables, common = recorded
    copies = copies_of(evidence_in(tables, "properties"), common.settings.snapshot_times)
    began, started = common.metadata_began_ms, common.settings.started_ms
    changes, is_complete = recorded_changes(topic, common.metadata_log, started)
    changes += _logged_deletions(recorded)
    faults = faults_on(topic, common.context)
    found = generations_of(changes, faults, since_metadata_began(copies, began, started), is_complete)
    if _has_deletion(found) or not (logged := _logged_copies(recorded)):
        return found
    copies_with_logged = since_metadata_began([*copies, *logged], began, started)
    found = generations_of(changes, faults, copies_with_logged, is_complete)
    if any(one.deleted is not None and not _is_dated(recorded, one.deleted) for one in found):
        ids = list(dict.fromkeys(copy.topic_id for copy in logged))
        changes += [TopicChange(DELETE, ANY_TIME, id_, False, number) for number, id_ in enumerate(ids[:-1], 1)]
        return generations_of(changes, faults, copies, is_complete)
    return [
        one if one.deleted is None or _ran_meanwhile(recorded, one.deleted) else replace(one, is_deletion_certain=False)
        for one in found
    ]


def _lines_of_deletions(common: Common) -> pl.DataFrame:
    """The lines in which a controller deletes a topic, before KRaft."""
    lines = evidence_in(common.shared, "log_events")
    return lines.filter(pl.col("kind").is_in(DELETION_LINES), pl.col("time").is_not_null(), snapshot=FINAL)


def _logged_deletions(recorded: Recorded) -> list[TopicChange]:
    """The deletions of the topic that a controller before KRaft reported as begun and as completed."""
    lines = _lines_of_deletions(recorded.common).filter(topic=recorded.topic)
    out: list[TopicChange] = []
    begun: int | None = None
    for kind, time in lines.select("kind", time=_time_of_log_line(recorded)).sort("time").rows():
        if kind == DELETION:  # also logged when it begins anew
            begun = time if begun is None else begun
        elif begun is not None:
            span = Span(begun - MAX_CLOCK_SKEW_NS, time + MAX_CLOCK_SKEW_NS)
            out.append(TopicChange(DELETE, span if _is_dated(recorded, span) else ANY_TIME, order=len(out)))
            begun = None
    return out


def _is_dated(recorded: Recorded, logged: Span) -> bool:
    """Whether the time of a deletion in brokers' logs is known on the history's clock.

    It is not if no fault bounds the brokers' clocks, and the time is outside the history, but another time zone would
    put it inside.
    """
    clocks = recorded.common.clocks.values()
    if recorded.common.settings.started_ms is None:
        return False
    if any(clock.low is not None or clock.offset for clock in clocks):
        return True
    observed = [recorded.tables[name].select("invoked", "completed") for name in OBSERVED if name in recorded.tables]
    first = least(pl.concat([rows["invoked"] for rows in observed]), None) if observed else None
    if first is None:
        return True
    last = max(greatest(rows["completed"], first) for rows in observed)
    is_inside = logged.latest >= first and logged.earliest <= last
    return is_inside or logged.latest < first - MAX_ZONE_NS or logged.earliest > last + MAX_ZONE_NS


def _ran_meanwhile(recorded: Recorded, deleted: Span) -> bool:
    """Whether a broker's process had the partition before a topic's last line and after the next topic's first line.

    Only a client's request deletes a topic while brokers run. If all of them started in between, the cluster may have
    lost its metadata, and with them the topic.
    """
    lines = recorded.tables["log_events"].select("broker", time=_time_of_log_line(recorded)).drop_nulls()
    starts = process_starts(evidence_in(recorded.common.shared, "log_events"))
    dated = pl.DataFrame(starts, schema={"broker": pl.String, "time": pl.Int64}).drop_nulls()
    started = dated.select("broker", time=_time_of_log_line(recorded))
    for (broker,), own in lines.partition_by("broker", as_dict=True).items():
        before = greatest(own.filter(pl.col("time") <= deleted.earliest)["time"], None)
        after = least(own.filter(pl.col("time") >= deleted.latest)["time"], None)
        if before is None or after is None:
            continue
        if not len(started.filter(pl.col("time").is_between(before, after, closed="right"), broker=broker)):
            return True
    return False


def _logged_copies(recorded: Recorded) -> list[TopicCopy]:
    """The topic ids of the partition in the brokers' own logs, where a broker led it; none if all are the same.

    They are in order of time.
    """
    lines = evidence_in(recorded.tables, "log_events")
    if not len(lines):
        return []
    lines = lines.with_columns(topic_id=_LOGGED_ID).drop_nulls(["topic_id", "time"])
    led = lines.filter((pl.col("kind") == "leader") & (pl.col("topic_id") != ""))
    if led["topic_id"].n_unique() < 2:
        return []
    time = _time_of_log_line(recorded)
    return [TopicCopy("server.log", *row) for row in led.select("broker", "topic_id", time).sort("time").iter_rows()]


def _has_deletion(found: Sequence[TopicGeneration]) -> bool:
    return len(found) > 1 or found[0].deleted is not None


def _with_unrecorded(found: list[TopicGeneration], recorded: Recorded) -> list[TopicGeneration]:
    """The generations, and one more if a client wrote, or requested the end offset, after the last deletion, or a
    broker created a log: the topic was created again. Offsets that continue those of the deleted log were acknowledged
    late.
    """
    last, tables = found[-1], recorded.tables
    if last.deleted is None:
        return found
    gone = last.deleted.latest if last.deleted.latest < MAX_INT64 else last.deleted.earliest
    sends = tables["sends"].filter(pl.col("acknowledged") & pl.col("offset").is_not_null())
    after = pl.col("invoked") >= gone
    later = least(sends.filter(after)["offset"], None)
    is_continued = later is not None and later > greatest(sends.filter(~after)["offset"], later)
    requests = tables["marks"].filter(IS_LOG_END & after)
    created = evidence_in(tables, "log_events").filter(kind="created").filter(_time_of_log_line(recorded) >= gone)
    has_new_log = last.deleted != ANY_TIME and len(created) > 0
    if len(requests) or has_new_log or (later is not None and not is_continued):
        return [*found, TopicGeneration(number=last.number + 1)]
    return found


def _without_uncertain_deletions(found: Sequence[TopicGeneration]) -> list[TopicGeneration]:
    """The generations if no deletion of unknown outcome took effect."""
    out: list[TopicGeneration] = []
    begun: TopicGeneration | None = None
    for one in found:
        current = one if begun is None else replace(begun, deleted=one.deleted, topic_id=begun.topic_id or one.topic_id)
        if one.deleted is not None and not one.is_deletion_certain:
            begun = replace(current, deleted=None, is_deletion_certain=True)
        else:
            out.append(replace(current, is_deletion_certain=True))
            begun = None
    return [*out, begun] if begun is not None else out


def _parts(recorded: Recorded, generations: list[TopicGeneration]) -> list[Part]:
    tables, positions = recorded.tables, _positions_of_evidence(recorded, generations)
    held = pl.DataFrame(schema={"generation": pl.Int32, "offset": pl.Int64, "value": pl.String})
    if "records" in positions:
        held = tables["records"].with_columns(positions["records"]).select(held.columns)
    observed, unassigned_sends, unassigned_reads = split_observed(tables, generations, held)
    out = []
    for number, one in enumerate(generations):
        part = Part(one, _shared_of(recorded, generations, number))
        for name in OBSERVED:
            part.tables[name] = observed[name].filter(generation=number).drop("generation")
        for name, generation in positions.items():
            part.tables[name] = tables[name].filter(generation == number)
        out.append(part)
    _note_ambiguous(recorded.topic, out, positions, unassigned_sends, unassigned_reads)
    observed_parts = [part for part in out if _is_observed(part, len(out))] or out[-1:]
    observed_parts[-1].ambiguous = out[-1].ambiguous  # also if only ambiguous sends may be of the last generation
    return [replace(part, generation=replace(part.generation, count=len(observed_parts))) for part in observed_parts]


def _is_observed(part: Part, generations: int) -> bool:
    """Whether the generation has observations of its own. Indeterminate sends may belong to another one."""
    tables = part.tables
    sends = tables["sends"]
    own = sends if generations == 1 else sends.filter((pl.col("outcome") != "info") | pl.col("offset").is_not_null())
    logs = [frame for name, frame in tables.items() if name not in (*OBSERVED, *BY_TIME, "properties", "leftovers")]
    return any(map(len, (own, tables["reads"], tables["marks"], *logs)))


def _positions_of_evidence(recorded: Recorded, generations: list[TopicGeneration]) -> dict[str, pl.Series]:
    """The generation (a position) of each row of the brokers' evidence, by table."""
    tables, times = recorded.tables, recorded.common.settings.snapshot_times
    copies = copies_of(evidence_in(tables, "properties"), times)
    located = {name: frame for name, frame in tables.items() if name not in (*OBSERVED, *BY_TIME) and len(frame)}
    out: dict[str, pl.Series] = {}
    if located:
        places = pl.concat([frame.select("snapshot", "broker") for frame in located.values()])
        by_copy = copy_positions(copies, places, generations, times)
        for name, frame in located.items():
            joined = frame.join(by_copy, on=["snapshot", "broker"], how="left", maintain_order="left")
            out[name] = joined["generation"]
    if "metadata" in tables:
        time = recorded.nanoseconds(pl.col("time"))
        out["metadata"] = positions_of_records(tables["metadata"], generations, time, pl.col("topic_id"))
    if "log_events" in tables:
        clocks = _clocks_by_new_logs(recorded, generations)
        time = _time_of_log_line(recorded, clocks)
        out["log_events"] = positions_of_records(tables["log_events"], generations, time, _LOGGED_ID)
    return out


def _time_of_log_line(recorded: Recorded, clocks: Mapping[str, Clock] | None = None) -> pl.Expr:
    """The time of a line in a broker's log (ns), by the history's clock."""
    ahead = {name: clock.offset for name, clock in (clocks or _clocks(recorded)).items()}  # ms
    offset = pl.col("broker").replace_strict(ahead, default=0, return_dtype=pl.Int64) if ahead else 0
    return recorded.nanoseconds(pl.col("time") - offset)


def _clocks(recorded: Recorded) -> Mapping[str, Clock]:
    """The brokers' clocks, corrected by the leader epochs of each topic id: each generation begins with epoch 0."""
    lines = evidence_in(recorded.tables, "log_events").with_columns(topic_id=_LOGGED_ID)
    metadata = evidence_in(recorded.tables, "metadata")
    ids = lines["topic_id"].drop_nulls().unique()
    elections = [lines_of_elections(lines.filter(topic_id=id_), metadata.filter(topic_id=id_)) for id_ in ids]
    ahead = ahead_of_elections(pl.concat(elections)) if elections else {}
    return clocks_by_elections(recorded.common.clocks, ahead)


def _clocks_by_new_logs(recorded: Recorded, generations: Sequence[TopicGeneration]) -> Mapping[str, Clock]:
    """The brokers' clocks. A broker that created a log for each generation did so soon after the topic was created,
    which shows its time zone if nothing else bounds its clock.
    """
    clocks, created = dict(_clocks(recorded)), generations[-1].created
    if created is None or created.latest - created.earliest > MAX_DELETION_NS:
        return clocks
    lines = evidence_in(recorded.tables, "log_events").filter(kind="created").drop_nulls("time")
    new_logs = lines.group_by("broker").agg(pl.col("time").n_unique(), last=recorded.nanoseconds(pl.col("time").max()))
    for broker, count, last in new_logs.iter_rows():
        late = (last - created.earliest) // MS
        zone = round(late / QUARTER_MS) * QUARTER_MS
        clock = clocks.get(broker, Clock(broker))
        is_unbounded = clock.low is None and not clock.by_records
        if is_unbounded and count == len(generations) and abs(late - zone) <= MAX_CREATION_MS:
            clocks[broker] = replace(clock, offset=zone)
    return clocks


def _shared_of(recorded: Recorded, generations: Sequence[TopicGeneration], position: int) -> Frames:
    """The evidence that belongs to no partition; of the topic's metadata records only those of this generation."""
    shared = recorded.common.shared
    if "metadata" not in shared:
        return shared
    metadata, time = shared["metadata"], recorded.nanoseconds(pl.col("time"))
    is_here = positions_of_records(metadata, generations, time, pl.col("topic_id")) == position
    return {**shared, "metadata": metadata.filter(pl.col("topic").ne_missing(recorded.topic) | is_here)}


def _note_ambiguous(
    topic: str, parts: list[Part], positions: Mapping[str, pl.Series], unassigned_sends: int, unassigned_reads: int
) -> None:
    """Adds the evidence that could not be assigned to a generation to the last part, logs to each part."""
    between = f"of {topic} overlapped its deletion or creation, so the topic id is not known"
    if any(part.generation.deleted == ANY_TIME for part in parts):
        undated = "which has no time on the history's clock (no started_at, time of a snapshot, or time zone of logs)"
        between = f"of {topic} may be from before or after its deletion, {undated}"
    ambiguous: list[tuple[str, str]] = []
    if unassigned_sends:
        ambiguous.append(("acknowledged", f"{plural(unassigned_sends, 'acknowledged send')} {between}"))
    if unassigned_reads:
        needs = ("reads", "records", "acknowledged", "groups")
        ambiguous += [(need, f"{plural(unassigned_reads, 'read record')} {between}") for need in needs]
    unassigned_logs = sum(int(positions[name].null_count()) for name in LOGS if name in positions)
    if unassigned_logs:
        left_out = f"brokers' logs of {topic} without a topic id or time were left out"
        ambiguous.append(("batches", f"{left_out}, because their generation is not known"))
    for part in parts if unassigned_logs else parts[-1:]:
        part.ambiguous += ambiguous
