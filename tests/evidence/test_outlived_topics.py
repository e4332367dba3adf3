"""Logs that brokers still have after their topic was deleted, as they were down then.

As in recorded runs: the topic is deleted, and perhaps created again, while a broker is dead. Its disk keeps the old log
until it starts, and then it renames the folder to `…-stray`.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from logjudge.analysis.partitions.evidence import collected_logs
from logjudge.analysis.partitions.partition import Partition
from logjudge.analysis.summary import evidence_coverage
from logjudge.histories.evidence import foreign_files
from logjudge.histories.evidence.layout import find_parts
from logjudge.histories.evidence.tables import FINAL, LOCATION, METADATA
from logjudge.histories.settings import Settings
from logjudge.histories.tables import READS, SENDS

from .conftest import judge_absence
from .replica_texts import logs, of, sends

OLD, NEW = "J0DgbTaRRgumsVCtWMRZBg", "lnugIDh2Sk6s2r7gl-dRIw"


def changes(*rows, snapshot=FINAL):
    """The metadata log's creations and removals of topics: pairs of kind and topic id."""
    entries = [
        {"snapshot": snapshot, "broker": "100", "kind": kind, "topic": "orders", "topic_id": id_, "time": 1}
        for kind, id_ in rows
    ]
    return pl.DataFrame(entries, schema={**LOCATION, **METADATA})


@pytest.mark.parametrize(("recorded", "left_out"), [((OLD, NEW), []), ((NEW,), ["3"]), ((), ["3"])])
def test_a_log_of_a_deleted_generation_is_judged_with_its_generation(
    recorded, left_out, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for broker, id_ in (("1", NEW), ("2", NEW), ("3", OLD)):
        folder = tmp_path / "brokers" / broker / "data" / "orders-0"
        folder.mkdir(parents=True)
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {id_}\n")
        (folder / f"{0:020d}.log").touch()
        (folder.parent / "meta.properties").write_text(f"version=1\ncluster.id=c\nnode.id={broker}\n")
    metadata_log = tmp_path / "brokers/1/data/__cluster_metadata-0"
    metadata_log.mkdir()
    (metadata_log / f"{0:020d}.log").touch()
    tables = changes(*(("topic", id_) for id_ in recorded)), pl.DataFrame()
    monkeypatch.setattr(foreign_files, "read_cluster_metadata", lambda _: tables)
    assert [part.broker for part in find_parts(tmp_path) if part.kind == "left-out"] == left_out


@pytest.mark.parametrize(
    ("removed_in", "leader", "found", "unknowns"),
    [
        ([FINAL], "1", [], 0),  # broker 1 has removed its log, which had b
        (["early"], "1", [], 1),  # the metadata log at the end lacks the removal
        ([], "1", [], 1),
        ([FINAL], "2", [["b"]], 0),  # the last leader's log is there, and lacks b
    ],
)
def test_what_removed_logs_had_is_gone_legally(removed_in, leader, found, unknowns):
    left = of(logs("2: 0a"), replicas=("1", "2"), leader=leader, removed_in=frozenset(removed_in))
    judged = judge_absence(left, sends("a@0", "b@1"))
    assert [finding.values for finding in judged.findings] == found
    assert len(judged.unknowns) == unknowns


@pytest.mark.parametrize("factor", [{}, {"replication.factor": 2}])
@pytest.mark.parametrize(
    ("removal", "is_missing"),
    [(changes(("remove-topic", OLD)), False), (changes(("topic", OLD)), True), (changes(), True)],
)
def test_removed_logs_are_not_missing(removal, is_missing, factor):
    assigned = factor or {"replica.assignment": [[1, 2]]}
    settings = Settings(config={"topics": {"orders": assigned}})
    held = collected_logs("orders", 0, logs("2: 0a"), settings, {"metadata": removal})
    frames = pl.DataFrame(schema=SENDS), pl.DataFrame(schema=READS)
    coverage = evidence_coverage(Partition("orders", 0, settings, *frames, replica_logs=held))
    assert coverage is not None
    assert bool(coverage["missing"] or coverage["lacking"]) is is_missing
