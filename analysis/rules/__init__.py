"""The guarantees of a log: a module for each family of rules, and one RULES dict.

A new rule is one decorated function in a family, one entry here, and its cases in tests/corpus. The order of the
dict is the order of reports.
"""

from __future__ import annotations

from . import (
    aborted_index,
    committed_offsets,
    cycles,
    groups,
    hanging,
    identity,
    log_order,
    loss,
    membership,
    polling,
    producer_order,
    realtime,
    replica_absent,
    replica_divergence,
    sending,
    torn,
    visibility,
)
from .anomalies import ANOMALIES, DIALECTS
from .judgement import Judgement
from .rule import Assumed, Rule

__all__ = ["ANOMALIES", "DIALECTS", "RULES", "Judgement", "Rule", "assuming", "rules_of"]

RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        loss.lost_write,
        loss.unseen,
        identity.inconsistent_offsets,
        identity.duplicate,
        visibility.aborted_read,
        visibility.phantom_read,
        visibility.precommitted_read,
        *cycles.RULES_OF_CYCLES.values(),
        torn.torn_transaction,
        hanging.hanging_transaction,
        producer_order.producer_epoch_order,
        aborted_index.aborted_index,
        polling.nonmonotonic_poll,
        polling.poll_skip,
        polling.int_nonmonotonic_poll,
        polling.int_poll_skip,
        sending.nonmonotonic_send,
        sending.int_nonmonotonic_send,
        sending.int_send_skip,
        realtime.realtime_order,
        realtime.stale_end_offset,
        groups.consumer_loss,
        groups.commit_regression,
        committed_offsets.commit_beyond_end,
        membership.ownership,
        membership.commit_fenced,
        replica_divergence.replica_divergence,
        replica_absent.acknowledged_absent,
        log_order.epoch_order,
        log_order.checkpoint_order,
        log_order.log_corruption,
    )
}


def rules_of(dialect: str) -> dict[str, Rule]:
    """The rules, or the anomalies of transactions on lists and registers, that a history of a dialect is judged by."""
    return ANOMALIES if dialect in DIALECTS else RULES


def assuming(what: Assumed) -> tuple[str, ...]:
    """The names of the rules that rest on an assumption."""
    return tuple(name for name, rule in RULES.items() if what in rule.assumes)
