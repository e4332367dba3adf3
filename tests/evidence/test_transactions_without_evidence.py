"""Transactions where evidence is missing: the start of the run, the history, the tail of a log, or an earlier topic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.figures.merge import merge_figures
from logjudge.histories.bundle import open_run

from .transaction_logs import SEGMENT, Step, batch, contact, event, judged, log, send, transaction, write_run

S = 1_000  # ms
ENDED_AT_3_MS: list[Step] = [
    ("t", 7, "ongoing", [("x", 0)], (1, 1)),
    ("t", 7, "prepare-commit", [("x", 0)], (2, 1)),
    ("t", 7, "complete-commit", [], (3, 1)),
]


def test_a_log_without_its_tail_may_lack_an_open_transaction(tmp_path: Path) -> None:
    """A torn tail may be an open transaction, or a marker."""
    events = transaction("t", 0, [(0, "a", 0)], "ok", (0, 5)) + contact(5 * S)
    folder = write_run(tmp_path, {0: "7a 7! 7b"}, events, ENDED_AT_3_MS)
    segment = folder / "brokers" / "1" / "data" / "x-0" / SEGMENT
    segment.write_bytes(segment.read_bytes()[:-7])
    assert judged(folder, "hanging-transaction") == ([], "unknown")


def test_without_the_start_of_the_run_an_ended_transaction_hangs_if_later_batches_are_in_the_log(
    tmp_path: Path,
) -> None:
    events = transaction("t", 0, [(0, "a", None)], "info", (0, 500)) + send("b", 1, 600, 0)
    for name, last, verdict in (("later", 10_000, "invalid"), ("at once", 1_000, "unknown")):
        folder = write_run(tmp_path / name, {0: "7a b"}, events + contact(5 * S), ENDED_AT_3_MS)
        (folder / "run.json").write_text('{"format": 1}')
        segment = folder / "brokers" / "1" / "data" / "x-0" / SEGMENT
        segment.write_bytes(log("7a") + batch(1, b"b", time=last))
        found, known = judged(folder, "hanging-transaction")
        assert known == verdict
        assert all("had committed it at 2026-01-01 00:00:00.003Z: " in one["sentence"] for one in found)


@pytest.mark.parametrize(
    ("created", "last", "verdict"),
    [
        (0, 10_000, "invalid"),
        (0, 6_000, "unknown"),  # the transaction may have ended while the logs were copied
        (4_000, 10_000, "unknown"),  # it may have begun after __transaction_state was copied
    ],
)
def test_brokers_files_alone_show_a_hanging_transaction(created: int, last: int, verdict: str, tmp_path: Path) -> None:
    steps: list[Step] = [("t", 7, "ongoing", [("x", 0)], (1, 1)), ("t", 7, "complete-commit", [], (5 * S, 1))]
    folder = write_run(tmp_path, {0: "c"}, [], steps)
    (folder / "run.json").unlink()
    (folder / "history.jsonl").unlink()
    segment = folder / "brokers" / "1" / "data" / "x-0" / SEGMENT
    open_and_behind = batch(2, b"b", producer=(7, 0), time=created) + batch(3, b"c", time=last)
    segment.write_bytes(log("7a 7!") + open_and_behind)
    found, known = judged(folder / "brokers", "hanging-transaction")
    assert (known, len(found)) == (verdict, int(verdict == "invalid"))
    assert all("kafka-transactions.sh abort --topic x --partition 0 --start-offset 2" in f["sentence"] for f in found)


def recreated(deleted: int) -> list[dict[str, Any]]:
    """A topic that is deleted at a time (ms), and created again 1 ms later."""
    return [
        event(deleted + op, "nemesis", op, kind, "fault", fault={"kind": fault, "topic": "x"})
        for op, fault in enumerate(("delete-topic", "create-topic"))
        for kind in ("invoke", "ok")
    ]


def led_later(folder: Path) -> Path:
    """The bundle, whose broker leads since 3 s."""
    log = folder / "brokers" / "1" / "server.log"
    log.write_text(log.read_text().replace("00:00:00,000", "00:00:03,000"))
    return folder


@pytest.mark.parametrize(("marker", "verdict"), [("7~", "invalid"), ("7!", "valid")])
def test_transactions_since_the_creation_are_compared(marker: str, verdict: str, tmp_path: Path) -> None:
    events = recreated(1 * S) + transaction("t", 0, [(0, "a", 0), (1, "b", 0)], "ok", (4 * S, 4 * S + 5))
    folder = led_later(write_run(tmp_path, {0: "7a 7!", 1: f"7b {marker}"}, events))
    assert judged(folder, "torn-transaction")[1] == verdict


def test_transactions_are_not_compared_if_the_topic_was_recreated_between(tmp_path: Path) -> None:
    events = transaction("t", 0, [(0, "z", 0), (1, "y", 0)], "ok", (1, 2)) + recreated(1 * S)
    events += transaction("t", 1, [(0, "a", 0), (1, "b", 0)], "ok", (4 * S, 4 * S + 5))
    folder = led_later(write_run(tmp_path, {0: "7a 7!", 1: "7b 7~"}, events))
    assert judged(folder, "torn-transaction") == ([], "unknown")


@pytest.mark.parametrize(("began", "is_known"), [(0, False), (4 * S, True)])
def test_the_coordinators_transactions_since_the_creation_count(began: int, is_known: bool, tmp_path: Path) -> None:
    """The records of earlier transactions were in the deleted log."""
    steps: list[Step] = [
        ("t", 7, "ongoing", [("x", 0)], (began + 1, began + 1)),
        ("t", 7, "prepare-commit", [("x", 0)], (began + 2, began + 1)),
        ("t", 7, "complete-commit", [], (began + 3, began + 1)),
    ]
    events = recreated(1 * S) + transaction("t", 0, [(0, "a", None)], "info", (4 * S, 4 * S + 500))
    events += send("b", 1, 4 * S + 600, 0) + contact(40 * S)
    about = {"t": {"transaction.timeout.ms": 1_000}}
    folder = led_later(write_run(tmp_path, {0: "7a b"}, events, steps, processes=about))
    [hanging], _ = judged(folder, "hanging-transaction")
    assert ("had committed it" in hanging["sentence"]) == is_known, hanging["sentence"]
    results = judge_run(open_run(folder))
    figures = merge_figures(results.records, results.context, results.run.settings, findings=results.findings())
    parts = figures["partitions"]
    [shown] = [one for part in parts if part["transactions"] for one in part["transactions"]["shown"]]
    assert shown["findings"] == ["hanging-transaction"]
