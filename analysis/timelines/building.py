"""Builds the timeline of one topic-partition from every kind of evidence.

Sources, the most reliable first: `__cluster_metadata`, segments, epoch files and checkpoints, then the brokers'
own logs and the history's faults. Each fact names its source. Where two sources name different leaders of
one epoch, the term is marked as in conflict and proves nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import polars as pl

from ...histories.evidence.clock import Clock, Fault, process_starts
from ...models.internal_topics import METADATA_TOPIC
from ..replicas.leaders import epochs_with_two_leaders, formatting_record, longest_copy
from ..replicas.replica_logs import in_snapshot
from ..wording import nodes_of
from .changes import BrokerEvent, HighWatermark, LogEnd, Move
from .electable_replicas import add_electable_replicas
from .facts import RESTART, Dated, Fact, fact_of
from .fault_kinds import AT_ONCE, DEATHS, DISK_FAULTS, OF_ADMINISTRATORS, fault_kind
from .log_facts import HANDLERS
from .merged_sources import merge_sources
from .terms import Election, broker_names, is_last_known_leader, isr_clause, last_known_clause
from .timeline import Builder, Timeline, line_fact
from .topic_settings import add_setting

# By kind of metadata record: the broker's event, the kind of fact, and its wording.
BROKERS = {
    "fence": ("died", "fenced", "the controller fenced broker {}"),
    "unfence": ("unfenced", "unfenced", "the controller unfenced broker {}"),
    "register": ("started", "started", "broker {} registered with the controller"),
}
TOPICS = {"topic": ("topic-created", "created"), "remove-topic": ("topic-deleted", "deleted")}
TOPIC_FAULTS = {"create-topic": ("topic-created", "create"), "delete-topic": ("topic-deleted", "delete")}


def build_timeline(builder: Builder, metadata: pl.DataFrame, log_events: pl.DataFrame, version: str | None) -> Timeline:
    """The timeline of a topic-partition; `builder` has its logs, the faults, and settings of the run.

    metadata and log_events: rows of METADATA and LOG_EVENTS with location, for this topic-partition and for whole
    brokers (no partition). version: system.version in run.json.
    """
    _from_metadata(builder, metadata)
    # If there is a metadata log, its records have the topic's settings exactly, so lines about them are left out.
    left_out = ["configured", *(["topic-config"] if metadata.height else [])]
    rows = log_events.filter(~pl.col("kind").is_in(left_out)).rows(named=True)
    rows += (start for start in process_starts(log_events) if start["kind"] == "configured")
    for row in sorted(rows, key=partial(_time_and_line, builder.clocks)):
        fields = json.loads(row["fields"])
        if handler := HANDLERS.get(row["kind"]):
            handler(builder, row, fields)
        if (mark := fields.get("high_watermark")) is not None:
            text = f"broker {row['broker']}'s high watermark of {builder.replica_logs.name} was {mark}"
            fact = line_fact(builder, row, text, "high-watermark", offset=mark)
            builder.high_watermarks.append(HighWatermark(fact, row["broker"], mark))
    _from_files(builder)
    _from_faults(builder)
    if version is not None:
        builder.version, builder.version_fact = version, Fact(f"Kafka {version}", "version", source="run.json")
    add_electable_replicas(builder)
    builder.led_by_two = {epoch for epoch, _ in epochs_with_two_leaders(log_events)}
    builder.merged = merge_sources(builder.facts())
    for report in builder.reported_by_leaders:
        (builder.overruled if builder.is_overruled(report) else builder.isr_reports).append(report)
    builder.isr_reports.sort(key=_undated_last)
    builder.terms = dict(sorted(builder.terms.items()))
    builder.ends.sort(key=_undated_last)
    builder.events.sort(key=_undated_last)
    builder.moves.sort(key=_undated_last)
    return builder


def _time_and_line(clocks: Mapping[str, Clock], row: dict[str, Any]) -> tuple[bool, int, bool, int]:
    """A sort key of LOG_EVENTS, by corrected clocks; rows without a time or a line come last."""
    time, line, clock = row["time"], row["line"], clocks.get(row["broker"])
    return time is None, (time or 0) - (clock.offset if clock else 0), line is None, line or 0


def _undated_last(one: Dated) -> tuple[bool, int]:
    return one.time is None, one.time or 0


def _from_metadata(builder: Builder, metadata: pl.DataFrame) -> None:
    """Adds facts of the metadata log."""
    previous: dict[str, Any] | None = None
    directories: dict[str, set[str]] = {}  # by broker, as it registered last
    placed: dict[str, str] = {}  # by broker, the last of these that had its replica
    if (first := formatting_record(metadata)) is not None:
        message = "the metadata log that the cluster has at the end of the run began, without any topic"
        source = (builder.at(first["time"], METADATA_TOPIC), first["file"], None, first["byte"])
        builder.formatted = Fact(message, "metadata-formatted", *source)
    # Records of one batch share a millisecond: nanoseconds after it keep their order.
    within = pl.int_range(pl.len()).over("time").clip(upper_bound=999_999).alias("within")
    for row in longest_copy(metadata).with_columns(within).iter_rows(named=True):
        time = builder.at(row["time"], METADATA_TOPIC)
        row |= {"at": time if time is None else time + row["within"]}
        if row["kind"] == "config" and row["topic"] == builder.replica_logs.topic:
            add_setting(builder, row)
        elif row["kind"] in TOPICS and row["topic"] == builder.replica_logs.topic and not row["is_copy"]:
            kind, verb = TOPICS[row["kind"]]
            message = f"the controller {verb} topic {row['topic']} (id {row['topic_id']})"
            builder.topic_changes.append(_recorded(row, message, kind))
        elif row["kind"] in BROKERS and row["broker_id"] is not None:
            _broker_row(builder, row, directories, placed)
        elif row["partition"] == builder.replica_logs.partition:
            _partition_row(builder, row, previous)
            previous, placed = row, _placed(row, directories, placed)


def _recorded(row: dict[str, Any], sentence: str, kind: str, **about: Any) -> Fact:
    """A fact from a metadata record, at its time `at` (ns)."""
    return Fact(sentence, kind, row["at"], source=row["file"], byte=row["byte"], **about)


def _broker_row(
    builder: Builder, row: dict[str, Any], directories: dict[str, set[str]], placed: Mapping[str, str]
) -> None:
    """Adds a broker's start, or its fencing, and updates its log.dirs."""
    broker, own = str(row["broker_id"]), set(row["directories"] or ())
    event, kind, message = BROKERS[row["kind"]]
    has_new_disks = bool(own) and not own & directories.get(broker, own)
    without_replica = bool(own) and placed.get(broker) not in (None, *own)
    if has_new_disks:
        message += ", with none of the log.dirs that it had before (directory.id)"
    elif without_replica:
        message += f", without the log.dir of its replica of {builder.replica_logs.name} (directory.id)"
    fact = _recorded(row, message.format(broker), kind, broker=broker)
    builder.events.append(BrokerEvent(fact, broker, event))
    if has_new_disks or without_replica:
        builder.new_disks.append(fact)
    if own:
        directories[broker] = own


