"""Transactions on lists and registers: compared with a search of all orders, Elle's own examples, and odd histories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
import twin_isolation as twin
from campaign import IS_CAMPAIGN
from logjudge.analysis import txn_run
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.results import Results
from logjudge.analysis.transactions import anomalies
from logjudge.analysis.transactions.consistency_models import ruled_out
from logjudge.analysis.verdict.document import verdict_of
from logjudge.histories.bundle import open_run
from logjudge.histories.readers import CHECKED

HISTORIES = 10_000 if IS_CAMPAIGN else 600
ORDERS = {"": "", "strong-session-": "session", "strong-": "strong"}
ALLOWS: dict[str, Callable[[twin.History, str], bool]] = {
    "read-committed": twin.is_read_committed,
    "snapshot-isolation": twin.is_snapshot_isolated,
    "serializable": twin.is_serializable,
}


def name_of(order: str, model: str) -> str:
    return (order + model).replace("strong-serializable", "strict-serializable")


def judged(folder: Path, lines: list[str], reader: str | None = None, **settings: object) -> Results:
    file = folder / "h.edn"
    file.write_text("\n".join(lines) + "\n")
    run = open_run(file, reader, contents=CHECKED)
    for name, value in settings.items():
        object.__setattr__(run.settings, name, value)
    return judge_run(run)


def shows_order(history: twin.History) -> bool:
    """Whether at most one append to each list was not read, so that the order of all is known."""
    steps = [(txn.outcome, *step) for txn in history.txns for step in txn.steps]
    read = {(key, item) for outcome, f, key, value in steps if f == "r" and outcome == "ok" for item in value}
    unread = Counter(key for outcome, f, key, value in steps if f == "w" and (key, value) not in read)
    return max(unread.values(), default=0) < 2


def found_in(histories: list[twin.History], folder: Path, **settings: object) -> list[set[str]]:
    """The anomalies of each history. They are judged as one: one after the other, with keys and processes apart."""
    lines = [line for number, one in enumerate(histories) for line in twin.edn_lines(one, 100 * number, f"k{number}_")]
    findings = judged(folder, lines, **settings).findings()
    found: list[set[str]] = [set() for _ in histories]
    for rule, processes in findings.select("rule", "processes").iter_rows():
        numbers = {int(process) // 100 for process in processes}
        assert len(numbers) == 1, (rule, processes)
        found[numbers.pop()].add(rule)
    return found


@pytest.fixture
def unbounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(txn_run, "MAX_COMPONENTS", 10**6)
    monkeypatch.setattr(anomalies, "MAX_ANOMALIES", 10**6)


@pytest.mark.parametrize("once", [True, False])
@pytest.mark.usefixtures("unbounded")
def test_lists_are_judged_as_by_all_orders(tmp_path: Path, once: bool) -> None:
    """A model is ruled out if and only if no order of the transactions explains the history under it."""
    random = Random(7)
    histories = [twin.random_history(random, is_register=False, once=once) for _ in range(HISTORIES)]
    counts: Counter[tuple[str, bool]] = Counter()
    for history, found in zip(histories, found_in(histories, tmp_path), strict=True):
        out = ruled_out(found)
        for model, allows in ALLOWS.items():
            if model == "read-committed" and not once:
                continue
            for prefix, order in ORDERS.items():
                name = name_of(prefix, model)
                allowed = allows(history, order)
                is_complete = model != "snapshot-isolation" or shows_order(history)
                counts[name, allowed] += is_complete
                assert ((name not in out) == allowed) if is_complete else (allowed <= (name not in out)), "\n".join(
                    [name, *found, *twin.edn_lines(history)]
                )
    for name, allowed in counts:
        assert counts[name, allowed] >= HISTORIES // 100, counts


@pytest.mark.usefixtures("unbounded")
def test_registers_are_never_accused_wrongly(tmp_path: Path) -> None:
    """If an anomaly rules out a model, no order explains the history under it.

    Registers show less than lists, so some illegal histories are not found.
    """
    random = Random(8)
    histories = [twin.random_history(random, is_register=True, once=False) for _ in range(HISTORIES)]
    counts: Counter[tuple[str, bool, bool]] = Counter()
    for history, found in zip(histories, found_in(histories, tmp_path), strict=True):
        out = ruled_out(found)
        for model in ("snapshot-isolation", "serializable"):
            for prefix, order in ORDERS.items():
                name, allowed = name_of(prefix, model), ALLOWS[model](history, order)
                counts[name, allowed, name in out] += 1
                assert allowed <= (name not in out), "\n".join([name, *found, *twin.edn_lines(history)])
    assert counts["serializable", False, True] > HISTORIES // 20, counts


@pytest.mark.sampled(2)
@pytest.mark.parametrize("model", ["serializable", "snapshot-isolation", "strict-serializable"])
@pytest.mark.parametrize("is_register", [False, True])
def test_a_verdict_is_valid_only_where_an_order_explains_all(tmp_path: Path, model: str, is_register: bool) -> None:
    random = Random(9)
    order = "strong" if model == "strict-serializable" else ""
    allows = ALLOWS[model.replace("strict-", "")]
    counts: Counter[tuple[str, bool]] = Counter()
    for _ in range(400 if IS_CAMPAIGN else 16):
        history = twin.random_history(random, is_register, once=False)
        verdict = verdict_of(judged(tmp_path, twin.edn_lines(history), model=model))["verdict"]
        counts[verdict, allows(history, order)] += 1
    assert not counts["valid", False], counts
    assert not counts["invalid", True], counts
    assert counts["valid", True] > 3, counts
