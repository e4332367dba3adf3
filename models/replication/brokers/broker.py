"""A broker: composes its parts, starts, stops, and runs their periodic tasks.

A process crash keeps what the page cache holds; a power loss keeps only what was flushed, and a random part of the
rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from ..config import MS, Config
from ..controllers.quorum import Quorum
from ..coordinators.services import CoordinatorLogs, CoordinatorServices
from ..events import Listener
from ..ledger import Ledger
from ..network import Network
from ..partition_state import NO_LEADER, PartitionState
from ..ports import Inboxes
from ..requests import (
    ApiVersionsRequest,
    EpochRequest,
    FetchRequest,
    MetadataRequest,
    OffsetsRequest,
    ProduceRequest,
    Request,
)
from ..rules import Rules
from ..storage.compaction import Cleaner
from .deletes import DeleteHandler
from .disk import Disk
from .fetch import FetchHandler
from .fetcher import FetcherManager
from .inbox import Inbox
from .isr_manager import IsrManager
from .leadership import Leadership, OnLeader
from .part import Parts
from .process import DOWN, RUNNING, STARTING, Process
from .produce import ProduceHandler
from .queries import QueryHandler
from .replica import Replica
from .replica_manager import ReplicaManager
from .request_threads import Handler, RequestThreads

TICK = 100 * MS  # Kafka's purgatory reaper wakes every 200 ms, its schedulers at their own intervals
REGISTER_AGAIN = 200 * MS  # a refused registration is tried again


@dataclass(frozen=True, slots=True)
class SharedParts:
    """The parts of a run that all brokers use."""

    network: Network
    inboxes: Inboxes
    quorum: Quorum
    rules: Rules
    ledger: Ledger
    next_uid: Callable[[], int]  # of an append
    on_leader: OnLeader
    on_stop: Callable[[], None]
    listener: Listener | None
    cleaners: Mapping[int, Cleaner]
    coordinator_logs: CoordinatorLogs


class Broker:
    """One broker. Other parts of the run reach it through `inbox.receive`, `leadership` and the faults' methods."""

    def __init__(self, broker: int, shared: SharedParts, config: Config, rng: Random) -> None:
        network, quorum, rules, ledger = shared.network, shared.quorum, shared.rules, shared.ledger
        self.id = broker
        self._on_stop = shared.on_stop
        self.config = config
        self._rules = rules
        self._quorum = quorum
        self._rng = rng
        self._ticking, self._due_heartbeat = False, 0
        self.was_clean_stop = True
        self.process = process = Process(broker, network.loop, shared.listener)
        self.replicas: dict[int, Replica] = {}
        metadata: dict[int, PartitionState] = {}
        self.manager = ReplicaManager(self.replicas, config, ledger)
        parts = Parts(process, network, self.manager, rules, config)
        self.disk = Disk(*parts, rng, ledger, self.stop, shared.cleaners)
        self.isr = IsrManager(*parts, quorum, ledger, rng)
        self.threads = RequestThreads(process, config)
        self.produces = ProduceHandler(*parts, self.disk, ledger, shared.next_uid, self.threads)
        self.deletes = DeleteHandler(*parts, quorum)
        self.fetches = FetchHandler(*parts, self.isr.expand, self.deletes.complete)
        self.manager.connect(self.fetches.wake_followers, self.fetches.wake_consumers, self.produces.complete)
        self.queries = QueryHandler(*parts, metadata)
        self.fetchers = FetcherManager(parts, self.disk, shared.inboxes)
        self.leadership = Leadership(
            *parts, self.isr, self.fetchers, self.produces, self.fetches, self.disk, metadata, shared.on_leader
        )
        self.coordinators = CoordinatorServices(parts, self.produces, metadata, shared.inboxes, shared.coordinator_logs)
        served: dict[type, Handler] = {
            FetchRequest: self.fetches.handle,
            EpochRequest: self.queries.handle_epochs,
            MetadataRequest: self.queries.handle_metadata,
            OffsetsRequest: self.queries.handle_offsets,
            ApiVersionsRequest: self.queries.handle_api_versions,
            **self.coordinators.handlers(),
        }
        handlers = {kind: self.threads.serving(handler) for kind, handler in served.items()}
        self.inbox = Inbox(process, network, self.disk, {ProduceRequest: self.produces.handle, **handlers})
        self._restart_parts()

    def _restart_parts(self) -> None:
        """Clear the state that a process loses when it dies."""
        self.process.backlog = []
        self._due_heartbeat = self.process.loop.now
        self.fetchers.restart()
        self.threads.restart()
        self.produces.restart()
        self.fetches.restart()
        self.leadership.restart()
        self.inbox.restart()
        self.isr.restart()
        self.disk.restart()
        self.coordinators.restart()

    # --- the process

    def boot(self) -> None:
        """Run from the start of the simulation, before any topic exists."""
        self.process.state = RUNNING
        self.process.incarnation = 1
        self.was_clean_stop = False
        self._ticking = True
        self.process.report("start")
        self.process.report("ready")
        self.process.loop.at(int(self._rng.random() * TICK), self._tick)

    def start(self, _: None = None) -> None:
        """Start the process: load the logs, then register."""
        process = self.process
        if process.state != DOWN or self.disk.is_full:
            return
        process.state = STARTING
        process.host_down = False
        process.incarnation += 1
        self._restart_parts()
        process.report("start")
        for partition in sorted(self.replicas):
            replica = self.replicas[partition]
            self.disk.load(replica)
            replica.leader, replica.epoch, replica.version = NO_LEADER, -1, -1
            replica.purgatory.clear()
            replica.deletes = []
            process.report("loaded", partition, replica.log.end, replica.checkpointed_hw, self.was_clean_stop)
        process.loop.after(self.config.recovery_time, self._register, process.incarnation)

    def _register(self, incarnation: int) -> None:
        process, loop = self.process, self.process.loop
        if process.state != STARTING or incarnation != process.incarnation:
            return
        if not self._quorum.can_register(self.id):
            loop.after(REGISTER_AGAIN, self._register, incarnation)
            return
        process.state = RUNNING
        process.report("ready")
        was_clean, self.was_clean_stop = self.was_clean_stop, False
        self._quorum.register(self.id, was_clean, process.incarnation)
        if not self._ticking:
            self._ticking = True
            loop.after(int(self._rng.random() * TICK), self._tick)

    def stop(self, reason: str) -> None:
        """End the process: crash, power-loss, shutdown or disk-full."""
        process = self.process
        if process.state == DOWN:
            if reason == "power-loss" and not process.host_down:
                process.host_down = True
                process.report("stop", "power-loss")
                self.disk.lose_power_after_crash()
            return
        process.state = DOWN
        process.is_paused = False
        self.was_clean_stop = reason == "shutdown"
        process.host_down = reason == "power-loss"
        process.report("stop", reason)
        self.fetchers.close()
        self._quorum.on_stopped(self.id, reason == "shutdown")
        if reason == "shutdown":
            self.disk.flush_all()
        self.disk.restore_log_starts()
        if reason == "power-loss":
            self.disk.lose_page_cache()
        for request in self._open_requests():
            self.inbox.refuse(request)
        self._on_stop()

    def _open_requests(self) -> list[Request]:
        fetches = self.fetches
        found: list[Request] = [*fetches.delayed_followers(), *self.inbox.deferred(), *fetches.delayed_consumers()]
        found += self.coordinators.groups.delayed()
        for request in self.produces.empty_purgatories():
            if request not in found:
                found.append(request)
        return [*found, *self.produces.queued(), *self.threads.waiting()]

    def pause(self) -> None:
        """SIGSTOP."""
        if self.process.state == RUNNING and not self.process.is_paused:
            self.process.is_paused = True
            self.process.report("pause")

    def resume(self) -> None:
        """SIGCONT: first handle the messages that arrived meanwhile, in order."""
        process = self.process
        if not process.is_paused:
            return
        process.is_paused = False
        process.report("resume")
        backlog, process.backlog = process.backlog, []
        for action, message in backlog:
            action(message)

    # --- periodic tasks

    def _tick(self, _: None) -> None:
        process = self.process
        if process.state == DOWN:
            self._ticking = False
            return
        now = process.loop.now
        process.loop.after(TICK, self._tick)
        if process.is_paused or process.state != RUNNING:
            return
        if now >= self._due_heartbeat:
            self._due_heartbeat = now + self._rules.heartbeat_interval(self.config)
            if self._quorum.receives_from(self.id):
                self._quorum.heartbeat(self.id, process.incarnation)
        self.fetches.expire(now)
        if self.produces.verifier is not None:
            self.produces.verifier.expire(now)
        for replica in self.replicas.values():
            self.produces.expire(replica, now)
            self.isr.expire(replica, now)
            if replica.deletes:
                self.deletes.expire(replica, now)
        self.fetchers.tick(now)
        self.isr.tick_shrink(now)
        self.disk.tick(now)
        self.isr.tick_propagation(now)

    # --- administrators' requests

    def leave(self) -> None:
        """Ask for a controlled shutdown. A process that does not run cannot."""
        if self.process.is_responsive():
            self.leadership.is_leaving = True
            self._quorum.request_shutdown(self.id)

    def delete_records(self, partition: int, offset: int) -> None:
        """DeleteRecords up to an offset, if this broker leads the partition."""
        if self.process.state == RUNNING:
            self.deletes.handle(partition, offset)
