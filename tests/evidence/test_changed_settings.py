"""A topic's settings that change during a run: what counts is the value at the time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from logjudge.analysis.causes import explain_loss

from .replica_texts import epochs, logs
from .timelines import AFTER, SECOND, fault, lost, metadata, server_log, timeline

CLEAN, UNCLEAN = "no unclean election by an operator", "unclean.leader.election.enable=false"
SHRINKS = (4, {"isr": [1]})
ELECTS_2 = (9, {"leader": 2, "isr": [2], "leaderRecoveryState": 1})
NO_LOG = "INFO Created log for partition orders-0 in /data/orders-0 with properties {} (kafka.log.LogManager)"


def setting(name, value, at):
    return at, {"name": name, "value": value}


def explained(*changes, config=None, records=None, events=()):
    meta = metadata(*sorted(changes, key=lambda change: change[0]))
    return explain_loss(timeline(AFTER, meta=meta, config=config, events=events), records or lost())


def measures(found):
    return " | ".join(found.prevented_by)


@pytest.mark.parametrize(
    ("changes", "measure"),
    [
        ([("true", 3)], UNCLEAN),
        ([("true", 3), ("false", 6)], CLEAN),
        ([(None, 3)], UNCLEAN),
        ([("true", 12)], CLEAN),
        ([], CLEAN),
    ],
)
def test_an_unclean_election_is_judged_by_the_setting_of_its_time(changes, measure):
    name = "unclean.leader.election.enable"
    set_ = [setting(name, value, at) for value, at in changes]
    found = explained(SHRINKS, ELECTS_2, *set_, config={name: False})
    assert found.cause == "unclean-election"
    assert found.prevented_by[0].startswith(measure)
    was_set = any(fact.sentence == f"{name} of topic orders was set to true" for fact in found.chain)
    assert was_set == (changes == [("true", 3)])


def test_a_setting_that_the_topic_did_not_have_counts_from_its_time_on():
    """Until then the topic has the brokers' defaults, which no source records."""
    unclean, least = setting(UNCLEAN.partition("=")[0], "true", 7), setting("min.insync.replicas", "2", 8)
    found = explained(SHRINKS, ELECTS_2, unclean, least)
    assert found.cause == "unclean-election"
    assert "min.insync.replicas=2" in measures(found)
    assert [fact.sentence for fact in found.chain if fact.kind == "setting"] == [
        "unclean.leader.election.enable of topic orders was set to true"
    ]


def test_each_setting_of_a_line_is_an_event_of_its_own():
    config = "min.insync.replicas -> 1,unclean.leader.election.enable -> true"
    line = f"INFO [DynamicConfigPublisher broker id=2] Updating topic orders with new configuration : {config} (x)"
    found = timeline(AFTER, events=[server_log("2", (3, line))])
    facts = [one.fact for one in found.settings]
    assert [found.merged[fact].sentence for fact in facts] == [
        "min.insync.replicas of topic orders was set to 1",
        "unclean.leader.election.enable of topic orders was set to true",
    ]


@pytest.mark.parametrize(("at", "helps"), [(3, True), (7, False)])
def test_a_least_isr_that_was_lowered_before_the_acknowledgement_prevents_no_loss(at, helps):
    name = "min.insync.replicas"
    found = explained(SHRINKS, ELECTS_2, setting(name, "2", 0), setting(name, "1", at), config={name: 2})
    assert found.cause == "unclean-election"
    assert ("min.insync.replicas=2" in measures(found)) == helps
    assert any(fact.sentence == f"{name} of topic orders was set to 1" for fact in found.chain) == helps


@pytest.mark.parametrize(("shrunk", "helps"), [(4, True), (7, False)])
def test_a_second_in_sync_replica_does_not_help_where_the_elected_broker_lost_its_disk(shrunk, helps):
    records = replace(lost(), last_acked=8 * SECOND)
    empty_disk = server_log("2", (6, NO_LOG))
    isr = (shrunk, {"isr": [1]})
    found = explained(isr, ELECTS_2, records=records, events=[empty_disk])
    assert found.cause == "unclean-election"
    assert ("min.insync.replicas=2" in measures(found)) == helps
    vanished = any("broker 2 had no log of orders-0 and created one" in fact.sentence for fact in found.chain)
    assert vanished == (not helps)


@pytest.mark.parametrize(("leader", "unclean"), [(2, True), (1, None)])
def test_an_election_after_the_eligible_replicas_were_cleared_is_unclean_unless_its_leader_was_one(leader, unclean):
    """Kafka 4.1 clears the ELR when an operator sets min.insync.replicas."""
    dies = (7, {"isr": [], "leader": -1, "eligibleLeaderReplicas": [1], "lastKnownElr": [1]})
    sets = (8, {"name": "min.insync.replicas", "value": "2"}), (8, {"topicName": "orders"})
    elects = (9, {"leader": leader, "isr": [leader], "leaderRecoveryState": 1})
    meta = metadata(SHRINKS, dies, *sets, elects)
    assert timeline(AFTER, meta=meta).terms[2].elected_uncleanly is unclean
    tables = {**logs("1: 0a 1x@2\n2: 0a 1x@2"), "epochs": epochs(("2", 0, 0), ("2", 2, 1))}
    found = explain_loss(timeline(tables, meta=meta), lost())
    assert (found.cause == "unclean-election") == bool(unclean)


