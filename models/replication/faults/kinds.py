"""The kinds of faults: each function begins a fault, and returns the function that ends it, or None."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..clients.group_consumer import GroupConsumer
from ..config import MS
from ..partition_state import NO_LEADER
from .fault import Fault
from .target import Target

Heal = Callable[[], tuple[int, ...] | None]  # returns the nodes that no other fault still affects; None: all


def crash(target: Target, fault: Fault) -> Heal:
    """kill -9: the process dies, the page cache survives."""
    return _stop(target, fault, "crash")


def power_loss(target: Target, fault: Fault) -> Heal:
    """The machine loses power: what was not flushed is lost, and its peers get no reset."""
    return _stop(target, fault, "power-loss")


def _stop(target: Target, fault: Fault, reason: str) -> Heal:
    target.hold("down", fault)
    for node in fault.nodes:
        target.brokers[node].stop(reason)
    return lambda: _start(target, fault)


def _start(target: Target, fault: Fault) -> tuple[int, ...]:
    free = target.release("down", fault)
    for node in free:
        target.brokers[node].start()
    return free


def shutdown(target: Target, fault: Fault) -> Heal:
    """A controlled shutdown: other leaders are elected, logs flushed, checkpoints written.

    Simplification: it is requested once, and the process ends 50 ms later, granted or not.
    """
    target.hold("down", fault)
    leaving = list(fault.nodes)
    for node in fault.nodes:
        target.brokers[node].leave()
    loop = target.loop
    loop.at(loop.now + 50 * MS, _stop_leaving, (target, leaving))

    def heal() -> tuple[int, ...]:
        _stop_leaving((target, leaving))  # the process must end before it restarts
        return _start(target, fault)

    return heal


def _stop_leaving(argument: tuple[Target, list[int]]) -> None:
    target, leaving = argument
    for node in leaving:
        target.brokers[node].stop("shutdown")
    leaving.clear()


def pause(target: Target, fault: Fault) -> Heal:
    """SIGSTOP, or a long garbage collection: everything waits, nothing is lost."""
    target.hold("paused", fault)
    for node in fault.nodes:
        target.brokers[node].pause()

    def heal() -> tuple[int, ...]:
        free = target.release("paused", fault)
        for node in free:
            target.brokers[node].resume()
        return free

    return heal


def slow_disk(target: Target, fault: Fault) -> Heal:
    """Each request takes `amount` milliseconds longer; requests do not overlap."""
    for node in fault.nodes:
        target.brokers[node].disk.request_delay += fault.amount * MS

    def heal() -> None:
        for node in fault.nodes:
            target.brokers[node].disk.request_delay -= fault.amount * MS

    return heal


def disk_full(target: Target, fault: Fault) -> Heal:
    """The next append or checkpoint fails and the broker halts, as its only log directory is offline."""
    target.hold("disk", fault)
    for node in fault.nodes:
        target.brokers[node].disk.is_full = True

    def heal() -> tuple[int, ...]:
        free = target.release("disk", fault)
        for node in free:
            target.brokers[node].disk.is_full = False
            if not target.is_held("down", node):
                target.brokers[node].start()
        return free

    return heal


def partition(target: Target, fault: Fault) -> Heal:
    """These nodes and all other servers cannot reach each other; clients that are not named reach all nodes."""
    return _cut(target, _links(fault.nodes, (*target.broker_ids, *target.controller_nodes)))


def one_way(target: Target, fault: Fault) -> Heal:
    """Messages from `nodes` to `to` are lost; the other direction is_running."""
    destinations = fault.to or tuple(n for n in (*target.broker_ids, *target.controller_nodes) if n not in fault.nodes)
    return _cut(target, [(source, destination) for source in fault.nodes for destination in destinations])


def _links(nodes: tuple[int, ...], others: tuple[int, ...]) -> list[tuple[int, int]]:
    """Both directions of the links between these nodes and the others."""
    links = [(inside, outside) for inside in nodes for outside in others if outside not in nodes]
    return [pair for inside, outside in links for pair in ((inside, outside), (outside, inside))]


def _cut(target: Target, pairs: list[tuple[int, int]]) -> Heal:
    for source, destination in pairs:
        target.network.cut(source, destination)

    def heal() -> None:
        for source, destination in pairs:
            target.network.heal(source, destination)

    return heal


def delay(target: Target, fault: Fault) -> Heal:
    """Messages between these brokers and the others take `amount` milliseconds longer."""
    pairs = _links(fault.nodes, target.broker_ids)
    for source, destination in pairs:
        target.network.slow(source, destination, fault.amount * MS)

    def heal() -> None:
        for source, destination in pairs:
            target.network.slow(source, destination, -fault.amount * MS)

    return heal


def loss(target: Target, fault: Fault) -> Heal:
    """Lose `amount` of a thousand messages with their connections."""
    return _set_rate(target, fault, target.losing)


def duplication(target: Target, fault: Fault) -> Heal:
    """Deliver `amount` of a thousand messages twice, as a proxy that repeats them."""
    return _set_rate(target, fault, target.duplicating)


def _set_rate(target: Target, fault: Fault, amounts: list[int]) -> Heal:
    """Set the share of messages that are lost or duplicated to the largest of all overlapping faults."""

    def update() -> None:
        lose, duplicate = (max(rates, default=0) / 1000 for rates in (target.losing, target.duplicating))
        target.network.set_error_rates(lose, duplicate)

    def heal() -> None:
        amounts.remove(fault.amount)
        update()

    amounts.append(fault.amount)
    update()
    return heal


def clock_skew(target: Target, fault: Fault) -> Heal:
    """The wall clock jumps by `amount` milliseconds; lag is measured with it."""
    for node in fault.nodes:
        target.brokers[node].process.clock_skew += fault.amount * MS

    def heal() -> None:
        for node in fault.nodes:
            target.brokers[node].process.clock_skew -= fault.amount * MS

    return heal


def controller_crash(target: Target, fault: Fault) -> Heal:
    """The active or the given controllers die; another takes over after the session."""
    chosen = target.controllers(fault)
    for controller in chosen:
        controller.alive = False
        if target.quorum.controller is controller:
            target.quorum.controller = None

    def heal() -> None:
        for controller in chosen:
            controller.alive = True
            controller.epoch = 0  # the new process has no view

    return heal


def controller_pause(target: Target, fault: Fault) -> Heal:
    """The active or the given controllers are paused; when they resume, they may be zombies."""
    chosen = target.controllers(fault)
    for controller in chosen:
        controller.paused = True

    def heal() -> None:
        for controller in chosen:
            target.quorum.resume(controller)

    return heal


def add_partitions(target: Target, _: Fault) -> None:
    """An administrator adds partitions to the topic (simulation.partitions.added)."""
    target.quorum.add_partitions()


def consumer_seek(target: Target, fault: Fault) -> None:
    """The application of a consumer seeks to the offset `amount` of each partition that it reads."""
    for index in fault.nodes:
        target.consumers[index].seek(fault.amount)


def consumer_crash(target: Target, fault: Fault) -> Heal:
    """A consumer's process dies; it restarts from its committed offsets."""
    target.hold("consumer", fault)
    for index in fault.nodes:
        target.consumers[index].crash()

    def heal() -> tuple[int, ...]:
        free = target.release("consumer", fault)
        for index in free:
            if not target.consumers[index].alive:
                target.consumers[index].start()
        return free

    return heal


