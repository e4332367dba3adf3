"""Times that cannot be nanoseconds since the start are a broken assumption; short legal histories are left alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from logjudge.analysis.partitions.foreign_clock import HOUR_NS
from notation import History, judge, parse

SECOND = 10**9
START = 1_795_383_228  # s since 1970
SENDS = " ".join(f"p:v{i}@{i}" for i in range(120))
HISTORY = (
    f"{SENDS} c:<{','.join(f'v{i}@{i}' for i in range(120))} end=120 final:<{','.join(f'v{i}@{i}' for i in range(120))}"
)


def timed(start: int, step: int, text: str = HISTORY) -> History:
    """The history with its events `step` apart."""
    history = parse(text)
    return replace(history, events=[{**event, "time": start + i * step} for i, event in enumerate(history.events)])


@pytest.mark.parametrize(
    ("start", "step"),
    [(START, 1), (START * 10**3, 5), (START * 10**6, 5_000), (0, 5)],
    ids=["seconds", "milliseconds", "microseconds", "milliseconds since the start"],
)
def test_times_of_another_unit_keep_a_run_from_being_valid(start: int, step: int, tmp_path: Path) -> None:
    verdict = judge(timed(start, step), tmp_path).verdict
    broken = [item for item in verdict["assumptions"] if item["holds"] is not True]
    assert [item["name"] for item in broken] == ["times in nanoseconds"]
    assert verdict["verdict"] == "unknown"


@pytest.mark.parametrize(
    ("start", "step"),
    [
        (0, 10**6),
        (START, 10**6),  # begins 1.8 s after the start
        (START * 10**3, 10**5),  # half an hour after it
        (START * 10**6, 10**5),  # a monotonic clock of a machine that runs for 20 days
        (START * SECOND, 10**6),
        (-(10**12), 10**5),
    ],
)
def test_nanoseconds_are_nanoseconds_wherever_a_clock_stands(start: int, step: int, tmp_path: Path) -> None:
    assert judge(timed(start, step), tmp_path).verdict["verdict"] == "valid"


def test_a_short_history_may_count_its_events(tmp_path: Path) -> None:
    assert judge(timed(0, 1, "p:a@0 end=1 final:<a@0"), tmp_path).verdict["verdict"] == "valid"


def test_assignments_that_need_no_network_are_no_clock(tmp_path: Path) -> None:
    """All brokers are down: only assignments complete, 18 us each, 3.9 s after the start."""
    verdict = judge(timed(3_930_967_375, 18_244, "c:assign=0 d:assign=0 c:< d:<"), tmp_path).verdict
    broken = [item["name"] for item in verdict["assumptions"] if item["holds"] is not True]
    assert broken == ["clients were served"]
    assert verdict["verdict"] == "unknown"


@pytest.mark.parametrize("text", ["p:a~ p:b~ c:<", "p:a! c:<", "c:< end=0"])
def test_a_run_in_which_nothing_was_written_or_read_is_not_valid(text: str, tmp_path: Path) -> None:
    assert judge(parse(text), tmp_path).verdict["verdict"] == "unknown"


def two_producers() -> History:
    """Two producers write in turns, each 60 records in a minute, and a consumer reads them."""
    writes = " ".join(f"{'pq'[i % 2]}:v{i}@{i} c:<v{i}@{i}" for i in range(120))
    reads = ",".join(f"v{i}@{i}" for i in range(120))
    return timed(0, SECOND // 10, f"{writes} end=120 final:<{reads}")


def with_clock(process: str, clock: Callable[[int], int], history: History) -> History:
    return replace(
        history,
        events=[
            {**event, "time": clock(event["time"])} if event["process"] == process else event
            for event in history.events
        ],
    )


@pytest.mark.parametrize("process", ["p", "c", "final"])
@pytest.mark.parametrize(
    ("clock", "expected"),
    [
        (lambda time: time // 10**3, "they are microseconds, not nanoseconds"),
        (lambda time: time // 10**6, "they are milliseconds, not nanoseconds"),
        (lambda time: time - 3 * HOUR_NS, "its clock is 3 hours or more behind"),
        (lambda time: time + 3 * HOUR_NS, "its clock is 3 hours or more ahead"),
    ],
)
def test_a_process_with_another_clock_is_named_and_breaks_no_rule(
    process: str, clock: Callable[[int], int], expected: str, tmp_path: Path
) -> None:
    judged = judge(with_clock(process, clock, two_producers()), tmp_path)
    if process in ("c", "final") and "ahead" in expected:
        assert judged.verdict["verdict"] == "valid"  # late reads contradict nothing
        return
    assert judged.verdict["verdict"] == "unknown"
    reasons = [item["says"] for item in judged.verdict["assumptions"] if item["name"] == "evidence sufficient"]
    assert f"the times of {process} contradict those of all other processes, unless {expected}" in reasons[0]
    assert not [rule for rule, about in judged.verdict["rules"].items() if about["verdict"] == "invalid"]


def test_one_record_out_of_order_by_hours_is_a_breach(tmp_path: Path) -> None:
    history = two_producers()
    late = [event for event in history.events if event.get("value") == "v10" and event["f"] == "send"]
    events = [{**event, "time": event["time"] + 3 * HOUR_NS} if event in late else event for event in history.events]
    rules = judge(replace(history, events=events), tmp_path).verdict["rules"]
    assert rules["realtime-order"]["verdict"] == rules["phantom-read"]["verdict"] == "invalid"


def test_a_clock_that_was_set_back_breaks_no_rule(tmp_path: Path) -> None:
    """After the first third of the run, NTP sets the clock of the clients' machine back by three hours."""
    history = two_producers()
    third = len(history.events) // 3
    set_back = [{**event, "time": event["time"] - 3 * HOUR_NS} for event in history.events[third:]]
    judged = judge(replace(history, events=history.events[:third] + set_back), tmp_path)
    assert not [rule for rule, about in judged.verdict["rules"].items() if about["verdict"] == "invalid"]
    [reason] = [item["says"] for item in judged.verdict["assumptions"] if item["name"] == "evidence sufficient"]
    assert "the times of c go back by 2 hours" in reason