@pytest.mark.parametrize(
    ("allows", "is_unclean", "cause"), [(True, True, "unclean-election"), (False, False, "unknown")]
)
def test_a_setting_decides_whether_an_election_outside_the_isr_was_that_of_the_last_known_leader(
    allows, is_unclean, cause
):
    """The record of the election may have emptied the ELR itself (KIP-966)."""
    dies = (7, {"isr": [], "leader": -1, "eligibleLeaderReplicas": [1], "lastKnownElr": [2]})
    elects = (9, {**ELECTS_2[1], "eligibleLeaderReplicas": [], "lastKnownElr": []})
    tables = {**logs("1: 0a 1x@2\n2: 0a 1x@2"), "epochs": epochs(("2", 0, 0), ("2", 2, 1))}
    name, meta = "unclean.leader.election.enable", metadata(SHRINKS, dies, elects)
    known = timeline(tables, meta=meta, config={name: allows})
    assert known.terms[2].elected_uncleanly is is_unclean
    assert explain_loss(known, lost()).cause == cause
    unrecorded = timeline(tables, meta=meta)
    assert unrecorded.terms[2].elected_uncleanly is None
    assert [text.partition(" of ")[0] for text in explain_loss(unrecorded, lost()).missing] == [name]


@pytest.mark.parametrize(("at", "is_named"), [(3, True), (8, False)])
def test_the_setting_at_the_acknowledgement_is_part_of_a_rolled_back_log(at, is_named):
    """An operator lowers it in an outage, before the record or after it; then the disk of the last broker is lost."""
    meta = metadata(
        (2, {"isr": [1]}), setting("min.insync.replicas", "1", at), (9, {"leader": -1}), (12, {"leader": 1})
    )
    tables = {**logs("1: 0a"), "epochs": epochs(("1", 0, 0), ("1", 2, 1))}
    faults = [fault("shutdown", "1", 9), fault("restore", "1", 10), fault("restart", "1", 11)]
    found = explain_loss(timeline(tables, meta=meta, leader="1", faults=faults), lost())
    assert found.cause == "log-rolled-back"
    assert ("setting" in {fact.kind for fact in found.chain}) == is_named


def test_a_timeline_without_dates_of_its_settings_knows_none_that_changed():
    name = "unclean.leader.election.enable"
    undated = timeline(AFTER, meta=metadata(setting(name, "true", 3)), config={name: False})
    undated.settings[:] = [replace(one, fact=replace(one.fact, time=None)) for one in undated.settings]
    assert not undated.allows_only_clean_elections(1 * SECOND)
    dated = timeline(AFTER, meta=metadata(setting(name, "true", 3)), config={name: False})
    assert [dated.allows_only_clean_elections(at * SECOND) for at in (1, 5)] == [True, False]
    assert not dated.allows_only_clean_elections(None)


def test_the_timeline_lists_settings_that_changed_but_not_those_of_a_new_topic():
    name = "min.insync.replicas"
    found = timeline(AFTER, meta=metadata(setting(name, "2", 0), setting(name, "1", 3)), config={name: 2})
    assert [one.value for one in found.changed_settings] == ["1"]


OVERRIDE = (
    "INFO Processing override for entityPath: topics/%s with config: HashMap(%s) (kafka.server.DynamicConfigManager)"
)
NAMES = ("unclean.leader.election.enable", "cleanup.policy")


def logged(broker, *changes, topic="orders"):
    return server_log(broker, *((at, OVERRIDE % (topic, config)) for at, config in changes))


def changes_of(events, meta=None):
    config = {"unclean.leader.election.enable": False, "cleanup.policy": "compact,delete"}
    known = timeline(AFTER, meta=meta, events=events, config=config, version="2.8.2")
    return [(setting.fact.time // SECOND, setting.name, setting.value) for setting in known.settings]


def test_brokers_logs_show_which_setting_of_a_topic_changed_and_when():
    unclean = "cleanup.policy -> compact,delete, unclean.leader.election.enable -> true"
    found = changes_of([logged("1", (3, unclean), (7, "cleanup.policy -> compact,delete"))])
    assert found == [(3, NAMES[0], "true"), (7, NAMES[0], "")]


@pytest.mark.parametrize("late", [(4, 5), (8, 9)])
def test_each_broker_logs_each_change_and_one_may_be_late(late):
    on, off = "unclean.leader.election.enable -> true", "unclean.leader.election.enable -> false"
    events = [logged("1", (3, on), (7, off)), logged("2", (late[0], on), (late[1], off))]
    values = [(name, value) for _, name, value in changes_of(events) if name == NAMES[0]]
    assert values == [(NAMES[0], "true"), (NAMES[0], "false")]


def test_lines_on_other_topics_or_beside_the_metadata_log_change_nothing():
    on = (3, "unclean.leader.election.enable -> true")
    assert changes_of([logged("1", on, topic="orders-copies")]) == []
    assert changes_of([logged("1", on)], meta=metadata()) == []


@pytest.mark.parametrize(
    ("config", "measure"),
    [
        ({"unclean.leader.election.enable": True}, UNCLEAN),
        ({"unclean.leader.election.enable": False}, CLEAN),
        # Without run.json the value is not known, and kafka-leader-election.sh elects so, too.
        ({}, f"{UNCLEAN} (where it already is, {CLEAN})"),
    ],
)
def test_the_measure_against_an_unclean_election_depends_on_its_setting(config, measure) -> None:
    found = explained(SHRINKS, ELECTS_2, config=config)
    assert found.cause == "unclean-election"
    assert found.prevented_by[0].partition(" (unclean")[0] == measure
