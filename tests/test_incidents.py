"""Incidents: which findings and explanations are one event, the facts of its chain, and how outputs write it."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from figure_cases import FINAL, Script, judged, write_run
from logjudge.analysis.causes import title_of
from logjudge.analysis.causes.cases import LostRange
from logjudge.analysis.incidents.headlines import places_of
from logjudge.analysis.incidents.incident import Explained, Incident
from logjudge.analysis.incidents.joining import findings_in, incidents_of, saved_incidents
from logjudge.analysis.results import to_frame
from logjudge.histories.tables import Finding
from logjudge.plots.report.incidents import (
    MAX_STEPS,
    cause_headlines,
    impact_by_cause,
    root_cause_of,
    sentence_of,
    timeline,
    worst_incidents,
)

KILL = {
    "says": "broker 1 was killed",
    "time": 10_830_589_426,
    "source": "history.jsonl",
    "line": 2568,
    "byte": None,
    "kind": "kill",
    "broker": "1",
}
LOST = {"topic": "orders", "partition": 0, "first": 255, "last": 630, "count": 376, "read": 3}


def finding(name: str = "lost-write/orders-0/0", **changed: Any) -> Finding:
    rule, place, _ = name.split("/")
    topic, _, partition = place.rpartition("-")
    about = {"first_offset": 255, "last_offset": 630, "count": 376, **changed}
    return Finding(rule, f"{rule} of {place}", topic, int(partition), id=name, **about)


def cause(**changed: Any) -> dict[str, Any]:
    record = {
        "findings": ["lost-write/orders-0/0"],
        "says": "376 writes",
        "lost": LOST,
        "cause": "unclean-election",
        "chain": [KILL],
        "prevented_by": ["unclean.leader.election.enable=false"],
        "citation": "KIP-106",
        "missing": [],
        "readings": [],
    }
    return copy.deepcopy({**record, **changed})


def of_partition(number: int, **changed: Any) -> dict[str, Any]:
    lost = {**LOST, "partition": number}
    return cause(**{"findings": [f"lost-write/orders-{number}/0"], "lost": lost, **changed})


def joined(causes: Iterable[dict[str, Any]], *others: Finding) -> list[Incident]:
    """The incidents of explanations and of their findings, and of others."""
    causes = list(causes)
    given = {one.id: one for one in others}
    named = {name: finding(name) for one in causes for name in one["findings"]}
    return incidents_of({**named, **given}.values(), map(Explained.from_record, causes))


def test_a_headline_counts_what_was_lost() -> None:
    (incident,) = joined([cause()])
    lost = "376 acknowledged writes were lost: orders-0 at offsets 255 to 630"
    assert incident.headline == f"{lost}; consumers had already read 3 of them"
    (step,) = root_cause_of(incident, "2026-11-21T09:45:55.831Z").steps
    assert (step.seconds, step.clock, step.source) == ("10.831", "2026-11-21 09:46:06.661Z", "history.jsonl:2568")


@pytest.mark.parametrize(
    ("count", "read", "ending"),
    [
        (
            17,
            17,
            "17 acknowledged writes were lost: orders-0 at offsets 1 to 17; consumers had already read all of them",
        ),
        (17, 0, "17 acknowledged writes were lost: orders-0 at offsets 1 to 17; no recorded consumer had read them"),
        (17, None, "17 acknowledged writes were lost: orders-0 at offsets 1 to 17"),
        (1, 1, "1 acknowledged write was lost: orders-0 at offset 1; a consumer had already read it"),
        (1, 0, "1 acknowledged write was lost: orders-0 at offset 1; no recorded consumer had read it"),
    ],
)
def test_headlines_read_like_english(count: int, read: int | None, ending: str) -> None:
    (incident,) = joined([cause(lost={**LOST, "first": 1, "last": count, "count": count, "read": read})])
    assert incident.headline == ending


def test_one_event_is_one_incident_whatever_would_have_prevented_its_parts() -> None:
    first, second = "unclean.leader.election.enable=false", "min.insync.replicas=2"
    (incident,) = joined([of_partition(0, prevented_by=[second, first]), of_partition(1, prevented_by=[first])])
    assert incident.prevented_by == (first, f"for some of the records {second}")
    more = f"acks=all together with {second}"  # where one of the topics has min.insync.replicas=2
    (incident,) = joined([of_partition(0, prevented_by=["acks=all"]), of_partition(1, prevented_by=[more])])
    assert incident.prevented_by == (more,)


def test_many_findings_without_a_loss_have_the_facts_of_the_first_ones() -> None:
    def duplicate(number: int) -> dict[str, Any]:
        chain = [{**KILL, "says": f"copy {number}", "kind": "kept"}]
        return cause(findings=[f"duplicate/orders-0/{number}"], lost=None, cause="retry-duplicate", chain=chain)

    (incident,) = joined(map(duplicate, range(9)))
    assert [fact.sentence for fact in incident.chain] == ["copy 0", "copy 1", "copy 2"]
    assert len(incident.findings) == 9


def test_a_loss_that_two_rules_find_is_counted_once() -> None:
    absent = "acknowledged-absent/orders-0/0"
    again = cause(findings=[absent], lost={**LOST, "first": 300, "count": 331})
    (incident,) = joined([again, cause()], finding(absent, related=["lost-write/orders-0/0"], count=331))
    assert incident.findings == ("lost-write/orders-0/0", absent)
    assert incident.records == 376
    assert impact_by_cause([incident]) == [("unclean-election", 376, 3)]


def test_losses_split_by_acks_are_one_incident_with_the_number_of_all() -> None:
    rows = [
        finding(
            f"lost-write/orders-0/{n}",
            first_offset=10 * n,
            last_offset=10 * n + 4,
            count=5,
            severity=severity,
            related=[f"lost-write/orders-0/{n - 1}"] if n else [],
        )
        for n, severity in enumerate(["permitted", "violation"] * 38)
    ]
    (incident,) = incidents_of(rows, [])
    assert incident.headline == "380 acknowledged writes were lost: orders-0 at offsets 0 to 754 in 76 ranges"
    assert (incident.severity, incident.cause, len(incident.findings)) == ("violation", "unknown", 76)
    assert not incident.was_investigated
    assert incident.rules == (("lost-write", 76, 380),)


@pytest.mark.parametrize(
    ("lost", "place"),
    [
        ([(0, 9, 10)], "orders-0 at offsets 0 to 9"),
        ([(0, 9, 10), (10, 19, 10)], "orders-0 at offsets 0 to 19"),
        ([(0, 9, 10), (20, 29, 10)], "orders-0 at offsets 0 to 29 in 2 ranges"),
        ([(0, 9, 7), (11, 29, 12)], "orders-0 at 19 of the offsets 0 to 29"),
        ([(0, 8, 5), (1, 9, 5)], "orders-0 at offsets 0 to 9"),
        ([(0, 8, 5), (1, 9, 4)], "orders-0 at 9 of the offsets 0 to 9"),
    ],
)
def test_a_place_states_ranges_only_if_every_record_in_them_was_lost(
    lost: list[tuple[int, int, int]], place: str
) -> None:
    ranges = [LostRange("orders", 0, first, last, count, None) for first, last, count in lost]
    assert places_of(ranges) == place


def test_neighbouring_writes_lost_under_different_acks_are_findings_of_one_event(tmp_path: Path) -> None:
    script = Script().send("p", "a", 0)
    for offset in range(1, 7):
        script.send("pq"[offset % 2], f"v{offset}", offset)
    script.send("p", "x", 1).poll("final", (0, "a"), (1, "x"))
    script.end(2)
    processes = {"p": {"acks": "all"}, "q": {"acks": "1"}, **FINAL["processes"]}
    run = judged(write_run(tmp_path / "run", script.events, {"final": True, "processes": processes}))
    losses = run.findings.filter(pl.col("rule") == "lost-write")
    assert len(losses) > 1
    incident = saved_incidents(run.verdict, run.findings)[0]
    assert set(losses["id"]) <= set(incident.findings)
    assert incident.headline.startswith(f"{losses['count'].sum()} acknowledged writes were lost: orders-0 at offsets")


def test_consequences_of_a_loss_belong_to_its_incident() -> None:
    loss, follows = finding(), finding("realtime-order/orders-0/0", related=["lost-write/orders-0/0"], count=9)
    alone = [finding(f"poll-skip/orders-0/{n}", count=2) for n in range(3)]
    first, second = incidents_of([loss, follows, *alone], [Explained.from_record(cause())])
    assert first.findings == (loss.id, follows.id)
    assert [rule.rule for rule in first.rules] == ["lost-write", "realtime-order"]
    assert second.headline == "6 records in 3 findings of poll-skip, for example: poll-skip of orders-0"


def test_a_headline_counts_no_records_of_commits() -> None:
    (incident,) = incidents_of([finding(f"commit-regression/orders-0/{n}", count=1) for n in range(2)], [])
    assert incident.headline == "2 findings of commit-regression, for example: commit-regression of orders-0"


def test_a_divergence_split_by_compaction_is_one_incident() -> None:
    rows = [finding(f"replica-divergence/orders-0/{n}", first_offset=9 * n, count=2) for n in range(130)]
    (incident,) = incidents_of(rows, [])
    assert incident.rules == (("replica-divergence", 130, 260),)


def test_parts_of_a_loss_with_different_causes_are_an_incident_each() -> None:
    parts = [
        cause(lost={**LOST, "last": 600, "count": 346}),
        cause(lost={**LOST, "first": 601, "count": 30}, cause="unknown", chain=[], missing=["a log"]),
    ]
    follows = finding("realtime-order/orders-0/0", related=["lost-write/orders-0/0"])
    known, unknown = joined(parts, follows)
    assert (known.records, unknown.records, unknown.missing) == (346, 30, ("a log",))
    assert follows.id in known.findings
    assert follows.id not in unknown.findings


def test_a_chain_holds_the_steps_of_all_partitions_in_order_of_time_shared_ones_once() -> None:
    def step(partition: int, at: int, text: str, kind: str) -> dict[str, Any]:
        return {**KILL, "says": text, "time": at, "kind": kind, "partition": f"orders-{partition}", "line": at % 7}

    elected = [step(number, 11 * 10**9 + number, f"elected {number}", "elected") for number in range(2)]
    acked = [step(number, (9 - number) * 10**9, f"acknowledged {number}", "acknowledged") for number in range(2)]
    (incident,) = joined(of_partition(n, chain=[acked[n], KILL, elected[n]]) for n in range(2))
    assert [fact.sentence for fact in incident.chain] == [
        "acknowledged 1", "acknowledged 0", "broker 1 was killed", "elected 0", "elected 1"
    ]  # fmt: skip
    assert "orders-0 at offsets 255 to 630, orders-1 at offsets 255 to 630" in incident.headline


def test_a_setting_stays_behind_all_facts_of_its_time() -> None:
    setting = {**KILL, "says": "auto.offset.reset of m1 is latest", "time": None}
    assigned = [{**KILL, "says": f"m1 was assigned orders-{number}"} for number in range(2)]
    (incident,) = joined(of_partition(number, chain=[assigned[number], setting]) for number in range(2))
    assert [fact.record() for fact in incident.chain] == [*assigned, setting]


def test_acknowledgements_of_many_ranges_of_a_partition_are_two_steps() -> None:
    def part(number: int) -> dict[str, Any]:
        lost = {**LOST, "first": 10 * number, "last": 10 * number + 4, "count": 5}
        acked = {**KILL, "kind": "acknowledged", "partition": "orders-0", "time": number, "says": f"range {number}"}
        return cause(findings=[f"lost-write/orders-0/{number}"], lost=lost, chain=[acked, KILL])

    (incident,) = joined(map(part, range(9)))
    which = "acknowledgement of offsets 0 to 84 of orders-0"
    first, last, killed = incident.chain
    assert (first.sentence, first.time) == (f"first {which} (45 lost records)", 0)
    assert (last.sentence, last.time) == (f"last {which}", 8)
    assert killed.record() == KILL


@pytest.mark.parametrize("other", [{"kind": "power-loss"}, {"broker": "2"}, {"time": KILL["time"] + 3 * 10**9}])
def test_losses_by_another_event_stay_apart(other: dict[str, Any]) -> None:
    assert len(joined([cause(), of_partition(1, chain=[{**KILL, **other}])])) == 2
    assert len(joined([cause(), of_partition(1)])) == 1


def test_partitions_that_get_different_leaders_at_one_time_lost_by_one_event() -> None:
    elected = [{**KILL, "kind": "elected", "broker": broker, "says": f"{broker} was elected"} for broker in "23"]
    assert len(joined([cause(chain=[elected[0]]), of_partition(1, chain=[elected[1]])])) == 1
    later = {**elected[1], "time": KILL["time"] + 3 * 10**9}
    assert len(joined([cause(chain=[elected[0]]), of_partition(1, chain=[later])])) == 2


def missed_by(group: str, partition: int, time: int, kind: str = "crashed") -> tuple[dict[str, Any], Finding]:
    """The explanation of ten records that a group missed, and their finding."""
    name = f"consumer-loss/orders-{partition}/0"
    explanation = cause(
        findings=[name], lost=None, cause="commit-before-handle", chain=[{**KILL, "kind": kind, "time": time}]
    )
    return explanation, finding(name, first_offset=5, last_offset=14, count=10, processes=[group])


@pytest.mark.parametrize("kind", ["crashed", "assigned", "committed"])
def test_records_that_a_group_missed_at_one_time_are_one_incident(kind: str) -> None:
    explanations, rows = zip(*(missed_by("g", number, number, kind) for number in range(2)), strict=True)
    (incident,) = joined(explanations, *rows)
    places = "orders-0 at offsets 5 to 14, orders-1 at offsets 5 to 14"
    assert incident.headline == f"no member of group g handled 20 records: {places}"
    assert incident.rules == (("consumer-loss", 2, 20),)


@pytest.mark.parametrize("other", [missed_by("other", 1, 0), missed_by("g", 1, 3 * 10**9)])
def test_records_that_another_group_missed_or_at_another_time_are_another_incident(
    other: tuple[dict[str, Any], Finding],
) -> None:
    explanations, rows = zip(missed_by("g", 0, 0), other, strict=True)
    assert [one.headline for one in joined(explanations, *rows)] == [row.sentence for row in rows]


def test_a_cause_of_another_name_stays_apart() -> None:
    assert len(joined([cause(), of_partition(1, cause="correlated-failure")])) == 2


def test_a_thousand_partitions_are_few_words_and_few_steps_and_all_is_stored() -> None:
    facts = [
        [{**KILL, "says": f"{n}: {kind}", "kind": kind, "partition": f"orders-{n}"} for kind in ("begins", "elected")]
        for n in range(1000)
    ]
    (incident,) = joined(of_partition(number, chain=[KILL, *facts[number]]) for number in range(1000))
    assert len(incident.chain) == 2001
    assert incident.headline.count("orders-") == 4
    shown = root_cause_of(incident, "")
    assert len(shown.steps) <= MAX_STEPS
    assert shown.steps_left_out == 2001 - len(shown.steps)
    assert "broker 1 was killed" in {step.text for step in shown.steps}
    assert impact_by_cause([incident])[0][1] == 376_000


def test_results_of_an_earlier_version_are_joined_when_they_are_read() -> None:
    bare = {name: value for name, value in KILL.items() if name not in ("kind", "broker")}
    causes = [cause(chain=[bare]), of_partition(1, chain=[bare])]
    rows = [finding(), finding("lost-write/orders-1/0")]
    frame = to_frame(rows)
    assert [one.number for one in saved_incidents({"causes": causes}, frame)] == [1, 2]
    made = incidents_of(findings_in(frame), map(Explained.from_record, causes))
    assert saved_incidents({"incidents": [one.record() for one in made]}, frame) == made
    assert [Incident.from_record(one.record()) for one in made] == made


def test_breaches_come_before_permitted_findings_and_known_causes_before_unknown_ones() -> None:
    permitted = finding("lost-write/orders-1/0", severity="permitted", count=900)
    unknown = of_partition(2, cause="unknown", chain=[], missing=["a log"])
    incidents = joined([cause(), unknown, of_partition(1, chain=[])], permitted)
    assert [(one.severity, one.cause) for one in incidents] == [
        ("violation", "unclean-election"), ("violation", "unknown"), ("permitted", "unclean-election")
    ]  # fmt: skip


def test_a_story_lists_few_findings_of_an_incident_and_counts_the_rest() -> None:
    rows = [finding(f"poll-skip/orders-0/{n}") for n in range(30)]
    frame = to_frame(rows)
    (entry,), left_out = worst_incidents(incidents_of(rows, []), frame)
    assert (len(entry.others), entry.left_out, left_out) == (8, 21, 0)


def test_a_death_by_a_recorded_fault_is_no_moment_of_its_own() -> None:
    band = {"kind": "kill", "nodes": ["1"], "place": "", "from": 10 * 10**9, "to": 20 * 10**9}
    figures = {"faults": [band], "partitions": [], "started_at": "", "times": {}}
    noticed = {**KILL, "says": "the controller noticed the failure of broker 1", "kind": "failed"}
    chain = [
        {**KILL, "says": "in other words"},
        {**KILL, "kind": "started", "also": [{**KILL, "kind": "restart"}]},
        {**KILL, "says": "broker 2 was killed", "broker": "2"},
        noticed,
    ]
    events, _ = timeline([], figures, joined([cause(chain=chain)]))
    assert [event.kind for event in events] == ["fault", "fact", "fact", "heal"]
    assert events[-1].text == "fault ended: broker 1 restarted"
    events, _ = timeline([], {**figures, "faults": []}, joined([cause(chain=chain[:1])]))
    assert [event.text for event in events] == ["in other words"]


def test_unknown_reads_make_the_impact_unknown() -> None:
    incidents = joined([cause(), of_partition(1, lost={**LOST, "partition": 1, "read": None})])
    assert impact_by_cause(incidents) == [("unclean-election", 752, None)]


def test_a_headline_names_only_causes_of_breaches() -> None:
    duplicate = "duplicate/orders-0/0"
    other = cause(findings=[duplicate], lost=None, cause="retry-duplicate", prevented_by=[])
    known = (
        f"Cause: unclean-election ({title_of('unclean-election')}). Prevented by: unclean.leader.election.enable=false."
    )
    assert cause_headlines(joined([cause(), other], finding(duplicate, severity="permitted"))) == [known]
    both = [known, f"Cause of other breaches: retry-duplicate ({title_of('retry-duplicate')})."]
    assert cause_headlines(joined([cause(), other])) == both
    again = cause(**{**other, "prevented_by": ["unclean.leader.election.enable=false", "idempotence"]})
    assert cause_headlines(joined([cause(), again]))[1].endswith("Prevented by: the same or idempotence.")
    assert not cause_headlines([])
    unknown = of_partition(1, cause="unknown", chain=[], missing=["a log"])
    assert cause_headlines(joined([unknown])) == ["The cause is not known."]
    assert cause_headlines(joined([cause(), unknown])) == [known, "The cause of 376 of the lost writes is not known."]
    # The cause of something else is not that of the loss.
    assert cause_headlines(joined([other, unknown])) == ["The cause of the loss is not known.", both[1]]
    unexplained = finding()  # a lost write, for which no cause was searched
    assert cause_headlines(joined([other], unexplained)) == ["The cause of the loss is not known.", both[1]]
    assert not cause_headlines(joined([], unexplained))
    misread = cause(findings=[duplicate], lost=None, cause="unknown", chain=[], missing=["a log"])
    assert cause_headlines(joined([cause(), misread])) == [known, "The cause of the other breaches is not known."]


def test_a_sentence_names_what_is_missing_or_what_would_have_prevented_it() -> None:
    (known,) = joined([cause()])
    sentence, cited = sentence_of(known, cited=True)
    assert sentence.endswith(". Prevented by unclean.leader.election.enable=false")
    assert cited == " [KIP-106]"
    assert sentence_of(known, cited=False) == (known.headline, "")
    (unknown,) = joined([cause(cause="unknown", chain=[], missing=["the controller's log"])])
    assert sentence_of(unknown, cited=True)[0].endswith(
        "; the cause is not known; missing evidence: the controller's log"
    )
    (conflict,) = joined([cause(cause="unknown", chain=[], readings=[cause(), cause(cause="correlated-failure")])])
    assert sentence_of(conflict, cited=True)[0].endswith(
        "supports several causes: unclean-election and correlated-failure"
    )
    assert [one.cause for one in root_cause_of(conflict, "").readings] == ["unclean-election", "correlated-failure"]