def test_another_clock_is_found_beside_a_loss(tmp_path: Path) -> None:
    """q's records are at the offsets of p's last ones, so the log is not in order of time there."""
    writes = " ".join(f"p:v{i}@{i}" for i in range(60)) + " nemesis:kill "
    writes += " ".join(f"q:w{i}@{i}" for i in range(50, 110))
    survived = [f"v{i}@{i}" for i in range(50)] + [f"w{i}@{i}" for i in range(50, 110)]
    polls = " ".join(f"c:<{record}" for record in survived)
    history = timed(0, SECOND // 10, f"{writes} {polls} end=110 final:<{','.join(survived)}")
    rules = judge(with_clock("c", lambda time: time - 3 * HOUR_NS, history), tmp_path).verdict["rules"]
    assert [rules[name]["verdict"] for name in ("lost-write", "phantom-read")] == ["invalid", "unknown"]


@pytest.mark.parametrize(("process", "shift"), [("p", SECOND), ("c", -SECOND), ("final", -20 * SECOND), ("c", SECOND)])
def test_clocks_that_differ_by_less_than_an_hour_break_no_rule(process: str, shift: int, tmp_path: Path) -> None:
    judged = judge(with_clock(process, lambda time: time + shift, two_producers()), tmp_path)
    if shift > 0 and process == "c":
        assert judged.verdict["verdict"] == "valid"  # late reads contradict nothing
        return
    assert not [rule for rule, about in judged.verdict["rules"].items() if about["verdict"] == "invalid"]
    [reason] = [item["says"] for item in judged.verdict["assumptions"] if item["name"] == "evidence sufficient"]
    assert " sent them, so their clocks differ" in reason


def test_the_clocks_of_two_machines_differ_beside_a_loss(tmp_path: Path) -> None:
    """All consumers are on a machine whose clock is 2 s behind, so no single process contradicts all others."""
    writes = " ".join(f"{'pq'[i % 2]}:v{i}@{i} c:<v{i}@{i} d:<v{i}@{i}" for i in range(60))
    survived = [f"v{i}@{i}" for i in range(55)] + ["w@55"]
    history = timed(0, SECOND // 10, f"{writes} nemesis:kill p:w@55 end=56 final:<{','.join(survived)}")
    for process in ("c", "d", "final"):
        history = with_clock(process, lambda time: time - 2 * SECOND, history)
    rules = judge(history, tmp_path).verdict["rules"]
    assert [rules[name]["verdict"] for name in ("lost-write", "phantom-read")] == ["invalid", "unknown"]


def test_few_early_reads_are_of_another_clock_if_a_constant_makes_all_times_agree(tmp_path: Path) -> None:
    """c's clock is 4 s behind: it reads the last of three records before that was sent."""
    reads = [f"c:<{','.join(f'v{j}@{j}' for j in range(i - 2, i + 1))}" * (i % 3 == 2) for i in range(48)]
    text = " ".join(f"p:v{i}@{i} {reads[i]}" for i in range(48))
    history = with_clock("c", lambda time: time - 4 * SECOND, timed(0, SECOND, text))
    judged = judge(history, tmp_path)
    assert "c read 16 records up to 1 s before p sent them" in str(judged.verdict["assumptions"])
    assert judged.verdict["rules"]["phantom-read"]["verdict"] == "unknown"
    moved = [
        {**event, "time": event["time"] + 40 * SECOND} if event.get("value") == "v30" else event
        for event in history.events
    ]
    rules = judge(replace(history, events=moved), tmp_path / "moved").verdict["rules"]
    assert rules["phantom-read"]["verdict"] == "invalid"  # p contradicts itself, which no constant explains


def test_appends_below_known_records_are_a_breach_although_another_clock_would_explain_them(tmp_path: Path) -> None:
    """q's records are below those that p wrote before, and all reads follow the sends."""
    writes = [f"p:v{i}@{i + 40}" for i in range(40)] + [f"q:w{i}@{i}" for i in range(40)]
    read = [f"w{i}@{i}" for i in range(40)] + [f"v{i}@{i + 40}" for i in range(40)]
    judged = judge(timed(0, SECOND // 10, f"{' '.join(writes)} end=80 final:<{','.join(read)}"), tmp_path)
    assert judged.verdict["rules"]["realtime-order"]["verdict"] == "invalid"


def test_a_value_that_was_read_at_another_offset_before_it_was_sent_is_a_breach(tmp_path: Path) -> None:
    """A broker that garbles values can return one that is sent later; clocks have no part in that."""
    reads = " ".join(f"c:<v{i + 100}@{i}" for i in range(30))
    writes = " ".join(f"p:v{i}@{i}" for i in range(130))
    judged = judge(timed(0, SECOND // 10, f"p:first@200 {reads} {writes}"), tmp_path)
    assert judged.verdict["rules"]["phantom-read"]["verdict"] == "invalid"


@pytest.mark.parametrize(
    ("text", "rule", "agree"),
    [
        ("p:a@5 q:b@3", "realtime-order", True),
        ("p:a@5 p:b@3", "realtime-order", False),
        ("p:a@0 p:b@1 end=1", "stale-end-offset", True),
        ("p:a@0 p:b@1 p:end=1", "stale-end-offset", False),
    ],
)
def test_a_contradiction_between_processes_depends_on_their_clocks(
    text: str, rule: str, agree: bool, tmp_path: Path
) -> None:
    [found] = judge(text, tmp_path).of(rule)
    assert found["sentence"].endswith(", if their clocks agree") is agree
