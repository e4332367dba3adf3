"""Jepsen histories with damaged lines, repeated values, values without a send, and seeks: nothing is invented."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.verdict.document import verdict_of
from logjudge.histories.bundle import open_run

Operations = list[tuple[int, str, str, str]]


def history(operations: Operations, *more: str) -> str:
    """Each operation (process, :f, :value of the invocation, :value of the ok completion), then further lines."""
    kinds = [
        (process, kind, f, value)
        for process, f, *values in operations
        for kind, value in zip(("invoke", "ok"), values, strict=True)
    ]
    lines = [
        f"{{:index {index}, :time {index}, :type :{kind}, :process {process}, :f :{f}, :value {value}}}"
        for index, (process, kind, f, value) in enumerate(kinds)
    ]
    return "\n".join([*lines, *more]) + "\n"


def send(value: object, offset: object, process: int = 0, key: str = "1") -> tuple[int, str, str, str]:
    return (process, "send", f"[[:send {key} {value}]]", f"[[:send {key} [{offset} {value}]]]")


def poll(process: int, *records: tuple[int, object], key: str = "1") -> tuple[int, str, str, str]:
    pairs = " ".join(f"[{offset} {value}]" for offset, value in records)
    return (process, "poll", "[[:poll]]", f"[[:poll {{{key} [{pairs}]}}]]")


def judged(text: str, folder: Path) -> dict[str, Any]:
    file = folder / "history.edn"
    file.write_text(text)
    return verdict_of(judge_run(open_run(file)))


def rules_with(verdict: str, report: dict[str, Any]) -> set[str]:
    return {name for name, rule in report["rules"].items() if rule["verdict"] == verdict}


SENT = [send(value, value) for value in range(4)]
ABSENT = {  # what Jepsen's rules conclude from what is missing
    "lost-write": [*SENT, poll(1, (0, 0), (1, 1), (3, 3))],
    "unseen": [*SENT, poll(1, (0, 0), (1, 1), (2, 2))],
    "poll-skip": [*SENT, poll(2, (0, 0), (1, 1), (2, 2), (3, 3)), poll(1, (0, 0)), poll(1, (2, 2))],
    "nonmonotonic-poll": [*SENT, poll(1, (0, 0), (1, 1), (2, 2), (3, 3)), poll(1, (1, 1))],
    "phantom-read": [*SENT, poll(1, (0, 0), (1, 1), (2, 2), (3, 3), (4, 9))],
}
DAMAGED = "{:index 98, :time 98, :type :ok, :process 8, :f :poll, :value [[:poll {1 [[2 "


@pytest.mark.parametrize("rule", ABSENT)
def test_what_follows_from_missing_operations_is_unknown_if_a_line_was_left_out(rule: str, tmp_path: Path) -> None:
    whole = judged(history(ABSENT[rule]), tmp_path)
    assert rule in rules_with("invalid", whole)
    damaged = judged(history(ABSENT[rule], DAMAGED), tmp_path)
    assert rule in rules_with("unknown", damaged)
    [why] = [item["says"] for item in damaged["assumptions"] if item["name"] == "evidence sufficient"]
    assert "could not be read, so a poll or an assignment may be missing" in why


OF_NEMESIS = {
    "no function": ("{:index 98, :time 98, :type :info, :process :nemesis, :value :x}", "invalid"),
    "a key twice": ("{:index 98, :time 98, :type :info, :process :nemesis, :f :start, :f :stop}", "invalid"),
    "torn": ("{:index 98, :time 98, :type :info, :process :nemesis, :f :sta", "unknown"),
    "torn behind a map": ("{:time 98, :type :info, :process :nemesis, :f :start, :value {:a 1}", "unknown"),
    "in a value": ('{:index 98, :process 8, :time 98, :f :poll, :x ":process :nemesis, ", :f :x}', "unknown"),
    "two processes": ("{:index 98, :time 98, :process :nemesis, :f :poll, :process 8}", "unknown"),
    "no process": ("{:index 98, :time 98, :type :info, :f :start}", "unknown"),
}


@pytest.mark.parametrize("case", OF_NEMESIS)
@pytest.mark.parametrize("rule", ["lost-write", "poll-skip"])
def test_a_line_of_the_nemesis_that_was_left_out_hides_no_operation(rule: str, case: str, tmp_path: Path) -> None:
    line, verdict = OF_NEMESIS[case]
    report = judged(history(ABSENT[rule], line), tmp_path)
    assert report["rules"][rule]["verdict"] == verdict
    assert next(item for item in report["assumptions"] if item["name"] == "lines well formed")["holds"] is False


SENDS = ("nil", "[]", "[[:send 1 7] [:send 1 8]]")


@pytest.mark.parametrize("invoked", SENDS)
def test_a_send_without_a_value_completes_any_send(invoked: str, tmp_path: Path) -> None:
    """Jepsen treats the sends of its invocation as unknown."""
    report = judged(history([*ABSENT["lost-write"], (7, "send", invoked, "nil")]), tmp_path)
    assert report["rules"]["lost-write"]["count"] == 1
    assert next(item for item in report["assumptions"] if item["name"] == "lines well formed")["holds"] is True


def test_what_is_seen_is_a_breach_though_a_line_was_left_out(tmp_path: Path) -> None:
    twice = [send(0, 0), send(1, 1), poll(1, (0, 0), (1, 1), (2, 0))]
    report = judged(history(twice, DAMAGED), tmp_path)
    assert {"duplicate", "int-nonmonotonic-poll"} <= rules_with("invalid", report)


def test_a_value_that_was_sent_twice_breaks_an_assumption(tmp_path: Path) -> None:
    """Its findings are those of Jepsen's checker, and the report states that values do not identify records."""
    report = judged(history([send(7, 0), send(7, 1), poll(1, (0, 7), (1, 7))]), tmp_path)
    assert "duplicate" in rules_with("invalid", report)
    assert [item["name"] for item in report["assumptions"] if not item["holds"]] == ["values unique"]


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ("", "invalid"),
        ("{:index 90, :time 0, :type :invoke, :process 7, :f :send, :value [[:send 1 9]]}", "valid"),
        ("{:index 90, :time 0, :type :invoke, :process 7, :f :txn, :value [[:poll] [:send 1 9]]}", "valid"),
        ("{:index 90, :time 0, :type :invoke, :process 7, :f :send, :value [[:send 2 9]]}", "invalid"),
    ],
)
def test_a_value_without_a_send_is_a_phantom(more: str, verdict: str, tmp_path: Path) -> None:
    """A send without a completion may have happened; one to another key explains nothing."""
    report = judged(history([send(0, 0), poll(1, (0, 0), (1, 9))], more), tmp_path)
    assert report["rules"]["phantom-read"]["verdict"] == verdict


