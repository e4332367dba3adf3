"""The kinds of faults. A lasting one is a generator that begins the fault, yields while it lasts, and then ends it.

The generator returns the nodes on which the fault ended: those that no other fault of the kind still affects. None
means all of its nodes. A fault without an end is a plain function.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial

from ..config import MS
from ..partition_state import NO_LEADER
from .fault import Fault
from .target import Target

Lasting = Generator[None, None, tuple[int, ...] | None]
OnNode = Callable[[int], None]


def _hold(target: Target, fault: Fault, how: str, begin: OnNode, end: OnNode) -> Lasting:
    """A fault that begins on all of its nodes, and ends on those that no other fault holds in this way."""
    target.hold(how, fault)
    for node in fault.nodes:
        begin(node)
    yield
    free = target.release(how, fault)
    for node in free:
        end(node)
    return free


def crash(target: Target, fault: Fault) -> Lasting:
    """kill -9: the process dies, the page cache survives."""
    return _hold(target, fault, "down", lambda node: target.brokers[node].stop("crash"), target.start_broker)


def power_loss(target: Target, fault: Fault) -> Lasting:
    """The machine loses power: what was not flushed is lost, and its peers get no reset."""
    return _hold(target, fault, "down", lambda node: target.brokers[node].stop("power-loss"), target.start_broker)


def shutdown(target: Target, fault: Fault) -> Lasting:
    """A controlled shutdown: other leaders are elected, logs flushed, checkpoints written.

    Simplification: it is requested once, and the process ends 50 ms later, granted or not.
    """
    leaving = list(fault.nodes)

    def stop(_: None = None) -> None:
        for node in leaving:
            target.brokers[node].stop("shutdown")
        leaving.clear()

    holding = _hold(target, fault, "down", lambda node: target.brokers[node].leave(), target.start_broker)
    next(holding)
    target.loop.after(50 * MS, stop)
    yield
    stop()  # the process must end before it restarts
    return (yield from holding)


def pause(target: Target, fault: Fault) -> Lasting:
    """SIGSTOP, or a long garbage collection: everything waits, nothing is lost."""
    brokers = target.brokers
    return _hold(target, fault, "paused", lambda node: brokers[node].pause(), lambda node: brokers[node].resume())


def slow_disk(target: Target, fault: Fault) -> Lasting:
    """Each request takes `amount` milliseconds longer; requests do not overlap."""
    for node in fault.nodes:
        target.brokers[node].disk.request_delay += fault.amount * MS
    yield
    for node in fault.nodes:
        target.brokers[node].disk.request_delay -= fault.amount * MS
    return None


def disk_full(target: Target, fault: Fault) -> Lasting:
    """The next append or checkpoint fails and the broker halts, as its only log directory is offline."""

    def fill(node: int) -> None:
        target.brokers[node].disk.is_full = True

    def clear(node: int) -> None:
        target.brokers[node].disk.is_full = False
        if not target.is_held("down", node):
            target.start_broker(node)

    return _hold(target, fault, "disk", fill, clear)


def partition(target: Target, fault: Fault) -> Lasting:
    """These nodes and all other servers cannot reach each other. Clients that are not in `nodes` reach all servers."""
    return _cut(target, _links(fault.nodes, (*target.broker_ids, *target.controller_nodes)))


def one_way(target: Target, fault: Fault) -> Lasting:
    """Messages from `nodes` to `to` (all other servers, if empty) are lost; the other direction works."""
    destinations = fault.to or tuple(n for n in (*target.broker_ids, *target.controller_nodes) if n not in fault.nodes)
    return _cut(target, [(source, destination) for source in fault.nodes for destination in destinations])


def _links(nodes: tuple[int, ...], others: tuple[int, ...]) -> list[tuple[int, int]]:
    """The links between these nodes and the others, in both directions."""
    links = [(inside, outside) for inside in nodes for outside in others if outside not in nodes]
    return [pair for inside, outside in links for pair in ((inside, outside), (outside, inside))]


def _cut(target: Target, links: list[tuple[int, int]]) -> Lasting:
    for source, destination in links:
        target.network.cut(source, destination)
    yield
    for source, destination in links:
        target.network.heal(source, destination)
    return None


def delay(target: Target, fault: Fault) -> Lasting:
    """Messages between these brokers and the others take `amount` milliseconds longer."""
    links = _links(fault.nodes, target.broker_ids)
    for source, destination in links:
        target.network.slow(source, destination, fault.amount * MS)
    yield
    for source, destination in links:
        target.network.slow(source, destination, -fault.amount * MS)
    return None


def loss(target: Target, fault: Fault) -> Lasting:
    """Lose `amount` of a thousand messages with their connections."""
    return _add_error_rate(target, fault, target.losing)


def duplication(target: Target, fault: Fault) -> Lasting:
    """Deliver `amount` of a thousand messages twice, as a proxy that repeats them."""
    return _add_error_rate(target, fault, target.duplicating)


def _add_error_rate(target: Target, fault: Fault, amounts: list[int]) -> Lasting:
    amounts.append(fault.amount)
    target.set_error_rates()
    yield
    amounts.remove(fault.amount)
    target.set_error_rates()
    return None


def clock_skew(target: Target, fault: Fault) -> Lasting:
    """The wall clock jumps by `amount` milliseconds; lag is measured with it."""
    for node in fault.nodes:
        target.brokers[node].process.clock_skew += fault.amount * MS
    yield
    for node in fault.nodes:
        target.brokers[node].process.clock_skew -= fault.amount * MS
    return None


def controller_crash(target: Target, fault: Fault) -> Lasting:
    """The active or the given controllers die; another takes over after the session."""
    chosen = target.controllers(fault)
    for controller in chosen:
        controller.alive = False
        if target.quorum.controller is controller:
            target.quorum.controller = None
    yield
    for controller in chosen:
        controller.alive = True
        controller.epoch = 0  # the new process has no view
    return None


def controller_pause(target: Target, fault: Fault) -> Lasting:
    """The active or the given controllers are paused; when they resume, they may be zombies."""
    chosen = target.controllers(fault)
    for controller in chosen:
        controller.is_paused = True
    yield
    for controller in chosen:
        target.quorum.resume(controller)
    return None


def add_partitions(target: Target, _: Fault) -> None:
    """An administrator adds partitions to the topic (simulation.partitions.added)."""
    target.quorum.add_partitions()


def consumer_seek(target: Target, fault: Fault) -> None:
    """The application of a consumer seeks to the offset `amount` of each partition that it reads."""
    for index in fault.nodes:
        target.consumers[index].seek(fault.amount)


def consumer_crash(target: Target, fault: Fault) -> Lasting:
    """A consumer's process dies; it restarts from its committed offsets."""
    return _hold(target, fault, "consumer", lambda index: target.consumers[index].crash(), target.start_consumer)


