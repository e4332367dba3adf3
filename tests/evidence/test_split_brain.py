"""split-brain: two brokers that lead one leader epoch at the same time, and what else leaves different logs."""

import shutil
from dataclasses import replace

import pytest
from logjudge.analysis.causes import explain_divergence, explain_leaders, explain_loss, split_brain
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.incidents.joining import findings_in, incidents_of
from logjudge.histories.bundle import open_run
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.histories.simulation.scenarios import load

from .replica_texts import logs
from .timelines import DIFFER, UNCLEAN, fault, lost, server_log, timeline

LEADS = (
    "INFO [Broker id={0}] Leader orders-0 with topic id Some(x) starts at leader epoch {1} from offset {2} with"
    " partition epoch 2, high watermark 1, ISR [{0}], adding replicas [] and removing replicas [] . Previous leader"
    " None and previous leader epoch was 0. (state.change.logger)"
)
FOLLOWS = (
    "INFO [Broker id={0}] Follower orders-0 starts at leader epoch {1} from offset {2} with partition epoch 3 and high"
    " watermark 1. Current leader is {3}. Previous leader None and previous leader epoch was 0. (state.change.logger)"
)
TWO_LOGS = "1: 0a 1x@1\n2: 0a 1b@1\n3: 0a 1x@1"  # broker 2 wrote b in epoch 1, and broker 1 wrote x


def leads(broker, at, epoch=1, start=1):
    """A broker with the line in which it reports, at a second, that it leads."""
    return broker, (at, LEADS.format(broker, epoch, start))


def follows(broker, leader, at, epoch=1, end=1):
    return broker, (at, FOLLOWS.format(broker, epoch, end, leader))


BOTH = (leads("2", 3), leads("1", 6))


def split(*lines, text=TWO_LOGS, leader="1", faults=(), meta=None):
    """A timeline with these logs and with lines of brokers: pairs of a broker and a line."""
    events = [server_log(name, *sorted(line for own, line in lines if own == name)) for name in ("1", "2", "3")]
    return timeline(logs(text), meta=meta, events=events, leader=leader, faults=faults)


def test_two_leaders_of_one_epoch_lose_what_one_of_them_wrote():
    found = explain_loss(split(*BOTH), lost())
    assert found.cause == "split-brain"
    # In order of time; the files are of the end of the run.
    assert [fact.sentence for fact in found.chain] == [
        "broker 2 began to lead orders-0 in epoch 1 from offset 1, ISR [2]",
        "acknowledgement with acks=all of offset 1 of orders-0 (1 lost record)",
        "broker 1 began to lead orders-0 in epoch 1 from offset 1, ISR [1]",
        "at the end broker 2's log of orders-0 ended at 2",
        "at the end broker 1 has at offset 1 value 'x' of epoch 1",
    ]


ONE_AFTER_THE_OTHER = [
    (BOTH[:1], ()),  # only one broker logged that it led
    ((*BOTH[:1], leads("2", 6, start=2)), ()),  # a leader that resumes in its own epoch
    (BOTH, (fault("kill", "2", 4),)),  # the first leader was dead when the second began
    (BOTH, (fault("restart", "2", 4),)),  # it had restarted
    ((*BOTH, follows("2", "3", 4, epoch=2)), ()),  # it followed a later epoch
    ((*BOTH, leads("3", 4, epoch=2)), ()),  # epochs went back: one controller had an older copy of its metadata
]


@pytest.mark.parametrize(("lines", "faults"), ONE_AFTER_THE_OTHER)
def test_leaders_one_after_the_other_are_no_split_brain(lines, faults):
    found = split(*lines, faults=faults)
    explained = (explain_loss(found, lost()), explain_divergence(found, DIFFER), explain_leaders(found, 1))
    assert {explanation.cause for explanation in explained} == {"unknown"}


@pytest.mark.parametrize(("lines", "may_have_led"), [(BOTH[:1], False), (BOTH, True)])
def test_a_second_leader_raises_the_question_whether_the_first_one_still_led(lines, may_have_led):
    missing = explain_leaders(split(*lines, faults=(fault("kill", "2", 4),)), 1).missing
    assert any("whether the first leader of epoch 1 still led" in item for item in missing) == may_have_led


def test_a_fenced_leader_still_leads():
    """The controller that fences a broker is not the one that elected it."""
    fences = (4, "INFO [QuorumController id=9] Fencing broker 2 at epoch 1 because its session has timed out. (x)")
    assert explain_loss(split(*BOTH, ("3", fences)), lost()).cause == "split-brain"


@pytest.mark.parametrize(
    ("text", "leader", "more"),
    [
        ("1: 0a 1b@1 2x@1\n2: 0a 1b@1\n3: 0a", "3", ()),  # both leaders have the record: another leader lost it
        ("1: 0a 1x@1\n2: 0a 1b@1\n3: 0a 1b@1", "2", ()),  # the log with the record was continued
        ("1: 0a 1x@1\n3: 0a 1x@1", "1", ()),  # no copy of a leader's log has it
        ("1: 0a 1x@1\n2: 0a 1b@1\n3: 0a 1y@2", "3", (leads("3", 9, epoch=2), follows("3", "2", 7))),  # it followed 2
        (TWO_LOGS, "1", (leads("2", 8, epoch=2, start=2), leads("1", 9, epoch=3))),  # broker 2 led on with it
    ],
)
def test_a_loss_needs_the_log_of_one_leader_and_the_continuation_of_the_other(text, leader, more):
    explained = explain_loss(split(*BOTH, *more, text=text, leader=leader), lost())
    assert explained.cause == "unknown"


