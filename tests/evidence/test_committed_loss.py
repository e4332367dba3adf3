"""committed-absent: without a client history, a high watermark in a broker's log shows that truncated records had been
committed.
"""

# A log line is one line, as brokers write it.
# ruff: noqa: E501

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import logjudge
import polars as pl
import pytest
from command_line import invoke
from logjudge.analysis.partitions.partition import Partition
from logjudge.analysis.rules.committed_loss import committed_absent
from logjudge.analysis.rules.rule import Judgement
from logjudge.histories.settings import Settings
from logjudge.histories.tables import CONTEXT, READS, SENDS, complete

from .replica_texts import epochs, logs
from .timelines import AFTER, BEGINS, BOOT, CUT, LOADED, TWO_LEADS, UNCLEAN, metadata, server_log, timeline

Unpack = Callable[[str], Path]
MARK = "INFO [Partition orders-0 broker=1] Log loaded for partition orders-0 with initial high watermark %d (kafka.cluster.Partition)"
START = "INFO [Log partition=orders-0, dir=/d] Incremented log start offset to %d due to client delete records request (kafka.log.Log)"
LINES = ((8, LOADED % 40), (8, MARK % 30), (9, CUT % 1))  # broker 1 had offsets 1 to 39, and truncates them


def judged(
    *lines: tuple[int, str], tables=None, policy="delete", context=None, topic="orders", meta=UNCLEAN, of_2=(), of_3=()
) -> Judgement:
    """The rule's judgement of a partition that broker 2 leads from offset 1, with these lines of broker 1 (2, and 3)."""
    events = [server_log("1", *lines), server_log("2", *of_2), server_log("3", *of_3)]
    found = timeline(AFTER if tables is None else tables, meta=meta, events=events)
    settings = Settings(config={"topics": {topic: {"cleanup.policy": policy}}})
    frames = pl.DataFrame(schema=SENDS), pl.DataFrame(schema=READS)
    about = {} if context is None else {"context": context}
    p = Partition(topic, 0, settings, *frames, replica_logs=found.replica_logs, timeline=found, **about)
    return committed_absent.judges["native"](p)


def offsets(judgement: Judgement) -> list[tuple[int | None, int | None, int]]:
    return [(one.first_offset, one.last_offset, one.count) for one in judgement.findings]


def test_what_was_truncated_below_the_high_watermark_had_been_committed() -> None:
    found = judged(*LINES)
    assert offsets(found) == [(1, 29, 29)]
    [finding] = found.findings
    assert finding.sentence == (
        "broker 1 truncated offsets 1 to 39 of orders-0, of which offsets 1 to 29 had been committed: its high"
        " watermark was 30"
    )
    assert [(one.source, one.line) for one in finding.evidence] == [
        ("brokers/1/server.log", 2),
        ("brokers/1/server.log", 3),
    ]
    assert not found.unknowns


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (((8, LOADED % 40), (8, MARK % 40), (9, CUT % 1)), [(1, 39, 39)]),
        (((8, LOADED % 40), (8, MARK % 1), (9, CUT % 1)), []),  # nothing of it was committed
        (((8, LOADED % 40), (8, MARK % 30), (8, START % 20), (9, CUT % 1)), [(20, 29, 10)]),  # deleted below
        (((8, LOADED % 40), (8, MARK % 30), (9, CUT % 1), (10, START % 20)), [(1, 29, 29)]),  # deleted later
        # The second high watermark is that of the second truncation. Each offset counts once.
        (
            ((3, LOADED % 90), (3, MARK % 90), (4, CUT % 5), (8, LOADED % 40), (8, MARK % 30), (9, CUT % 1)),
            [(1, 29, 29), (30, 89, 60)],
        ),
        (((7, MARK % 99), (8, LOADED % 40), (8, MARK % 30), (9, CUT % 1)), [(1, 29, 29)]),
        (((8, LOADED % 40), (9, CUT % 1), (10, MARK % 30)), []),  # the line is from after the truncation
    ],
)
def test_the_high_watermark_is_that_of_the_truncated_log(lines, expected) -> None:
    assert offsets(judged(*lines)) == expected


@pytest.mark.parametrize(("at", "expected"), [(8, []), (10, [(1, 29, 29)])])
def test_a_log_start_of_the_new_leader_is_that_of_its_own_records(
    at: int, expected: list[tuple[int, int, int]]
) -> None:
    """Broker 2 led from offset 1 since 9 s, so that what it deleted since then were its own records."""
    lines = (*LINES[:2], (11, CUT % 1))
    assert offsets(judged(*lines, of_2=((at, START % 40),))) == expected


