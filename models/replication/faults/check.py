"""Checks that the faults of a scenario are possible in its cluster."""

from __future__ import annotations

from collections.abc import Sequence

from ..config import MS, Config, ConfigError
from ..network import FIRST_CLIENT, FIRST_CONTROLLER, QUORUM
from ..options import A_GROUP
from .fault import Fault
from .kinds import FAULTS

# Faults without nodes: they concern the network, every partition's leader, or the active controller.
NODELESS = (
    "loss",
    "duplication",
    "controller-crash",
    "controller-pause",
    "delete-records",
    "preferred-election",
    "cancel-reassignment",
    "add-partitions",
)

MOVES = ("reassignment", "cancel-reassignment")  # of the partition that the amount names
MAX_AMOUNT = 10**12  # milliseconds, or an offset
AMOUNTS = {  # the least and the greatest amount of each fault that takes one
    **dict.fromkeys(("loss", "duplication"), (0, 1000)),
    **dict.fromkeys(("slow-disk", "delay", "delete-records", "consumer-seek", *MOVES), (0, MAX_AMOUNT)),
    "clock-skew": (-MAX_AMOUNT, MAX_AMOUNT),
}


def check_fault(fault: Fault, config: Config) -> None:
    """Raise ConfigError if a fault cannot happen to such a cluster."""
    if fault.kind not in FAULTS:
        raise ConfigError(f"unknown fault {fault.kind!r}; known are {', '.join(sorted(FAULTS))}")
    if not fault.nodes and fault.kind not in NODELESS:
        raise ConfigError(f"the fault {fault.kind} at {fault.at / MS:g} ms names no nodes, so it has no effect")
    _check_parameters(fault)
    brokers = range(1, config.brokers + 1)
    controllers = range(FIRST_CONTROLLER, FIRST_CONTROLLER + config.controllers)
    known: Sequence[int] = brokers
    if fault.kind.startswith("controller-"):
        known = controllers
    elif fault.kind.startswith("consumer-"):
        known = range(config.consumers)
    elif fault.kind in ("partition", "one-way"):
        clients = range(FIRST_CLIENT, FIRST_CLIENT + config.producers + config.consumers)
        known = (*brokers, QUORUM, *controllers, *clients)
    for node in (*fault.nodes, *fault.to):
        if node not in known:
            raise ConfigError(f"the fault {fault.kind} names node {node}; possible are {', '.join(map(str, known))}")
    if fault.kind == "consumer-replace" and (len(fault.nodes) != 2 or fault.nodes[0] == fault.nodes[1]):
        raise ConfigError(f"the fault consumer-replace needs two members, the old and the new one, not {fault.nodes}")
    if fault.kind in ("consumer-pause", "consumer-shutdown", "consumer-replace") and not config.has_group:
        raise ConfigError(f"the fault {fault.kind} needs {A_GROUP}")
    if fault.kind == "delete-records" and config.compacts:
        # KafkaApis.handleDeleteRecordsRequest: POLICY_VIOLATION
        raise ConfigError("brokers refuse to delete records of a topic with cleanup.policy=compact")
    if fault.kind == "add-partitions" and not config.added_partitions:
        raise ConfigError("the fault add-partitions needs simulation.partitions.added")
    if fault.kind == "reassignment" and len(set(fault.nodes)) < len(fault.nodes):
        raise ConfigError(f"the reassignment at {fault.at / MS:g} ms names a broker twice")
    least, most = (0, config.partitions - 1) if fault.kind in MOVES else AMOUNTS.get(fault.kind, (0, 0))
    if not least <= fault.amount <= most:
        raise ConfigError(f"the amount of {fault.kind} must be {least} to {most}, not {fault.amount}")


def _check_parameters(fault: Fault) -> None:
    """Refuse parameters without an effect."""
    if fault.amount and fault.kind not in AMOUNTS:
        raise ConfigError(f"the fault {fault.kind} takes no amount, but has {fault.amount}")
    if fault.to and fault.kind not in ("partition", "one-way"):
        raise ConfigError(f"the fault {fault.kind} has no direction, so it takes no `to`")
    if fault.nodes and fault.kind in NODELESS and not fault.kind.startswith("controller-"):
        raise ConfigError(f"the fault {fault.kind} concerns the whole cluster, so it takes no nodes")
    if both := set(fault.nodes).intersection(fault.to):
        raise ConfigError(f"the fault {fault.kind} goes from {min(both)} to itself")
