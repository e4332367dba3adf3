"""The engine's verdicts match the definition, on all models."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from campaign import IS_CAMPAIGN, examples
from histories_of_operations import is_linearizable, is_linearization, register_run
from hypothesis import given
from hypothesis import strategies as st
from logjudge.analysis.linearizability.user_model import load_model
from logjudge.histories.operation_history import read_operations
from logjudge.models.porcupine import (
    UNKNOWN,
    Action,
    Event,
    Model,
    ModelError,
    Operation,
    check_events,
    check_operations,
)
from logjudge.models.porcupine.compiled_search import CompiledSearch
from logjudge.models.porcupine.encoding import encode
from logjudge.models.porcupine.history import History, Numbered, number_actions
from logjudge.models.porcupine.machine import IMPOSSIBLE, step, with_room
from logjudge.models.porcupine.quick_search import QuickSearch
from logjudge.models.porcupine.steps import Budget, Steps
from logjudge.models.specifications import MODELS
from operation_cases import DATA, REGISTER, by_one_search

VALUES = st.integers(0, 2)


def act(*fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Action]:
    """Actions with these fields."""
    return st.tuples(*fields).map(lambda values: Action(*values))


# A strategy for the actions of each model: few values, so that results are often, but not always, possible.
ACTIONS: dict[str, st.SearchStrategy[Action]] = {
    "register": st.one_of(
        act(st.just("read"), st.none(), st.none() | VALUES | st.just(UNKNOWN)),
        act(st.just("write"), VALUES, st.none()),
        act(st.just("cas"), st.tuples(VALUES, VALUES), st.booleans() | st.just(UNKNOWN)),
    ),
    "key-value": st.one_of(
        act(st.just("get"), st.none(), st.sampled_from(["", "a", "b", "ab", "ba"]), VALUES),
        act(st.sampled_from(["put", "append"]), st.sampled_from(["a", "b"]), st.none(), VALUES),
    ),
    "set": st.one_of(
        act(st.sampled_from(["add", "remove"]), VALUES, st.none()),
        act(st.just("contains"), VALUES, st.booleans()),
        act(st.just("read"), st.none(), st.frozensets(VALUES, max_size=2)),
    ),
    "queue": st.one_of(
        act(st.just("enqueue"), VALUES, st.none()),
        act(st.just("dequeue"), st.none(), st.none() | VALUES | st.just(UNKNOWN)),
    ),
    "stack": st.one_of(
        act(st.just("push"), VALUES, st.none()),
        act(st.just("pop"), st.none(), st.none() | VALUES | st.just(UNKNOWN)),
    ),
    "priority-queue": st.one_of(
        act(st.just("insert"), VALUES, st.none()),
        act(st.just("delete-min"), st.none(), st.none() | VALUES | st.just(UNKNOWN)),
    ),
    "counter": st.one_of(
        act(st.sampled_from(["add", "subtract"]), VALUES, st.none()),
        act(st.just("read"), st.none(), st.integers(-2, 3)),
    ),
    "lock": act(st.sampled_from(["acquire", "release"]), st.none() | VALUES, st.none()),
    "append-log": st.one_of(
        act(st.just("append"), VALUES, st.integers(0, 3) | st.just(UNKNOWN)),
        act(st.just("read"), st.integers(0, 2), st.lists(VALUES, max_size=2).map(tuple)),
        act(st.just("end"), st.none(), st.integers(0, 3)),
    ),
}


def histories(actions: st.SearchStrategy[Action]) -> st.SearchStrategy[list[Operation]]:
    """A few operations on a clock of few instants, so that many times are equal; some of unknown outcome."""
    spans = st.tuples(st.integers(0, 6), st.none() | st.integers(0, 4))
    operation = st.builds(
        lambda action, span: Operation(action, span[0], None if span[1] is None else span[0] + span[1]),
        actions,
        spans,
    )
    return st.lists(operation, max_size=6)


def pending_twice(model: Model[Any], actions: Sequence[Action]) -> Numbered:
    """Each action twice, without an outcome, so that each may take effect at any later time."""
    return number_actions(model, [Operation(action, 0) for action in actions for _ in range(2)])


def machine_search(history: History, steps: Steps, budget: Budget, by_calls: bool = False) -> CompiledSearch:
    """The compiled search with compiled steps."""
    encoding = encode(steps.model, pending_twice(steps.model, steps.actions))
    assert encoding is not None
    return CompiledSearch(history, Steps(steps.model, steps.actions, steps.observes, encoding), budget, by_calls)


SEARCHES = (
    QuickSearch,
    CompiledSearch,
    partial(CompiledSearch, by_calls=True),
    machine_search,
    partial(machine_search, by_calls=True),
)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", sorted(ACTIONS))
def test_every_model_agrees_with_all_permutations(name: str) -> None:
    model = MODELS[name]
    seen: Counter[bool] = Counter()

    @examples(120, 1000)
    @given(histories(ACTIONS[name]))
    def check(operations: list[Operation]) -> None:
        expected = is_linearizable(model, operations)
        seen[expected] += 1
        assert check_operations(model, operations).verdict == ("ok" if expected else "illegal")
        if operations and name != "key-value":  # one search does not split a history by key
            for search in SEARCHES:
                found = by_one_search(search, model, operations)
                assert found.verdict == ("ok" if expected else "illegal")
                if expected:
                    assert is_linearization(model, operations, found.paths[0])

    check()
    assert min(seen[True], seen[False]) > 5


def test_every_model_is_tested() -> None:
    assert {model.name for model in MODELS.values()} == set(ACTIONS)


@pytest.mark.parametrize(("processes", "lost"), [(3, 0.0), (5, 0.2), (12, 0.1), (40, 0.02)])
def test_both_searches_accept_what_happened(processes: int, lost: float) -> None:
    for seed in range(6 if IS_CAMPAIGN else 1):
        operations = register_run(120, processes, seed, lost=lost)
        assert check_operations(REGISTER, operations).verdict == "ok"
        for search in (CompiledSearch, partial(CompiledSearch, by_calls=True)):
            found = by_one_search(search, REGISTER, operations)
            assert found.verdict == "ok"
            assert is_linearization(REGISTER, operations, found.paths[0])


@pytest.mark.parametrize("lost", [0.0, 0.15])
def test_both_searches_agree_on_what_was_changed(lost: float) -> None:
    verdicts: Counter[str] = Counter()
    for seed in range(60 if IS_CAMPAIGN else 20):
        operations = register_run(60, 5, seed, lost=lost)
        reads = [i for i, each in enumerate(operations) if each.action.f == "read" and each.end is not None]
        changed = reads[seed % len(reads)]
        action = operations[changed].action
        operations[changed] = operations[changed]._replace(action=action._replace(result=seed % 5))
        deep = by_one_search(CompiledSearch, REGISTER, operations)
        result = check_operations(REGISTER, operations)
        assert deep.verdict == result.verdict
        verdicts[result.verdict] += 1
        part = result.parts[0]
        if result.verdict == "illegal":
            assert part.placed == deep.front
            assert part.blocked is not None
            end = operations[part.blocked].end
            assert sum(each.end is not None and each.end < end for each in operations) == part.placed
    assert verdicts["ok"] > 5
    assert verdicts["illegal"] > 5


@pytest.mark.parametrize(("name", "verdict"), json.loads((DATA / "verdicts.json").read_text()).items())
def test_known_verdicts(name: str, verdict: str) -> None:
    history = read_operations(str(DATA / name))
    model = MODELS["register" if name.endswith(".log") else "key-value"]
    assert check_operations(model, history.operations).verdict == verdict


def test_readme_of_the_module() -> None:
    write = Operation(Action("write", 1), 0, 10)
    assert check_operations(REGISTER, [write, Operation(Action("read", None, 1), 5, 12)]).verdict == "ok"
    assert check_operations(REGISTER, [write, Operation(Action("read", None, 2), 5, 12)]).verdict == "illegal"


def snippets() -> list[str]:
    """The Python in docs/porcupine.md: what is indented, a blank line around it."""
    text = (Path(__file__).parent.parent / "docs" / "porcupine.md").read_text(encoding="utf-8")
    blocks = [dedent(block) for block in re.findall(r"(?:^    .*\n)+", text, re.MULTILINE)]
    return [block for block in blocks if block.startswith(("from ", "class ", "import "))]


def test_the_snippets_of_the_docs_run_as_they_stand(tmp_path: Path) -> None:
    library, arrays, bank = snippets()
    names: dict[str, Any] = {}
    exec(arrays, names)
    exec(library, names)
    result = names["result"]
    assert result.verdict == "ok"
    assert result.parts[0].linearizations == [[0, 1]]
    (tmp_path / "my_model.py").write_text(bank, encoding="utf-8")
    model = load_model(f"{tmp_path / 'my_model.py'}:Bank")
    deposit = Operation(Action("deposit", 5, None), 0, 1)
    assert check_operations(model, [deposit, Operation(Action("read", None, 5), 2, 3)]).verdict == "ok"
    failed = check_operations(model, [deposit, Operation(Action("read", None, 4), 2, 3)])
    assert failed.worst is not None
    assert (failed.verdict, failed.worst.linearizations, failed.worst.blocked) == ("illegal", [[0]], 1)
    assert (failed.worst.placed, failed.worst.states) == (1, [5])


def test_intervals_are_closed() -> None:
    write = Operation(Action("write", 1), 0, 5)
    assert check_operations(REGISTER, [write, Operation(Action("read", None, None), 5, 9)]).verdict == "ok"
    assert check_operations(REGISTER, [write, Operation(Action("read", None, None), 6, 9)]).verdict == "illegal"
    instant = [Operation(Action("write", 1), 3, 3), Operation(Action("read", None, None), 3, 3)]
    assert check_operations(REGISTER, instant).verdict == "ok"


def test_times_are_compared_exactly() -> None:
    """2**53 + 1 is no float: rounding would make the two concurrent."""
    write = Operation(Action("write", 1), 0, 2**53)
    late = Operation(Action("read", None, None), 2**53 + 1, 2**60)
    also = Operation(Action("read", None, None), 0.5, 0.75)
    for search in (QuickSearch, CompiledSearch):
        assert by_one_search(search, REGISTER, [write, late, also]).verdict == "illegal"


def test_ends_may_be_infinite() -> None:
    endless = float("inf")
    operations = [Operation(Action("write", 1), 0, endless), Operation(Action("read", None, 1), 1, endless)]
    late = Operation(Action("read", None, None), endless, endless)
    for search in (QuickSearch, CompiledSearch):
        assert by_one_search(search, REGISTER, operations).verdict == "ok"
        assert by_one_search(search, REGISTER, [*operations, late]).verdict == "ok"


def test_a_lost_write_may_come_late_or_never() -> None:
    lost = Operation(Action("write", 1), 0, None)
    reads = [Operation(Action("read", None, value), 10 * i + 5, 10 * i + 9) for i, value in enumerate([None, 1])]
    assert check_operations(REGISTER, [lost, *reads]).verdict == "ok"
    assert check_operations(REGISTER, [lost, reads[0]]).verdict == "ok"
    back = Operation(Action("read", None, None), 30, 31)
    assert check_operations(REGISTER, [lost, *reads, back]).verdict == "illegal"
    early = Operation(Action("read", None, 1), -5, -1)
    assert check_operations(REGISTER, [lost, early]).verdict == "illegal"


def test_a_write_of_the_same_value_is_no_observation() -> None:
    """A write that leaves the present state as it is may be needed later, where it does not."""
    operations = [
        Operation(Action("write", 3), 0, 1),
        Operation(Action("write", 3), 2, 20),
        Operation(Action("write", 4), 3, 5),
        Operation(Action("read", None, 4), 6, 8),
        Operation(Action("read", None, 3), 9, 30),
    ]
    for search in (QuickSearch, CompiledSearch):
        assert by_one_search(search, REGISTER, operations).verdict == "ok"


def test_evidence_of_a_stale_read() -> None:
    operations = [
        Operation(Action("write", 1), 0, 1),
        Operation(Action("write", 2), 2, 3),
        Operation(Action("read", None, 1), 4, 5),
        Operation(Action("write", 9), 6, 7),
    ]
    part = check_operations(REGISTER, operations).parts[0]
    assert part.verdict == "illegal"
    assert (part.placed, part.completed, part.blocked) == (2, 4, 2)
    assert part.states == [(2,)]
    assert part.linearizations == [[0, 1]]


def test_keys_are_checked_alone_and_the_illegal_one_is_named() -> None:
    operations = []
    for key in "abc":
        operations += [
            Operation(Action("put", key, None, key), 0, 1),
            Operation(Action("get", None, "x" if key == "b" else key, key), 2, 3),
        ]
    result = check_operations(MODELS["key-value"], operations)
    assert result.verdict == "illegal"
    assert result.worst is not None
    assert result.worst.key == "b"
    assert result.worst.blocked == 3


def test_events_are_operations() -> None:
    events = [
        Event("call", 0, Action("write", 1)),
        Event("call", 1, Action("read")),
        Event("return", 0, None),
        Event("return", 1, None),
        Event("call", 2, Action("read")),
        Event("return", 2, 1),
    ]
    assert check_events(REGISTER, events).verdict == "ok"
    events[-1] = Event("return", 2, 2)
    assert check_events(REGISTER, events).verdict == "illegal"
    with pytest.raises(ModelError, match="no open call"):
        check_events(REGISTER, [Event("return", 0, 1)])
    with pytest.raises(ModelError, match="two calls"):
        check_events(REGISTER, [events[0], events[0]])


STRINGS = st.sampled_from(["a", "b", "ab", "", "c d", "c"])
SEQUENCES: dict[str, st.SearchStrategy[Action]] = {
    **ACTIONS,
    "key-value": st.one_of(
        act(st.just("get"), st.none(), st.none() | st.lists(STRINGS, max_size=4).map("".join)),
        act(st.sampled_from(["put", "append"]), STRINGS, st.none()),
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", sorted(SEQUENCES))
def test_compiled_steps_agree_with_the_model(name: str) -> None:
    """Random walks: the same results are possible, equal states have equal numbers, and observations change nothing."""
    model = MODELS[name]

    @examples(60, 1000)
    @given(st.lists(SEQUENCES[name], min_size=1, max_size=40))
    def check(walk: list[Action]) -> None:
        actions = list(dict.fromkeys(walk))
        encoding = encode(model, pending_twice(model, actions))
        assert encoding is not None
        machine = with_room(encoding.machine, 4096)
        state, number = model.initial, encoding.initial
        numbers = {state: number}
        for action in walk:
            after = model.step(state, action)
            assert not model.observes(action) or after in (state, None)
            stepped = step(machine, number, actions.index(action))
            assert (after is None) == (stepped == IMPOSSIBLE), (state, action)
            if after is not None:
                state, number = after, stepped
                assert encoding.state(machine, number) == state
                assert numbers.setdefault(state, number) == number

    check()


@examples(100, 1000)
@given(
    histories(
        st.one_of(
            act(st.just("get"), st.none(), st.permutations(["a", "b", "cc"]).map(lambda s: "".join(s[:2])), VALUES),
            act(st.sampled_from(["put", "append", "append"]), st.sampled_from(["a", "b", "cc"]), st.none(), VALUES),
        )
    )
)
def test_known_places_of_appends_keep_the_verdict(operations: list[Operation]) -> None:
    expected = is_linearizable(MODELS["key-value"], operations)
    assert check_operations(MODELS["key-value"], operations).verdict == ("ok" if expected else "illegal")
