"""What can go wrong. A fault is one function: it does its harm, and returns how to heal it, or None.

Times are microseconds. `lasts` 0 means until the end of the load, when everything is healed before the
final reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .config import MS, Config, ConfigError
from .network import FIRST_CLIENT, FIRST_CONTROLLER, QUORUM
from .truth import lost_below

if TYPE_CHECKING:
    from .cluster import Cluster

Heal = Callable[[], tuple[int, ...] | None]  # returns those whom no other fault holds any more; None: all


@dataclass(frozen=True, slots=True)
class Fault:
    """One entry of a schedule."""

    at: int
    kind: str
    # Brokers, controllers (from 101) or consumers (by index), as the kind has it; a partition also takes the quorum or
    # ZooKeeper (100), and producers and then consumers (from 201).
    nodes: tuple[int, ...] = ()
    lasts: int = 0
    amount: int = 0  # milliseconds of delay or skew, per mille of loss or duplication, an offset to delete to
    to: tuple[int, ...] = ()  # one-way: only messages to these nodes are cut

    def told(self) -> dict[str, Any]:
        """What a history says of it beside kind and nodes."""
        extra: dict[str, Any] = {}
        if self.amount:
            extra["amount"] = self.amount
        if self.to:
            extra["to"] = [str(n) for n in self.to]
        return extra


def crash(cluster: Cluster, fault: Fault) -> Heal:
    """kill -9: the process dies, the page cache survives."""
    return _stop(cluster, fault, "crash")


def power_loss(cluster: Cluster, fault: Fault) -> Heal:
    """The machine goes dark: what was not flushed is lost, and nobody is told."""
    return _stop(cluster, fault, "power-loss")


def _stop(cluster: Cluster, fault: Fault, reason: str) -> Heal:
    _hold(cluster, "down", fault)
    for node in fault.nodes:
        cluster.brokers[node].stop(reason)
    return lambda: _start(cluster, fault)


def _start(cluster: Cluster, fault: Fault) -> tuple[int, ...]:
    free = _release(cluster, "down", fault)
    for node in free:
        cluster.brokers[node].start()
    return free


def _hold(cluster: Cluster, how: str, fault: Fault) -> None:
    """Faults may overlap: the last of those that hold a node so frees it."""
    for node in fault.nodes:
        cluster.held[how, node] = cluster.held.get((how, node), 0) + 1


def _release(cluster: Cluster, how: str, fault: Fault) -> tuple[int, ...]:
    for node in fault.nodes:
        cluster.held[how, node] -= 1
    return tuple(node for node in fault.nodes if not cluster.held[how, node])


def shutdown(cluster: Cluster, fault: Fault) -> Heal:
    """A controlled shutdown: leaderships move away, logs are flushed, checkpoints written. Simplification: it is
    asked for once, and the process ends 50 ms later, whatever came of it."""
    _hold(cluster, "down", fault)
    leaving = list(fault.nodes)
    for node in fault.nodes:
        cluster.brokers[node].leave()
    cluster.loop.at(cluster.loop.now + 50 * MS, _shut, (cluster, leaving))

    def heal() -> tuple[int, ...]:
        _shut((cluster, leaving))  # a restart that is ordered at once waits for the process to end
        return _start(cluster, fault)

    return heal


def _shut(argument: tuple[Cluster, list[int]]) -> None:
    cluster, leaving = argument
    for node in leaving:
        cluster.brokers[node].stop("shutdown")
    leaving.clear()


def pause(cluster: Cluster, fault: Fault) -> Heal:
    """SIGSTOP, or a long garbage collection: everything waits, nothing is lost."""
    _hold(cluster, "paused", fault)
    for node in fault.nodes:
        cluster.brokers[node].pause()

    def heal() -> tuple[int, ...]:
        free = _release(cluster, "paused", fault)
        for node in free:
            cluster.brokers[node].resume()
        return free

    return heal


def slow_disk(cluster: Cluster, fault: Fault) -> Heal:
    """Each request takes `amount` milliseconds longer, one after the other."""
    for node in fault.nodes:
        cluster.brokers[node].disk_delay += fault.amount * MS

    def heal() -> None:
        for node in fault.nodes:
            cluster.brokers[node].disk_delay -= fault.amount * MS

    return heal


def disk_full(cluster: Cluster, fault: Fault) -> Heal:
    """The next append or checkpoint fails and the broker halts, as its only log directory is offline."""
    _hold(cluster, "disk", fault)
    for node in fault.nodes:
        cluster.brokers[node].disk_full = True

    def heal() -> tuple[int, ...]:
        free = _release(cluster, "disk", fault)
        for node in free:
            cluster.brokers[node].disk_full = False
            if not cluster.held.get(("down", node)):
                cluster.brokers[node].start()
        return free

    return heal


def partition(cluster: Cluster, fault: Fault) -> Heal:
    """These nodes and all other servers cannot reach each other; clients that are not named reach everybody."""
    pairs = [
        pair
        for inside in fault.nodes
        for outside in (*cluster.broker_ids, *cluster.controller_nodes())
        if outside not in fault.nodes
        for pair in ((inside, outside), (outside, inside))
    ]
    return _cut(cluster, pairs)


def one_way(cluster: Cluster, fault: Fault) -> Heal:
    """Messages from `nodes` to `to` are lost, the other direction works."""
    targets = fault.to or tuple(n for n in (*cluster.broker_ids, *cluster.controller_nodes()) if n not in fault.nodes)
    return _cut(cluster, [(source, target) for source in fault.nodes for target in targets])


def _cut(cluster: Cluster, pairs: list[tuple[int, int]]) -> Heal:
    for source, target in pairs:
        cluster.network.cut(source, target)

    def heal() -> None:
        for source, target in pairs:
            cluster.network.mend(source, target)

    return heal


def delay(cluster: Cluster, fault: Fault) -> Heal:
    """Messages between these brokers and the others take `amount` milliseconds longer."""
    pairs = [
        pair
        for inside in fault.nodes
        for outside in cluster.broker_ids
        if outside not in fault.nodes
        for pair in ((inside, outside), (outside, inside))
    ]
    for source, target in pairs:
        cluster.network.slow(source, target, fault.amount * MS)

    def heal() -> None:
        for source, target in pairs:
            cluster.network.slow(source, target, -fault.amount * MS)

    return heal


def loss(cluster: Cluster, fault: Fault) -> Heal:
    """`amount` of a thousand messages are lost with their connection."""
    return _share(cluster, fault, cluster.losing)


def duplication(cluster: Cluster, fault: Fault) -> Heal:
    """`amount` of a thousand messages arrive twice, as a proxy that repeats them would have it."""
    return _share(cluster, fault, cluster.doubling)


def _share(cluster: Cluster, fault: Fault, amounts: list[int]) -> Heal:
    """Of faults that overlap the largest share counts."""

    def settle() -> None:
        lose, double = (max(some, default=0) / 1000 for some in (cluster.losing, cluster.doubling))
        cluster.network.unreliable(lose, double)

    def heal() -> None:
        amounts.remove(fault.amount)
        settle()

    amounts.append(fault.amount)
    settle()
    return heal


def clock_skew(cluster: Cluster, fault: Fault) -> Heal:
    """The wall clock jumps by `amount` milliseconds; lag is measured with it."""
    for node in fault.nodes:
        cluster.brokers[node].skew += fault.amount * MS

    def heal() -> None:
        for node in fault.nodes:
            cluster.brokers[node].skew -= fault.amount * MS

    return heal


def controller_crash(cluster: Cluster, fault: Fault) -> Heal:
    """The active controller dies, or those named do; another takes over after its session."""
    chosen = _controllers(cluster, fault)
    for controller in chosen:
        controller.alive = False
        if cluster.quorum.controller is controller:
            cluster.quorum.controller = None

    def heal() -> None:
        for controller in chosen:
            controller.alive = True
            controller.epoch = 0  # a new process, which remembers nothing

    return heal


def controller_pause(cluster: Cluster, fault: Fault) -> Heal:
    """The active controller stops for a while; when it goes on it may be a zombie."""
    chosen = _controllers(cluster, fault)
    for controller in chosen:
        controller.paused = True

    def heal() -> None:
        for controller in chosen:
            cluster.quorum.resume(controller)

    return heal


def _controllers(cluster: Cluster, fault: Fault) -> list[Any]:
    quorum = cluster.quorum
    if fault.nodes:
        return [quorum.controllers[n - FIRST_CONTROLLER] for n in fault.nodes]
    return [quorum.controller] if quorum.controller is not None else []


def consumer_crash(cluster: Cluster, fault: Fault) -> Heal:
    """A consumer's process dies; it starts again from what it committed."""
    _hold(cluster, "consumer", fault)
    for index in fault.nodes:
        cluster.consumers[index].crash()

    def heal() -> tuple[int, ...]:
        free = _release(cluster, "consumer", fault)
        for index in free:
            if not cluster.consumers[index].alive:
                cluster.consumers[index].start()
        return free

    return heal


