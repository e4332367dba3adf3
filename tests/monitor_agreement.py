"""The monitors against the search and against all permutations, on random tiny histories.

    python tests/monitor_agreement.py [COUNT [SEED [OBJECT ...]]]

Nearly all of them insert each value once. Each history that the monitor decides is searched as well, by both searches;
one in twenty is also tried in every order. Of an illegal one the witness has to fail whatever the others did.
"""

from __future__ import annotations

import sys
from random import Random
from typing import Any, NamedTuple

import numpy as np
from histories_of_operations import is_linearizable
from logjudge.analysis.linearizability.minimal import MAYBE, doubting
from logjudge.models.operations import UNKNOWN, Action, Operation
from logjudge.models.porcupine import check_operations
from logjudge.models.porcupine.encoding import Counts, encode
from logjudge.models.porcupine.layout import events_of
from logjudge.models.porcupine.monitors import monitor_parts
from logjudge.models.porcupine.part_history import ILLEGAL, LINEARIZABLE, UNDECIDED
from logjudge.models.porcupine.quick_search import QuickSearch
from logjudge.models.porcupine.steps import number_actions
from logjudge.models.specifications import MODELS
from operation_cases import by_one_search

NAMES = ("register", "queue", "stack", "priority-queue", "append-log", "set", "lock")
INSERT = {"register": "write", "queue": "enqueue", "stack": "push", "priority-queue": "insert", "append-log": "append"}
TAKE = {"register": "read", "queue": "dequeue", "stack": "pop", "priority-queue": "delete-min"}
LENGTHS = (0, 1, 2, 3, 5, 8)  # of an operation's interval


class Agreement(NamedTuple):
    """How many histories were tried, decided by the monitor, illegal, and the first on which the twins differ."""

    tried: int
    decided: int
    illegal: int
    wrong: list[Operation] | None


def set_actions(values: list[int], rng: Random) -> list[Action]:
    """Adds, removes or reads of all, and questions for one value."""
    actions = [Action("add", value, None) for value in values]
    if rng.random() < 0.5:
        actions += [Action("remove", value, None) for value in rng.sample(values, rng.randint(0, len(values)))]
    else:
        found = values[:]
        for _ in range(rng.randint(0, 3)):
            some = found[: rng.randint(0, len(found))] if rng.random() < 0.8 else rng.sample(range(4), 2)
            actions.append(Action("read", None, rng.choice((frozenset(some), frozenset(some), UNKNOWN))))
    questions = rng.choices((*values, 3), k=rng.randint(0, 4))
    return actions + [Action("contains", value, rng.choice((True, False, UNKNOWN))) for value in questions]


def log_actions(values: list[int], rng: Random) -> list[Action]:
    """Appends with and without offsets, reads, and ends."""
    actions = []
    for place, value in enumerate(values):
        actions.append(Action("append", value, rng.choice((place, place, UNKNOWN, rng.randrange(4)))))
    for _ in range(rng.randint(0, 4)):
        start = rng.randrange(3)
        found = values if rng.random() < 0.9 else rng.sample(range(4), 4)
        read = Action("read", start, tuple(found[start : start + rng.randint(0, 2)]))
        actions.append(rng.choice((read, read, Action("end", None, rng.randrange(len(values) + 1)))))
    return actions


def random_lock(rng: Random) -> list[Operation]:
    """Owners that mostly do one operation at a time."""
    operations = []
    for owner in range(rng.randint(1, 3)):
        time = rng.randrange(8)
        for number in range(rng.randint(1, 4)):
            f = ("acquire", "release")[number % 2 if rng.random() < 0.95 else 0]
            end = None if rng.random() < 0.06 else time + rng.choice(LENGTHS)
            operations.append(Operation(Action(f, owner, None), time, end, owner))
            time = time + rng.randint(0, 4) if end is None else end + rng.choice((0, 1, 1, 2, 5))
    return operations


def random_history(name: str, rng: Random) -> list[Operation]:
    """Up to four values, inserted and taken or read at random; few instants, so that many times are equal."""
    if name == "lock":
        return random_lock(rng)
    values = rng.sample(range(4), rng.randint(1, 4))
    span = rng.choice((6, 10, 14, 20))
    if name in ("set", "append-log"):
        actions = (set_actions if name == "set" else log_actions)(values, rng)
    else:
        actions = [Action(INSERT[name], value, None) for value in values]
        answers: list[Any] = rng.sample(values, rng.randint(0, len(values)))
        answers += rng.choices((None, UNKNOWN, *range(4), *values), k=rng.choice((0, 0, 1, 2)))
        actions += [Action(TAKE[name], None, answer) for answer in answers]
    if rng.random() < 0.05:
        actions.append(rng.choice(actions))
    operations = []
    for action in actions:
        call = rng.randrange(span)
        end = None if rng.random() < 0.06 else call + rng.choice(LENGTHS)
        operations.append(Operation(action, call, end))
    return operations


def by_monitor(name: str, operations: list[Operation]) -> tuple[int, list[int]]:
    """What the monitor says of a history of one object, and its witness."""
    model = MODELS[name]
    actions, _, history = number_actions(model, operations)
    once = [1] * len(actions)
    encoding = encode(model, actions, Counts(once, once))
    assert encoding is not None
    events = events_of(history)
    starts, chosen = np.array([0, len(events)], np.int32), np.zeros(1, np.int32)
    action_of = np.array(history.action_of, np.int32)
    verdicts, witness = monitor_parts(
        encoding.monitor, events, starts, chosen, action_of, encoding.machine, encoding.values, encoding.initial
    )
    return int(verdicts[0]), witness.tolist()


def shows_failure(name: str, operations: list[Operation], witness: list[int]) -> bool:
    """Whether the witness cannot be placed, by all permutations, whatever the other operations did."""
    doubted = [
        operation if i in witness or operation.end is None else operation._replace(action=Action(MAYBE, operation[0]))
        for i, operation in enumerate(operations)
    ]
    return bool(witness) and not is_linearizable(doubting(MODELS[name]), doubted)


def disagree(name: str, operations: list[Operation], verdict: int, witness: list[int], number: int) -> bool:
    """Whether a search or all permutations contradict the monitor's verdict or its witness."""
    expected = "ok" if verdict == LINEARIZABLE else "illegal"
    if by_one_search(QuickSearch, MODELS[name], operations).verdict not in (expected, None):
        return True
    if number % 5 == 0 and check_operations(MODELS[name], operations).verdict != expected:
        return True
    if number % 20:
        return False
    if is_linearizable(MODELS[name], operations) != (verdict == LINEARIZABLE):
        return True
    return verdict == ILLEGAL and not shows_failure(name, operations, witness)


def agreement(name: str, count: int, seed: int) -> Agreement:
    """Compare on so many histories."""
    rng = Random(seed)
    decided = illegal = 0
    for number in range(count):
        operations = random_history(name, rng)
        verdict, witness = by_monitor(name, operations)
        if verdict == UNDECIDED:
            continue
        decided += 1
        illegal += verdict == ILLEGAL
        if disagree(name, operations, verdict, witness, number):
            return Agreement(number, decided, illegal, operations)
    return Agreement(count, decided, illegal, None)


def main() -> None:
    count, seed = [*map(int, sys.argv[1:3]), *(2000, 1)[len(sys.argv) - 1 :]]
    for name in sys.argv[3:] or NAMES:
        print(f"{name}: {agreement(name, count, seed)}", flush=True)


if __name__ == "__main__":
    main()
