"""A picture of a history of operations and of its (partial) linearizations, as one HTML file.

To keep the page small it draws only the operations of a minimal failure and those that ended last before the
operation that cannot be linearized. The axis is not to scale: it has a column for each instant at which a drawn
operation begins or ends.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from jinja2 import Environment, PackageLoader

from ..analysis.linearizability.linearize import Judgement, describe_state, evidence
from ..analysis.linearizability.minimal import Minimal
from ..analysis.wording import clipped
from ..models.operations import Operation, describe_action
from ..models.porcupine import Part

MAX_OPERATIONS, MAX_LANES, MAX_NOTES = 90, 40, 30
MAX_CONTRADICTION = 10  # operations of a minimal failure that get a figure of their own
LANE, LEFT, TOP = 34, 110, 44  # pixels
MIN_COLUMN, MAX_COLUMN = 52, 150  # pixels
LETTER_WIDTH = 6.7  # pixels
BAR_HEIGHT = 24  # pixels
MAX_TEXT, MAX_HOVER = 60, 600  # characters in a bar, and in its tooltip


@dataclass(frozen=True)
class Bar:
    """One operation as drawn; lengths in pixels."""

    x: float
    y: float
    width: float
    kind: str  # change, observation, pending
    blocked: bool
    minimal: bool
    text: str
    hover: str
    below: str  # the text under the bar


@dataclass(frozen=True)
class Point:
    """The point at which a linearization places an operation."""

    x: float
    y: float
    number: int
    hover: str


@dataclass(frozen=True)
class Line:
    """One linearization: its points, in order."""

    name: str
    points: list[Point]

    @property
    def path(self) -> str:
        """The points as the coordinates of a polyline."""
        return " ".join(f"{point.x:.1f},{point.y:.1f}" for point in self.points)


@dataclass(frozen=True)
class Mark:
    """An annotation at an instant."""

    x: float
    text: str
    hover: str


def choose(operations: Sequence[Operation], part: Part, minimal: list[int]) -> list[int]:
    """The indices of the operations to draw: those that contradict each other, and the last before the blocked one."""
    wanted = minimal[:MAX_OPERATIONS]
    chosen = part.operations
    last = part.witness[-1] if part.blocked is None and part.witness else part.blocked
    if last is not None:
        limit = operations[last].end or operations[last].call
        wanted.append(last)
        # An operation without a completion counts from its call.
        chosen = [i for i in chosen if operations[i].call <= limit]
        chosen = sorted(chosen, key=lambda i: operations[i].end or operations[i].call, reverse=True)
    drawn: dict[int, None] = dict.fromkeys(wanted)
    lanes = {_lane_of(operations, i) for i in drawn}
    for i in chosen:
        if len(drawn) >= MAX_OPERATIONS:
            break
        if (lane := _lane_of(operations, i)) in lanes or len(lanes) < MAX_LANES:
            lanes.add(lane)
            drawn[i] = None
    return sorted(drawn, key=lambda i: operations[i].call)


def _lane_of(operations: Sequence[Operation], index: int) -> tuple[Any, int | None]:
    """The process of an operation; an operation without one has a lane of its own."""
    process = operations[index].process
    return process, index if process is None else None


class _Figure:
    """Places the chosen operations on lanes and columns."""

    def __init__(self, judgement: Judgement, part: Part, minimal: Sequence[int], chosen: list[int]) -> None:
        self.judgement, self.part = judgement, part
        self.operations = judgement.history.operations
        self.minimal, self.chosen = set(minimal), chosen
        # Of a set, the elements that the drawn operations name. With a single one, a read only shows whether it has it.
        named = (self.operations[i].action for i in chosen)
        self.elements = {action.value for action in named if action.f in ("add", "remove", "contains")}
        lanes = dict.fromkeys(_lane_of(self.operations, i) for i in self.chosen)
        self.lanes = {lane: place for place, lane in enumerate(sorted(lanes, key=_lane_order))}
        times = {self.operations[i].call for i in self.chosen}
        times |= {end for i in self.chosen if (end := self.operations[i].end) is not None}
        self.times = sorted(times)
        self.column = self._column()
        self.width = LEFT + self.column * (len(self.times) + 1)
        self.height = TOP + LANE * len(self.lanes) + 20
        # The linearization that `line` made last, its points, and the states after them.
        self.order: list[int] = []
        self.placed: list[tuple[Point, Any]] = []

    def text(self, index: int) -> str:
        """The text of a bar, without the key, which all operations share."""
        action, describe = self.operations[index].action, self.judgement.model.describe
        if action.f == "read" and isinstance(action.result, tuple | frozenset) and len(self.elements) == 1:
            (element,) = self.elements
            return clipped(f"read {'with' if element in action.result else 'without'} {element!r}", MAX_TEXT)
        return clipped(describe(action._replace(key=None) if describe is describe_action else action), MAX_TEXT)

    def _column(self) -> float:
        """A column width at which nine of ten bars have room for their text."""
        needed = []
        for i in self.chosen:
            end = self.operations[i].end
            if end is not None:
                columns = bisect_left(self.times, end) - bisect_left(self.times, self.operations[i].call)
                needed.append((LETTER_WIDTH * len(self.text(i)) + 22) / (columns + 1 / 3))
        needed.sort()
        return min(max(MIN_COLUMN, needed[len(needed) * 9 // 10]), MAX_COLUMN) if needed else MIN_COLUMN

    def possible(self) -> str:
        """The possible states when the blocked operation has to take effect."""
        states = [describe_state(self.judgement.model, state) for state in self.part.states[:4]]
        more = ", …" if len(self.part.states) > 4 else ""
        return clipped(f"the state can only be {', '.join(states)}{more}", MAX_TEXT)

    @property
    def names(self) -> list[tuple[str, float]]:
        """The name and the top of each lane."""
        return [
            ("no process" if process is None else clipped(f"process {process}", 22), TOP + LANE * place)
            for (process, _), place in self.lanes.items()
        ]

    def x(self, time: float) -> float:
        """The position of an instant; one without a column lies between its neighbours."""
        column = bisect_left(self.times, time)
        exact = column < len(self.times) and self.times[column] == time
        return LEFT + self.column * (column if exact else column - 0.5)

    def y(self, index: int) -> float:
        """The top of an operation's lane."""
        return TOP + LANE * self.lanes[_lane_of(self.operations, index)]

    def right(self, index: int) -> float:
        """The right end of an operation's bar."""
        end = self.operations[index].end
        return self.width - 4 if end is None else self.x(end) + self.column / 3

    def bars(self) -> list[Bar]:
        """The bars of the chosen operations."""
        model, bars = self.judgement.model, []
        for i in self.chosen:
            operation = self.operations[i]
            observes = model.observes(operation.action)
            pending = operation.end is None
            width = self.right(i) - self.x(operation.call)
            ended = f"to {operation.end}"
            if pending:
                ended = "no completion: took effect at any time after its call, or never"
            bars.append(
                Bar(
                    x=self.x(operation.call),
                    y=self.y(i),
                    width=width,
                    kind="pending" if pending else "observation" if observes else "change",
                    blocked=i == self.part.blocked,
                    minimal=i in self.minimal,
                    text=clipped(self.text(i), max(1, int((width - 16) / LETTER_WIDTH))),
                    hover=clipped(f"{self.judgement.operation(i)}\nfrom {operation.call} {ended}", MAX_HOVER),
                    below=self.possible() if i == self.part.blocked and self.part.verdict == "illegal" else "",
                )
            )
        return bars

    def line(self, name: str, order: list[int]) -> Line:
        """One linearization: the points of the drawn operations, with the states before and after each.

        It continues from what it shares with the one before, because a state may be as long as the history.
        """
        model, drawn = self.judgement.model, set(self.chosen)
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(order, self.order, strict=False)))
        placed = [(point, after) for point, after in self.placed if point.number <= shared]
        start, x, state = 0, 0.0, model.initial
        if placed:
            start, x, state = placed[-1][0].number, placed[-1][0].x, placed[-1][1]
        for number, i in enumerate(order[start:], start + 1):
            before, state = state, model.step(state, self.operations[i].action)
            if i not in drawn:
                continue
            x = min(max(x + 5, self.x(self.operations[i].call) + 5), self.right(i) - 2)
            states = (describe_state(model, before), describe_state(model, state))
            hover = f"{number}. {self.judgement.operation(i)}\nstate before: {states[0]}\nstate after: {states[1]}"
            point = Point(x, self.y(i) + BAR_HEIGHT / 2, number, clipped(hover, MAX_HOVER))
            placed.append((point, state))
        self.order, self.placed = order, placed
        return Line(name, [point for point, _ in placed])

    def marks(self) -> list[Mark]:
        """The annotations within the drawn time, and the last one before it."""
        notes = sorted(self.judgement.history.notes, key=lambda note: note.time)
        if not self.times:
            return []
        inside = [note for note in notes if self.times[0] <= note.time <= self.times[-1]]
        earlier = [note for note in notes if note.time < self.times[0]][-1:]
        return [
            Mark(max(self.x(note.time), LEFT - 12), clipped(note.text, 24), clipped(note.text, MAX_HOVER))
            for note in (earlier + inside)[-MAX_NOTES:]
        ]