def consumer_shutdown(target: Target, fault: Fault) -> Lasting:
    """A member closes as it should, and starts again."""
    return _hold(target, fault, "consumer", lambda index: target.member(index).close(), target.start_consumer)


def consumer_replace(target: Target, fault: Fault) -> Lasting:
    """The first member closes as it should, and the second one starts in its place, as in a rolling upgrade."""
    old, new = fault.nodes
    member = target.member(old)
    member.close()
    if not member.alive:
        member.incarnation += 1  # so that a supervisor does not start it again
    yield
    target.start_consumer(new)
    return None


def consumer_pause(target: Target, fault: Fault) -> Lasting:
    """A member's process is paused. When it resumes, it may be a zombie that believes it still owns partitions."""
    member = target.member
    return _hold(target, fault, "consumer-paused", lambda i: member(i).pause(), lambda i: member(i).resume())


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
    if (controller := target.quorum.running) is not None:
        controller.elect_preferred()


def reassignment(target: Target, fault: Fault) -> None:
    """kafka-reassign-partitions: partition `amount` moves to these brokers, the first as preferred leader."""
    if (controller := target.quorum.running) is not None:
        controller.reassign(fault.amount, fault.nodes)


def cancel_reassignment(target: Target, fault: Fault) -> None:
    """kafka-reassign-partitions --cancel for partition `amount`."""
    if (controller := target.quorum.running) is not None:
        controller.cancel_reassignment(fault.amount)


_ALL: tuple[Callable[[Target, Fault], Lasting | None], ...] = (
    *(crash, power_loss, shutdown, pause, slow_disk, disk_full, partition, one_way, delay, loss, duplication),
    *(clock_skew, controller_crash, controller_pause, consumer_crash, consumer_shutdown, consumer_pause),
    consumer_replace,
    *(delete_records, preferred_election, reassignment, cancel_reassignment, add_partitions, consumer_seek),
)
FAULTS = {kind.__name__.replace("_", "-"): kind for kind in _ALL}