def delete_records(cluster: Cluster, fault: Fault) -> None:
    """DeleteRecords up to offset `amount` of every partition, asked of its leader."""
    for number, state in enumerate(cluster.quorum.states):
        replica = cluster.brokers[state.leader].replicas.get(number) if state.leader > 0 else None
        if replica is not None:
            gone = lost_below(cluster.ledger, number, replica.log, min(fault.amount, replica.hw))
            before = replica.log.start
            cluster.brokers[state.leader].delete_records(number, fault.amount)
            if replica.log.start > before:
                cluster.ledger.acks[number].passed += gone


def preferred_election(cluster: Cluster, fault: Fault) -> None:  # noqa: ARG001
    """kafka-leader-election --election-type preferred."""
    if cluster.quorum.controller is not None and cluster.quorum.controller.works:
        cluster.quorum.controller.prefer()


FAULTS: dict[str, Callable[[Cluster, Fault], Heal | None]] = {
    "crash": crash,
    "power-loss": power_loss,
    "shutdown": shutdown,
    "pause": pause,
    "slow-disk": slow_disk,
    "disk-full": disk_full,
    "partition": partition,
    "one-way": one_way,
    "delay": delay,
    "loss": loss,
    "duplication": duplication,
    "clock-skew": clock_skew,
    "controller-crash": controller_crash,
    "controller-pause": controller_pause,
    "consumer-crash": consumer_crash,
    "delete-records": delete_records,
    "preferred-election": preferred_election,
}

