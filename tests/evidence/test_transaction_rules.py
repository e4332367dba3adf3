"""hanging-transaction and torn-transaction: cases that they find and leave alone, and naive twins."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.inspect.open_partitions import Inspected
from logjudge.analysis.verdict.document import verdict_of
from logjudge.histories.bundle import open_run

from .transaction_logs import SEGMENT, Step, aborted_index, event, log, transaction, write_run

Events = list[dict[str, Any]]
S = 1_000  # ms
ENDS = {"!": "commit", "~": "abort"}


def send(value: str, offset: int, time: int, op: int) -> Events:
    about = {"topic": "x", "partition": 0, "value": value}
    return [
        event(time - 1, "p", op, "invoke", "send", **about),
        event(time, "p", op, "ok", "send", **about, offset=offset),
    ]


def contact(time: int) -> Events:
    """A client asks the leader for its end offset."""
    offsets = [{"topic": "x", "partition": 0, "offset": 1}]
    return [event(time - 1, "e", 0, "invoke", "end_offsets"), event(time, "e", 0, "ok", "end_offsets", offsets=offsets)]


def judged(folder: Path, rule: str) -> tuple[list[dict[str, Any]], str]:
    results = judge_run(open_run(folder))
    found = [finding for finding in results.findings().to_dicts() if finding["rule"] == rule]
    return found, verdict_of(results)["rules"][rule]["verdict"]


ONGOING, PREPARED = ("t", 7, "ongoing", [("x", 0)], (1, 1)), ("t", 7, "prepare-commit", [("x", 0)], (2, 1))
COMMITTED, ABORTED = ("t", 7, "complete-commit", [], (3, 1)), ("t", 7, "complete-abort", [], (3, 1))


class Case(NamedTuple):
    log: str
    steps: list[Step]
    contact: int  # ms
    verdict: str
    why: str = ""  # in the sentence
    timeout: int | None = 1_000
    fault: int | None = None


HANGING = {
    "committed, and no marker will come": Case(
        "7a b", [ONGOING, PREPARED, COMMITTED], 5 * S, "invalid", "had committed"
    ),
    "aborted, and no marker will come": Case("7a b", [ONGOING, ABORTED], 5 * S, "invalid", "had ended"),
    "decided long ago": Case("7a b", [ONGOING, PREPARED], 40 * S, "invalid", "decided to commit it at 0.002 s"),
    "beyond the timeout of its process": Case("7a b", [], 40 * S, "invalid", "its timeout of 1 s ended"),
    "beyond the timeout of its coordinator": Case("7a b", [ONGOING], 100 * S, "invalid", "its timeout of 60 s ended"),
    "the last of two": Case("7a 7! 7b b", [ONGOING, PREPARED, COMMITTED], 40 * S, "invalid", "since x-0@2"),
    "decided a moment ago": Case("7a b", [ONGOING, PREPARED], 20 * S, "valid"),
    "within its timeout": Case("7a b", [], 20 * S, "valid"),
    "within the timeout of its coordinator": Case("7a b", [ONGOING], 50 * S, "valid"),
    "within the greatest timeout": Case("7a b", [], 100 * S, "valid", timeout=None),
    "a fault was healed a moment ago": Case("7a b", [], 40 * S, "valid", fault=30 * S),
    "it ended": Case("7a b 7!", [], 40 * S, "valid"),
    "its coordinator ended it during the copy": Case("7a b", [ONGOING, PREPARED, COMMITTED], 1 * S, "unknown"),
}


@pytest.mark.parametrize("name", HANGING)
def test_hanging_transactions(name: str, tmp_path: Path) -> None:
    case = HANGING[name]
    offset = case.log.split().index("b")
    events = transaction("t", 0, [(0, "a", None)], "info", (0, 500)) + send("b", offset, 600, 0)
    if case.fault is not None:
        fault = {"kind": "kill", "nodes": ["1"]}
        events += [event(case.fault, "nemesis", 0, kind, "fault", fault=fault) for kind in ("invoke", "ok")]
    about = {} if case.timeout is None else {"transaction.timeout.ms": case.timeout}
    folder = write_run(tmp_path, {0: case.log}, events + contact(case.contact), case.steps, processes={"t": about})
    found, verdict = judged(folder, "hanging-transaction")
    assert (verdict, len(found)) == (case.verdict, int(case.verdict == "invalid"))
    if found:
        assert case.why in found[0]["sentence"]
        assert (found[0]["values"], found[0]["count"]) == (["b"], 1)


def test_without_a_client_it_is_not_known_whether_a_transaction_hangs(tmp_path: Path) -> None:
    folder = write_run(tmp_path, {0: "7a b"}, transaction("t", 0, [(0, "a", None)], "info", (0, 500)))
    assert judged(folder, "hanging-transaction") == ([], "unknown")


def random_hanging(random: Random) -> tuple[str, list[tuple[str, int, int]], list[Step], int, int]:
    """A log, its plain sends (value, offset, time), the coordinator's records, a last contact, and a timeout."""
    entries, plain, steps = [], [], []
    ended: dict[int, int] = {}
    for offset in range(random.randint(2, 9)):
        kind = random.choice(["plain", "plain", "record", "record", "marker"])
        pid = random.choice([7, 8])
        if kind == "plain":
            plain.append((f"p{offset}", offset, random.randint(1, 30) * S))
            entries.append(f"p{offset}")
        elif kind == "record":
            entries.append(f"{pid}a{offset}")
        else:
            entries.append(f"{pid}{random.choice('!~')}")
            ended[pid] = ended.get(pid, 0) + 1
    clock = 0
    for pid in (7, 8):
        if random.random() < 0.4:
            continue
        for _ in range(ended.get(pid, 0) + random.choice((0, 0, 1))):
            clock += 10
            times, end = (clock, clock), random.choice(("commit", "abort"))
            steps.append((f"t{pid}", pid, "ongoing", [("x", 0)], times))
            stages = random.choice((0, 1, 2, 2, 2))
            steps += [(f"t{pid}", pid, f"prepare-{end}", [("x", 0)], (clock + 1, clock))] * (stages > 0)
            steps += [(f"t{pid}", pid, f"complete-{end}", [], (clock + 2, clock))] * (stages > 1)
            if stages < 2:
                break
    return " ".join(entries), plain, steps, random.randint(31, 120) * S, random.choice((1, 20, 60)) * S


