"""Leaders that begin below an earlier one, or with a new log, in a partition without clients: what is a loss."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from logjudge.analysis.incidents.truncations import explain_truncations
from logjudge.analysis.partitions.partition import Partition
from logjudge.analysis.replicas.replica_logs import replica_logs_of
from logjudge.analysis.timelines.removals import first_removed
from logjudge.histories.settings import Settings
from logjudge.histories.tables import READS, SENDS

from .replica_texts import epochs, logs
from .timelines import BEGAN, BOOT, CUT, LOADED, fault, server_log, timeline


def sentences(found):
    """The sentences of the explained truncations, up to what is missing."""
    frames = pl.DataFrame(schema=SENDS), pl.DataFrame(schema=READS)
    p = Partition("orders", 0, Settings(), *frames, replica_logs=found.replica_logs, timeline=found)
    return [one.sentence.partition(";")[0] for one in explain_truncations(p)]


FALL = "broker 1 began to lead orders-0 in epoch 2 from offset 2, below offset 9, where epoch 1 had begun"
LEADS_1 = server_log("1", *((at, BEGAN % (1, n, start, n, "1")) for at, n, start in ((1, 0, 0), (4, 1, 9), (8, 2, 2))))
TRUNCATES_2 = server_log("2", (7, LOADED % 9), (9, CUT % 2))
DELETED = replace(fault("delete-topic", "", 7), details={"topic": "orders"})


@pytest.mark.parametrize(
    ("events", "faults", "expected"),
    [
        ([LEADS_1], (), [FALL]),
        ([LEADS_1], (DELETED,), []),  # another topic of the name began at offset 0
        ([LEADS_1, server_log("2", (8, BEGAN % (2, 2, 2, 2, "2")))], (), []),  # two brokers report that they lead
        ([LEADS_1, TRUNCATES_2], (), ["broker 2 truncated offsets 2 to 8 of orders-0"]),  # the same records
    ],
)
def test_a_leader_that_begins_below_an_earlier_one_is_a_loss_of_its_own(events, faults, expected):
    assert sentences(timeline(logs("1: 0a@2"), events=events, leader="1", faults=faults)) == expected


def test_epochs_without_known_leaders_are_no_loss():
    tables = {**logs("1: 0a 1b 2c@2"), "epochs": epochs(("1", 2, 2), ("2", 1, 9))}
    assert sentences(timeline(tables)) == []


NO_LOG = "INFO Created log for partition orders-0 in /d/orders-0 with properties {} (kafka.log.LogManager)"
LOST = "broker 1, which had led epoch 0, found no log when it started"
HAD_9 = server_log("2", (2, LOADED % 9))


@pytest.mark.parametrize(
    ("leader", "others", "faults", "expected"),
    [
        (1, HAD_9, (), [f"{LOST}, and led orders-0 from offset 0 in epoch 1"]),
        (1, HAD_9, (DELETED,), []),
        (2, HAD_9, (), []),  # broker 2 led with its own log
        (1, server_log("2", (2, LOADED % 0)), (), []),  # no broker is known to have had records
    ],
)
def test_a_leader_that_found_no_log_lost_records_that_a_broker_had(leader, others, faults, expected):
    own = [(1, BEGAN % (1, 0, 0, 0, "1")), (5, BOOT), (6, NO_LOG)]
    began = server_log(f"{leader}", (8, BEGAN % (leader, 1, 0, 1, f"{leader}")))
    found = timeline(logs("1: 0a@1\n2: 0a@1"), events=[server_log("1", *own), others, began], leader="1", faults=faults)
    assert sentences(found) == expected


@pytest.mark.parametrize(
    ("cuts", "reason"),
    [
        ([(11, 0)], f", because {LOST}, and led from offset 0: what only that log had is gone, too"),
        ([(11, 2)], ""),  # to a log with records
        ([(7, 0)], ""),  # before broker 1 led again
    ],
)
def test_a_follower_truncates_to_offset_0_as_its_leader_found_no_log(cuts, reason):
    own = [(1, BEGAN % (1, 0, 0, 0, "1")), (5, BOOT), (6, NO_LOG), (8, BEGAN % (1, 1, 0, 1, "1"))]
    events = [server_log("1", *own), server_log("2", (2, LOADED % 9), *((at, CUT % end) for at, end in cuts))]
    found = timeline(logs("1: 0a@1\n2: 0a@1"), events=events, leader="1")
    frames = pl.DataFrame(schema=SENDS), pl.DataFrame(schema=READS)
    p = Partition("orders", 0, Settings(), *frames, replica_logs=found.replica_logs, timeline=found)
    [explained] = [one for one in explain_truncations(p) if "truncated" in one.event]
    first = cuts[0][1]
    assert explained.sentence.startswith(f"broker 2 truncated offsets {first} to 8 of orders-0{reason};")


@pytest.mark.parametrize(("text", "first"), [("1: 70a@2 75x@2", None), ("1: 70a@1 75x@2", 75)])
def test_an_epoch_that_began_above_the_start_of_a_shortened_log_replaced_records(text, first):
    """Retention deleted offsets 0 to 69, and an unknown epoch with them."""
    tables = logs(text)
    tables["batches"] = tables["batches"].with_columns(file=pl.lit(f"{70:020d}.log"))
    assert first_removed(replica_logs_of("orders", 0, tables, leader="1"), 50, 76) == first


CORRUPT = "WARN [LogLoader partition=orders-0, dir=/d] Corruption found in segment 0, truncating to offset %d (x)"


@pytest.mark.parametrize(
    ("leader", "start", "is_noted"), [(1, 5, True), (2, 5, False), (1, 9, False)], ids=["", "another led", "fetched"]
)
def test_a_leader_that_cut_its_corrupt_log_may_have_lost_records(leader, start, is_noted):
    own = server_log("1", (1, BEGAN % (1, 0, 0, 0, "1")), (5, BOOT), (6, CORRUPT % 5), (6, LOADED % 5))
    began = server_log(f"{leader}", (8, BEGAN % (leader, 1, start, 1, f"{leader}")))
    found = timeline(logs("1: 0a@1\n2: 0a@1"), events=[own, began], leader="1")
    event = "broker 1 found its log of orders-0 corrupt and truncated it to offset 5, and led from there in epoch 1"
    assert sentences(found) == [event] * is_noted
