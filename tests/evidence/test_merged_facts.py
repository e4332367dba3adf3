"""Facts in order of time, and one fact of several sources listed once."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from logjudge.analysis.incidents.chains import merge_chains
from logjudge.analysis.timelines import merged_sources
from logjudge.analysis.timelines.facts import Fact, ordered
from logjudge.analysis.timelines.merged_sources import merge_sources

from .timelines import SECOND, metadata, timeline


def test_facts_without_a_time_keep_their_place():
    one, two, three = Fact("one", "started", 1), Fact("undated", "started"), Fact("three", "started", 3)
    assert [fact.sentence for fact in ordered([one, two, three, one])] == ["one", "undated", "three"]
    assert [fact.sentence for fact in ordered([three, two, one])] == ["one", "three", "undated"]


def metadata_fact(at, kind="fenced", broker="2", **about):
    return Fact("as in metadata", kind, at * SECOND // 10, "__cluster_metadata-0", None, at, broker=broker, **about)


def log_fact(at, kind="fenced", broker="2", file="controller.log", **about):
    """Worded unlike the metadata's fact: sources are merged by content, not by wording."""
    return Fact("as logged", kind, at * SECOND // 10, file, at, broker=broker, **about)


def shown(facts):
    return [
        (fact.time, *(other.source for other in fact.also)) for fact in dict.fromkeys(merge_sources(facts).values())
    ]


def test_a_fact_of_two_sources_is_listed_once_with_both():
    one, other = metadata_fact(50), log_fact(51)
    assert shown([other, one]) == [(one.time, "controller.log")]
    assert shown([one, log_fact(51, file="snapshots/a/__cluster_metadata-0")]) == [(one.time,)]


@pytest.mark.parametrize(
    "other",
    [
        log_fact(90),  # too late to be the same
        log_fact(51, broker="3"),
        Fact("as logged", "fenced", None, "controller.log", 7, broker="2"),  # no time
    ],
)
def test_different_facts_are_listed_apart(other):
    assert len(shown([metadata_fact(50), other])) == 2


def test_a_fact_twice_in_one_source_is_two_facts():
    boots = [log_fact(at, "started", file="brokers/1/server.log") for at in (50, 55)]
    assert len(shown(boots)) == 2
    # A node that is controller and broker logs an unfencing from both sides.
    assert len(shown([log_fact(at, "unfenced") for at in (50, 51)])) == 1


def test_a_restart_of_the_history_is_the_start_that_its_broker_logs():
    history = Fact("broker 2 was restarted", "restart", 5 * SECOND, place=1, broker="2")
    assert shown([history, log_fact(51, "started")]) == [(history.time, "controller.log")]


def test_an_isr_is_listed_when_it_changes():
    small, large = frozenset("1"), frozenset("12")
    facts = [metadata_fact(at, "isr", isr=isr) for at, isr in ((10, small), (20, large), (30, small))]
    assert shown([*facts, log_fact(60, "isr", isr=small)]) == [
        *((f.time,) for f in facts[:2]),
        (facts[2].time, "controller.log"),
    ]


def test_an_epoch_begins_once():
    log = log_fact(50, "begins", epoch=1, offset=1)
    file = Fact("in a file", "begins", None, "leader-epoch-checkpoint", 3, epoch=1, offset=1, broker="2")
    elsewhere = Fact("in a file", "begins", None, "leader-epoch-checkpoint", 4, epoch=1, offset=5, broker="2")
    assert shown([file, log, elsewhere]) == [(log.time, "leader-epoch-checkpoint"), (None,)]


@pytest.mark.parametrize("time", [0, None])
def test_many_equal_facts_are_not_compared_with_each_other(time: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log may have thousands of equal lines, also of one moment; a copy of the log adds none."""
    compared = []
    compare = merged_sources._is_same_event
    monkeypatch.setattr(merged_sources, "_is_same_event", lambda *pair: compared.append(pair) or compare(*pair))
    log = [Fact("restarted", "started", time, "brokers/1/server.log", line, broker="1") for line in range(1000)]
    copy = [replace(fact, source="snapshots/a/brokers/1/server.log") for fact in log]
    assert len(shown([*log, *(copy if time is None else [])])) == 1000
    assert len(compared) <= 1000 * merged_sources.MAX_CANDIDATES


def test_facts_that_are_far_apart_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker may leave and join an ISR thousands of times in a day."""
    monkeypatch.setattr(merged_sources, "_is_same_event", lambda *_: pytest.fail("compared"))
    assert len(shown([log_fact(30 * number) for number in range(100)])) == 100


def test_a_registration_is_one_event_for_all_partitions():
    """Records of one millisecond: another partition has no change of this one before the registration."""
    records = metadata((5, {"isr": [1]}), (5, {"brokerId": 2, "logDirs": "a"}))
    chains = [
        [event.fact for event in timeline({}, meta=frame).events]
        for frame in (records, records.filter(pl.col("kind") != "change"))
    ]
    assert [fact.kind for fact in merge_chains(chains, ())] == ["started"]
    assert chains[0] != chains[1]
