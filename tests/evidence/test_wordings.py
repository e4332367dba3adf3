"""Elections in excerpts of real brokers' logs, of several Kafka versions, without any other evidence."""

from __future__ import annotations

import pytest

from .conftest import DATA, read_run


@pytest.fixture
def timeline_of():
    """The timeline of orders-0 in the logs of one Kafka version."""
    return lambda version: read_run(DATA / "wordings" / version).timeline("orders", 0)


@pytest.mark.parametrize(
    ("version", "epoch", "start", "old"), [("2.8.2", 4, 1033, "3"), ("2.4.1", 4, 914, "3"), ("0.11.0.3", 1, 1235, "3")]
)
def test_an_election_from_outside_the_isr_is_unclean(timeline_of, version, epoch, start, old):
    term = timeline_of(version).terms[epoch]
    assert (term.leader, term.start, term.electable) == ("1", start, {old})
    assert term.elected_uncleanly
    assert term.electable_fact is not None


@pytest.mark.parametrize(("version", "epoch", "unclean"), [("2.8.2", 5, False), ("0.11.0.3", 2, None)])
def test_a_handover_within_the_isr_is_never_unclean(timeline_of, version, epoch, unclean):
    assert timeline_of(version).terms[epoch].elected_uncleanly is unclean


def test_a_controller_that_takes_dead_brokers_out_leaves_the_leader(timeline_of):
    timeline = timeline_of("2.8.2")
    assert [timeline.terms[epoch].leader for epoch in (1, 2)] == ["3", "3"]
    sentence = next(
        fact.sentence for _, _, fact in timeline.isr_reports if "the controller took broker 2" in fact.sentence
    )
    assert sentence.endswith("out of the ISR of orders-0, which became [3]; broker 3 led in epoch 2")
    assert any(
        fact.sentence == "orders-0 lost its leader, as broker 3 was gone, ISR [3]"
        for _, _, fact in timeline.isr_reports
    )
