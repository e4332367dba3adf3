"""Timelines of one partition for tests of causes: logs, metadata, server logs and faults, each in a line or two."""

from __future__ import annotations

import polars as pl
from logjudge.analysis.causes.cases import Lost
from logjudge.analysis.replicas.replica_logs import replica_logs_of
from logjudge.analysis.timelines.building import build_timeline
from logjudge.analysis.timelines.timeline import Builder
from logjudge.histories.evidence.clock import Fault
from logjudge.histories.evidence.cluster_metadata import MetadataRecord, replay_records
from logjudge.histories.evidence.server_log import parse_log
from logjudge.histories.evidence.tables import LOG_EVENTS, METADATA, empty, located

from .replica_texts import epochs, joined, logs

SECOND = 1_000_000_000
START = 1_800_000_000_000


def lost(acks="all", first=1, last=1, values=("b",), at=5):
    sent, number = int(at * SECOND), last - first + 1
    return Lost("orders", 0, first, last, number, frozenset(acks.split()), values, sent, sent, 1, 1)


def metadata(*changes):
    """Changes of a partition whose leader is 1 and ISR [1, 2], its topic, or brokers: pairs of seconds and fields."""
    topic = MetadataRecord(0, START, "TOPIC_RECORD", {"name": "orders", "topicId": "x"})
    new = {"partitionId": 0, "topicId": "x", "replicas": [1, 2], "isr": [1, 2], "leader": 1}
    first = MetadataRecord(1, START, "PARTITION_RECORD", {**new, "leaderEpoch": 0, "partitionEpoch": 0})
    rest = [_metadata_record(i, START + at * 1000, fields) for i, (at, fields) in enumerate(changes, 2)]
    frame, _ = replay_records([topic, first, *rest])
    return located(frame.drop("file"), "", "100", "__cluster_metadata-0")


def _metadata_record(offset, time, fields):
    if "logDirs" in fields:
        return MetadataRecord(offset, time, "REGISTER_BROKER_RECORD", fields)
    if "topicName" in fields:
        return MetadataRecord(offset, time, "CLEAR_ELR_RECORD", fields)
    if "value" in fields:
        return MetadataRecord(offset, time, "CONFIG_RECORD", {"resourceType": 2, "resourceName": "orders", **fields})
    return MetadataRecord(offset, time, "PARTITION_CHANGE_RECORD", {"partitionId": 0, "topicId": "x", **fields})


def server_log(broker, *lines):
    """Lines of a broker's log: pairs of seconds and text."""
    text = "\n".join(f"[2027-01-15 08:00:{second:02d},000] {line}" for second, line in lines)
    return located(parse_log(text), "", broker, f"brokers/{broker}/server.log")


def timeline(tables, about=None, meta=None, events=(), config=None, version="4.1.1", leader="2", faults=()):
    log_events = pl.concat([empty(LOG_EVENTS, True), *events])
    meta = empty(METADATA, True) if meta is None else meta
    held = replica_logs_of("orders", 0, tables, leader=leader, **(about or {}))
    builder = Builder(held, {}, list(faults), config=dict(config or {}), started=START)
    return build_timeline(builder, meta, log_events, version)


def of_format_v1(text, **earlier):
    """Logs as brokers before leader epochs write them; `earlier`: those in snapshots, by name."""
    tables = joined(*(logs(each, name) for name, each in earlier.items()), logs(text))
    tables["batches"] = tables["batches"].with_columns(magic=pl.lit(1, pl.Int8))
    tables["records"] = tables["records"].with_columns(leader_epoch=pl.lit(None, pl.Int32))
    return tables


DIFFER = Lost("orders", 0, 1, 1, 1)
# The ISR was [1, 2] until broker 2 left it at 4 s, and broker 2 was elected at 9 s.
UNCLEAN = metadata((4, {"isr": [1]}), (9, {"leader": 2, "isr": [2], "leaderRecoveryState": 1}))
TWO_LEADS = metadata((9, {"leader": 2, "isr": [2]}))
AFTER = {**logs("1: 0a 1x@1\n2: 0a 1x@1"), "epochs": epochs(("2", 0, 0), ("2", 1, 1))}
LEADS = (
    'INFO Selected new leader and ISR {"leader":%d,"leader_epoch":%d,"isr":[%s]} for offline partition [orders,0] (x)'
)
NO_ISR_ALIVE = (
    "WARN No broker in ISR is alive for [orders,0]. "
    "Elect leader 2 from live brokers 2. There's potential data loss. (x)"
)
LOADED = "INFO Completed load of log orders-0 with 1 log segments and log end offset %d in 10 ms (kafka.log.Log)"
CRASHED = "INFO Recovering 1 logs from /d since no clean shutdown file was found (kafka.log.LogManager)"
BOOT = "INFO Registered `kafka:type=kafka.Log4jController` MBean (kafka.utils.X)"
BEGINS = (
    "INFO [Broker id=1] Leader orders-0 with topic id Some(x) starts at leader epoch %d from offset %d with partition"
    " epoch %d, high watermark 0, ISR [%s], adding replicas [] and removing replicas [] . Previous leader Some(-1)"
    " and previous leader epoch was -1. (state.change.logger)"
)
BEGAN = BEGINS.replace("id=1", "id=%d")
CUT = "INFO Truncating log orders-0 to offset %d. (kafka.log.Log)"


def fault(kind, node, at):
    return Fault("heal" if kind == "restart" else "fault", kind, (node,), at * SECOND, at * SECOND, place=at)
