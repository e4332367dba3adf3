"""Limits of the engine: time, memory, size, and operations that a model refuses."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest
from histories_of_operations import is_linearization, register_run
from logjudge.histories.operation_history import read_operations
from logjudge.models.operations import by_key
from logjudge.models.porcupine import (
    Action,
    Model,
    ModelError,
    Operation,
    check_operations,
)
from logjudge.models.porcupine.compiled_search import CompiledSearch
from logjudge.models.porcupine.steps import MAX_STATES
from logjudge.models.specifications import MODELS
from operation_cases import DATA, REGISTER, by_one_search


def hard_history(count: int) -> list[Operation]:
    """All adds are concurrent, and no subset of them has the sum, so the search tries every subset."""
    adds = [Operation(Action("add", 1 << (i + 1)), 0, 100) for i in range(count)]
    return [*adds, Operation(Action("read", None, 1), 0, 100)]


def test_time_runs_out() -> None:
    start = time.perf_counter()
    result = check_operations(MODELS["counter"], hard_history(40), timeout=0.3)
    assert result.verdict == "unknown"
    assert result.parts[0].reason == "the time ran out"
    assert time.perf_counter() - start < 20


def test_memory_runs_out() -> None:
    result = check_operations(MODELS["counter"], hard_history(40), memory=20 << 20)
    assert result.verdict == "unknown"
    assert result.parts[0].reason == "the memory ran out"
    assert result.parts[0].blocked is not None


def test_budgets_hold_where_each_object_is_easy() -> None:
    """Each of these searches ends before it checks the clock, and needs no more memory than the history."""
    puts = [Operation(Action("put", "a", None, key), key, key + 1) for key in range(2_000)]
    late = check_operations(MODELS["key-value"], puts, timeout=1e-9)
    assert (late.verdict, late.parts[0].reason) == ("unknown", "the time ran out")
    assert check_operations(MODELS["key-value"], puts).verdict == "ok"
    writes = [Operation(Action("write", 1, None), at, at + 1) for at in range(2_000)]
    full = check_operations(REGISTER, writes, memory=100_000)
    assert (full.verdict, full.parts[0].reason, full.parts[0].blocked) == ("unknown", "the memory ran out", 0)
    assert check_operations(REGISTER, [Operation(Action("write", 1), 0)], memory=1).parts[0].blocked is None


def test_a_hard_history_is_decided_when_there_is_time() -> None:
    result = check_operations(MODELS["counter"], hard_history(13))
    assert result.verdict == "illegal"
    assert result.parts[0].configurations == 1 << 13


def test_a_search_reports_few_of_its_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search has thousands of states when its time runs out, and to write down long contents takes time."""
    described = []
    original = CompiledSearch.state
    monkeypatch.setattr(CompiledSearch, "state", lambda *given: described.append(given[1]) or original(*given))
    updates = [Operation(Action("append" if value != "a" else "put", value, None), 0, 100) for value in "abcdef"]
    read = Operation(Action("get", None, "x"), 0, 50)
    part = check_operations(MODELS["key-value"], [*updates, read]).parts[0]
    assert (part.verdict, len(part.states), len(described)) == ("illegal", MAX_STATES, MAX_STATES)


def test_lost_operations_do_not_make_a_failure_hard_to_prove() -> None:
    operations = register_run(3_000, 5, 7, lost=0.003)
    read = next(i for i in range(2_000, 3_000) if operations[i].action.f == "read" and operations[i].end is not None)
    operations[read] = operations[read]._replace(action=Action("read", None, "never written"))
    result = check_operations(REGISTER, operations, memory=200 << 20)
    assert result.verdict == "illegal"
    assert result.parts[0].configurations < 30_000


def test_each_step_is_computed_once() -> None:
    calls: Counter[tuple[Any, Action]] = Counter()

    def step(state: tuple[Any], action: Action) -> tuple[Any] | None:
        calls[state, action] += 1
        return REGISTER.step(state, action)

    model = Model("counted", REGISTER.initial, step, observes=REGISTER.observes)
    history = read_operations(str(DATA / "etcd_057.log"))
    assert check_operations(model, history.operations).verdict == "illegal"
    assert set(calls.values()) == {1}
    calls.clear()
    assert check_operations(model, register_run(3000, 5, 1, lost=0.01)).verdict == "ok"
    assert set(calls.values()) == {1}


def test_configurations_grow_with_the_history() -> None:
    small, large = (
        check_operations(REGISTER, register_run(count, 5, 7, 5)).parts[0].configurations for count in (2_000, 20_000)
    )
    assert 8 < large / small < 12


@pytest.mark.campaign
@pytest.mark.slow
def test_a_million_operations() -> None:
    operations = register_run(1_000_000, 5, 7, 5)
    result = check_operations(REGISTER, operations)
    assert result.verdict == "ok"
    assert is_linearization(REGISTER, operations, result.parts[0].linearizations[0])


@pytest.mark.parametrize(
    ("operations", "sentence"),
    [
        ([Operation(Action("push", 1), 0, 1)], "'push'"),
        ([Operation(Action("cas", 1), 0, 1)], "pair"),
        ([Operation(Action("write", [1]), 0, 1)], "cannot be hashed"),
        ([Operation(Action("read", None, 1), 5, 1)], "ends at 1, called at 5"),
        ([Operation(Action("read", None, 1), float("nan"), 1)], "nan"),
        ([Operation(Action("read", key=[1]), 0, 1)], "cannot be hashed"),
    ],
)
def test_an_operation_that_the_model_rejects_is_an_error(operations: list[Operation], sentence: str) -> None:
    good = Operation(Action("write", 1), 0, 1)
    with pytest.raises(ModelError, match=sentence) as error:
        check_operations(REGISTER, [good, *operations])
    assert error.value.operation == 1


def test_a_model_that_raises_or_cheats_is_an_error() -> None:
    def broken(state: int, action: Action) -> int:
        return state // action.value  # type: ignore[no-any-return]

    operations = [Operation(Action("divide", 0), 0, 1)]
    with pytest.raises(ModelError, match="ZeroDivisionError"):
        check_operations(Model("broken", 1, broken), operations)
    cheat = Model("cheat", 1, lambda state, _: state + 1, observes=lambda _: True)
    with pytest.raises(ModelError, match="declared an observation"):
        check_operations(cheat, operations)
    with pytest.raises(ModelError, match="unhashable"):
        check_operations(Model("lists", 1, lambda *_: []), operations)  # type: ignore[arg-type,return-value]


def test_no_operations_are_in_order() -> None:
    assert check_operations(REGISTER, []).verdict == "ok"
    lost = [Operation(Action("write", 1), 0), Operation(Action("read"), 0)]
    assert check_operations(REGISTER, lost).verdict == "ok"
    assert by_one_search(CompiledSearch, REGISTER, lost).verdict == "ok"
    assert by_key(Action("read", key=3)) == 3