def _lane_order(lane: tuple[Any, int | None]) -> tuple[bool, Any, str]:
    """A sort key: numbers first, then names, then operations without a process."""
    process, index = lane
    number = isinstance(process, int)
    return not number, process if number else index or 0, str(process)


def draw(judgement: Judgement, shrunk: Minimal | None = None) -> str:
    """The HTML page."""
    part = judgement.part
    environment = Environment(loader=PackageLoader(__package__, "."), autoescape=True, trim_blocks=True)
    template = environment.get_template("linearization.html.j2")
    result, history = judgement.result, judgement.history
    common = {"verdict": result.verdict, "source": history.source, "model": judgement.model.name,
              "total": len(history.operations) + history.others, "evidence": evidence(judgement)}  # fmt: skip
    if part is None or not part.operations:
        return template.render(**common, figure=None)
    minimal = list(shrunk.operations if shrunk else part.witness)
    figure = _Figure(judgement, part, minimal, choose(history.operations, part, minimal))
    names = "linearization" if part.verdict == "ok" else "longest partial linearization"
    lines = []
    for number, order in enumerate(part.linearizations, 1):
        done = sum(history.operations[index].end is not None for index in order)
        pending = f" and {len(order) - done} pending" if len(order) > done else ""
        lines.append(figure.line(f"{names} {number}: {done} completed{pending} operations", order))
    alone = None
    if len(minimal) < len(figure.chosen) and 0 < len(minimal) <= MAX_CONTRADICTION:
        alone = _Figure(
            judgement, replace(part, blocked=None), [], sorted(minimal, key=lambda i: history.operations[i].call)
        )
    return template.render(
        **common, figure=figure, lines=lines, alone=alone, before=len(shrunk.before) if shrunk else 0,
        bar=BAR_HEIGHT, left=LEFT, lane=LANE,
    )  # fmt: skip