def test_a_later_leader_may_have_followed_the_leader_without_the_records():
    later = (follows("3", "1", 7), leads("3", 9, epoch=2, start=2))
    found = split(*BOTH, *later, text="1: 0a 1x@1\n2: 0a 1b@1\n3: 0a 1x@1 2y@2", leader="3")
    assert explain_loss(found, lost()).cause == "split-brain"


def test_one_leader_may_have_held_records_of_an_earlier_epoch():
    """Broker 1 had b when it began to lead epoch 1; broker 2 began below it."""
    lines = (leads("2", 3, start=1), leads("1", 6, start=2))
    found = split(*lines, text="1: 0a 1b\n2: 0a 1x@1\n3: 0a 1x@1", leader="2")
    assert explain_loss(found, lost(at=2)).cause == "split-brain"
    assert explain_divergence(found, DIFFER).cause == "split-brain"


def test_what_was_lost_before_or_written_later_keeps_its_cause():
    """An unclean election lost b in epoch 1; brokers 2 and 3 both led epoch 2, which began above it."""
    lines = (leads("2", 9), leads("2", 20, epoch=2, start=2), leads("3", 22, epoch=2, start=2))
    found = split(*lines, text="1: 0a 1b\n2: 0a 1x@1\n3: 0a 1x@1", leader="2", meta=UNCLEAN)
    assert found.led_by_two == {2}
    assert explain_loss(found, lost()).cause == "unclean-election"


def test_while_two_brokers_lead_one_controllers_records_prove_no_cause():
    """Broker 2 may have acknowledged b, as it led, too; no copy has b. Without its line, the election is the cause."""

    def explained(*lines):
        return explain_loss(split(*lines, text="2: 0a 1x@1", leader="2", meta=UNCLEAN), lost(at=8))

    assert explained(leads("2", 9)).cause == "unclean-election"
    led = explained(leads("1", 7), leads("2", 9))
    assert led.cause == "unknown"
    assert led.missing == ("a copy of the log of broker 1 or 2, which both led epoch 1, with the lost records",)


def test_different_records_of_one_epoch_need_the_lines_of_their_leaders():
    """A leader that lost its tail and led on in its epoch leaves such logs, too."""
    missing = explain_divergence(split(), DIFFER).missing
    needed = "which of brokers 1, 2, 3 led epoch 1, as their records of that epoch differ (state-change.log)"
    assert needed in missing
    assert explain_divergence(split(*BOTH), DIFFER).cause == "split-brain"


@pytest.mark.parametrize("start", [1, 2])
def test_different_records_of_a_later_epoch_are_not_of_the_two_leaders(start):
    found = split(leads("2", 3), leads("1", 6, start=start), text="1: 0a 1x@2\n2: 0a 1b@2\n3: 0a")
    assert explain_divergence(found, DIFFER).cause == "unknown"


@pytest.mark.parametrize(
    ("text", "records", "may_have_lost"),
    [
        ("3: 0a", lost(at=8), True),
        ("3: 0a", lost(at=2), False),  # before they led
        ("3: 0a", replace(DIFFER, values=("b",)), True),  # at an unknown time
        ("1: 0a 1b@2\n3: 0a", lost(at=8), False),  # of a later epoch
    ],
)
def test_two_leaders_may_have_lost_what_was_written_while_they_led(text, records, may_have_lost):
    found = split(leads("2", 3), leads("1", 6, start=3 if "1b" in text else 1), text=text)
    assert bool(split_brain.explain_loss(found, records).missing) == may_have_lost


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_bundle(load("split-brain"), tmp_path_factory.mktemp("split") / "run").folder


def _incidents(folder):
    results = judge_run(open_run(folder))
    return incidents_of(findings_in(results.findings()), results.causes())


def test_a_split_brain_is_one_incident_with_its_consequences(run):
    (incident,) = _incidents(run)
    assert incident.cause == "split-brain"
    assert incident.headline.startswith("84 acknowledged writes were lost: orders-0 at offsets 50 to 133")
    rules = [rule.rule for rule in incident.rules]
    assert rules[0] == "lost-write"
    assert {"epoch-order", "realtime-order", "nonmonotonic-send", "nonmonotonic-poll", "replica-divergence"} < {*rules}
    times = [fact.time for fact in incident.chain if fact.time is not None]
    assert times == sorted(times)
    led = [fact.broker for fact in incident.chain if fact.kind == "begins"]
    assert led == ["2", "1"]


def test_a_split_brain_without_a_client_history_is_one_incident(run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    (folder / "history.jsonl").unlink()
    (incident,) = _incidents(folder)
    assert incident.cause == "split-brain"
    assert {rule.rule for rule in incident.rules} == {"replica-divergence", "epoch-order"}


def test_without_the_leaders_lines_the_cause_is_unknown(run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    for file in folder.rglob("state-change.log"):
        file.unlink()
    assert {incident.cause for incident in _incidents(folder)} == {"unknown"}
