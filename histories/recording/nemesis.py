"""Carries out the steps of a lab scenario, and records each fault and its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from ...models.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ..errors import LogjudgeError
from .collect import collect, sources_of
from .lab.handle import Lab
from .record_deletion import delete_records
from .scenarios import LabScenario
from .session import Session
from .topics import metadata

WAIT_SECONDS = 240.0
COORDINATED_BY = {"coordinator": OFFSETS_TOPIC, "transaction-coordinator": TRANSACTIONS_TOPIC}  # roles of leaders
# Steps on whole nodes: the kind of the fault that each begins or ends, its signal, and the state of the nodes after it.
NODE_STEPS = {
    "kill": ("kill", "SIGKILL", "dead"),
    "stop": ("shutdown", "SIGTERM", "dead"),
    "start": ("restart", "", ""),
    "pause": ("pause", "", "paused"),
    "resume": ("pause", "", ""),
}
Step = dict[str, Any]


class Nemesis:
    """The faults of one run. `nodes` of a step are names, or roles as `look` found them."""

    def __init__(self, session: Session, lab: Lab, scenario: LabScenario) -> None:
        self.session, self.lab, self.scenario = session, lab, scenario
        self._stopping = threading.Event()
        self._roles: dict[str, list[str]] = {}
        self._states: dict[str, str] = {}  # of nodes: dead, paused, or empty
        self._network: list[tuple[str, dict[str, Any]]] = []  # faults of links and disks that last
        self.steps: dict[str, Callable[[Step], None]] = {
            "wait": self._wait,
            "look": lambda _: self._look(),
            **dict.fromkeys(NODE_STEPS, self._change_nodes),
            "isolate": self._isolate,
            "lose-acks": self._lose_acks,
            "fill-disk": self._fill_disk,
            "heal": lambda _: self._heal_network(),
            "truncate": self._truncate,
            "backup": self._backup,
            "restore": self._restore,
            "snapshot": lambda step: self.snapshot(step["name"]),
            "delete-records": lambda step: delete_records(self.session, step["share"]),
            "add-partitions": self._add_partitions,
        }

    def run(self) -> None:
        """Carry out all steps, unless the session stops before."""
        self._look()
        for step in self.scenario.steps:
            if self._is_over():
                return
            self.steps[step["do"]](step)

    def stop(self) -> None:
        """Let `run` end after its present step."""
        self._stopping.set()

    def _is_over(self) -> bool:
        return self._stopping.is_set() or self.session.stopping.is_set()

    def _sleep(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not self._is_over():
            self._stopping.wait(min(left, 0.2))

    def heal(self) -> None:
        """End every fault that lasts."""
        if paused := self._in_state("paused"):
            self._change_nodes({"do": "resume", "nodes": paused})
        self._heal_network()
        if dead := self._in_state("dead"):
            self._change_nodes({"do": "start", "nodes": dead})

    def snapshot(self, name: str) -> None:
        """Copy the brokers' disks as they are now."""
        collect(sources_of([str(self.lab.folder)]), self.session.recorder.snapshot(name), logs=False)

    def _look(self) -> None:
        partition = self.session.views.usual(self.session.load.topic)[0]
        replicas = [str(broker) for broker in partition.replicas]
        leader = str(partition.leader)
        self._roles = {
            "leader": [leader],
            "followers": [broker for broker in replicas if broker != leader],
            "others": [broker for broker in self.lab.brokers if broker not in replicas],
        }
        for role, topic in COORDINATED_BY.items():
            if partitions := metadata(self.session.admin, topic).partitions:  # one of each topic in the lab
                self._roles[role] = [str(partitions[0].leader)]

    def _nodes(self, step: Step) -> list[str]:
        return [node for name in step["nodes"] for node in self._roles.get(name, [name])]

    def _wait(self, step: Step) -> None:
        if "until" not in step:
            self._sleep(step["seconds"])
            return
        conditions: dict[str, Callable[[], bool]] = {
            "in-sync": lambda: all(map(self.session.views.are_in_sync, self.session.topics)),
            "leader-alone": lambda: any(list(map(str, p.isrs)) == self._roles["leader"] for p in self._partition()),
            "leader-changed": lambda: any(
                str(p.leader) not in ("-1", *self._roles["leader"]) for p in self._partition()
            ),
            "led": lambda: any(p.leader >= 0 for p in self._partition()),
        }
        self._wait_until(f"the cluster was not {step['until']}", conditions[step["until"]])

    def _wait_until(self, problem: str, is_done: Callable[[], bool]) -> None:
        end = time.monotonic() + WAIT_SECONDS
        while not self._is_over() and not is_done():
            if time.monotonic() > end:
                raise LogjudgeError(f"{problem} within {WAIT_SECONDS:.0f} s, as the scenario expects")
            self._sleep(0.1)

    def _partition(self) -> list[Any]:
        """The first partition as each broker describes it."""
        return [view[0] for view in self.session.views.of(self.session.load.topic)]

    def _change_nodes(self, step: Step) -> None:
        """Request a step on whole nodes from the lab, and record it as a fault, or as the end of one."""
        kind, signal, state = NODE_STEPS[step["do"]]
        nodes, recorder = self._nodes(step), self.session.recorder
        record = recorder.fault if state else recorder.heal
        with record(kind, nodes=nodes, **({"signal": signal} if signal else {})) as recorded:
            self.lab.request(step["do"], nodes=nodes)
            recorded.ok()
        self._states.update(dict.fromkeys(nodes, state))
        self._note()

    def _in_state(self, state: str) -> list[str]:
        return [node for node, own in self._states.items() if own == state]

    def _isolate(self, step: Step) -> None:
        about = {"nodes": self._nodes(step), "clients": step.get("clients", False)}
        hold = {"kind": "hold"}
        self._cut("partition", about, around=about["nodes"], clients=about["clients"], forward=hold, backward=hold)

    def _lose_acks(self, step: Step) -> None:
        for node in self._nodes(step):
            discard = {"kind": "discard"}
            self._cut("lose-acks", {"nodes": [node]}, source="clients", target=node, forward={}, backward=discard)

    def _cut(self, kind: str, about: dict[str, Any], **links: Any) -> None:
        with self.session.recorder.fault(kind, **about) as fault:
            self.lab.request("links", **links)
            fault.ok()
        self._network.append((kind, about))
        self._note()

    def _heal_network(self) -> None:
        if not self._network:
            return
        heals = [self.session.recorder.heal(kind, **about) for kind, about in self._network]
        self.lab.request("heal")
        for heal in heals:
            heal.ok()
        self._network = []
        self._note()

    def _fill_disk(self, step: Step) -> None:
        """Let no file of the nodes grow beyond some bytes, and wait until Kafka has ended their processes."""
        nodes = self._nodes(step)
        with self.session.recorder.fault("disk-full", nodes=nodes) as fault:
            self.lab.request("fill-disk", nodes=nodes, bytes=step["bytes"])
            fault.ok()

        def are_ended() -> bool:
            states = self.lab.request("status")["nodes"]
            return all(states[node]["state"] == "ended" for node in nodes)

        self._wait_until(f"the processes of the nodes {', '.join(nodes)} did not end", are_ended)
        self._states.update(dict.fromkeys(nodes, "dead"))
        self._note()

    def _truncate(self, step: Step) -> None:
        topic = self.session.load.topic
        partition = int(step.get("partition", 0))
        for node in self._nodes(step):
            cut = self.lab.request("truncate", node=node, partition=f"{topic}-{partition}", records=step["records"])
            self.session.recorder.fault("truncate", nodes=[node], topic=topic, partition=partition, **cut).ok()

    def _backup(self, step: Step) -> None:
        names = [
            f"{topic}-{number}"
            for topic in self.session.topics
            for number in metadata(self.session.admin, topic).partitions
        ]
        for node in self._nodes(step):
            self.lab.request("backup", node=node, partitions=names)

    def _restore(self, step: Step) -> None:
        for node in self._nodes(step):
            for name in self.lab.request("restore", node=node):
                topic, _, number = name.rpartition("-")
                self.session.recorder.fault("restore", nodes=[node], topic=topic, partition=int(number)).ok()

    def _add_partitions(self, step: Step) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import NewPartitions

        topic, count = self.session.load.topic, int(step["partitions"])
        with self.session.recorder.fault("add-partitions", nodes=[], topic=topic, partitions=count) as fault:
            try:
                for future in self.session.admin.create_partitions([NewPartitions(topic, count)]).values():
                    future.result(30)
            except (KafkaException, TimeoutError) as error:
                raise LogjudgeError(
                    f"{topic} did not get {count} partitions, as the scenario expects: {error}"
                ) from error
            fault.ok()
        self.session.recorder.configure_topic(topic, partitions=count)
        self._sleep(step["known_after_seconds"])
        self.session.partitions = count

    def _note(self) -> None:
        lasting = {state: nodes for state in ("dead", "paused") if (nodes := self._in_state(state))}
        of_network = {kind: list(map(str, about["nodes"])) for kind, about in self._network}
        self.session.progress.faults = lasting | of_network
