"""The truth of a run is what an independent look at its history finds, over many seeds, variants
and faults."""

from __future__ import annotations

import io
import json
from collections import defaultdict

import pytest
from logjudge.histories.simulation.recorder import Recorder
from logjudge.histories.simulation.scenarios import load
from logjudge.histories.simulation.truth_file import truth
from logjudge.models.exploration.search import SURVIVABLE, Space
from logjudge.models.exploration.truth import losses
from logjudge.models.replication.config import SECOND
from logjudge.models.replication.faults.fault import Fault
from logjudge.models.replication.scenario import Scenario
from logjudge.models.replication.variants import VARIANTS

KINDS = (*SURVIVABLE, "unclean", "power-loss", "blackout", "duplication", "disk-full", "shutdown")
OPTIONS = {"num.partitions": 2, "unclean.leader.election.enable": True, "enable.idempotence": False}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("acks", ["all", "1"])
def test_lost_and_repeated_values(variant: str, acks: str) -> None:
    space = Space(variant, KINDS, {**OPTIONS, "acks": acks}, 4)
    judged = 0
    for seed in range(12):
        scenario = space.scenario(seed)
        out = io.BytesIO()
        recorder = Recorder(out, scenario.config())
        cluster = scenario.run(recorder)
        if not cluster.final:
            continue
        judged += 1
        acknowledged: set[str] = set()
        offsets: dict[str, list[tuple[int, int]]] = defaultdict(list)
        polled: set[str] = set()
        for line in out.getvalue().splitlines():
            event = json.loads(line)
            if event["f"] == "send" and event["type"] == "ok":
                acknowledged.add(event["value"])
            for record in event.get("records", []):
                if event["process"] == "final":
                    offsets[record["value"]].append((record["partition"], record["offset"]))
                else:
                    polled.add(record["value"])
        recorded = truth(cluster, scenario, {})
        lost = {value for rows in recorded["lost_acked"].values() for _, value in rows}
        assert lost == {value for value in acknowledged if value not in offsets}, seed
        assert recorded["lost_but_read_before"] == len(lost & polled), seed
        twice = sum(len(places) - 1 for places in offsets.values())
        assert twice == sum(one["count"] for one in recorded["duplicates"]), seed
    assert judged >= 3


def test_records_lost_before_their_offsets_were_deleted_are_lost() -> None:
    options = {"unclean.leader.election.enable": True, "simulation.ops": 300, "simulation.send.interval.us": 100_000}
    dead = (Fault(2 * SECOND, "crash", (2, 3), 14 * SECOND), Fault(12 * SECOND, "crash", (1,), 20 * SECOND))
    scenario = Scenario("deleted", "kip-320", 0, options, {}, dead)
    lost = sum(one.ack.end - one.ack.base for one in losses(scenario.run()))
    assert lost > 20
    deleted = scenario.with_faults((*dead, Fault(28 * SECOND, "delete-records", amount=80)))
    found = losses(deleted.run())
    assert sum(one.ack.end - one.ack.base for one in found) == lost
    assert found[0].ack.base < 80 < found[-1].ack.end


def test_records_deleted_before_an_unclean_election_gave_their_offsets_to_others_are_not_lost() -> None:
    options = {"unclean.leader.election.enable": True, "simulation.ops": 600, "simulation.send.interval.us": 100_000}
    dead = (Fault(2 * SECOND, "crash", (2, 3), 22 * SECOND), Fault(20 * SECOND, "crash", (1,), 20 * SECOND))
    scenario = Scenario("deleted", "kip-320", 0, options, {}, dead)
    first = losses(scenario.run())[0].ack.base
    assert first < 80
    deleted = scenario.with_faults((dead[0], Fault(18 * SECOND, "delete-records", amount=80), dead[1])).run()
    found = losses(deleted)
    log = deleted.leader_log(0)
    assert found[0].ack.base == 80
    assert log is not None
    assert log.start == 0
    assert log.end > 80


def test_final_readers_read_empty_logs_too() -> None:
    out = io.BytesIO()
    scenario = load("incident-152-153")
    recorder = Recorder(out, scenario.config())
    assert scenario.run(recorder).final
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    polls = [event for event in events if (event["process"], event["f"], event["type"]) == ("final", "poll", "ok")]
    assert [event["records"] for event in polls] == [[]]