def _placed(row: dict[str, Any], directories: Mapping[str, set[str]], before: Mapping[str, str]) -> dict[str, str]:
    """The log.dir of each replica after a record of the partition, by broker.

    A broker that starts with a new disk assigns the replica to it before it registers: such a log.dir does not count.
    """
    now = dict(zip(map(str, row["replicas"] or ()), row["directories"] or (), strict=False))
    known = {broker: found for broker, found in now.items() if found in directories.get(broker, ())}
    return {broker: found for broker, found in before.items() if broker in now} | known


def _move_sentence(name: str, row: dict[str, Any], previous: dict[str, Any] | None) -> str | None:
    """The change of a reassignment by a metadata record, in words; None if it changes none."""
    columns = ("replicas", "adding", "removing")
    if previous is None or all(row[column] == previous[column] for column in columns):
        return None
    replicas, adding, removing = ([str(broker) for broker in row[column] or ()] for column in columns)
    listed = ", ".join(replicas)
    if adding or removing:
        parts = [f"adding [{', '.join(adding)}]"] if adding else []
        parts += [f"removing [{', '.join(removing)}]"] if removing else []
        return f"a reassignment of {name} was under way, {' and '.join(parts)}; its replicas are [{listed}]"
    cancelled = previous["adding"] and not set(previous["adding"]) & set(row["replicas"])
    done = "was cancelled" if cancelled else "was completed"
    return f"the reassignment of {name} {done}; its replicas are [{listed}]"


