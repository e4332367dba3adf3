"""The guarantees of a log: a module for each family of rules, and one RULES dict.

A new rule is one decorated function in a family, one entry here, and its cases in tests/corpus. The order of the
dict is the order of reports.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...histories.errors import UsageError, unknown_name
from ..transactions.consistency_models import STRONGEST
from . import (
    commit_regression,
    committed_loss,
    committed_offsets,
    consumer_loss,
    cycles,
    identity,
    log_order,
    log_transactions,
    loss,
    membership,
    polling,
    realtime,
    replica_absent,
    replica_divergence,
    sending,
    torn,
    visibility,
)
from .anomalies import ANOMALIES, DIALECTS
from .rule import Assumed, Judgement, Rule

__all__ = ["ALL_RULES", "ANOMALIES", "DIALECTS", "RULES", "Judgement", "Rule", "rules_assuming", "rules_of"]

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
        log_transactions.hanging_transaction,
        log_transactions.producer_epoch_order,
        log_transactions.aborted_index,
        polling.nonmonotonic_poll,
        polling.poll_skip,
        polling.int_nonmonotonic_poll,
        polling.int_poll_skip,
        sending.nonmonotonic_send,
        sending.int_nonmonotonic_send,
        sending.int_send_skip,
        realtime.realtime_order,
        realtime.stale_end_offset,
        consumer_loss.consumer_loss,
        commit_regression.commit_regression,
        committed_offsets.commit_beyond_end,
        membership.ownership,
        membership.commit_fenced,
        replica_divergence.replica_divergence,
        replica_absent.acknowledged_absent,
        committed_loss.committed_absent,
        log_order.epoch_order,
        log_order.checkpoint_order,
        log_order.log_corruption,
    )
}


ALL_RULES: dict[str, Rule] = {**RULES, **ANOMALIES, **RULES}  # in this order; of a name in both, the rule of RULES


def rules_of(dialect: str) -> dict[str, Rule]:
    """The rules, or the anomalies of transactions on lists and registers, that a history of a dialect is judged by."""
    return ANOMALIES if dialect in DIALECTS else RULES


def rules_assuming(what: Assumed) -> tuple[str, ...]:
    """The names of the rules that rest on an assumption."""
    return tuple(name for name, rule in RULES.items() if what in rule.assumes)


def check_applicable(rules: Sequence[str], dialect: str, model: str, keys: Sequence[str]) -> None:
    """Raises UsageError if none of the chosen rules judges histories of a dialect (no rules: all are chosen).

    Also if a consistency model or assumptions of keys are chosen for a history without transactions to judge by them.
    """
    if dialect not in DIALECTS and (model != STRONGEST or keys):
        found = f"the model {model}" if model != STRONGEST else f"the keys' assumption {keys[0]}"
        expected = f"a history of transactions on lists or registers, which this one ({dialect}) is not"
        raise UsageError(f"found {found}, expected {expected}: leave out --{'model' if model != STRONGEST else 'keys'}")
    if rules and not any(name in rules_of(dialect) for name in rules):
        raise UsageError(f"found {', '.join(rules[:3])}, expected a rule for this history ({dialect})")


def select_rules(only: Sequence[str], skip: Sequence[str], allow: Sequence[str]) -> tuple[str, ...]:
    """The rules to judge; empty: all. Raises UsageError if a name does not exist."""
    for name in (*only, *skip, *(item.split(":", 1)[0] for item in allow)):
        if name not in ALL_RULES:
            raise unknown_name("rule", name, ALL_RULES, "`logjudge rules`")
    for item in allow:
        if ":" in item and item.split(":", 1)[1] not in ("acks=1", "acks=all"):
            raise UsageError(f"found --allow {item}, expected RULE or RULE:acks=1")
    if not only and not skip:
        return ()
    chosen = tuple(name for name in (only or ALL_RULES) if name not in skip)
    if not chosen:
        raise UsageError("found no rule left after --only and --skip, expected one or more")
    return chosen
