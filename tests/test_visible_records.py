"""Records that consumers should not have found: of another partition, or aborted or failed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from notation import History, Judged, judge, parse


def in_partition(number: int, process: str, history: History) -> History:
    """The history with the records of a process's polls in the partition of that number."""
    events = [
        {**event, "records": [{**record, "partition": number} for record in event["records"]]}
        if event["process"] == process and event.get("records")
        else event
        for event in history.events
    ]
    return replace(history, events=events)


def phantoms(judged: Judged) -> list[tuple[int, list[str]]]:
    return [(finding["partition"], finding["values"]) for finding in judged.of("phantom-read")]


def test_a_record_in_a_partition_to_which_nothing_was_sent_is_a_phantom(tmp_path: Path) -> None:
    history = in_partition(1, "c", parse("p:a@0 p:b@1 c:<b@0 end=2 final:<a@0,b@1"))
    judged = judge(history, tmp_path)
    assert phantoms(judged) == [(1, ["b"])]
    assert "no recorded send to x-1 wrote it" in judged.of("phantom-read")[0]["sentence"]


@pytest.mark.parametrize("text", ["p:a@0 p:b?~ c:<b@0 end=1 final:<a@0", "p:a@0 p:b@0 c:<b@0 end=1 final:<a@0"])
def test_a_record_that_may_have_been_sent_to_its_partition_is_none(text: str, tmp_path: Path) -> None:
    """Its partition was never learned, or it is the one in which it was read."""
    history = in_partition(1, "c", parse(text))
    of_b = [
        {**event, "partition": 1} if event.get("value") == "b" and "partition" in event else event
        for event in history.events
    ]
    assert phantoms(judge(replace(history, events=of_b), tmp_path)) == []


def test_nothing_is_a_phantom_in_a_topic_without_recorded_sends(tmp_path: Path) -> None:
    history = parse("p:a@0 c:<b@0 end=1 final:<a@0")
    others = [{**event, "topic": "y"} if event["f"] == "send" else event for event in history.events]
    assert phantoms(judge(replace(history, events=others), tmp_path)) == []


@pytest.mark.parametrize(
    ("history", "outcome"),
    [
        ("{c.isolation.level=read_committed} p:(a@0,b@1)! c:<a@0,b@1", "the transaction aborted"),
        ("{c.isolation.level=read_committed} p:(a@0)! p:(b@2)! c:<a@0,b@2", "the 2 transactions aborted"),
        ("p:a! c:<a@0", "the send failed"),
        ("p:a! p:b! c:<a@0,b@1", "the 2 sends failed"),
    ],
)
def test_the_number_of_transactions_and_sends_is_named(history: str, outcome: str, tmp_path: Path) -> None:
    [finding] = [one for one in judge(history, tmp_path).findings if one["rule"] == "aborted-read"]
    assert finding["sentence"].endswith(f"but {outcome}")
