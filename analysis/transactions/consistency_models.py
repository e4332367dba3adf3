"""Consistency models of transactions, and the anomalies that each forbids: Elle's lattice (elle.consistency-model).

Sources: Adya, "Weak Consistency" (PL-1 to PL-SS, there read-uncommitted to strict-serializable); Cerone, Bernardi and
Gotsman, "A Framework for Transactional Consistency Models with Atomic Visibility" (read-atomic, causal, prefix,
parallel-snapshot-isolation); Daudjee and Salem (strong session models). Models that differ from these only in
predicates or cursors are left out, as histories of keys show neither.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from ...histories.errors import UsageError
from .cycle_types import TYPES, implies


class Model(NamedTuple):
    """A model: the weaker models that it implies, and the anomalies that it forbids beyond them."""

    implied: tuple[str, ...]
    forbidden: tuple[str, ...]


# The weakest first.
MODELS: dict[str, Model] = {
    "read-uncommitted": Model((), ("G0", "duplicate-elements", "cyclic-versions", "garbage-read")),
    "read-committed": Model(
        ("read-uncommitted",), ("G1a", "G1b", "G1c", "dirty-update", "incompatible-order", "future-read")
    ),
    "cursor-stability": Model(("read-committed",), ("lost-update",)),
    "monotonic-atomic-view": Model(("read-committed",), ()),
    "read-atomic": Model(("monotonic-atomic-view",), ("internal",)),
    "causal": Model(("read-atomic",), ()),
    "prefix": Model(("causal",), ()),
    "update-atomic": Model(("read-atomic",), ("lost-update",)),
    "parallel-snapshot-isolation": Model(("causal", "update-atomic"), ()),
    "consistent-view": Model(("cursor-stability",), ("G-single-item",)),
    "repeatable-read": Model(("cursor-stability", "monotonic-atomic-view"), ("G2-item",)),
    "snapshot-isolation": Model(("consistent-view", "parallel-snapshot-isolation", "prefix"), ("G-nonadjacent-item",)),
    "serializable": Model(("repeatable-read", "snapshot-isolation"), ()),
    "strong-session-read-uncommitted": Model(("read-uncommitted",), ("G0-process",)),
    "strong-session-read-committed": Model(("read-committed", "strong-session-read-uncommitted"), ("G1c-process",)),
    "strong-session-snapshot-isolation": Model(
        ("snapshot-isolation", "strong-session-read-committed"), ("G-nonadjacent-item-process",)
    ),
    "strong-session-serializable": Model(("serializable", "strong-session-snapshot-isolation"), ("G2-item-process",)),
    "strong-read-uncommitted": Model(("strong-session-read-uncommitted",), ("G0-realtime",)),
    "strong-read-committed": Model(("strong-session-read-committed", "strong-read-uncommitted"), ("G1c-realtime",)),
    "strong-snapshot-isolation": Model(
        ("strong-session-snapshot-isolation", "strong-read-committed"), ("G-nonadjacent-item-realtime",)
    ),
    "strict-serializable": Model(("strong-session-serializable", "strong-snapshot-isolation"), ("G2-item-realtime",)),
}
STRONGEST = "strict-serializable"
# The models that a user can demand. A search may not find the cycle that consistent-view forbids in its budget. Of the
# other models, the anomalies that distinguish them from weaker ones are only searched in part.
DEMANDED = (
    *("read-uncommitted", "read-committed", "repeatable-read", "snapshot-isolation", "serializable"),
    *(name for name in MODELS if name.startswith("str")),
)


def check_model(name: str) -> None:
    """Raises UsageError unless histories can be judged by a model of this name."""
    if name not in DEMANDED:
        raise UsageError(f"found consistency model {name!r}, expected one of {', '.join(DEMANDED)}")


@cache
def stronger_or_equal(name: str) -> frozenset[str]:
    """The models that imply a model, with itself."""
    found = {name}
    for other, model in MODELS.items():  # in MODELS a model comes after those that it implies
        if found.intersection(model.implied):
            found.add(other)
    return frozenset(found)


@cache
def forbidden_by(name: str) -> frozenset[str]:
    """All anomalies that a model forbids, with those that imply them."""
    direct = {one for other, model in MODELS.items() if name in stronger_or_equal(other) for one in model.forbidden}
    return frozenset(direct) | {one for one in TYPES if any(other in TYPES and implies(one, other) for other in direct)}


def ruled_out(anomalies: Iterable[str]) -> list[str]:
    """The models that some anomalies rule out, the weakest first."""
    found = set(anomalies)
    return [name for name in MODELS if found & forbidden_by(name)]


def boundary(anomalies: Iterable[str]) -> tuple[list[str], list[str]]:
    """The weakest models that some anomalies rule out, and the strongest that they do not rule out."""
    out = ruled_out(anomalies)
    possible = [name for name in DEMANDED if name not in out]
    weakest = [name for name in out if not any(name in stronger_or_equal(other) for other in out if other != name)]
    strongest = [
        name for name in possible if not any(other in stronger_or_equal(name) for other in possible if other != name)
    ]
    return weakest, strongest
