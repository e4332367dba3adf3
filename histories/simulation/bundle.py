"""Runs a scenario and writes a run bundle: history, run.json, truth.json, brokers and snapshots."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...models.replication.clients.transactional_producer import TransactionalProducer
from ...models.replication.cluster import Cluster
from ...models.replication.config import GROUP, Config
from ...models.replication.events import ClusterEvent
from ...models.replication.options import POLICY, kafka_names
from ...models.replication.scenario import Scenario
from .disks import write_disk
from .kraft_log import KraftWording
from .metadata_log import MetadataLog
from .names import STARTED_AT
from .recorder import Recorder
from .server_log import LogWriter, Wording
from .truth_file import Divergence, divergence, truth
from .zookeeper_log import EpochWording, ZookeeperWording

MAX_SNAPSHOTS = 4  # in one run
BUFFER = 1 << 20  # bytes of history.jsonl

TOPIC_NAMES = ("min.insync.replicas", "unclean.leader.election.enable", "flush.messages", "flush.ms")
RETENTION_NAMES = ("retention.ms", "retention.bytes", "segment.ms", "segment.bytes")
COMPACTION_NAMES = (
    "segment.ms",
    "segment.bytes",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "delete.retention.ms",
)
PRODUCER_NAMES = (
    "acks",
    "enable.idempotence",
    "linger.ms",
    "retries",
    "retry.backoff.ms",
    "max.in.flight.requests.per.connection",
    "delivery.timeout.ms",
    "request.timeout.ms",
)
CONSUMER_NAMES = ("auto.offset.reset", "max.poll.records")
GROUP_NAMES = ("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms")
CONSUMER_PROTOCOL_NAMES = ("group.protocol", "group.remote.assignor", "max.poll.interval.ms")
CONSUMER_GROUP_NAMES = ("group.consumer.session.timeout.ms", "group.consumer.heartbeat.interval.ms")  # of brokers
BROKER_NAMES = ("replica.lag.time.max.ms", "replica.high.watermark.checkpoint.interval.ms", "replica.fetch.wait.max.ms")
KRAFT_NAMES = ("broker.session.timeout.ms", "broker.heartbeat.interval.ms")
ZOOKEEPER_NAMES = ("zookeeper.session.timeout.ms",)


@dataclass
class WrittenBundle:
    """A bundle on disk and the run that made it."""

    folder: Path
    cluster: Cluster
    lines: int
    last_send: int  # simulated microseconds
    truth: dict[str, Any]


def write_bundle(scenario: Scenario, folder: Path) -> WrittenBundle:
    """Run a scenario and write its bundle into a folder, which must not exist, or be empty. Raises ConfigError."""
    config = scenario.config()  # may raise, so before anything is written
    folder.mkdir(parents=True, exist_ok=True)
    brokers = folder / "brokers"
    logs: list[LogWriter | MetadataLog] = []
    snapshots: dict[str, int] = {}  # name -> simulated microseconds
    divergent: dict[str, Divergence] = {}  # by snapshot

    def prepare(cluster: Cluster) -> None:
        recorder.sources = cluster.copies
        logs.append(LogWriter(brokers, _wording(cluster)))
        if not cluster.rules.era.zookeeper:
            logs.append(MetadataLog(brokers, cluster))

    def write_logs(event: ClusterEvent) -> None:
        for log in logs:
            log.on_event(event)

    def snapshot(cluster: Cluster, name: str) -> None:
        found = divergence(cluster)
        if not found or len(snapshots) >= MAX_SNAPSHOTS:
            return
        label = name if name not in snapshots else f"{name}-{len(snapshots) + 1}"
        snapshots[label], divergent[label] = cluster.loop.now, found
        _write_disks(cluster, folder / "snapshots" / label / "brokers")

    with (folder / "history.jsonl").open("wb", buffering=BUFFER) as out:
        recorder = Recorder(out, config)
        cluster = scenario.run(recorder, write_logs, snapshot, prepare)
    for log in logs:
        log.close()
    _write_disks(cluster, brokers)
    divergent["final"] = divergence(cluster)
    known = truth(cluster, scenario, divergent)
    _write_json(folder / "truth.json", known)
    _write_json(folder / "run.json", _run_json(scenario, cluster, snapshots))
    return WrittenBundle(folder, cluster, recorder.lines, recorder.last_send, known)


def _wording(cluster: Cluster) -> Wording:
    if not cluster.rules.era.zookeeper:
        return KraftWording(cluster)
    return EpochWording(cluster) if cluster.rules.era.epochs_in_log else ZookeeperWording(cluster)


def _write_disks(cluster: Cluster, brokers: Path) -> None:
    for broker in cluster.brokers.values():
        write_disk(cluster, broker, brokers / str(broker.id) / "data")


def _run_json(scenario: Scenario, cluster: Cluster, snapshots: dict[str, int]) -> dict[str, Any]:
    config, era = cluster.config, cluster.rules.era
    of_groups = CONSUMER_GROUP_NAMES if config.has_member_epochs else ()
    policy = (POLICY,) if config.classic_members else ()
    broker_names = (*BROKER_NAMES, *(ZOOKEEPER_NAMES if era.zookeeper else KRAFT_NAMES), *of_groups, *policy)
    return {
        "format": 1,
        "name": scenario.name,
        "started_at": STARTED_AT.isoformat() + ".000Z",
        "system": {"name": "kafka", "version": cluster.rules.version, "simulated": True},
        "topics": {
            topic: {
                "partitions": len(partitions),
                "replication.factor": _replication_factor(cluster),
                "cleanup.policy": config.cleanup_policy,
                "replica.assignment": [
                    [str(b) for b in cluster.quorum.states[partition].replicas] for partition in partitions
                ],
                **_without_unset(kafka_names(config, _topic_names(config))),
            }
            for topic, partitions in config.topics.items()
        },
        "brokers": {
            str(b): {
                **_without_unset(kafka_names(config.for_broker(b), broker_names)),
                **({"broker.rack": config.racks[b]} if config.racks else {}),
            }
            for b in cluster.broker_ids
        },
        "processes": _processes(cluster, config),
        "snapshots": {name: {"time": time * 1000} for name, time in snapshots.items()},
        "final": cluster.final,
        "seed": scenario.seed,
        "variant": scenario.variant,
        "schedule": [
            {"at_ms": f.at / 1000, "kind": f.kind, "nodes": list(f.nodes), "for_ms": f.lasts / 1000, **f.parameters()}
            for f in scenario.faults
        ],
    }


def _topic_names(config: Config) -> tuple[str, ...]:
    if config.compacts:
        return (*TOPIC_NAMES, *COMPACTION_NAMES)
    return (*TOPIC_NAMES, *(RETENTION_NAMES if config.retention else ()))


def _replication_factor(cluster: Cluster) -> int:
    """The number of replicas at the end; the configured one if it differs by partition."""
    sizes = {len(state.replicas) for state in cluster.quorum.states}
    return sizes.pop() if len(sizes) == 1 else cluster.config.replication_factor


def _without_unset(options: dict[str, Any]) -> dict[str, Any]:
    """The options without those that are off, which Kafka writes as the largest long."""
    return {name: value for name, value in options.items() if not isinstance(value, int) or value < 1 << 40}


def _processes(cluster: Cluster, config: Config) -> dict[str, Any]:
    processes: dict[str, Any] = {}
    names = tuple(name for name in PRODUCER_NAMES if name not in cluster.rules.era.absent)
    for producer in cluster.producers:
        processes[producer.name] = {"role": "producer", **kafka_names(config, names)}
        if isinstance(producer, TransactionalProducer):
            own = {"transactional.id": producer.id, **kafka_names(config, ("transaction.timeout.ms",))}
            processes[producer.name].update(own)
    for consumer in cluster.consumers:
        if config.standby_consumers and not consumer.incarnation:
            continue  # it never started
        processes[consumer.name] = {
            "role": "consumer",
            **_producer_of(consumer.name, config, names),
            "group.id": GROUP if config.has_group else f"direct-{consumer.name}",
            "enable.auto.commit": config.commit == "auto",
            "isolation.level": config.isolation,
            **({"group.instance.id": config.instance_of(consumer.name)} if config.static_members != "none" else {}),
            **kafka_names(config, CONSUMER_NAMES + _group_names(config, consumer.name)),
        }
    processes["admin"] = {"role": "admin", **({"isolation.level": "read_committed"} if config.transactional else {})}
    processes["final"] = {
        "role": "final",
        "isolation.level": "read_committed" if config.transactional else "read_uncommitted",
        "auto.offset.reset": "earliest",
    }
    return processes


def _group_names(config: Config, consumer: str) -> tuple[str, ...]:
    if config.has_member_epochs and not config.is_classic(consumer):
        return CONSUMER_PROTOCOL_NAMES
    return GROUP_NAMES if config.has_group else ()


def _producer_of(consumer: str, config: Config, names: tuple[str, ...]) -> dict[str, Any]:
    """The configuration of a processor's producer; empty for a mere consumer."""
    if not config.copies:
        return {}
    own = kafka_names(config, (*names, "transaction.timeout.ms"))
    if config.processing != "exactly-once":
        del own["transaction.timeout.ms"]
        return {"role": "producer+consumer", **own}
    return {"role": "producer+consumer", "transactional.id": f"tx-{consumer}", **own}


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_bytes((json.dumps(value, indent=1) + "\n").encode())
