"""The rules on what brokers kept. A new rule is a function, and one line in REPLICA_RULES."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from .log_order import checkpoint_order, epoch_order, log_corruption
from .replica_absent import acknowledged_absent
from .replica_divergence import replica_divergence
from .replicas import Judgement, Kept, complete_sends

REPLICA_RULES: dict[str, Callable[[Kept, pl.DataFrame], Judgement]] = {
    "replica-divergence": replica_divergence,
    "acknowledged-absent": acknowledged_absent,
    "epoch-order": epoch_order,
    "checkpoint-order": checkpoint_order,
    "log-corruption": log_corruption,
}


def judge_replicas(kept: Kept, sends: pl.DataFrame) -> Judgement:
    """All rules on one topic-partition."""
    sends = complete_sends(sends)
    out = Judgement()
    for rule in REPLICA_RULES.values():
        judged = rule(kept, sends)
        out.findings.extend(judged.findings)
        out.unknown.extend(judged.unknown)
    return out