@pytest.mark.parametrize(
    ("control", "high_watermark", "expected"),
    [
        ([True], 30, [(1, 29, 15)]),  # 14 transactions may have ended, each with one record
        ([True], 2, [(1, 1, 1)]),
        ([False], 30, [(1, 29, 14)]),
        ([False], 2, []),  # it may be the marker of the open transaction
    ],
)
def test_some_offsets_may_have_transaction_markers(control, high_watermark, expected) -> None:
    """Offset 0 has a marker, or the record of an open transaction."""
    of_transaction = {
        "transactional": pl.col("base_offset") == 0,
        "control": pl.lit(*control),
        "producer_id": pl.lit(7),
    }
    tables = {**AFTER, "batches": AFTER["batches"].with_columns(**of_transaction)}
    found = judged((8, LOADED % 40), (8, MARK % high_watermark), (9, CUT % 1), tables=tables)
    assert offsets(found) == expected
    text = "whether offset 1 of orders-0 had records, or only transaction markers"
    assert [*found.unknowns] == ([] if expected else [text])


@pytest.mark.parametrize(
    ("truncated", "of_2", "expected"),
    [
        (10, [], []),
        (7, [], [(1, 29, 29)]),  # before broker 2 led
        (10, [(11, BOOT)], [(1, 29, 29)]),  # it may have lost the tail of its log
    ],
)
def test_an_older_copy_of_a_log_has_the_records_again_that_the_broker_had_truncated(truncated, of_2, expected) -> None:
    """Someone restores the folder of the partition. The checkpoint of the high watermark is that of the newer log."""
    lines = ((3, LOADED % 40), (3, MARK % 1), (truncated, CUT % 1), (14, LOADED % 40), (14, MARK % 30), (15, CUT % 1))
    assert offsets(judged(*lines, meta=TWO_LEADS, of_2=of_2)) == expected


def test_an_older_copy_of_the_log_of_an_earlier_leader_was_not_committed_in_its_term() -> None:
    """Broker 1 led epoch 1 from offset 1 on, and an older copy of its log has records of epoch 0 there."""
    meta = metadata((4, {"leader": 1, "isr": [1, 2]}), (16, {"leader": 2, "isr": [2]}))
    tables = {**logs("1: 0a 1x@1\n2: 0a 1x@1"), "epochs": epochs(("2", 0, 0), ("2", 1, 1))}
    lines = ((5, BEGINS % (1, 1, 1, "1,2")), (14, LOADED % 40), (14, MARK % 30), (17, CUT % 1))
    assert offsets(judged(*lines, meta=meta, tables=tables)) == []


def test_records_that_the_broker_fetched_again_are_not_lost() -> None:
    """The log at the end has them all, in the epoch in which the broker had them."""
    tables = {**logs("1: " + " ".join(f"{n}a" for n in range(40)) + "\n2: " + " ".join(f"{n}a" for n in range(40)))}
    assert judged(*LINES, tables={**tables, "epochs": epochs(("2", 0, 0))}) == Judgement()


WITHOUT_EPOCHS = logs("1: 0a 1x@1\n2: 0a 1x@1")


@pytest.mark.parametrize("lines", [((8, LOADED % 40), (9, CUT % 1)), ((8, LOADED % 40), (8, MARK % 1), (9, CUT % 1))])
@pytest.mark.parametrize(
    ("meta", "tables", "is_unknown"),
    [
        (UNCLEAN, AFTER, True),  # the high watermark in the log lags
        (TWO_LEADS, AFTER, False),  # the leader came from the ISR
        (TWO_LEADS, WITHOUT_EPOCHS, True),  # followers may truncate to the high watermark (KIP-101)
        (None, AFTER, True),  # it is not known whether it did
    ],
)
def test_without_a_high_watermark_above_the_records_it_is_unknown_unless_all_elections_were_clean(
    lines, meta, tables, is_unknown
) -> None:
    found = judged(*lines, meta=meta, tables=tables)
    unknown = ("whether offsets 1 to 39 of orders-0, which broker 1 truncated, had been committed",)
    assert found == Judgement(unknowns=unknown if is_unknown else ())


@pytest.mark.parametrize(("end", "is_unknown"), [(2, False), (30, False), (31, True)])
def test_what_another_broker_truncated_had_been_committed_where_one_high_watermark_shows_it(end, is_unknown) -> None:
    """Broker 3, a follower with fewer records, logs no high watermark. Offsets 1 to 29 had been committed."""
    found = judged(*LINES, of_3=[(8, LOADED % end), (10, CUT % 1)])
    assert offsets(found) == [(1, 29, 29)]
    assert bool(found.unknowns) == is_unknown


@pytest.mark.parametrize(("started", "is_unknown"), [(5, True), (10, False)])
def test_a_leader_from_the_isr_that_had_just_started_may_have_lost_its_tail(started: int, is_unknown: bool) -> None:
    """After a power failure of all brokers: broker 2 was alone in the ISR when they died."""
    found = judged((8, LOADED % 40), (9, CUT % 1), meta=TWO_LEADS, of_2=[(started, BOOT)])
    assert bool(found.unknowns) == is_unknown


def test_of_more_than_100_truncations_the_first_are_judged() -> None:
    found = judged(*LINES[:2], *[LINES[2]] * 101)
    assert offsets(found) == [(1, 29, 29)]
    assert found.unknowns == ("orders-0 has more than 100 truncations, of which the first were examined",)