def _partition_row(builder: Builder, row: dict[str, Any], previous: dict[str, Any] | None) -> None:
    """Adds what one metadata record changes; `previous` is the partition's record before it."""
    name = builder.replica_logs.name
    if row["is_copy"]:
        _repeated_state(builder, row)
        return
    if (text := _move_sentence(name, row, previous)) is not None:
        fact = _recorded(row, text, "reassignment", partition=name, brokers=broker_names(row["replicas"]))
        builder.moves.append(Move(fact, broker_names(row["adding"]), broker_names(row["removing"])))
    if row["leader"] == -1:
        if previous is not None and previous["leader"] != -1:
            builder.term(previous["leader_epoch"]).ended = row["at"]
        had_none = previous is not None and previous["leader"] == -1
        if previous is not None and had_none and (row["isr"], row["elr"]) == (previous["isr"], previous["elr"]):
            return  # a change of another field, which keeps the electable replicas
        verb = "still had no leader" if had_none else "lost its leader"
        message = f"{name} {verb} in epoch {row['leader_epoch']}, ISR {_text(row['isr'])}"
        message += f", ELR {_text(row['elr'])}" if row["elr"] or (previous is not None and previous["elr"]) else ""
        about = {"partition": name, "epoch": row["leader_epoch"], "isr": broker_names(row["isr"])}
        builder.isr_reports.append(_recorded(row, message, "leaderless", **about))
    elif previous is None or row["leader_epoch"] != previous["leader_epoch"]:
        _election(builder, row, previous)
    elif row["isr"] != previous["isr"]:
        _isr_change(builder, row, previous)
    _note_electable(builder, row)


def _note_electable(builder: Builder, row: dict[str, Any]) -> None:
    electable = broker_names([*(row["isr"] or ()), *(row["elr"] or ()), *(row["last_known_elr"] or ())])
    builder.last_electable = electable or builder.last_electable


def _repeated_state(builder: Builder, row: dict[str, Any]) -> None:
    """Adds the leader and the ISR with which the metadata log begins: their epoch began before, at an unknown time."""
    name, epoch, has_leader = builder.replica_logs.name, row["leader_epoch"], row["leader"] >= 0
    leader = f"leader {row['leader']}" if has_leader else "no leader"
    message = f"the metadata log begins for {name} with {leader} in epoch {epoch}, ISR {_text(row['isr'])}"
    about = {"partition": name, "epoch": epoch, "isr": broker_names(row["isr"])}
    fact = _recorded(row, message, "isr" if has_leader else "leaderless", **about)
    builder.isr_reports.append(fact)
    if has_leader:
        term = builder.term(epoch)
        term.name_leader(str(row["leader"]))
        term.facts.append(fact)
    _note_electable(builder, row)


def _text(brokers: list[int] | None) -> str:
    return f"[{', '.join(map(str, brokers or ()))}]"


def _isr_change(builder: Builder, row: dict[str, Any], previous: dict[str, Any]) -> None:
    """Adds the ISR of a metadata record that keeps the leader epoch."""
    name = builder.replica_logs.name
    verb = "shrank" if len(row["isr"]) < len(previous["isr"]) else "grew"
    message = f"the ISR of {name} {verb} to {_text(row['isr'])}"
    fact = _recorded(row, message, "isr", partition=name, isr=broker_names(row["isr"]))
    # A batch of records takes brokers out one by one: only its last state is a fact.
    if (last := builder.isr_reports[-1]).kind == "isr" and last.byte == fact.byte:
        builder.isr_reports.pop()
    builder.isr_reports.append(fact)


