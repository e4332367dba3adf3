"""The monitors against the search and against all permutations, on random tiny histories.

    python tests/monitor_agreement.py [COUNT [SEED]]

Nearly all of them insert each value once. Every
history that the monitor decides is searched as well; one in a hundred is also tried in every order.
"""

from __future__ import annotations

import sys
from random import Random
from typing import Any, NamedTuple

import numpy as np
from histories_of_operations import is_linearizable
from logjudge.models.operations import UNKNOWN, Action, Operation
from logjudge.models.porcupine.encoding import Counts, encode
from logjudge.models.porcupine.layout import events_of
from logjudge.models.porcupine.monitors import monitor_parts
from logjudge.models.porcupine.spans import ILLEGAL, LINEARIZABLE, UNDECIDED
from logjudge.models.porcupine.steps import Budget, Steps, number_actions
from logjudge.models.specifications import MODELS

INSERT = {"register": "write", "queue": "enqueue", "stack": "push", "priority-queue": "insert", "append-log": "append"}
TAKE = {"register": "read", "queue": "dequeue", "stack": "pop", "priority-queue": "delete-min"}
LENGTHS = (0, 1, 2, 3, 5, 8)  # of an operation's interval


class Agreement(NamedTuple):
    """How many histories were tried, decided by the monitor, illegal, and the first on which the twins differ."""

    tried: int
    decided: int
    illegal: int
    wrong: list[Operation] | None


def random_history(name: str, rng: Random) -> list[Operation]:
    """Up to four values, inserted and taken or read at random; few instants, so that many times are equal."""
    values = rng.sample(range(4), rng.randint(1, 4))
    span = rng.choice((6, 10, 14, 20))
    actions = []
    for place, value in enumerate(values):
        offset = rng.choice((place, place, UNKNOWN, rng.randrange(4)))
        actions.append(Action(INSERT[name], value, offset if name == "append-log" else None))
    if rng.random() < 0.05:
        actions.append(rng.choice(actions))
    if name == "append-log":
        for _ in range(rng.randint(0, 4)):
            start = rng.randrange(3)
            found = values if rng.random() < 0.9 else rng.sample(range(4), 4)
            read = Action("read", start, tuple(found[start : start + rng.randint(0, 2)]))
            actions.append(rng.choice((read, read, Action("end", None, rng.randrange(len(values) + 1)))))
    else:
        answers: list[Any] = rng.sample(values, rng.randint(0, len(values)))
        answers += rng.choices((None, UNKNOWN, *range(4), *values), k=rng.choice((0, 0, 1, 2)))
        actions += [Action(TAKE[name], None, answer) for answer in answers]
    operations = []
    for action in actions:
        call = rng.randrange(span)
        end = None if rng.random() < 0.06 else call + rng.choice(LENGTHS)
        operations.append(Operation(action, call, end))
    return operations


def by_monitor(name: str, operations: list[Operation]) -> int:
    """What the monitor says of a history of one object."""
    model = MODELS[name]
    actions, _, history = number_actions(model, operations)
    once = [1] * len(actions)
    encoding = encode(model, actions, Counts(once, once))
    assert encoding is not None
    events = events_of(history)
    starts, chosen = np.array([0, len(events)], np.int32), np.zeros(1, np.int32)
    action_of = np.array(history.action_of, np.int32)
    verdicts, _ = monitor_parts(
        encoding.monitor, events, starts, chosen, action_of, encoding.machine, encoding.values, encoding.initial
    )
    return int(verdicts[0])


def by_search(name: str, operations: list[Operation]) -> str | None:
    """What the search in Python says."""
    from logjudge.models.porcupine.quick_search import QuickSearch

    actions, observes, history = number_actions(MODELS[name], operations)
    return QuickSearch(history, Steps(MODELS[name], actions, observes), Budget(None, 1 << 30)).run()


def agreement(name: str, count: int, seed: int) -> Agreement:
    """Compare on so many histories."""
    rng = Random(seed)
    decided = illegal = 0
    for number in range(count):
        operations = random_history(name, rng)
        verdict = by_monitor(name, operations)
        if verdict == UNDECIDED:
            continue
        decided += 1
        illegal += verdict == ILLEGAL
        expected = by_search(name, operations)
        if expected is not None and (verdict == LINEARIZABLE) != (expected == "ok"):
            return Agreement(number, decided, illegal, operations)
        if number % 100 == 0 and is_linearizable(MODELS[name], operations) != (verdict == LINEARIZABLE):
            return Agreement(number, decided, illegal, operations)
    return Agreement(count, decided, illegal, None)


def main() -> None:
    count, seed = [*map(int, sys.argv[1:]), *(2000, 1)[len(sys.argv) - 1 :]]
    for name in INSERT:
        print(f"{name}: {agreement(name, count, seed)}", flush=True)


if __name__ == "__main__":
    main()
