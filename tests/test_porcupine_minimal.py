"""Minimal failures, the picture, and values on their way to other machines."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import logjudge.analysis.linearizability.minimal as minimal_module
import logjudge.models.porcupine.steps as steps_module
import pytest
from histories_of_operations import is_linearizable, register_run
from logjudge.analysis.linearizability.exchange import decode, hash_of, pack, unpack
from logjudge.analysis.linearizability.linearize import Judgement, evidence, judge_operations
from logjudge.analysis.linearizability.minimal import minimal_failure
from logjudge.histories.operation_history import History, Note, read_operations
from logjudge.histories.readers.edn import FrozenMap, Word
from logjudge.models.porcupine import UNKNOWN, Action, Operation, check_operations
from logjudge.models.specifications import MODELS
from logjudge.plots.linearization import MAX_CONTRADICTION, MAX_OPERATIONS, _Figure, choose, draw

DATA = Path(__file__).parent / "data" / "porcupine"
REGISTER = MODELS["register"]


def history_of(operations: list[Operation], notes: list[Note] | None = None) -> History:
    return History("test", "none", operations, list(range(1, len(operations) + 1)), notes or [])


def judged(operations: list[Operation], notes: list[Note] | None = None) -> Judgement:
    return judge_operations(REGISTER, history_of(operations, notes), None, 1 << 30)


def test_a_stale_read_shrinks_to_the_write_and_the_read() -> None:
    operations = register_run(400, 5, seed=3, values=None)
    last = max(i for i, each in enumerate(operations) if each.action.f == "read")
    action = operations[last].action
    early = next(each.action.value for each in operations if each.action.f == "write")
    operations[last] = operations[last]._replace(action=action._replace(result=early))
    result = check_operations(REGISTER, operations)
    assert result.verdict == "illegal"
    minimal = minimal_failure(REGISTER, operations, result.parts[0])
    assert minimal is not None
    assert len(minimal.operations) == 2
    assert last in minimal.operations
    assert minimal.before == []


def test_an_unwritten_value_shrinks_to_its_read() -> None:
    operations = register_run(60, 3, seed=1)
    read = next(i for i, each in enumerate(operations) if i > 20 and each.action.f == "read")
    action = operations[read].action._replace(result=99)
    operations[read] = operations[read]._replace(action=action)
    minimal = minimal_failure(REGISTER, operations, check_operations(REGISTER, operations).parts[0])
    assert minimal is not None
    assert minimal.operations == [read]


@pytest.mark.parametrize("unambiguous", [True, False])
def test_a_long_history_shrinks_as_well(unambiguous: bool) -> None:
    """The witness of a monitor fails by itself; without a monitor, the operations fail after those before them."""
    operations = register_run(5000, 5, seed=4, values=None)
    read = max(i for i, each in enumerate(operations) if each.action.f == "read")
    early = next(each.action.value for each in operations[4900:] if each.action.f == "write")
    operations[read] = operations[read]._replace(action=operations[read].action._replace(result=early))
    if not unambiguous:
        operations += [Operation(Action("write", "twice", None), end - 1, end) for end in (-10, -8)]
    minimal = minimal_failure(REGISTER, operations, check_operations(REGISTER, operations).parts[0])
    assert minimal is not None
    assert len(minimal.operations) == 2
    assert read in minimal.operations
    assert (len(minimal.before) > 4500) == (not unambiguous)


@pytest.mark.parametrize("recent", [200, 3])
@pytest.mark.parametrize("seed", range(12))
def test_a_minimal_failure_proves_the_failure(seed: int, recent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every choice of what the doubted operations did leaves the few illegal; fewer would not do."""
    monkeypatch.setattr(minimal_module, "RECENT", recent)
    monkeypatch.setattr(minimal_module, "DOUBTED", 0 if recent == 3 else 2000)
    operations = register_run(7, 3, seed, values=2)
    for i, each in enumerate(operations):
        if each.action.f == "read" and i > 3:
            operations[i] = each._replace(action=each.action._replace(result=1 - (each.action.result or 0)))
    result = check_operations(REGISTER, operations)
    assert (result.verdict == "ok") == is_linearizable(REGISTER, operations)
    if result.verdict == "ok":
        return
    minimal = minimal_failure(REGISTER, operations, result.parts[0])
    assert minimal is not None

    def shows(certain: set[int]) -> bool:
        doubted = [i for i in range(len(operations)) if i not in certain]
        for choice in range(1 << len(doubted)):
            chosen = certain | {i for bit, i in enumerate(doubted) if choice >> bit & 1}
            changes = [operations[i] for i in sorted(chosen) if i in certain or operations[i].action.f != "read"]
            if is_linearizable(REGISTER, changes):
                return False
        return True

    before = set(minimal.before)
    assert shows({*minimal.operations, *before})
    for one in minimal.operations:
        rest = set(minimal.operations) - {one}
        if rest:
            assert not shows(rest | before)


