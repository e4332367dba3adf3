"""The invariants of transactions, one function each, as in invariants.py."""

from __future__ import annotations

from collections.abc import Iterable

from ..replication.acks import Ranges, add_range
from ..replication.cluster import Cluster
from ..replication.coordinators.transaction_ledger import Transaction
from ..replication.ledger import Breach
from ..replication.storage.batches import Batch
from ..replication.storage.transactions import committed_batches

Values = dict[tuple[int, int], Ranges]  # partition and producer -> value numbers


def visible_batches(cluster: Cluster, partition: int) -> Iterable[Batch]:
    """The batches of the final leader's log that read_committed consumers get once earlier transactions ended."""
    replica = cluster.leader_replica(partition)
    return () if replica is None else committed_batches(replica.log.batches(), replica.hw)


def visible_values(cluster: Cluster) -> Values:
    """The values in `visible_batches` of all partitions."""
    found: Values = {}
    for partition in range(cluster.config.data_partitions):
        for batch in visible_batches(cluster, partition):
            ranges = found.setdefault((partition, batch.producer), [])
            add_range(ranges, batch.first, batch.values_end)
    return found


def hidden_ranges(cluster: Cluster, partition: int) -> Ranges:
    """The offsets below the last stable offset that read_committed consumers skip: markers, aborted transactions."""
    replica = cluster.leader_replica(partition)
    if replica is None:
        return []
    found: Ranges = []
    at = replica.log.start
    for batch in committed_batches(replica.log.batches(), replica.stable_end):
        if batch.base > at:
            found.append((at, batch.base))
        at = max(at, batch.end)
    return [*found, (at, replica.stable_end)] if at < replica.stable_end else found


def atomic_transactions(cluster: Cluster) -> list[Breach]:
    """A committed transaction is visible in all of its partitions, any other in none."""
    found: list[Breach] = []
    visible = visible_values(cluster)
    served = {p for p in range(cluster.config.data_partitions) if (log := cluster.leader_log(p)) and not log.start}
    for number, transaction in enumerate(cluster.transactions.transactions):
        values = [(partition, value) for partition, value in transaction.values if partition in served]
        seen = [value for value in values if _has(visible, transaction, *value)]
        wrong = [value for value in values if value not in seen] if transaction.decision == "commit" else seen
        if wrong:
            verb = "misses" if transaction.decision == "commit" else "shows"
            text = f"{_transaction_name(transaction, number)}, {verb} {_values(transaction, wrong)}"
            found.append(Breach("atomic-transactions", transaction.decided, wrong[0][0], text))
    for number, time in cluster.transactions.contradictions:
        text = f"transaction {number} was committed and aborted"
        found.append(Breach("atomic-transactions", time, cluster.config.transaction_log, text))
    return found


def no_aborted_read(cluster: Cluster) -> list[Breach]:
    """No read_committed consumer polls a record of a transaction that is not committed."""
    if cluster.config.isolation != "read_committed":
        return []
    polled = {
        (partition, producer): ranges
        for partition, producers in cluster.ledger.polled_values.items()
        for producer, ranges in producers.items()
    }
    found: list[Breach] = []
    for number, transaction in enumerate(cluster.transactions.transactions):
        wrong = [
            value
            for value in transaction.values
            if transaction.decision != "commit" and _has(polled, transaction, *value)
        ]
        if wrong:
            text = f"a consumer read {_values(transaction, wrong)} of {_transaction_name(transaction, number)}"
            found.append(Breach("no-aborted-read", transaction.decided, wrong[0][0], text))
    return found


def no_hanging_transaction(cluster: Cluster) -> list[Breach]:
    """At the end no transaction holds the last stable offset back, unless no coordinator can be elected."""
    if cluster.config.transactional and cluster.leader_log(cluster.config.transaction_log) is None:
        return []
    return [
        Breach(
            "no-hanging-transaction",
            cluster.loop.now,
            partition,
            f"the last stable offset stays at {stable}, and read_committed consumers miss what follows it, up to "
            f"offset {mark - 1}",
            stable,
            mark,
        )
        for partition, stable, mark in cluster.open_transactions()
    ]


def one_producer_epoch(cluster: Cluster) -> list[Breach]:
    """Once a producer epoch is granted, no batch of an older epoch is added to the log."""
    return [
        Breach(
            "one-producer-epoch",
            late.time,
            late.partition,
            f"producer {late.pid} writes in epoch {late.epoch}, though epoch {late.granted} was granted before",
        )
        for late in cluster.transactions.late_writes
        if (log := cluster.leader_log(late.partition)) is not None
        and any(
            (batch.epoch, batch.producer, batch.first) == (late.leader_epoch, late.producer, late.first)
            for batch in log.batches()
        )
    ]


def _transaction_name(transaction: Transaction, number: int) -> str:
    decision = {"commit": "committed", "abort": "aborted"}.get(transaction.decision, "never ended")
    return f"{transaction.process}'s transaction {number}, which {decision}"


def _has(values: Values, transaction: Transaction, partition: int, value: int) -> bool:
    return any(low <= value < high for low, high in values.get((partition, transaction.producer), ()))


def _values(transaction: Transaction, values: Iterable[tuple[int, int]]) -> str:
    return ", ".join(f"p{transaction.producer}-{partition}-{value}" for partition, value in values)