# What needs no nodes: it hits the network, every partition's leader, or the active controller.
NODELESS = ("loss", "duplication", "controller-crash", "controller-pause", "delete-records", "preferred-election")
PER_MILLE = ("loss", "duplication")
MEASURED = (*PER_MILLE, "slow-disk", "delay", "clock-skew", "delete-records")  # what takes an amount
MOST_AMOUNT = 10**12  # milliseconds, or an offset


def check(fault: Fault, config: Config) -> None:
    """Refuse a fault that cannot happen to such a cluster."""
    if fault.kind not in FAULTS:
        raise ConfigError(f"there is no fault {fault.kind!r}; there are {', '.join(sorted(FAULTS))}")
    if not fault.nodes and fault.kind not in NODELESS:
        raise ConfigError(f"the fault {fault.kind} at {fault.at / MS:g} ms names no nodes, so it would hit nobody")
    _refuse_idle(fault)
    brokers = range(1, config.brokers + 1)
    controllers = range(FIRST_CONTROLLER, FIRST_CONTROLLER + config.controllers)
    there: Sequence[int] = brokers
    if fault.kind.startswith("controller-"):
        there = controllers
    elif fault.kind == "consumer-crash":
        there = range(config.consumers)
    elif fault.kind in ("partition", "one-way"):
        clients = range(FIRST_CLIENT, FIRST_CLIENT + config.producers + config.consumers)
        there = (*brokers, QUORUM, *controllers, *clients)
    for node in (*fault.nodes, *fault.to):
        if node not in there:
            raise ConfigError(f"there is no {node} that {fault.kind} could hit; there are {', '.join(map(str, there))}")
    least = -MOST_AMOUNT if fault.kind == "clock-skew" else 0
    most = 1000 if fault.kind in PER_MILLE else MOST_AMOUNT
    if not least <= fault.amount <= most:
        raise ConfigError(f"the amount of {fault.kind} must be {least} to {most}, not {fault.amount}")


def _refuse_idle(fault: Fault) -> None:
    """What a fault names without any effect is a mistake."""
    if fault.amount and fault.kind not in MEASURED:
        raise ConfigError(f"the fault {fault.kind} takes no amount, found {fault.amount}")
    if fault.to and fault.kind not in ("partition", "one-way"):
        raise ConfigError(f"the fault {fault.kind} goes from nobody to anybody, so `to` means nothing")
    if fault.nodes and fault.kind in NODELESS and not fault.kind.startswith("controller-"):
        raise ConfigError(f"the fault {fault.kind} hits all, so it names no nodes")
    if both := set(fault.nodes).intersection(fault.to):
        raise ConfigError(f"the fault {fault.kind} goes from {min(both)} to itself")