def test_records_of_a_key_without_sends_are_no_phantoms(tmp_path: Path) -> None:
    report = judged(history([send(0, 0), poll(1, (0, 0)), poll(1, (4, 9), key="2")]), tmp_path)
    assert report["rules"]["phantom-read"]["verdict"] == "valid"


@pytest.mark.parametrize(("seek", "verdict"), [("true", "valid"), ("false", "invalid")])
def test_a_seek_to_the_beginning_may_go_back(seek: str, verdict: str, tmp_path: Path) -> None:
    first, again = [*SENT, poll(1, *((offset, offset) for offset in range(4)))], poll(1, (0, 0))
    moves = [
        f"{{:index 90, :time 50, :type :{kind}, :process 1, :f :assign, :value [1], :seek-to-beginning? {seek}}}"
        for kind in ("invoke", "ok")
    ]
    later = history([again])
    report = judged(history(first, *moves) + later, tmp_path)
    assert report["rules"]["nonmonotonic-poll"]["verdict"] == verdict


def test_a_seek_does_not_excuse_sends_out_of_order(tmp_path: Path) -> None:
    move = "{:index 90, :time 50, :type :%s, :process 0, :f :assign, :value [1], :seek-to-beginning? true}"
    first = history([send(1, 5)], move % "invoke", move % "ok")
    report = judged(first + history([send(2, 3), poll(1, (3, 2), (5, 1))]), tmp_path)
    assert report["rules"]["nonmonotonic-send"]["verdict"] == "invalid"


@pytest.mark.parametrize(("kind", "verdict"), [("info", "unknown"), ("fail", "unknown"), ("ok", "valid")])
def test_a_run_in_which_nothing_was_served_is_unknown(kind: str, verdict: str, tmp_path: Path) -> None:
    text = history([send(0, 0), poll(1, (0, 0)) if kind == "ok" else (1, "poll", "[[:poll]]", "[[:poll {}]]")])
    report = judged(text.replace(":ok, :process 0", f":{kind}, :process 0"), tmp_path)
    assert report["verdict"] == verdict


@pytest.mark.parametrize("kind", ["info", "fail", "ok"])
@pytest.mark.parametrize(("f", "verdict"), [("send", "valid"), ("txn", "unknown")])
def test_a_completion_without_a_value_may_have_sent_what_was_invoked(
    f: str, verdict: str, kind: str, tmp_path: Path
) -> None:
    text = history([(0, f, "[[:send 1 7]]", "nil")]).replace(":type :ok", f":type :{kind}")
    report = judged(text + history([send(8, 2, process=2), poll(1, (0, 7), (2, 8))]), tmp_path)
    assert not rules_with("invalid", report)
    assert report["rules"]["phantom-read"]["verdict"] == verdict
