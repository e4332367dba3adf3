"""The message trace: how log ends and high watermarks move, as a table, a diagram and a player."""

from __future__ import annotations

import json
import re
from pathlib import Path

from command_line import invoke
from logjudge.histories.errors import UsageError
from logjudge.histories.simulation.message_page import player
from logjudge.histories.simulation.scenarios import load
from logjudge.models.exploration.message_trace import MAX_MESSAGES, Message, sequence_diagram, table, trace_messages


def messages_of_the_round() -> list[Message]:
    scenario = load("high-watermark-round")
    assert scenario.trace is not None
    return trace_messages(scenario, 0, *scenario.trace)


def test_the_high_watermark_moves_a_round_after_the_log_ends() -> None:
    """The articles' figures 8-4 to 8-8: append, fetch with the old mark, the next fetch moves the leader's mark, and
    the answer after that the followers'."""
    messages = messages_of_the_round()
    assert [(m.source, m.text) for m in messages[:6]] == [
        ("p0", "produce 1 record"),
        ("broker 1", "1 record, high watermark 0"),
        ("broker 1", "1 record, high watermark 0"),
        ("broker 2", "fetch from offset 1"),
        ("broker 3", "fetch from offset 1"),
        ("broker 1", "acknowledged at offset 0"),
    ]
    assert [m.replicas for m in messages[:5]] == [
        ((1, 1, 0), (2, 0, 0), (3, 0, 0)),
        ((1, 1, 0), (2, 1, 0), (3, 0, 0)),
        ((1, 1, 0), (2, 1, 0), (3, 1, 0)),
        ((1, 1, 0), (2, 1, 0), (3, 1, 0)),
        ((1, 1, 1), (2, 1, 0), (3, 1, 0)),
    ]
    assert [m.remote for m in messages[2:5]] == [((2, 0), (3, 0)), ((2, 1), (3, 0)), ((2, 1), (3, 1))]
    assert messages[-1].replicas == ((1, 2, 2), (2, 2, 2), (3, 2, 2))
    assert messages[-1].text == "no records, high watermark 2"


def test_a_trace_changes_nothing_and_is_bounded() -> None:
    scenario = load("kip-101-loss")
    messages = trace_messages(scenario)
    assert len(messages) == MAX_MESSAGES
    later = trace_messages(scenario, since=11_000_000, until=12_000_000)
    assert later
    assert all(11_000_000 <= message.time <= 12_000_000 for message in later)


def test_a_trace_counts_what_it_left_out_and_names_the_end_of_the_run(tmp_path: Path) -> None:
    def traced(*options: str) -> str:
        path = tmp_path / "x.md"
        words = ("simulate", "--config", "kip-101-loss", "--out", tmp_path / "run", "--trace", path, *options)
        return next(line for line in invoke(*words).output.splitlines() if line.startswith(f"{path}: "))

    found = re.search(r"200 of ([\d,]+) messages; --trace-from (\d+\.\d+) shows the next", traced())
    assert found
    later = re.search(r"200 of ([\d,]+) messages", traced("--trace-from", found[2]))
    assert later
    assert int(found[1].replace(",", "")) - int(later[1].replace(",", "")) == MAX_MESSAGES
    assert re.search(r"no message, as the run ended at \d[\d.]* s; ", traced("--trace-from", "500"))


def test_a_trace_does_not_begin_with_a_send_to_a_broker_that_is_down() -> None:
    first, *_ = trace_messages(load("kip-101-loss"), since=14_000_000)
    assert first.text.startswith("fetch from offset 187 (broker 1 is down), after broker 2 truncated")


def test_elections_are_in_the_message_after_them() -> None:
    messages = trace_messages(load("kip-101-loss"), since=14_000_000)
    led = [message.text.partition(", after ")[2] for message in messages if "began to lead" in message.text]
    assert led == ["broker 2 began to lead in epoch 1"]
    assert [messages[0].leader, messages[-1].leader] == [(1, 0), (2, 1)]
    head, _, first, second, *_ = table(messages).splitlines()
    assert head.endswith("| leader, epoch | log ends that the leader knows |")
    assert first.endswith("| 1, 0 | 2: 232 |")
    assert second.endswith("| 2, 1 | 1: ? |")


def test_the_truncation_of_kip_101_is_in_a_message() -> None:
    """With leader epochs the same schedule has none. A message to a leader that is down holds back no later one."""
    found = {}
    for name in ("kip-101-loss", "kip-101-loss-mended"):
        messages = trace_messages(load(name), since=14_000_000)
        found[name] = [message.text for message in messages if "truncated" in message.text]
        down = [message for message in messages if "broker 1 is down" in message.text and "produce" in message.text]
        assert len(down) < 4  # those with which the state changed
        assert any(message.text == "acknowledged at offset 187" for message in messages) == (name == "kip-101-loss")
    sentence = "fetch from offset 187 (broker 1 is down), after broker 2 truncated its log from 232 to 187"
    assert found == {"kip-101-loss": [sentence], "kip-101-loss-mended": []}


def test_table_and_diagram_have_every_message() -> None:
    messages = messages_of_the_round()
    rows = table(messages).splitlines()
    assert len(rows) == len(messages) + 2
    assert "broker 3 → broker 1: fetch from offset 1 | **1, 1** | 1, 0 | 1, 0 | 1, 0 | 2: 1, 3: 1" in rows[6]
    diagram = sequence_diagram(messages)
    assert len(re.findall("->>", diagram)) + len(re.findall("-->>", diagram)) >= len(messages)
    assert "Note over b1: LEO 1, HW 1" in diagram


def test_simulate_writes_a_trace(tmp_path: Path) -> None:
    for name in ("trace.md", "trace.html"):
        result = invoke("simulate", "--ops", "5", "--out", tmp_path / "run", "--trace", tmp_path / name)
        assert result.exit_code == 0, result.output
    assert "sequenceDiagram" in (tmp_path / "trace.md").read_text()
    html = (tmp_path / "trace.html").read_text()
    rows = json.loads(re.findall(r"^const messages = (.*);$", html, re.MULTILINE)[0])
    assert any(row["text"].startswith("produce") for row in rows)
    assert "<h1>run: how log ends and high watermarks move, message by message</h1>" in html
    assert "empty fetches, which followers send all the time, are left out" in html
    assert "http" not in html  # it needs no other file
    refused = invoke("simulate", "--out", tmp_path / "x", "--trace", tmp_path / "t.txt")
    assert isinstance(refused.exception, UsageError)
    assert not (tmp_path / "x").exists()


def test_a_title_cannot_break_the_player() -> None:
    html = player(messages_of_the_round(), "</script><script>alert(1)</script>")
    assert "<script>alert" not in html
