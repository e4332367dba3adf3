"""hanging-transaction and torn-transaction: cases that they find and leave alone, and naive twins."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import polars as pl
import pytest
from campaign import Selection
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.inspect.open_partitions import Inspected
from logjudge.histories.bundle import open_run

from .transaction_logs import (
    FINAL_READER,
    LEADS,
    SEGMENT,
    Step,
    contact,
    event,
    final_reads,
    judged,
    log,
    send,
    transaction,
    write_run,
)

S = 1_000  # ms
ENDS = {"!": "commit", "~": "abort"}
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
    "within its timeout, if it had not ended": Case("7a b", [], 20 * S, "unknown"),
    "within the timeout of its coordinator": Case("7a b", [ONGOING], 50 * S, "valid"),
    "within the greatest timeout": Case("7a b", [], 100 * S, "unknown", timeout=None),
    "a fault was healed a moment ago": Case("7a b", [ONGOING], 100 * S, "valid", fault=80 * S),
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


JUST_ENDED = [ONGOING, ("t", 7, "complete-abort", [], (19 * S, 1))]
INITIALISED = {
    "it is over then": ({}, "invalid"),
    "its coordinator ended it while the logs were copied": ({"ids": ["t"], "steps": JUST_ENDED}, "invalid"),
    "the outcome is not known": ({"outcome": "info"}, "unknown"),
    "another id": ({"ids": ["u"]}, "unknown"),
    "the ids are not recorded": ({"ids": None}, "unknown"),
    "it may have begun since": ({"at": 500}, "unknown"),
    "no client reached the leader since": ({"at": 30 * S}, "unknown"),
    "it has ended": ({"log": "7a b 7~"}, "valid"),
}


@pytest.mark.parametrize("name", INITIALISED)
def test_initialising_a_transactional_id_again_ends_its_transaction(name: str, tmp_path: Path) -> None:
    about, verdict = INITIALISED[name]
    fault = {"kind": "init-transactions", "nodes": [], "transactional_ids": about.get("ids", ["r"])}
    at, outcome = about.get("at", 10 * S), about.get("outcome", "ok")
    events = transaction("t", 0, [(0, "a", None)], "info", (0, 500)) + send("b", 1, 600, 0) + contact(20 * S)
    events += [event(at, "nemesis", 0, kind, "fault", fault=fault) for kind in ("invoke", outcome)]
    processes = {"t": {"transactional.id": "r"}}
    folder = write_run(tmp_path, {0: about.get("log", "7a b")}, events, about.get("steps", []), processes=processes)
    found, judgement = judged(folder, "hanging-transaction")
    assert (judgement, len(found)) == (verdict, int(verdict == "invalid"))
    assert all("initialised again at 10" in one["sentence"] for one in found)


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
            is_this_decided = len(decided) == len(markers) + 1
            known = min(t for t in (written, begins[-1][4][1]) if t is not None)
            if is_this_decided or known < records[-1][4][0]:
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
        elif not records:
            is_unknown = True
    return found, is_unknown


@pytest.mark.thorough
def test_hanging_transactions_agree_with_a_twin(tmp_path: Path) -> None:
    selection = Selection(2)
    for seed in range(300):
        run = random_hanging(Random(seed))
        expected, is_unknown = naive_hanging(*run)
        last = run[2][-1][2] if run[2] else "no record"
        if selection.takes({(len(expected), is_unknown), last}):
            compare_hanging(*run, expected, is_unknown, tmp_path / str(seed))
    assert len(selection.met) >= 9


def compare_hanging(
    text: str,
    plain: list[tuple[str, int, int]],
    steps: list[Step],
    seen: int,
    timeout: int,
    expected: set[int],
    is_unknown: bool,
    folder: Path,
) -> None:
    events = [one for op, (value, offset, time) in enumerate(plain) for one in send(value, offset, time, op)]
    for pid in (7, 8):
        sends = [(0, entry[1:], None) for entry in text.split() if entry[0] == str(pid) and entry[1:] not in ENDS]
        events += transaction(f"t{pid}", 0, sends, "info", (0, 1)) if sends else []
    processes = {f"t{pid}": {"transaction.timeout.ms": timeout} for pid in (7, 8)}
    run = write_run(folder, {0: text}, events + contact(seen), steps, processes=processes)
    found, verdict = judged(run, "hanging-transaction")
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
        (f"x-{one['partition']}", one["sentence"].partition(", but")[0].rpartition(" ")[2], value)
        for one in found
        for value in one["values"]
    }


@pytest.mark.parametrize("name", TORN)
def test_torn_transactions(name: str, tmp_path: Path) -> None:
    one, other, outcome, expected = TORN[name]
    offsets = (0, 0) if outcome == "ok" else (None, None)
    events = transaction("t", 0, [(0, "a", offsets[0]), (1, "b", offsets[1])], outcome, (0, 5))
    assert torn_findings(write_run(tmp_path, {0: one, 1: other}, events)) == expected


@pytest.mark.parametrize(
    ("rule", "events", "steps"),
    [
        ("torn-transaction", transaction("t", 0, [(0, "a", 0), (1, "b", 0)], "ok", (0, 5)), []),
        ("hanging-transaction", send("c", 1, 3, 0), [ONGOING]),
    ],
)
def test_without_the_last_leaders_log_transactions_are_unknown(
    rule: str, events: list[Any], steps: list[Step], tmp_path: Path
) -> None:
    folder = write_run(tmp_path, {0: "7a c", 1: "7b 7~"}, events + contact(5 * S), steps)
    assert judged(folder, rule)[1] != "unknown"
    (folder / "brokers" / "1").rename(folder / "brokers" / "2")
    leads = LEADS.format(broker=3, name="x-0") + LEADS.format(broker=3, name="x-1")
    (folder / "brokers" / "3").mkdir()
    (folder / "brokers" / "3" / "server.log").write_text(leads)
    (folder / "brokers" / "2" / "server.log").unlink()
    found, verdict = judged(folder, rule)
    assert (found, verdict) == ([], "unknown")


def test_a_torn_transaction_follows_from_the_loss_of_its_records(tmp_path: Path) -> None:
    events = transaction("t", 0, [(0, "a", 0), (1, "b", 0)], "ok", (0, 5)) + final_reads([(0, 0, "a")], {0: 2, 1: 2})
    folder = write_run(tmp_path, {0: "7a 7!", 1: "7b 7~"}, events, processes=FINAL_READER, final=True)
    [torn], _ = judged(folder, "torn-transaction", "lost-write")
    [lost], _ = judged(folder, "lost-write")
    assert (lost["values"], torn["values"]) == (["b"], ["b"])
    assert torn["related"] == [lost["id"]]


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


def test_records_that_retention_may_have_removed_are_not_torn(tmp_path: Path) -> None:
    events = transaction("t", 0, [(0, "a", 0), (1, "b", 0)], "ok", (0, 5))
    folder = write_run(tmp_path, {0: "7a 7!", 1: "c"}, events)
    (folder / "brokers" / "1" / "data" / "log-start-offset-checkpoint").write_text("0\n1\nx 1 1\n")
    assert torn_findings(folder) == set()


NEXT: list[Step] = [("t", 7, "ongoing", [("x", 0)], (9, 9)), ("t", 7, "prepare-commit", [("x", 0)], (10, 9))]
DECIDED: list[Step] = [ONGOING, ("t", 7, "prepare-abort", [("x", 0)], (2, 1)), ABORTED]
RESOLVED: dict[str, tuple[str, list[Step], str]] = {
    "committed": ("7a 7!", [], "ok"),
    "aborted by the leader that wrote it": ("7a 7~", [], "fail"),
    "aborted by the next leader": ("7a 7~@1", [], "info"),  # a COMMIT marker between may have been lost
    "aborted by the next leader, as decided": ("7a 7~@1", DECIDED, "fail"),
    "aborted by the next leader, but decided otherwise": ("7a 7~@1", [ONGOING, PREPARED, COMMITTED], "info"),
    "aborted, and more was decided": ("7a 7~@1", [*DECIDED, *NEXT], "info"),
    "open": ("7a", [ONGOING, PREPARED], "info"),
    "never written": ("c", DECIDED, "info"),
}


@pytest.mark.parametrize("name", RESOLVED)
def test_undecided_transactions_are_resolved_where_files_prove_the_outcome(name: str, tmp_path: Path) -> None:
    text, steps, expected = RESOLVED[name]
    events = transaction("t", 0, [(0, "a", None)], "info", (0, 500))
    p = Inspected(write_run(tmp_path, {0: text}, events, steps)).partition("x-0")
    [send_] = p.sends.select(pl.col("outcome").cast(pl.String), "acknowledged", "offset").rows()
    assert send_ == (expected, False, None if expected == "info" else 0)


def test_an_open_transaction_hides_later_records_until_its_late_abort(tmp_path: Path) -> None:
    """Its client gave up at 0.5 s, but the marker may have come after the final reads, which end at 1 s."""
    events = transaction("t", 0, [(0, "b", None)], "info", (0, 500)) + send("a", 0, 10, 0) + send("c", 2, 600, 1)
    events += final_reads([(0, 0, "a")], {0: 1})
    folder = write_run(tmp_path, {0: "a 7b c 7~"}, events, processes=FINAL_READER, final=True)
    for rule in ("lost-write", "unseen"):
        assert judged(folder, rule)[0] == []


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


def test_torn_transactions_agree_with_a_twin(tmp_path: Path) -> None:
    selection = Selection(2)
    for seed in range(300):
        logs, operations = random_torn(Random(seed))
        expected = naive_torn(logs, operations)
        if not selection.takes({(operations[int(value[1])][0], state) for _, state, value in expected}):
            continue
        events = []
        for number, (outcome, values) in enumerate(operations):
            entries = {partition: [entry.lstrip("78") for entry in logs[partition].split()] for partition in logs}
            places = [(p, one, entries[p].index(one) if one in entries[p] else 99) for p, one in enumerate(values)]
            sends = [(p, value, at if outcome == "ok" else None) for p, value, at in places]
            events += transaction("t", number, sends, outcome, (10 * number, 10 * number + 5))
        assert torn_findings(write_run(tmp_path / str(seed), logs, events)) == expected
    assert len(selection.met) >= 5
