"""A broker: how it starts, dies, keeps time, and obeys the controller.

A process crash keeps what the page cache holds; a power loss keeps only what was flushed, and a random part
of the rest.
"""

from __future__ import annotations

from typing import Any

from .fetcher import Fetcher
from .isr import IsrKeeper
from .process import DOWN, PROPAGATION_CHECK, REGISTER_AGAIN, RUNNING, STARTING, TICK
from .replica import Replica
from .requests import NOT_LEADER, TIMED_OUT
from .state import NO_LEADER, Followed, Instruction, Led, PartitionState


class Broker(IsrKeeper):
    """The whole of a broker."""

    __slots__ = ()

    def start(self, _: None = None) -> None:
        """Bring the process up: load the logs, then register."""
        if self.state != DOWN or self.disk_full:
            return
        self.state = STARTING
        self.host_down = False
        self.incarnation += 1
        self._forget()
        self.tell_fact("start")
        for partition in sorted(self.replicas):
            replica = self.replicas[partition]
            replica.hw = min(replica.checkpointed_hw, replica.log.end)
            # What recovery found beyond the checkpoint does not move it (LogLoader.recoverLog).
            replica.log.recovery_point = min(self.recovery_points.get(partition, 0), replica.log.end)
            replica.leader, replica.epoch, replica.version = NO_LEADER, -1, -1
            replica.purgatory.clear()
            self.tell_fact("loaded", partition, replica.log.end, replica.checkpointed_hw, self.clean_stop)
        incarnation = self.incarnation
        self.loop.at(self.loop.now + self.config.recovery_time, self._ready, incarnation)

    def boot(self) -> None:
        """Be up at the beginning of a run, before there is any topic."""
        self.state = RUNNING
        self.incarnation = 1
        self.clean_stop = False
        self._ticking = True
        self.tell_fact("start")
        self.tell_fact("ready")
        self.loop.at(int(self._rng.random() * TICK), self._tick)

    def _ready(self, incarnation: int) -> None:
        if self.state != STARTING or incarnation != self.incarnation:
            return
        if not self.cluster.quorum.admits(self.id):
            self.loop.at(self.loop.now + REGISTER_AGAIN, self._ready, incarnation)
            return
        self.state = RUNNING
        self.tell_fact("ready")
        clean, self.clean_stop = self.clean_stop, False
        self.cluster.quorum.register(self.id, clean, self.incarnation)
        if not self._ticking:
            self._ticking = True
            self.loop.at(self.loop.now + int(self._rng.random() * TICK), self._tick)

    def stop(self, reason: str) -> None:
        """The process ends: crash, power-loss, shutdown or disk-full."""
        if self.state == DOWN:
            if reason == "power-loss":
                self._darken()
            return
        self.state = DOWN
        self.paused = False
        self.clean_stop = reason == "shutdown"
        self.host_down = reason == "power-loss"
        self.tell_fact("stop", reason)
        for fetcher in self.fetchers.values():
            fetcher.close()
        self.cluster.quorum.left(self.id, reason == "shutdown")
        if reason == "shutdown":
            self._flush_all()
            self.checkpoint()
            self._checkpoint_starts()
        for partition, replica in self.replicas.items():
            replica.log.fall_back(self.start_points.get(partition, 0))
        if reason == "power-loss":
            self._lose_page_cache()
        for request in self._unanswered():
            self.refuse(request)
        self.cluster.on_stop()

    def _unanswered(self) -> list[Any]:
        found: list[Any] = list(self._parked.values())
        found.extend(request for action, request in self._backlog if action in (self.receive, self._serve_late))
        for partition in sorted(self._parked_consumers):
            found.extend(self._parked_consumers[partition])
        for replica in self.replicas.values():
            for entry in replica.purgatory:
                if entry[1] not in found:
                    found.append(entry[1])
            replica.purgatory.clear()
        for connection in self.connections.values():
            found.extend(connection.waiting)
        return found

    def pause(self) -> None:
        if self.state == RUNNING and not self.paused:
            self.paused = True
            self.tell_fact("pause")

    def resume(self) -> None:
        """Go on where it stopped: first what arrived meanwhile, in order."""
        if not self.paused:
            return
        self.paused = False
        self.tell_fact("resume")
        backlog, self._backlog = self._backlog, []
        for action, message in backlog:
            action(message)

    # --- timers

    def _tick(self, _: None) -> None:
        if self.state == DOWN:
            self._ticking = False
            return
        now = self.loop.now
        self.loop.at(now + TICK, self._tick)
        if self.paused or self.state != RUNNING:
            return
        if now >= self._due_heartbeat:
            self._due_heartbeat = now + self.rules.heartbeat(self.config)
            if self.cluster.quorum.hears(self.id):
                self.cluster.quorum.heartbeat(self.id, self.incarnation)
        self._expire(now)
        for fetcher in list(self.fetchers.values()):
            fetcher.tick(now)
        if now >= self._due_shrink:
            self._due_shrink = now + self.config.lag_time_max // 2
            self._shrink_isrs()
        if now >= self._due_checkpoint:
            self._due_checkpoint = now + self.config.hw_checkpoint
            self.checkpoint()
        if now >= self._due_flush:
            self._due_flush = now + self.config.flush_ms
            for replica in self.replicas.values():
                replica.log.flush()
        if now >= self._due_writeback:
            self._due_writeback = now + self.config.writeback
            for replica in self.replicas.values():
                replica.log.flushed = replica.log.end  # by the kernel: Kafka does not hear of it
        if now >= self._due_recovery:
            self._due_recovery = now + self.config.recovery_checkpoint
            self.recovery_points = {p: r.log.recovery_point for p, r in self.replicas.items()}
        if now >= self._due_start:
            self._due_start = now + self.config.start_checkpoint
            self._checkpoint_starts()
        if now >= self._due_propagation:
            self._due_propagation = now + PROPAGATION_CHECK
            self._propagate(now)

    def checkpoint(self) -> None:
        """Write replication-offset-checkpoint. It is written to a new file, flushed and renamed: never
        torn."""
        if self.disk_full:
            self.fail_disk()
            return
        for replica in self.replicas.values():
            replica.checkpointed_hw = replica.hw

    def _checkpoint_starts(self) -> None:
        """Write log-start-offset-checkpoint."""
        self.start_points = {p: r.log.checkpoint_start() for p, r in self.replicas.items()}

    def _expire(self, now: int) -> None:
        if self._parked:
            for request in [r for r in self._parked.values() if now >= r.deadline]:
                del self._parked[request.follower]
                self._answer_fetch(request)
        for partition in sorted(self._parked_consumers):
            for request in [r for r in self._parked_consumers[partition] if now >= r.deadline]:
                self._unpark_consumer(request)
                self._answer_fetch(request)
        for replica in self.replicas.values():
            purgatory = replica.purgatory
            while purgatory and now >= purgatory[0][1].deadline:
                _, produce, index, _ = purgatory.popleft()
                self._settle(produce, index, TIMED_OUT, -1)
            alter = replica.alter
            if alter is not None and now - alter.sent > self.config.request_timeout:
                self.on_alter_broken(alter)

    # --- instructions of the controller

    def obey(self, order: Instruction) -> None:
        """LeaderAndIsr: take over leaders, epochs and ISRs, newest leader epoch first."""
        if self.delayed(self.obey, order):
            return
        if order.registration not in (0, self.incarnation):
            return  # it was for this broker's previous life
        if not self.rules.accepts_controller(self.controller_epoch, order.controller_epoch):
            self.tell_fact("refused-controller", order.controller_epoch, self.controller_epoch)
            return
        self.controller_epoch = max(self.controller_epoch, order.controller_epoch)
        for partition, state in order.states:
            known = self.metadata.get(partition)
            if known is None or state.epoch > known.epoch or state.version >= known.version:
                self.metadata[partition] = state
            if self.id in state.replicas:
                self._apply(partition, state)

    def leave(self) -> None:
        """Ask for a controlled shutdown. A process that does not run cannot."""
        if self.answers():
            self.leaving = True
            self.cluster.quorum.leave(self.id)

    def _apply(self, partition: int, state: PartitionState) -> None:
        replica = self.replicas.get(partition)
        if replica is None:
            replica = self.replicas[partition] = Replica(self.id, partition, self.rules, self.config)
        if state.epoch < replica.epoch or (self.leaving and replica.leads and not self.rules.demotes_leaving):
            return
        # Who is shutting down stops to fetch once it is out of the ISR, so that it cannot join again (KAFKA-13858, in
        # ZooKeeper's time StopReplica).
        stays_out = self.leaving and self.id not in state.isr
        if state.epoch == replica.epoch:
            if replica.leads and state.leader == self.id and state.version > replica.version:
                self._take_isr(replica, state)
            elif stays_out:
                self._stop_fetching(partition)
            return
        was_leader, previous = replica.leads, (replica.leader, replica.epoch)
        same = state.leader == replica.leader and state.leader not in (self.id, NO_LEADER)
        if same and not stays_out and self.rules.keeps_fetching(replica, state):
            replica.start_following(state)
            self.tell_fact("follows-on", *self._followed(replica, state, previous))
            return
        self._stop_fetching(partition)
        if was_leader:
            self._resign(replica)
        if state.leader == self.id:
            self._lead(replica, state, previous)
            return
        replica.start_following(state)
        self.tell_fact("follower", *self._followed(replica, state, previous))
        if state.leader != NO_LEADER and not stays_out:
            if state.leader not in self.fetchers:
                self.fetchers[state.leader] = Fetcher(self, state.leader)
            self.fetchers[state.leader].add(replica)

    def _stop_fetching(self, partition: int) -> None:
        for fetcher in self.fetchers.values():
            fetcher.remove(partition)

    @staticmethod
    def _followed(replica: Replica, state: PartitionState, previous: tuple[int, int]) -> Followed:
        end, mark = replica.log.end, replica.hw
        return Followed(replica.partition, state.epoch, state.leader, end, mark, state.version, previous, state.isr)

    def _lead(self, replica: Replica, state: PartitionState, previous: tuple[int, int]) -> None:
        replica.start_leading(state, self.wall())
        end, mark = replica.log.end, replica.hw
        led = Led(replica.partition, state.epoch, end, mark, state.isr, state.version, previous, state.unclean)
        self.tell_fact("leader", *led)
        self.cluster.on_leader(self, replica, state)
        self._advance(replica)

    def _resign(self, replica: Replica) -> None:
        """No longer leader: nobody else will complete what waits here."""
        while replica.purgatory:
            _, request, index, _ = replica.purgatory.popleft()
            self._settle(request, index, NOT_LEADER, -1)
        for fetch in list(self._parked.values()):
            del self._parked[fetch.follower]
            self._answer_fetch(fetch)
        self._wake_readers(replica.partition)
