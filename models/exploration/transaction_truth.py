"""Counts the outcomes of the transactions of a finished run."""

from __future__ import annotations

from typing import Any

from ..replication.cluster import Cluster


def transaction_truth(cluster: Cluster) -> dict[str, Any] | None:
    """Numbers of transactions by stored decision and by the producer's outcome, and the partitions with a hanging one.

    None if the run has no transactions.
    """
    if not cluster.config.transactional:
        return None
    ledger = cluster.transactions
    decisions = [transaction.decision for transaction in ledger.transactions]
    outcomes = [transaction.outcome for transaction in ledger.transactions]
    return {
        "committed": decisions.count("commit"),
        "aborted": decisions.count("abort"),
        "undecided": decisions.count(""),
        "known_as": {outcome or "none": outcomes.count(outcome) for outcome in sorted(set(outcomes))},
        "timed_out": ledger.timed_out,
        "fenced": ledger.fenced,
        "hanging": {
            cluster.config.log_name(partition): [stable, mark]
            for partition, stable, mark in cluster.open_transactions()
        },
    }
