"""Lost records that folders beside the brokers' logs still have: as evidence of lost metadata, and to get them back."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from logjudge.analysis.causes import explain_loss
from logjudge.histories.evidence.cluster_metadata import MetadataRecord, replay_records
from logjudge.histories.evidence.layout import find_parts
from logjudge.histories.evidence.part_blocks import read_part
from logjudge.histories.evidence.tables import located

from .replica_texts import logs
from .timelines import AFTER, START, UNCLEAN, lost, server_log, timeline

HASH = "0123456789abcdef0123456789abcdef"
FOUND = (
    "INFO Found stray log dir Log(dir=/d/orders-0, topicId=x, topic=orders, partition=0, highWatermark=2,"
    " lastStableOffset=2, logStartOffset=0, logEndOffset=2): the topicId x does not exist in the metadata image (x)"
)


def leftovers(text, kind="stray"):
    records = logs(text)["records"]
    folder = pl.format("brokers/{}/data/orders-0.{}-{}/0.log", "broker", pl.lit(HASH), pl.lit(kind))
    return {"leftovers": records.with_columns(file=folder)}


def metadata_from(second):
    level = MetadataRecord(
        0, START + second * 1000, "FEATURE_LEVEL_RECORD", {"name": "metadata.version", "featureLevel": 27}
    )
    frame, _ = replay_records([level])
    return located(frame.drop("file"), "", "100", "__cluster_metadata-0/0.log")


TWO = {"replication.factor": 2}
BOTH = "1: 0a 1b\n2: 0a 1b"


@pytest.mark.parametrize(
    ("aside", "began", "config", "cause"),
    [
        (leftovers(BOTH), 9, TWO, "metadata-lost"),
        (leftovers("1: 0a 1b\n2: 0a"), 9, TWO, "metadata-lost"),  # broker 2 was behind
        (leftovers("1: 0a 1b\n2: 0a 1x@1"), 9, TWO, "unknown"),  # it had led without the record
        (leftovers("1: 0a 1b"), 9, TWO, "unknown"),  # it may have
        (leftovers(BOTH), 9, {}, "unknown"),  # and so may a third broker
        (leftovers(BOTH), 3, TWO, "unknown"),  # the record was acknowledged in the cluster of the end
        (leftovers("1: 0a 1x\n2: 0a 1x"), 9, TWO, "unknown"),
        (leftovers(BOTH, "delete"), 9, TWO, "unknown"),
        ({}, 9, TWO, "unknown"),
    ],
)
def test_metadata_that_began_anew_are_the_cause_if_stray_folders_have_the_records(aside, began, config, cause):
    tables = {**logs("1: 0n\n2: 0n"), **aside}
    events = [server_log("1", (12, FOUND))]
    found = explain_loss(timeline(tables, None, metadata_from(began), events, config), lost())
    assert found.cause == cause
    kinds = [fact.kind for fact in found.chain]
    folders = len(aside) and len({*aside["leftovers"].filter(value="b")["broker"]})
    assert kinds == (
        [] if cause == "unknown" else ["acknowledged", "metadata-formatted", "set-aside"] + folders * ["leftover"]
    )
    assert (
        sum("-stray of broker" in text or "-delete of broker" in text for text in found.missing)
        == (cause == "unknown") * folders
    )


def test_any_chain_names_the_folder_that_still_has_the_records():
    tables = {**AFTER, **leftovers("1: 0a 1b", "delete")}
    found = explain_loss(timeline(tables, meta=UNCLEAN), lost())
    assert found.cause == "unclean-election"
    folder = f"the folder brokers/1/data/orders-0.{HASH}-delete of broker 1 still has"
    assert found.chain[-1].sentence.startswith(f"{folder} the records (")
    found = explain_loss(timeline(tables, meta=UNCLEAN), lost(last=2, values=("b", "c")))
    assert found.chain[-1].sentence.startswith(f"{folder} 1 of these 2 records (")


def test_the_records_of_a_leftover_folder_are_of_its_broker_and_partition(
    unpacked: Callable[..., Path], tmp_path: Path
) -> None:
    run = shutil.copytree(unpacked("clean-a"), tmp_path / "run")
    shutil.copytree(run / "brokers/1/data/orders-0", run / f"brokers/1/data/orders-0.{HASH}-stray")
    own = [part for part in find_parts(run) if (part.broker, part.topic, part.partition) == ("1", "orders", 0)]
    blocks = [block for part in own if not part.snapshot for block in read_part(part)]
    records, aside = (
        pl.concat(block.frame for block in blocks if block.table == table) for table in ("records", "leftovers")
    )
    assert len(records)
    assert aside.drop("file").equals(records.drop("file"))
