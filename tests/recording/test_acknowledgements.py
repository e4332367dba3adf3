"""Acknowledgements without a place, as with acks=0: no broker responds."""

from __future__ import annotations

import json
from concurrent.futures import Future
from pathlib import Path

from logjudge.histories.recording.recorder import Recorder


def test_an_acknowledgement_without_a_place(tmp_path: Path) -> None:
    """aiokafka's futures resolve to None; other clients have negative numbers."""
    recorder = Recorder(tmp_path / "run")
    future: Future[None] = Future()
    with recorder.send("p0", "orders", "a") as op:
        op.watch(future)
    with recorder.txn("t0") as txn:
        txn.send("orders", "b").watch(future)
        txn.ok()
    future.set_result(None)
    with recorder.send("p0", "orders", "c") as op:
        op.ok(-1, -1)
    events = [json.loads(line) for line in (recorder.finish() / "history.jsonl").read_text().splitlines()]
    sends = [event for event in events if event["f"] == "send" and event["type"] == "ok"]
    assert [(event.get("partition"), event["offset"]) for event in sends] == [(None, None)] * 2