def _election(builder: Builder, row: dict[str, Any], previous: dict[str, Any] | None) -> None:
    """Adds the term that a metadata record begins."""
    name, isr, time = builder.replica_logs.name, broker_names(row["isr"]), row["at"]
    term, leader = builder.term(row["leader_epoch"]), str(row["leader"])
    term.name_leader(leader)
    term.isr, term.time = isr, time
    message = f"the controller elected broker {leader} leader of {name} in epoch {term.epoch}, ISR {_text(row['isr'])}"
    candidates = None
    if previous is not None:
        sync, elr, known = (broker_names(previous[name]) for name in ("isr", "elr", "last_known_elr"))
        term.was_last_known = is_last_known_leader(builder.allows_only_clean_elections(time), leader, sync, elr, known)
        joined = _joined_with_reassignment(row, previous)
        term.electable = known if term.was_last_known else sync | elr | joined or known
        candidates = frozenset() if term.was_last_known else sync | elr or known
        message += isr_clause(candidates) + last_known_clause(term.was_last_known)
        message += f", which broker {leader} joined as the reassignment ended" if joined else ""
    about: dict[str, Any] = {"partition": name, "epoch": term.epoch, "broker": leader, "isr": isr}
    fact = _recorded(row, message, "elected", brokers=candidates, **about)
    term.facts.append(fact)
    if term.electable:
        term.elections.append(Election(term.electable, fact))
    builder.isr_reports.append(fact)
    # Kafka clears the ELR when min.insync.replicas changes: then no replica is electable, but those before it have all.
    if previous is not None and not term.electable and row["recovering"] and leader not in builder.last_electable:
        term.chosen_outside_isr = fact


def _joined_with_reassignment(row: dict[str, Any], previous: dict[str, Any]) -> frozenset[str]:
    """The leader, if it joined the ISR by the record that also ends its reassignment and elects it; else nothing.

    Unlike an unclean election, that record leaves the partition recovered (leaderRecoveryState).
    """
    leader = row["leader"]
    was_added = leader in (previous["adding"] or ()) and leader not in (row["adding"] or ())
    return broker_names([leader]) if was_added and leader in row["isr"] and not row["recovering"] else frozenset()


def _from_files(builder: Builder) -> None:
    """Starts of epochs from epoch files and from the first batch of each epoch; log ends of snapshots."""
    logs = builder.replica_logs
    name = logs.name
    order = {snapshot: number for number, snapshot in enumerate(logs.snapshots)}
    log_starts = {(row["snapshot"], row["broker"]): row["deleted_below"] for row in logs.extents.iter_rows(named=True)}
    # A follower of a compacted log begins an epoch at the first batch that it fetches, behind the start of the epoch.
    for row in sorted(
        logs.epochs.iter_rows(named=True), key=lambda r: (r["start_offset"], -order.get(r["snapshot"], 0), r["broker"])
    ):
        term = builder.term(row["leader_epoch"])
        start = row["start_offset"]
        if 0 < start <= log_starts.get((row["snapshot"], row["broker"]), 0):
            continue  # a deletion moved the entry of the first epoch that is left to the log start
        message = f"broker {row['broker']}'s leader-epoch-checkpoint {in_snapshot(row['snapshot'])} begins epoch "
        message += f"{term.epoch} at offset {start}"
        fact = fact_of(logs, message, "begins", row, epoch=term.epoch, broker=term.leader, offset=start)
        if term.start is None:
            term.start = start
        if term.start == start and len(term.start_facts) < 2:
            term.start_facts.append(fact)
    copy = ("snapshot", "broker")
    files = pl.concat([logs.segments.select(*copy, "file"), logs.batches.select(*copy, "file")])
    last_files = {row[:2]: row[2] for row in files.group_by(copy).last().iter_rows()}
    points = logs.checkpoints.filter(name="high-watermark").unique(copy, keep="first")
    high_watermarks = {(row["snapshot"], row["broker"]): row for row in points.iter_rows(named=True)}
    for row in logs.extents.iter_rows(named=True):
        broker, end, snapshot = row["broker"], row["end"], row["snapshot"]
        time, file = logs.times.get(snapshot), last_files[snapshot, broker]
        message = f"{in_snapshot(snapshot)} broker {broker}'s log of {name} ended at {end}"
        fact = Fact(message, "snapshot", time, file, partition=name, broker=broker, offset=end, snapshot=snapshot)
        builder.ends.append(LogEnd(fact, broker, end, "snapshot", snapshot))
        if (mark := row["high_watermark"]) is not None:
            message = f"{in_snapshot(snapshot)} broker {broker}'s checkpointed high watermark of {name} was {mark}"
            about = {"offset": mark, "snapshot": snapshot}
            fact = fact_of(logs, message, "high-watermark", high_watermarks[snapshot, broker], **about)
            builder.ends.append(LogEnd(fact, broker, mark, "high-watermark", snapshot))
    if builder.version is None and logs.batches["magic"].max() == 2:
        builder.version_fact = Fact("the batches are of format v2, which Kafka 0.11 brought", "version")


