"""hanging-transaction where the partition of __transaction_state has no leader that could end the transaction."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from logjudge.histories.evidence.metadata_records import encode

from .test_transaction_rules import ONGOING, PREPARED, S
from .transaction_logs import SEGMENT, batch, contact, judged, send, transaction, write_run

# Partition of __transaction_state, ms and leader (-1: none) of each change; the second is the coordinator of other ids.
COORDINATORS: dict[str, tuple[list[tuple[int, int, int]], str]] = {
    "led all the time": ([(0, 0, 1)], "invalid"),
    "led long enough": ([(0, 0, 1), (0, 35 * S, -1)], "invalid"),
    "without a leader to the end": ([(0, 0, 1), (0, 1 * S, -1)], "unknown"),
    "without a leader until a moment ago": ([(0, 0, 1), (0, 1 * S, -1), (0, 20 * S, 2)], "unknown"),
    "another one has no leader": ([(0, 0, 1), (1, 0, 1), (1, 1 * S, -1)], "invalid"),
}


@pytest.mark.parametrize("is_dated", [True, False])
@pytest.mark.parametrize("name", COORDINATORS)
def test_only_a_partition_with_a_leader_ends_transactions(name: str, is_dated: bool, tmp_path: Path) -> None:
    changes, verdict = COORDINATORS[name]
    events = transaction("t", 0, [(0, "a", None)], "info", (0, 500)) + send("b", 1, 600, 0)
    processes = {"t": {"transaction.timeout.ms": 1_000, "transactional.id": "t"}}
    folder = write_run(tmp_path, {0: "7a b"}, events + contact(40 * S), [ONGOING, PREPARED], processes=processes)
    if not is_dated:  # then the last leader counts
        run = json.loads((folder / "run.json").read_text())
        (folder / "run.json").write_text(json.dumps({**run, "started_at": None}))
        shutil.rmtree(folder / "brokers" / "1" / "data" / "__transaction_state-0")
        verdict = "unknown" if changes[-1][:1] == (0,) and changes[-1][2] == -1 else "invalid"
    topic_id = "A" * 22
    records = [(0, "TOPIC_RECORD", {"name": "__transaction_state", "topicId": topic_id})]
    for number, (partition, at, leader) in enumerate(changes):
        about = {"partitionId": partition, "topicId": topic_id, "leader": leader}
        new = {**about, "replicas": [1, 2], "isr": [1, 2], "leaderEpoch": 0, "partitionEpoch": 0}
        is_new = partition not in {before for before, *_ in changes[:number]}
        records.append((at, "PARTITION_RECORD", new) if is_new else (at, "PARTITION_CHANGE_RECORD", about))
    metadata = folder / "brokers" / "100" / "data" / "__cluster_metadata-0"
    metadata.mkdir(parents=True)
    written = (batch(offset, encode(kind, about), time=at) for offset, (at, kind, about) in enumerate(records))
    (metadata / SEGMENT).write_bytes(b"".join(written))
    found, judgement = judged(folder, "hanging-transaction")
    assert (judgement, len(found)) == (verdict, int(verdict == "invalid"))
