"""What really happened to the transactions of a finished run, in numbers."""

from __future__ import annotations

from typing import Any

from ..replication.cluster import Cluster


def transaction_truth(cluster: Cluster) -> dict[str, Any] | None:
    """How transactions ended, as coordinators stored it and as producers know it, and what held consumers back; None:
    the run has no transactions."""
    if not cluster.config.transactional:
        return None
    ledger = cluster.transactions
    decisions = [one.decision for one in ledger.transactions]
    outcomes = [one.outcome for one in ledger.transactions]
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