def _from_faults(builder: Builder) -> None:
    """Adds the faults of the history, and the deaths and starts of brokers that they caused."""
    for fault in builder.faults:
        topic, partition = fault.details.get("topic"), fault.details.get("partition")
        if fault.kind in TOPIC_FAULTS and fault.type == "fault" and topic is not None:
            _topic_fault(builder, fault, str(topic))
            continue
        name = None if topic is None or partition is None else f"{topic}-{partition}"
        # A fault with a duration begins when it is invoked: a broker that stops cleanly leaves before that completes.
        is_beginning = fault.type == "fault" and fault.kind not in AT_ONCE
        time = fault.invoked if is_beginning else fault.completed
        about: dict[str, Any] = {"place": fault.place, "partition": name, "brokers": frozenset(fault.nodes)}
        end = _end_of_cut(fault)
        fact = Fact(_fault_sentence(fault), f"{fault.type}-{fault.kind}", time, offset=end, **about)
        builder.fault_facts.append(fact)
        if end is not None and name == builder.replica_logs.name:
            builder.ends += (LogEnd(fact, node, end, "cut") for node in fault.nodes)
        for node in fault.nodes:
            if fault.type == "fault" and fault.kind in DEATHS:
                text = f"broker {node} {DEATHS[fault.kind]}"
                died = Fact(text, fault.kind, fault.completed, place=fault.place, broker=node)
                builder.events.append(BrokerEvent(died, node, "died"))
            elif fault.type == "heal" and fault.kind == "restart":
                again = Fact(f"broker {node} was restarted", RESTART, fault.invoked, place=fault.place, broker=node)
                builder.events.append(BrokerEvent(again, node, "started"))


def _end_of_cut(fault: Fault) -> int | None:
    """The first offset that a fault cut off a log, where the log then ended; None for other faults or if unknown."""
    cut = fault.details.get("offsets_cut")
    if (fault.type, fault.kind, fault.outcome) != ("fault", "truncate", "ok") or not isinstance(cut, list) or not cut:
        return None
    return cut[0] if type(cut[0]) is int and cut[0] >= 0 else None


def _fault_sentence(fault: Fault) -> str:
    """A fault's start or end: `broker 2 was restarted`, `pause of broker 2 ended`."""
    nodes = nodes_of(fault.nodes) if fault.nodes else ""
    if fault.kind in DISK_FAULTS and fault.type == "fault":
        topic, partition = fault.details.get("topic"), fault.details.get("partition")
        logs = "logs" if topic is None else f"{topic}-{partition}" if partition is not None else str(topic)
        end = _end_of_cut(fault)
        return DISK_FAULTS[fault.kind].format(logs, nodes) + ("" if end is None else f", from offset {end} on")
    if fault.kind == "restart" and fault.type == "heal":
        return f"{nodes or 'the cluster'} {'were' if len(fault.nodes) > 1 else 'was'} restarted"
    if fault.kind in OF_ADMINISTRATORS:
        return OF_ADMINISTRATORS[fault.kind].format(nodes)
    if fault.kind == "disk-full" and nodes:
        return f"the disk of {nodes} {'was full' if fault.type == 'fault' else 'had room again'}"
    kind, verb = fault_kind(fault.kind), "began" if fault.type == "fault" else "ended"
    return f"{kind} of {nodes} {verb}" if nodes else f"{kind} {verb}"


def _topic_fault(builder: Builder, fault: Fault, topic: str) -> None:
    """Adds the deletion or creation of a topic by a client; its outcome may be unknown."""
    kind, verb = TOPIC_FAULTS[fault.kind]
    done = fault.outcome == "ok"
    message = f"topic {topic} was {verb}d" if done else f"the attempt to {verb} topic {topic} has no known outcome"
    message = f"the attempt to {verb} topic {topic} failed" if fault.outcome == "fail" else message
    fact = Fact(message, kind if done else f"{fault.type}-{fault.kind}", fault.completed, place=fault.place)
    builder.fault_facts.append(fact)
    if done and topic == builder.replica_logs.topic:
        builder.topic_changes.append(fact)
