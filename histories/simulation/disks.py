"""A broker's log directory: segments, checkpoints, leader epochs, metadata, each in Kafka's own form."""

from __future__ import annotations

from pathlib import Path

from ...models.replication.brokers.broker import Broker
from ...models.replication.cluster import Cluster
from ...models.replication.config import Config
from ...models.replication.keys import Keys
from ...models.replication.sizes import batch_sizes
from .coordinator_logs import group_content, transaction_content
from .names import kraft_properties, uuid
from .segments import copies_of, values_of, write_segments


def write_disk(cluster: Cluster, broker: Broker, folder: Path) -> None:
    """Write log.dirs of this broker as it is now, including a running broker's page cache."""
    folder.mkdir(parents=True, exist_ok=True)
    rules, config, seed = cluster.rules, cluster.config, cluster.seed
    magic = 2 if rules.era.epochs_in_log else 1
    keys = Keys(config) if config.compacts else None
    sizes = batch_sizes(config, magic == 2)
    for partition in sorted(broker.replicas):
        log = broker.replicas[partition].log
        home = folder / config.log_name(partition)
        home.mkdir(exist_ok=True)
        if partition < config.partitions:
            content = values_of(partition, keys)
        elif partition in config.copies:
            content = copies_of(partition, config, cluster.copies)
        elif config.transactional and partition == config.transaction_log:
            content = transaction_content(cluster)
        else:
            content = group_content(cluster, magic)
        limits = (*config.segment_limits(partition), sizes[partition])
        write_segments(home, log, content, magic, limits)
        if rules.era.epochs_in_log:
            _write(home / "leader-epoch-checkpoint", _checkpoint([f"{e} {start}" for e, start in log.epochs]))
        if not rules.era.zookeeper:
            _write(home / "partition.metadata", f"version: 0\ntopic_id: {uuid(seed, config.topic_of(partition)[0])}")
    marks = {p: r.checkpointed_hw for p, r in broker.replicas.items()}
    _write(folder / "replication-offset-checkpoint", _offsets(config, marks))
    recovery = {p: broker.disk.recovery_points.get(p, 0) for p in broker.replicas}
    _write(folder / "recovery-point-offset-checkpoint", _offsets(config, recovery))
    cleaned = {p: end for p, r in broker.replicas.items() if (end := r.log.cleaned)}
    if config.compacts or cleaned:
        _write(folder / "cleaner-offset-checkpoint", _offsets(config, cleaned))
    if rules.era.epochs_in_log:
        # Brokers write only log starts that deletions moved (LogManager.checkpointLogStartOffsetsInDir).
        starts = {p: s for p, s in broker.disk.start_points.items() if s > 0}
        _write(folder / "log-start-offset-checkpoint", _offsets(config, starts))
    if rules.era.zookeeper:
        properties = f"#\n#Thu Jan 01 00:00:00 UTC 2026\nbroker.id={broker.id}\nversion=0\n"
    else:
        properties = kraft_properties(seed, broker.id)
    _write(folder / "meta.properties", properties)


def _checkpoint(lines: list[str]) -> str:
    """CheckpointFile: version, number of entries, entries."""
    return "\n".join(["0", str(len(lines)), *lines, ""])


def _offsets(config: Config, offsets: dict[int, int]) -> str:
    return _checkpoint(["{} {} {}".format(*config.topic_of(p), offsets[p]) for p in sorted(offsets)])


def _write(path: Path, text: str) -> None:
    path.write_bytes(text.encode())