def test_on_a_compacted_topic_it_is_unknown() -> None:
    found = judged(*LINES, policy="compact")
    assert (offsets(found), found.unknowns) == (
        [],
        ("compaction may have removed offsets 1 to 29 of orders-0 before their truncation",),
    )


def test_with_clients_and_for_kafkas_own_topics_other_rules_judge() -> None:
    some = complete(pl.DataFrame({"kind": ["subscribe"], "process": ["c0"]}), CONTEXT)
    assert judged(*LINES, context=some) == Judgement()
    assert judged(*LINES, topic="__consumer_offsets") == Judgement()


def test_older_records_at_the_truncated_offsets_may_be_the_same_ones() -> None:
    """Broker 1 led epoch 1 from offset 1. Producers may have sent its records 1 and 2 to the leader before, too."""
    tables = {**logs("1: 0a 1b 2c 3x@2\n2: 0a 1b 2c 3x@2"), "epochs": epochs(("2", 0, 0), ("2", 2, 3))}
    meta = metadata((4, {"leader": 1, "isr": [1]}), (9, {"leader": 2, "isr": [2], "leaderRecoveryState": 1}))
    lines = ((4, BEGINS % (1, 1, 2, "1")), (10, LOADED % 40), (10, MARK % 30), (11, CUT % 1))
    [finding] = judged(*lines, tables=tables, meta=meta).findings
    assert (finding.first_offset, finding.last_offset) == (3, 29)
    assert finding.sentence.startswith(
        "broker 1 truncated offsets 1 to 39 of orders-0, of which offsets 3 to 29 had been"
    )


def test_without_a_log_the_start_of_the_next_epoch_shows_that_the_leader_lacked_them() -> None:
    nothing = {"epochs": epochs(("2", 0, 0), ("2", 1, 1))}
    assert offsets(judged(*LINES, tables=nothing)) == [(1, 29, 29)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "committed"),
    [("unclean-election-a", 733), ("unclean-election-m", 502), ("acks1-failover-a", 0), ("clean-a", 0)],
)
@pytest.mark.parametrize("has_settings", [True, False])
def test_all_committed_records_of_a_real_run_are_lost_ones(
    unpacked: Unpack, tmp_path: Path, name: str, committed: int, has_settings: bool
) -> None:
    """The clients' history of the same run has at least these lost writes."""
    run = unpacked(name)
    whole = logjudge.check(run)
    shutil.copytree(run / "brokers", tmp_path / "run" / "brokers")
    if has_settings:
        about = json.loads((run / "run.json").read_text())
        about.pop("final", None)
        (tmp_path / "run" / "run.json").write_text(json.dumps(about))
    alone = logjudge.check(tmp_path / "run")
    ranges = {kind: set() for kind in ("lost-write", "committed-absent")}
    for result in (whole, alone):
        for row in result.findings.filter(pl.col("rule").is_in([*ranges])).iter_rows(named=True):
            ranges[row["rule"]] |= {(row["partition"], at) for at in range(row["first_offset"], row["last_offset"] + 1)}
    assert len(ranges["committed-absent"]) == committed
    assert ranges["committed-absent"] <= ranges["lost-write"]
    assert alone.verdict == ("invalid" if committed else "unknown")
    assert alone.headline.startswith(f"At least {committed} committed records were lost: orders-0") == bool(committed)
    causes = {one["cause"] for one in alone.incidents if one["severity"] == "violation"}
    assert causes == ({"unclean-election"} if committed else set())


def test_explain_names_the_range_and_the_cause(unpacked: Unpack, tmp_path: Path) -> None:
    shutil.copytree(unpacked("unclean-election-a") / "brokers", tmp_path / "run" / "brokers")
    explained = " ".join(invoke("explain", tmp_path / "run", "orders-0@300").output.split())
    assert (
        "Cause: unclean-election, at least 361 committed records were lost: orders-0 at offsets 255 to 615 1."
        in explained
    )


@pytest.mark.parametrize("has_copy", [True, False])
def test_an_earlier_copy_of_the_log_has_their_values(unpacked: Unpack, tmp_path: Path, has_copy: bool) -> None:
    run = unpacked("unclean-election-m")
    for name in ("brokers", *["snapshots"] * has_copy):
        shutil.copytree(run / name, tmp_path / "run" / name)
    lost = {value for values in logjudge.check(run).findings.filter(rule="lost-write")["values"] for value in values}
    invoke("check", tmp_path / "run", "--engine", "local", "--no-plots", "--out", tmp_path / "out")
    printed = invoke("values", tmp_path / "out", "committed-absent")
    values = {line.partition("\t")[2] for line in printed.stdout.splitlines()}
    assert (len(values), values <= lost) == (502 if has_copy else 0, True)
    assert printed.stderr == ("" if has_copy else "no collected file has the values of committed-absent\n")
    hint = f"; committed-absent is broken: `logjudge values {tmp_path / 'out'} committed-absent`"
    assert invoke("values", tmp_path / "out").stderr == f"no breach of lost-write was found{hint}\n"
