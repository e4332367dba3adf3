"""How log ends and high watermarks move, message by message: produce and fetch requests of one partition, with the
state of every replica after each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..replication.brokers.process import RUNNING
from ..replication.cluster import Cluster
from ..replication.config import NEVER, SECOND
from ..replication.network import FIRST_CLIENT
from ..replication.requests import FetchRequest, ProduceRequest
from ..replication.scenario import Scenario

MAX_MESSAGES = 200
INTRODUCTION = (
    "The produce and fetch requests (→) of one partition and their responses (⇠), with the log end offset (LEO) "
    "and the high watermark (HW) of each replica, and the leader with its epoch, after each message. Only "
    "messages that moved one of these, carried records or reported an error, and the requests for them, are "
    "shown: empty fetches, which followers send all the time, are left out, and so is what producers send to a "
    "broker that is down, unless a log or the leader changed since the message before."
)

Replicas = tuple[tuple[int, int, int], ...]  # broker, log end offset, high watermark
Remote = tuple[tuple[int, int], ...]  # follower, its log end offset as the leader knows it


class State(NamedTuple):
    """The replicas of a partition, what its leader knows of its followers, and the leader."""

    replicas: Replicas
    remote: Remote
    leader: tuple[int, int] | None  # broker, leader epoch
    is_unclean: bool  # its election


@dataclass
class Message:
    """A request that arrived, or a response, with the state of the replicas after it."""

    time: int
    source: str
    target: str
    text: str
    is_response: bool
    replicas: Replicas
    remote: Remote
    leader: tuple[int, int] | None  # broker, leader epoch
    matters: bool  # it has records or an error, or changes something; other messages are left out


class MessageTracer:
    """Records the messages of one partition between two times."""

    def __init__(self, partition: int, since: int, until: int) -> None:
        self._partition, self._since, self._until = partition, since, until
        self.messages: list[Message] = []
        self._last: State | None = None

    def attach(self, cluster: Cluster) -> None:
        """Listen at every broker, before the first event of the run."""
        self._cluster = cluster
        for broker, receive in list(cluster.inboxes.items()):
            cluster.inboxes[broker] = self._traced(receive)

    def _traced(self, receive: Callable[[Any], None]) -> Callable[[Any], None]:
        def arrive(request: Any) -> None:
            # A request may wait for longer than a second, but then its response is empty.
            now = self._cluster.loop.now
            text = self._request_text(request) if self._since - SECOND <= now <= self._until else ""
            if not text:
                receive(request)
                return
            is_up = self._cluster.brokers[request.broker].process.state == RUNNING
            text += "" if is_up else f" ({self._name(request.broker)} is down)"
            matters = is_up and isinstance(request, ProduceRequest)
            arrival = self._add(request.node, request.broker, text, False, matters)
            reply = request.reply

            def responded(response: Any) -> None:
                reply(response)
                response_text, matters = self._response_text(response)
                added = self._add(response.broker, response.node, response_text, True, matters)
                arrival.matters = arrival.matters or added.matters

            request.reply = responded
            receive(request)
            self._update(arrival)

        return arrive

    def _request_text(self, request: Any) -> str:
        if isinstance(request, ProduceRequest):
            count = sum(batch.count for batch in request.batches if batch.partition == self._partition)
            return f"produce {_records(count)}" if count else ""
        if isinstance(request, FetchRequest) and request.follower >= 0:
            offsets = [part.offset for part in request.parts if part.partition == self._partition]
            return f"fetch from offset {offsets[0]}" if offsets else ""
        return ""

    def _response_text(self, response: Any) -> tuple[str, bool]:
        """A response as text, and whether it matters even if it changes nothing."""
        if isinstance(response, ProduceRequest):
            own = [
                result
                for batch, result in zip(response.batches, response.results, strict=True)
                if batch.partition == self._partition
            ]
            return ", ".join(error or f"acknowledged at offset {base}" for error, base in own), True
        for part in response.parts:
            if part.partition == self._partition:
                if part.error:
                    return part.error, True
                count = sum(batch.count for batch in part.batches)
                return f"{_records(count)}, high watermark {part.hw}", count > 0
        return "nothing for this partition", False

    def _add(self, source: int, target: int, text: str, is_response: bool, matters: bool) -> Message:
        names = self._name(source), self._name(target)
        message = Message(self._cluster.loop.now, *names, text, is_response, (), (), None, matters)
        self.messages.append(message)
        self._update(message)
        return message

    def _update(self, message: Message) -> None:
        """Record the state, which logs became shorter, and who began to lead; a message that changed it matters."""
        state = self._state()
        last = self._last or state  # nothing is known before the first message
        before = {broker: end for broker, end, _ in last.replicas}
        for broker, end, _ in state.replicas:
            if end < before.get(broker, end):
                message.text += f", after {self._name(broker)} truncated its log from {before[broker]} to {end}"
        if state.leader not in (None, last.leader):
            broker, epoch = state.leader
            how = ", by an unclean election" if state.is_unclean else ""
            message.text += f", after {self._name(broker)} began to lead in epoch {epoch}{how}"
        message.replicas, message.remote, message.leader = state[:3]
        message.matters = message.matters or state != last
        self._last = state

    def _name(self, node: int) -> str:
        return f"broker {node}" if node < FIRST_CLIENT else f"p{node - FIRST_CLIENT}"

    def _state(self) -> State:
        held = sorted((b, broker.replicas.get(self._partition)) for b, broker in self._cluster.brokers.items())
        replicas = tuple((b, replica.log.end, replica.hw) for b, replica in held if replica is not None)
        leader = self._cluster.leader_replica(self._partition)
        if leader is None:
            return State(replicas, (), None, False)
        remote = tuple((node, follower.leo) for node, follower in sorted(leader.followers.items()))
        is_unclean = self._cluster.quorum.states[self._partition].is_unclean
        return State(replicas, remote, (leader.broker, leader.epoch), is_unclean)


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count} records" if count else "no records"


class Trace(NamedTuple):
    """All messages of a run that matter, and the time (us) at which the run ended."""

    messages: list[Message]
    end: int


def trace_run(scenario: Scenario, partition: int = 0, since: int = 0, until: int = NEVER) -> Trace:
    """Run a scenario; the messages of a partition that matter, between two times."""
    tracer = MessageTracer(partition, since, until)
    cluster = scenario.run(prepare=tracer.attach)
    found = [message for message in tracer.messages if message.matters and since <= message.time <= until]
    return Trace(found, cluster.loop.now)


def trace_messages(scenario: Scenario, partition: int = 0, since: int = 0, until: int = NEVER) -> list[Message]:
    """Run a scenario; the first MAX_MESSAGES messages of a partition that matter, between two times."""
    return trace_run(scenario, partition, since, until).messages[:MAX_MESSAGES]


def table(messages: list[Message]) -> str:
    """Markdown: a row for each message, changes in bold."""
    brokers = sorted({broker for message in messages for broker, _, _ in message.replicas})
    head = ["time", "message", *(f"broker {broker}: LEO, HW" for broker in brokers)]
    head += ["leader, epoch", "log ends that the leader knows"]
    lines = [f"| {' | '.join(head)} |", "|---|---" + "|---" * (len(head) - 2) + "|"]
    before: dict[int, str] = {}
    for message in messages:
        now = {broker: f"{end}, {mark}" for broker, end, mark in message.replicas}
        cells = [_bold(now.get(broker, ""), before.get(broker)) for broker in brokers]
        known = ", ".join(f"{node}: {leo if leo >= 0 else '?'}" for node, leo in message.remote)
        left, arrow, right = message.source, "→", message.target
        if message.is_response:
            left, arrow, right = right, "⇠", left
        what = f"{left} {arrow} {right}: {message.text}"
        led = "none" if message.leader is None else f"{message.leader[0]}, {message.leader[1]}"
        lines.append(f"| {message.time / 1_000_000:.6f} s | {what} | {' | '.join(cells)} | {led} | {known} |")
        before = now
    return "\n".join(lines)


def _bold(text: str, before: str | None) -> str:
    return f"**{text}**" if before is not None and text != before else text


def sequence_diagram(messages: list[Message]) -> str:
    """The messages as a Mermaid sequence diagram, with a note where a log end or a high watermark changed."""
    lines = ["sequenceDiagram"]
    names = sorted({name for message in messages for name in (message.source, message.target)}, key=_lane)
    lines += [f"    participant {_alias(name)} as {name}" for name in names]
    before: dict[int, tuple[int, int]] = {}
    for message in messages:
        arrow = "-->>" if message.is_response else "->>"
        lines.append(f"    {_alias(message.source)}{arrow}{_alias(message.target)}: {message.text}")
        now = {broker: (end, mark) for broker, end, mark in message.replicas}
        for broker, (end, mark) in now.items():
            if before.get(broker, (0, 0)) != (end, mark) and f"broker {broker}" in names:
                lines.append(f"    Note over {_alias(f'broker {broker}')}: LEO {end}, HW {mark}")
        before = now
    return "\n".join(lines)


def markdown_parts(messages: list[Message]) -> list[str]:
    """Introduction, table and sequence diagram, as paragraphs of Markdown."""
    diagram = f"```mermaid\n{sequence_diagram(messages)}\n```"
    return [f"{INTRODUCTION} Changes are in bold.", table(messages), diagram]


def _lane(name: str) -> tuple[bool, int, str]:
    return name.startswith("broker"), len(name), name


def _alias(name: str) -> str:
    return name.replace("broker ", "b")