def test_a_slow_machine_shrinks_as_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the clock shows: only the work is limited, and with hardly any the failure shrinks less."""
    operations = register_run(400, 5, seed=3)
    read = max(i for i, each in enumerate(operations) if each.action.f == "read")
    operations[read] = operations[read]._replace(action=Action("read", None, 99))
    operations += [each._replace(action=Action("read", None, 98)) for each in operations[-1:]]
    part = check_operations(REGISTER, operations).parts[0]
    fast = minimal_failure(REGISTER, operations, part)
    ticks = iter(range(0, 10**9, 3600))
    clock = SimpleNamespace(perf_counter=lambda: next(ticks), monotonic=lambda: next(ticks))
    for module in (minimal_module, steps_module):
        monkeypatch.setattr(module, "time", clock, raising=False)
    assert minimal_failure(REGISTER, operations, part) == fast
    assert fast is not None
    assert len(fast.operations) == 1
    monkeypatch.setattr(minimal_module, "WORK", 1)
    stopped = minimal_failure(REGISTER, operations, part)
    assert stopped is not None
    assert len(stopped.operations) > 1


def test_old_operations_stay_if_they_are_needed() -> None:
    operations = [Operation(Action("cas", (i, i + 1), True), 10 * i, 10 * i + 5, 0) for i in range(2500)]
    operations.insert(0, Operation(Action("write", 0), -2, -1, 0))
    operations.append(Operation(Action("read", None, 7), 10**6, 10**6 + 1, 0))
    result = check_operations(REGISTER, operations)
    assert result.verdict == "illegal"
    minimal = minimal_failure(REGISTER, operations, result.parts[0])
    assert minimal is not None
    assert len(minimal.operations) < 5


def test_the_picture_escapes_and_bounds() -> None:
    hostile = "<script>alert(1)</script>\"'&"
    operations = register_run(3000, 5, seed=2)
    read = max(i for i, each in enumerate(operations) if each.action.f == "read")
    operations[read] = operations[read]._replace(action=Action("read", None, hostile))
    judgement = judged(operations, [Note(operations[read].call, hostile * 50)])
    page = draw(judgement, minimal_failure(REGISTER, operations, judgement.result.parts[0]))
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert len(page) < 400_000
    assert 0 < len(re.findall(r'<g class="(?:change|observation|pending)', page)) <= MAX_OPERATIONS + MAX_CONTRADICTION
    assert page.count(" blocked") == 1
    assert " minimal" in page
    assert "state before: " in page
    assert "the state can only be " in page
    assert "whatever the others did" in page
    assert "scrollIntoView" not in page  # it would scroll the page past its headline
    assert "http" not in page


def test_linearizations_that_share_a_beginning_replay_it_once() -> None:
    """Replaying each of them takes a minute for a log of 100,000 records."""
    operations = register_run(2000, 5, seed=2)
    read = max(i for i, each in enumerate(operations) if each.action.f == "read")
    operations[read] = operations[read]._replace(action=Action("read", None, "never written"))
    judgement = judged(operations)
    part = judgement.part
    assert part is not None
    assert len(part.linearizations) > 1
    steps = []
    counted = replace(REGISTER, step=lambda state, action: (steps.append(action), REGISTER.step(state, action))[1])
    counted_judgement = replace(judgement, model=counted)
    chosen = choose(operations, part, [])
    figure = _Figure(counted_judgement, part, [], chosen)
    together = [figure.line("", order) for order in part.linearizations]
    assert len(steps) < 2000 + 100 * len(part.linearizations)
    assert together == [_Figure(judgement, part, [], chosen).line("", order) for order in part.linearizations]


def test_the_picture_of_what_is_in_order_has_all_points() -> None:
    history = read_operations(str(DATA / "etcd_101.log"))
    page = draw(judge_operations(REGISTER, history, None, 1 << 30))
    completed = sum(operation.end is not None for operation in history.operations)
    assert page.count("<circle") >= completed
    assert " blocked" not in page
    assert "<svg" not in draw(judged([]))


@pytest.mark.parametrize(
    "value",
    [None, True, 1, -2.5, "x", UNKNOWN, (1, (2, None)), frozenset({1, "a"}), Word(":a"), FrozenMap({("k", (1,))})],
)
def test_values_survive_the_wire(value: object) -> None:
    again = decode(unpack(pack(value)))
    assert again == value
    assert type(again) is type(value)
    assert hash_of(again) == hash_of(value)


def test_equal_values_have_equal_hashes_on_all_machines() -> None:
    assert hash_of((1, "a", True)) == hash_of((1.0, "a", 1)) == 4274911552
    assert hash_of(frozenset(("a", "b", 2))) == hash_of(frozenset((2.0, "b", "a")))


WRONG = {
    "stack": [("push", -1, None), ("push", -2, None), ("pop", None, -1), ("pop", None, -2)],
    "queue": [("enqueue", -1, None), ("enqueue", -2, None), ("dequeue", None, -2), ("dequeue", None, -1)],
    "priority-queue": [("insert", -2, None), ("insert", -1, None), ("delete-min", None, -1), ("delete-min", None, -2)],
    "set": [("add", -1, None), ("contains", -1, False)],
}


@pytest.mark.parametrize(("values", "method"), [(200, "search"), (3_000, "monitor")])
@pytest.mark.parametrize("name", sorted(WRONG))
def test_a_monitor_explains_what_it_or_a_search_decided(name: str, values: int, method: str) -> None:
    """Right operations, one after the other, and a few wrong ones at nine tenths."""
    insert, take = MODELS[name].functions[:2]
    right = [
        action
        for value in range(values)
        for action in (Action(insert, value, None), Action(take, value if name == "set" else None, value))
    ]
    at = 18 * values // 10
    actions = [*right[:at], *(Action(*fields) for fields in WRONG[name]), *right[at:]]
    operations = [Operation(action, 2 * place, 2 * place + 1) for place, action in enumerate(actions)]
    result = check_operations(MODELS[name], operations)
    part = result.worst
    assert part is not None
    assert part.verdict == "illegal"
    assert part.method == method
    assert 2 <= len(part.witness) <= 4
    minimal = minimal_failure(MODELS[name], operations, part)
    assert minimal is not None
    assert 1 <= len(minimal.operations) <= 4
    assert all(at <= i < at + 4 for i in minimal.operations)
    judgement = Judgement(MODELS[name], history_of(operations), result)
    assert "contradict" in "".join(evidence(judgement))
    assert draw(judgement, None)


def test_a_set_shows_which_element_a_read_lacks() -> None:
    """A picture of long reads would leave it to the reader to find the element in which they differ."""
    actions = [Action("add", value, None) for value in range(30)]
    actions += [Action("remove", 3, None), Action("read", None, frozenset(range(30)) - {3, 7})]
    operations = [Operation(action, 2 * place, 2 * place + 1) for place, action in enumerate(actions)]
    model = MODELS["set"]
    judgement = Judgement(model, history_of(operations), check_operations(model, operations))
    part = judgement.part
    assert part is not None
    assert part.witness == [7, 31]
    assert "read without 7<" in draw(judgement, minimal_failure(model, operations, part))


def test_sets_of_possible_states_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty doubted inserts have 2^30 possible states."""
    actions = [Action("insert", value // 2, None) for value in range(30)]
    operations = [Operation(action, 2 * place, 2 * place + 1) for place, action in enumerate(actions)]
    operations.append(Operation(Action("delete-min", None, 7), 60, 61))
    operations.append(Operation(Action("delete-min", None, 99), 62, 63))
    model = MODELS["priority-queue"]
    part = check_operations(model, operations).worst
    assert part is not None
    assert part.method == "search"
    held: list[int] = []  # states of each step
    doubt = minimal_module.doubting_model

    def watched(*arguments: Any) -> Any:
        doubting = doubt(*arguments)

        def step(states: Any, action: Action) -> Any:
            held.append(len(states))
            return doubting.step(states, action)

        return replace(doubting, step=step)

    monkeypatch.setattr(minimal_module, "doubting_model", watched)
    monkeypatch.setattr(minimal_module, "MEMORY", 1 << 20)
    assert minimal_failure(model, operations, part) is not None
    assert 0 < max(held) < 20_000