def naive_hanging(
    text: str, plain: list[tuple[str, int, int]], steps: list[Step], seen: int, timeout: int
) -> tuple[set[int], bool]:
    """The first offsets of hanging transactions, and whether any is not known to hang."""
    found: set[int] = set()
    is_unknown = False
    for pid in (7, 8):
        own = [(offset, entry) for offset, entry in enumerate(text.split()) if entry.startswith(str(pid))]
        markers = [offset for offset, entry in own if entry[1:] in ENDS]
        left = [offset for offset, entry in own if entry[1:] not in ENDS and offset > max(markers, default=-1)]
        if not left:
            continue
        written = min((time for _, offset, time in plain if offset >= left[0]), default=None)
        records = [step for step in steps if step[1] == pid]
        begins = [step for step in records if step[2] == "ongoing"]
        decided = [step for step in records if step[2].startswith("prepare")]
        last = records[-1][2] if records else ""
        if last.startswith("complete"):
            is_same = len(decided) == len(markers) + 1
            known = min(t for t in (written, begins[-1][4][1]) if t is not None)
            if is_same or known < records[-1][4][0]:
                found |= {left[0]}  # the last contact is long after
                continue
        if last.startswith("prepare"):
            since = records[-1][4][0]
        else:
            known_since = [t for t in (written, begins[-1][4][1] if begins else None) if t is not None]
            if not known_since:
                is_unknown = True
                continue
            since = min(known_since) + (60 * S if records else timeout)
        if seen - since > 30 * S:
            found |= {left[0]}
    return found, is_unknown