def consumer_pause(target: Target, fault: Fault) -> Heal:
    """A member's process is paused; when it goes on it may be a zombie, which believes that it owns partitions."""
    target.hold("consumer-paused", fault)
    members = [
        member for member in target.consumers if isinstance(member, GroupConsumer) and member.index in fault.nodes
    ]
    for member in members:
        member.pause()

    def heal() -> tuple[int, ...]:
        free = target.release("consumer-paused", fault)
        for member in members:
            if member.index in free:
                member.resume()
        return free

    return heal


def delete_records(target: Target, fault: Fault) -> None:
    """DeleteRecords up to offset `amount` of every partition of the topic, sent to its leader."""
    for number, state in enumerate(target.quorum.states):
        if state.leader == NO_LEADER:
            continue
        leader = target.brokers[state.leader]
        replica = leader.replicas.get(number)
        if replica is not None and number < leader.config.data_partitions:
            delete = partial(leader.delete_records, number, fault.amount)
            target.ledger.on_delete_records(number, replica.log, min(fault.amount, replica.hw), delete)


def preferred_election(target: Target, fault: Fault) -> None:  # noqa: ARG001
    """kafka-leader-election --election-type preferred."""
    if (controller := target.running_controller()) is not None:
        controller.elect_preferred()


def reassignment(target: Target, fault: Fault) -> None:
    """kafka-reassign-partitions: partition `amount` moves to these brokers, the first as preferred leader."""
    if (controller := target.running_controller()) is not None:
        controller.reassign(fault.amount, fault.nodes)


def cancel_reassignment(target: Target, fault: Fault) -> None:
    """kafka-reassign-partitions --cancel for partition `amount`."""
    if (controller := target.running_controller()) is not None:
        controller.cancel_reassignment(fault.amount)


FAULTS: dict[str, Callable[[Target, Fault], Heal | None]] = {
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
    "add-partitions": add_partitions,
    "consumer-crash": consumer_crash,
    "consumer-seek": consumer_seek,
    "consumer-pause": consumer_pause,
    "delete-records": delete_records,
    "preferred-election": preferred_election,
    "reassignment": reassignment,
    "cancel-reassignment": cancel_reassignment,
}
