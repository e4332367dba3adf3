"""Several attempts to send one value, with the brokers' logs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.partitions.attempts import name_attempts
from logjudge.analysis.verdict.document import verdict_of
from logjudge.histories.bundle import open_run
from logjudge.histories.tables import READS, SENDS, complete

from .transaction_logs import (
    FINAL_READER,
    SEGMENT,
    Events,
    Step,
    event,
    final_reads,
    judged,
    log,
    transaction,
    write_run,
)


def attempts(*outcomes: tuple[str, int | None]) -> Events:
    """Transactions of one client that each send the value a: their outcome, and the offset that the client recorded."""
    events: Events = []
    for op, (outcome, offset) in enumerate(outcomes):
        events += transaction("t", op, [(0, "a", offset)], outcome, (10 * op, 10 * op + 9))
    return events


class Case(NamedTuple):
    log: str
    outcomes: tuple[tuple[str, int | None], ...]
    polled: tuple[int, ...]  # offsets of the value a
    found: set[tuple[str, str]]  # rule and value
    verdict: str


CASES = {
    "aborted, then committed": Case("7a 7~ 7a 7!", (("fail", 0), ("ok", 2)), (2,), set(), "valid"),
    "the log has the offset of the aborted attempt": Case(
        "7a 7~ 7a 7!", (("fail", None), ("ok", 2)), (2,), set(), "valid"
    ),
    "the client crashed in the first attempt": Case("7a 7~ 7a 7!", (("info", None), ("ok", 2)), (2,), set(), "valid"),
    "the first attempt never reached the log": Case("7a 7!", (("fail", None), ("ok", 0)), (0,), set(), "valid"),
    "aborted twice": Case("7a 7~ 7a 7~ 7a 7!", (("fail", None), ("fail", None), ("ok", 4)), (4,), set(), "valid"),
    "the second attempt has no known outcome": Case("7a 7~ 7a 7!", (("fail", 0), ("info", None)), (2,), set(), "valid"),
    "the aborted record hides no loss": Case(
        "7a 7~ - -  z z", (("fail", 0), ("ok", 2)), (), {("lost-write", "a"), ("acknowledged-absent", "a")}, "invalid"
    ),
    "the aborted record was read": Case(
        "7a 7~ 7a 7!", (("fail", None), ("ok", 2)), (0, 2), {("aborted-read", "a#attempt-1")}, "invalid"
    ),
    "the committed record is there twice": Case(
        "7a 7~ 7a 7! 8a 8!", (("fail", 0), ("ok", 2)), (2, 4), {("duplicate", "a")}, "invalid"
    ),
    "both attempts may be committed": Case("7a 7! 7a 7!", (("info", None), ("ok", 2)), (0, 2), set(), "unknown"),
    "one of two attempts is in the log": Case(
        "7a 7~ 7a 7!", (("fail", None), ("fail", None), ("ok", 2)), (2,), set(), "unknown"
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_attempts_with_logs(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    end = len(case.log.split())
    folder = write_run(
        tmp_path,
        {0: case.log},
        [*attempts(*case.outcomes), *final_reads([(0, at, "a") for at in case.polled], {0: end})],
        processes={**FINAL_READER, "t": {"role": "producer", "enable.idempotence": True}},
        final=True,
    )
    run = open_run(folder)
    rules = ("lost-write", "unseen", "duplicate", "aborted-read", "torn-transaction", "acknowledged-absent")
    results = judge_run(replace(run, settings=replace(run.settings, rules=rules)))
    found = {(one["rule"], value) for one in results.findings().to_dicts() for value in one["values"]}
    report = verdict_of(results)
    [unique] = [item for item in report["assumptions"] if item["name"] == "values unique"]
    assert (found, report["verdict"], unique["holds"]) == (case.found, case.verdict, case.verdict != "unknown")


def test_no_attempt_gets_a_name_that_a_client_sent() -> None:
    sends = [("a", "fail", 0), ("a", "ok", 2), ("a#attempt-1", "ok", 4)]
    rows: list[dict[str, Any]] = [
        {"value": value, "outcome": outcome, "offset": offset, "invoked": number, "invoked_at": number, "index": 0}
        for number, (value, outcome, offset) in enumerate(sends)
    ]
    frame = complete(pl.DataFrame(rows), SENDS)
    named = [
        name_attempts(each, pl.DataFrame(schema=READS), pl.DataFrame(schema=READS), None, frame.clear())
        for each in (frame, frame.head(2))
    ]
    assert [rows["value"].to_list() for rows, *_ in named] == [["a", "a", "a#attempt-1"], ["a#attempt-1", "a"]]


STATE: list[tuple[int, str]] = [(2, "prepare-abort"), (2, "complete-abort"), (3, "ongoing"), (7, "prepare-commit")]
ENDED = {
    "the marker of the transaction before was repeated": ("7a z 7~ 7b 7~ z z 7!", True, "repeated-marker"),
    "why it was aborted is not recorded": ("7a z 7~ 7b 7~ z z z", False, "unknown"),
}


@pytest.mark.parametrize("name", ENDED)
def test_a_committed_record_that_the_log_has_as_aborted(name: str, tmp_path: Path) -> None:
    text, has_state, cause = ENDED[name]
    partitions = [("x", 0)]
    steps: list[Step] = [("t", 7, "ongoing", partitions, (0, 0))]
    steps += [("t", 7, state, partitions, (time, 0 if time < 3 else 3)) for time, state in STATE]
    events = [*transaction("t", 0, [(0, "a", 0)], "fail", (0, 2)), *transaction("t", 1, [(0, "b", 3)], "ok", (3, 8))]
    folder = write_run(
        tmp_path,
        {0: text},
        [*events, *final_reads([], {0: 8})],
        steps if has_state else [],
        processes=FINAL_READER,
        final=True,
    )
    run = open_run(folder)
    results = judge_run(replace(run, settings=replace(run.settings, rules=("lost-write",))))
    [finding], [explanation] = results.findings().to_dicts(), results.causes()
    assert "the log still has it, but aborted: an ABORT marker at offset 4 on broker 1" in finding["sentence"]
    assert explanation.cause == cause
    assert not any("election" in text for text in explanation.missing)


def test_a_committed_record_that_no_log_has_was_not_aborted(tmp_path: Path) -> None:
    events = transaction("t", 0, [(0, "b", 1)], "ok", (3, 8))
    events += final_reads([], {0: 4})
    folder = write_run(tmp_path, {0: "z - z z"}, events, processes=FINAL_READER, final=True)
    [finding], _ = judged(folder, "lost-write")
    assert "aborted" not in finding["sentence"]


def test_replicas_with_other_markers_are_named(tmp_path: Path) -> None:
    events = transaction("t", 0, [(0, "b", 1)], "ok", (3, 8))
    folder = write_run(
        tmp_path, {0: "z 7b 7~"}, [*events, *final_reads([], {0: 3})], processes=FINAL_READER, final=True
    )
    other = folder / "brokers" / "2" / "data" / "x-0"
    other.mkdir(parents=True)
    (other / SEGMENT).write_bytes(log("z 7b 7!"))
    [finding], _ = judged(folder, "lost-write")
    assert "an ABORT marker at offset 2 on broker 1, a COMMIT marker at offset 2 on broker 2" in finding["sentence"]


def send_without_outcome(value: str) -> Events:
    about = {"topic": "x", "partition": 0, "value": value}
    return [event(0, "q", 0, "invoke", "send", **about), event(1, "q", 0, "info", "send", **about)]


AMBIGUOUS = {
    "a record of another send is not absent": ("a 7a 7b 7!", "ok", (1, None), {0: "a", 1: "a", 2: "b"}, None),
    "a record that is there twice is not absent": ("7a 7b 7a 7!", "ok", (0, 1), {0: "a", 1: "b", 2: "a"}, None),
    "a missing record of a transaction": ("z 7b 7!", "ok", (None, 1), {0: "z", 1: "b"}, ("torn-transaction", "c")),
    "the aborted record is not one of a send": ("7a 7b 7~", "fail", (None, 1), {0: "a"}, None),
    "an aborted record": ("7a 7b 7~", "fail", (0, 1), {1: "b"}, ("aborted-read", "b")),
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_a_value_of_several_sends_resolves_none(name: str, tmp_path: Path) -> None:
    """A send of a without an outcome, then a transaction of a (or c) and b."""
    text, outcome, offsets, polled, expected = AMBIGUOUS[name]
    first = "c" if expected == ("torn-transaction", "c") else "a"
    events = [
        *(send_without_outcome("a") if "twice" not in name else []),
        *transaction("t", 0, [(0, first, offsets[0]), (0, "b", offsets[1])], outcome, (2, 8)),
        *final_reads([(0, at, value) for at, value in polled.items()], {0: len(text.split())}),
    ]
    level = "read_committed" if expected else "read_uncommitted"
    readers = {"final": {"role": "final", "isolation.level": level}}
    folder = write_run(tmp_path, {0: text}, events, processes=readers, final=True)
    run = open_run(folder)
    results = judge_run(replace(run, settings=replace(run.settings, rules=("torn-transaction", "aborted-read"))))
    breaches = results.findings().filter(pl.col("severity") == "violation").to_dicts()
    assert [(one["rule"], one["values"][0]) for one in breaches] == ([expected] if expected else [])


def test_a_copy_without_producer_id_is_permitted_though_its_sender_is_not_recorded(tmp_path: Path) -> None:
    polled = [(0, 0, "a"), (0, 1, "a")]
    folder = write_run(tmp_path, {0: "a a"}, final_reads(polled, {0: 2}), processes=FINAL_READER, final=True)
    [found], verdict = judged(folder, "duplicate")
    assert (found["severity"], verdict) == ("permitted", "valid")
    assert "a, sent without idempotence, is at 2 offsets" in found["sentence"]