@given(st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_hanging_transactions_agree_with_a_twin(random: Random) -> None:
    text, plain, steps, seen, timeout = random_hanging(random)
    events = [one for op, (value, offset, time) in enumerate(plain) for one in send(value, offset, time, op)]
    for pid in (7, 8):
        sends = [(0, entry[1:], None) for entry in text.split() if entry[0] == str(pid) and entry[1:] not in ENDS]
        events += transaction(f"t{pid}", 0, sends, "info", (0, 1)) if sends else []
    processes = {f"t{pid}": {"transaction.timeout.ms": timeout} for pid in (7, 8)}
    with tempfile.TemporaryDirectory() as folder:
        run = write_run(Path(folder), {0: text}, events + contact(seen), steps, processes=processes)
        found, verdict = judged(run, "hanging-transaction")
    expected, is_unknown = naive_hanging(text, plain, steps, seen, timeout)
    assert {finding["first_offset"] for finding in found} == expected
    assert (verdict == "unknown") == (is_unknown and not expected) or not plain


TORN = {
    "committed, aborted": ("7a 7!", "7b 7~", "ok", {("x-1", "aborted", "b")}),
    "committed, absent": ("7a 7!", "c", "ok", {("x-1", "absent", "b")}),
    "undecided for its client": ("7a 7!", "7b 7~", "info", {("x-1", "aborted", "b")}),
    "aborted for its client": ("7a 7!", "7b 7~", "fail", {("x-0", "committed", "a")}),
    "committed everywhere": ("7a 7!", "7b 7!", "info", set()),
    "aborted everywhere": ("7a 7~", "7b 7~", "ok", set()),
    "one is open": ("7a 7!", "7b", "ok", set()),
    "undecided, and one was never written": ("7a 7!", "c", "info", set()),
}


def torn_findings(folder: Path) -> set[tuple[str, str, str]]:
    found, _ = judged(folder, "torn-transaction")
    return {
        (f"x-{one['partition']}", one["sentence"].rsplit(" ", 1)[1], value) for one in found for value in one["values"]
    }


@pytest.mark.parametrize("name", TORN)
def test_torn_transactions(name: str, tmp_path: Path) -> None:
    one, other, outcome, expected = TORN[name]
    offsets = (0, 0) if outcome == "ok" else (None, None)
    events = transaction("t", 0, [(0, "a", offsets[0]), (1, "b", offsets[1])], outcome, (0, 5))
    assert torn_findings(write_run(tmp_path, {0: one, 1: other}, events)) == expected


@pytest.mark.spark
def test_torn_transactions_are_the_same_on_spark(tmp_path: Path, spark: Any) -> None:
    from logjudge.analysis.engines import spark as engine

    logs = {0: "7a 7! 8e 8!", 1: "7b 7~ 8f 8!", 2: "z"}
    events = transaction("t", 0, [(0, "a", 0), (1, "b", 0)], "ok", (0, 5))
    events += transaction("u", 0, [(0, "e", 2), (1, "f", 2), (2, "g", 1)], "ok", (6, 9))
    run = open_run(write_run(tmp_path, logs, events))
    found = judge_run(run).findings()
    assert {*found.filter(pl.col("rule") == "torn-transaction")["values"].list.first()} == {"b", "g"}
    assert engine.judge_run(run, spark).findings().to_dicts() == found.to_dicts()


def test_what_retention_may_have_removed_is_not_torn(tmp_path: Path) -> None:
    events = transaction("t", 0, [(0, "a", 0), (1, "b", 0)], "ok", (0, 5))
    folder = write_run(tmp_path, {0: "7a 7!", 1: "c"}, events)
    (folder / "brokers" / "1" / "data" / "log-start-offset-checkpoint").write_text("0\n1\nx 1 1\n")
    assert torn_findings(folder) == set()


@pytest.mark.parametrize("rule", ["torn-transaction", "hanging-transaction"])
def test_a_damaged_log_may_lack_markers(rule: str, tmp_path: Path) -> None:
    events = transaction("t", 0, [(0, "a", None), (1, "b", None)], "info", (0, 5)) + send("c", 4, 600, 0)
    folder = write_run(tmp_path, {0: "7a 7~ 7d 7! c", 1: "7b 7! 7e"}, events + contact(100 * S))
    segment = folder / "brokers" / "1" / "data" / "x-0" / SEGMENT
    data = bytearray(segment.read_bytes())
    second = len(log("7a"))
    data[second + 40] ^= 1
    segment.write_bytes(data)
    outcomes = Inspected(folder).partition("x-0").sends.filter("txn")["outcome"].cast(pl.String).to_list()
    assert outcomes == ["info"]
    other = folder / "brokers" / "1" / "data" / "x-1" / SEGMENT
    data = bytearray(other.read_bytes())
    data[second + 40] ^= 1
    other.write_bytes(data)
    assert judged(folder, rule) == ([], "unknown")


ORDERED = {
    "a marker of a fenced transaction": ("7a 7b^1 7!", {2}),
    "a zombie": ("7a^1 7b 7!^1", {1}),
    "two producers": ("7a^1 8b 7!^1 8!", set()),
    "a fenced transaction is aborted with the next epoch": ("7a 7~^1 7b^1 7!^1", set()),
    "it comes back after it was higher": ("7a^2 7b^1 7c^2 7d^1", {1, 3}),
}


@pytest.mark.parametrize("name", ORDERED)
def test_the_epochs_of_a_producer_do_not_go_back(name: str, tmp_path: Path) -> None:
    text, expected = ORDERED[name]
    found, verdict = judged(write_run(tmp_path, {0: text}, contact(1 * S)), "producer-epoch-order")
    assert {finding["first_offset"] for finding in found} == expected
    assert verdict == ("invalid" if expected else "valid")


@given(st.lists(st.tuples(st.sampled_from("78"), st.integers(0, 3)), min_size=1, max_size=8))
@settings(max_examples=30, deadline=None)
def test_the_order_of_epochs_agrees_with_a_twin(entries: list[tuple[str, int]]) -> None:
    text = " ".join(f"{pid}v{number}^{epoch}" for number, (pid, epoch) in enumerate(entries))
    with tempfile.TemporaryDirectory() as folder:
        found, _ = judged(write_run(Path(folder), {0: text}, contact(1 * S)), "producer-epoch-order")
    offsets = {at for one in found for at in range(one["first_offset"], one["last_offset"] + 1)}
    expected = set()
    for number, (pid, epoch) in enumerate(entries):
        if any(other == pid and earlier > epoch for other, earlier in entries[:number]):
            expected.add(number)
    assert expected <= offsets
    assert len(expected) == sum(one["count"] for one in found)


INDEXED: dict[str, tuple[list[tuple[int, int, int]], set[int]]] = {
    "all": ([(7, 0, 1), (8, 2, 3), (7, 4, 6)], set()),
    "without the first": ([(8, 2, 3), (7, 4, 6)], {0}),
    "without the last": ([(7, 0, 1), (8, 2, 3)], set()),  # it may have been copied before the segment
    "another producer's": ([(9, 0, 1), (8, 2, 3), (7, 4, 6)], {0}),
    "empty": ([], set()),
}


@pytest.mark.parametrize("name", INDEXED)
def test_an_index_has_all_aborted_transactions(name: str, tmp_path: Path) -> None:
    entries, expected = INDEXED[name]
    folder = write_run(tmp_path, {0: "7a 7~ 8b 8~ 7c 8~ 7~ 8d 8!"}, contact(1 * S))
    (folder / "brokers" / "1" / "data" / "x-0" / f"{0:020d}.txnindex").write_bytes(aborted_index(*entries))
    found, verdict = judged(folder, "aborted-index")
    assert {finding["first_offset"] for finding in found} == expected
    assert verdict == ("invalid" if expected else "valid")


@given(st.lists(st.sampled_from(["7a", "8a", "7~", "8~", "7!", "8!"]), max_size=10), st.integers(0, 1023))
@settings(max_examples=30, deadline=None)
def test_the_index_agrees_with_a_twin(entries: list[str], chosen: int) -> None:
    began: dict[str, int] = {}
    aborted = []
    for offset, entry in enumerate(entries):
        pid, what = entry[0], entry[1:]
        if what == "~" and pid in began:
            aborted.append((int(pid), began[pid], offset))
        began = (
            {**began, pid: began.get(pid, offset)} if what == "a" else {p: at for p, at in began.items() if p != pid}
        )
    index = [entry for number, entry in enumerate(aborted) if chosen >> number & 1]
    expected = {entry[1] for entry in aborted if entry not in index and index and entry[2] < index[-1][2]}
    text = " ".join(entry.replace("a", f"a{number}") for number, entry in enumerate(entries)) or "z"
    with tempfile.TemporaryDirectory() as name:
        folder = write_run(Path(name), {0: text}, contact(1 * S))
        (folder / "brokers" / "1" / "data" / "x-0" / f"{0:020d}.txnindex").write_bytes(aborted_index(*index))
        found, _ = judged(folder, "aborted-index")
    assert {finding["first_offset"] for finding in found} == expected


def random_torn(random: Random) -> tuple[dict[int, str], list[tuple[str, list[str]]]]:
    """The logs of two partitions, and operations: their outcome and the values that each partition was sent."""
    logs: dict[int, list[str]] = {0: [], 1: []}
    operations = []
    for number in range(random.randint(1, 5)):
        pid = 7 + number % 2
        values = [f"v{number}{partition}" for partition in (0, 1)]
        outcome = random.choice(("ok", "ok", "info", "fail"))
        usual = "~" if outcome == "fail" else "!"
        for partition, value in enumerate(values):
            if random.random() < 0.9:
                logs[partition].append(f"{pid}{value}")
            if random.random() < 0.9:
                logs[partition].append(f"{pid}{random.choice((usual, usual, usual, '!', '~'))}")
        operations.append((outcome, values))
    return {partition: " ".join(entries) or "z" for partition, entries in logs.items()}, operations


def naive_torn(logs: dict[int, str], operations: list[tuple[str, list[str]]]) -> set[tuple[str, str, str]]:
    found = set()
    for outcome, values in operations:
        states = {}
        for partition, value in enumerate(values):
            entries = logs[partition].split()
            at = next((number for number, entry in enumerate(entries) if entry[1:] == value), None)
            if at is None:
                states[partition] = "absent" if outcome == "ok" else ""
                continue
            later = [entry[1:] for entry in entries[at:] if entry[0] == entries[at][0] and entry[1:] in ENDS]
            states[partition] = {"!": "committed", "~": "aborted"}[later[0]] if later else ""
        if "committed" in states.values() and {"aborted", "absent"} & {*states.values()}:
            usual = "aborted" if outcome == "fail" else "committed"
            found |= {(f"x-{p}", state, values[p]) for p, state in states.items() if state and state != usual}
    return found


@given(st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_torn_transactions_agree_with_a_twin(random: Random) -> None:
    logs, operations = random_torn(random)
    events = []
    for number, (outcome, values) in enumerate(operations):
        entries = {partition: [entry.lstrip("78") for entry in logs[partition].split()] for partition in logs}
        places = [(p, value, entries[p].index(value) if value in entries[p] else 99) for p, value in enumerate(values)]
        sends = [(p, value, at if outcome == "ok" else None) for p, value, at in places]
        events += transaction("t", number, sends, outcome, (10 * number, 10 * number + 5))
    with tempfile.TemporaryDirectory() as folder:
        assert torn_findings(write_run(Path(folder), logs, events)) == naive_torn(logs, operations)
