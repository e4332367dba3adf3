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
from .timelines import AFTER, BOOT, CRASHED, START, UNCLEAN, fault, lost, server_log, timeline

HASH = "0123456789abcdef0123456789abcdef"
FOUND = (
    "INFO Found stray log dir Log(dir=/d/orders-0, topicId=x, topic=orders, partition=0, highWatermark=2,"
    " lastStableOffset=2, logStartOffset=0, logEndOffset=2): the topicId x does not exist in the metadata image (x)"
)


ISR = "INFO [Partition orders-0 broker=1] ISR updated to 1,2  and version updated to 3 (kafka.cluster.Partition)"


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


@pytest.mark.parametrize(
    ("died", "isr", "cause"),
    [(4, "1", "metadata-lost"), (8, "1", "unknown"), (4, "2,1", "unknown"), (None, "1", "unknown")],
)
def test_a_replica_that_was_dead_since_the_last_isr_needs_no_folder(died, isr, cause):
    """The ISR is reported at 7 s, the metadata begin at 9 s, and both brokers may have led before."""
    events = [server_log("1", (2, ISR), (7, ISR.replace("1,2 ", isr)))]
    faults = [fault("kill", "2", died)] if died else []
    tables = {**logs("1: 0n\n2: 0n"), **leftovers("1: 0a 1b")}
    found = explain_loss(timeline(tables, None, metadata_from(9), events, TWO, faults=faults), lost())
    assert found.cause == cause


@pytest.mark.parametrize(("began", "lines"), [(9, [(12, FOUND)]), (3, [(12, FOUND)]), (9, [])])
def test_a_log_that_was_set_aside_lost_no_tail(began, lines):
    """Both brokers of the ISR created empty logs, as after a power failure: these were of the topic's new id."""
    created = "INFO Created log for partition orders-0 in /data/orders-0 with properties {} (kafka.log.LogManager)"
    events = [server_log(name, (2, ISR), (9, BOOT), (9, CRASHED), *lines, (13, created)) for name in ("1", "2")]
    found = explain_loss(timeline(logs("1: 0n\n2: 0n"), None, metadata_from(began), events, TWO), lost())
    assert found.cause == ("unknown" if lines else "correlated-failure")
    origin = "whether the controllers began anew, or with an older metadata log (their __cluster_metadata)"
    assert (origin in found.missing) == (began == 3)


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
