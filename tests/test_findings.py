"""The content of findings: sentence, evidence lines, related findings, assumptions."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from combined_corpus import JudgedRun
from logjudge.analysis.partitions.partition import Partition
from logjudge.analysis.verdict.consequences import accept_consequences, link_consequences
from logjudge.analysis.wording import brokers, plural
from logjudge.histories.settings import Settings
from logjudge.histories.tables import Finding
from notation import Event, History, judge, parse

EMPTY = Partition("x", 0, Settings(config={"format": 1}))  # without operations
UNCLEAN = "p:a@0 p:b@1 p:e@2 c:<a@0,b@1,e@2 nemesis:kill q:x@1 c:<x@1 final:<a@0,x@1"


def _wrote(event: Event) -> list[Event]:
    return [step for step in event.get("ops", [event]) if step["f"] == "send"]


def _read(event: Event) -> list[Event]:
    steps = (step for step in event.get("ops", [event]) if step["f"] in ("poll", "handle"))
    return [record for step in steps for record in step.get("records", [])]


def _is(record: Event, value: str) -> bool:
    """Whether a record is of this value; a tombstone has none and is known by its offset."""
    offset = record.get("offset", "None")
    return value == record["value"] or (record["value"] is None and value.split("#")[0] == f"tombstone@{offset}")


def _sends(event: Event, value: str, process: str | None = None, offset: str | None = None) -> bool:
    return (process is None or event["process"] == process) and any(
        (_is(send, value) or (event["type"] == "invoke" and send["value"] is None and "tombstone@" in value))
        and (offset is None or str(send.get("offset")) == offset)
        for send in _wrote(event)
    )


def _reads(event: Event, offset: str, value: str | None = None) -> bool:
    return any(str(read["offset"]) == offset and (value is None or _is(read, value)) for read in _read(event))


def _value_at(event: Event, value: str, offset: str) -> bool:
    # The sends of a transaction may have been acknowledged with an offset, also if it was aborted.
    is_sent = event["type"] == "ok" or event["f"] == "txn"
    return (event["type"] == "ok" and _reads(event, offset, value)) or (is_sent and _sends(event, value, None, offset))


def _is_move(event: Event, process: str) -> bool:
    return event["process"] == process and event["f"] in ("seek", "assign", "poll", "txn")


def _offsets(event: Event, f: str) -> list[str]:
    steps = [event, *event.get("ops", [])]
    return [str(place["offset"]) for step in steps if step["f"] == f for place in step.get("offsets", [])]


# Wordings of an item of evidence, and the event that the line it names must then have.
EVIDENCE_CHECKS: dict[str, Any] = {
    r"(\S+) (?:sends|writes|fails to write) (\S+)(?: afterwards)?": lambda e, p, v: _sends(e, v, p),
    r"(\S+) acknowledged": lambda e, v: e["type"] == "ok" and _sends(e, v),
    r"(\S+) acknowledged at (?:offset )?(\d+)": lambda e, v, o: (
        e["type"] == "ok" and _sends(e, v) and (_sends(e, v, None, o) or _sends(e, v, None, "None"))
    ),
    r"(\S+) read by (\S+)": lambda e, v, p: e["process"] == p and any(_is(r, v) for r in _read(e)),
    r"(\S+) reads offset (\d+)": lambda e, p, o: e["process"] == p and _reads(e, o),
    r"(\S+) reads (\S+)": lambda e, p, v: e["process"] == p and any(_is(r, v) for r in _read(e)),
    r"offset (\d+) holds (\S+) instead": lambda e, o, v: _value_at(e, v, o),
    r"(\S+) at offset (\d+)": lambda e, v, o: _value_at(e, v, o),
    r"the final reads end at offset (\d+)": lambda e, o: e["process"].endswith("final") and _reads(e, str(int(o) - 1)),
    r"(?:a later )?end offset (?:is )?(\d+)": lambda e, o: _offsets(e, "end_offsets") == [o],
    r"(\S+) is assigned the committed offset (\d+)": lambda e, p, o: e["process"] == p and o in _offsets(e, "assign"),
    r"(\S+) is at position (\d+)": lambda e, p, _: _is_move(e, p),
    r"(?:(?:\S+) commits|commit of) (\d+)": lambda e, o: _offsets(e, "commit") == [o],
    r"(\S+): .*\bT\d+ .*": lambda e, p: e["process"] == p,
    r"(\S+) is assigned \S+ in generation (\d+)": lambda e, p, g: (
        (e["process"], e["f"], str(e["generation"])) == (p, "assign", g)
    ),
    r"(\S+) is in generation (\d+)": lambda e, p, g: (e["process"], str(e["generation"])) == (p, g),
    r"(\S+) gives it up": lambda e, p: e["process"] == p and (e["f"] == "revoke" or e.get("revoked")),
    r"(\S+) commits (\d+) in generation \d+": lambda e, p, o: e["process"] == p and _offsets(e, "commit") == [o],
    r"the transaction": lambda e: e["f"] == "txn" and e["type"] == "ok",
}


def test_evidence_points_to_lines_that_prove_it(combined_corpus: list[JudgedRun]) -> None:
    for judged in combined_corpus:
        for finding in judged.results.findings().to_dicts():
            assert finding["evidence"], finding["sentence"]
            for item in finding["evidence"]:
                assert item["source"] == "history.jsonl"
                event = judged.run.history.events[item["line"] - 1]
                sentence = re.sub(r"#attempt-\d+", "", item["says"])  # the name of an attempt, which no client sent
                assert _proves(sentence, event), f"{item['says']}: {json.dumps(event)}"


def _proves(sentence: str, event: Event) -> bool:
    for pattern, holds in EVIDENCE_CHECKS.items():
        found = re.fullmatch(pattern, sentence)
        if found:
            return bool(holds(event, *found.groups()))
    raise AssertionError(f"no check for the evidence {sentence!r}")


def test_sentences_name_partition_process_and_offset(combined_corpus: list[JudgedRun]) -> None:
    for finding in [row for judged in combined_corpus for row in judged.results.findings().to_dicts()]:
        sentence = finding["sentence"]
        assert re.search(rf"\b{finding['topic']}(-0)?\b", sentence)
        named = [process for process in finding["processes"] if re.search(rf"\b{re.escape(process)}\b", sentence)]
        grouped = finding["count"] > 1 or finding["rule"] in ("inconsistent-offsets", "realtime-order", "consumer-loss")
        assert named or grouped, sentence
        offsets = {finding["first_offset"], finding["last_offset"]} - {None}
        assert any(re.search(rf"(@|-|\b){offset}\b", sentence) for offset in offsets) or not offsets
        assert "None" not in sentence


def test_links_go_both_ways(combined_corpus: list[JudgedRun]) -> None:
    for judged in combined_corpus:
        findings = judged.results.findings().to_dicts()
        by_id = {finding["id"]: finding for finding in findings}
        assert len(by_id) == len(findings)
        for finding in findings:
            for other in finding["related"]:
                assert finding["id"] in by_id[other]["related"]
                assert "lost-write" in {finding["rule"], by_id[other]["rule"]}
                assert finding["topic"] == by_id[other]["topic"]


def test_a_loss_is_one_finding_with_its_consequences(tmp_path: Path) -> None:
    run = judge(UNCLEAN, tmp_path)
    (loss,) = run.of("lost-write")
    assert loss["sentence"] == (
        "2 writes acknowledged at x-0@1-2 (b, e) are gone; c had read all of them before they vanished;"
        " 1 of their offsets now holds another record (x)"
    )
    assert set(loss["related"]) == {"inconsistent-offsets/x-0/0", "nonmonotonic-poll/x-0/0", "realtime-order/x-0/0"}
    assert loss["processes"] == ["p"]


def test_unrelated_findings_are_not_linked_to_a_loss(tmp_path: Path) -> None:
    run = judge("p:a@0 p:b@1 nemesis:kill q:x@1 p:e@4 q:f@3 c:<a@0,x@1 c:< d:<e@4,f@3", tmp_path)
    (loss,) = run.of("lost-write")
    assert loss["related"] == ["inconsistent-offsets/x-0/0"]
    assert {finding["rule"] for finding in run.findings if not finding["related"]} == {
        "int-nonmonotonic-poll",
        "realtime-order",
    }


def test_thousands_of_scattered_losses_are_linked_in_linear_time() -> None:
    """Each has one consequence; a comparison of all pairs would be nine million."""
    offsets = [(number, number) for number in range(0, 300_000, 100)]
    rules = {"lost-write": "permitted", "int-poll-skip": "violation"}
    findings = [
        Finding(rule, "", "x", 0, severity, *place, values=[f"v{place[0]}"], id=f"{rule}/{place[0]}")
        for rule, severity in rules.items()
        for place in offsets
    ]
    began = time.process_time()
    linked = accept_consequences(link_consequences(findings, EMPTY), EMPTY)
    assert time.process_time() - began < 5
    assert linked[-1].related == ["lost-write/299900"]
    assert {finding.severity for finding in linked} == {"permitted"}


def test_a_replaced_write_names_time_reader_and_successor(tmp_path: Path) -> None:
    run = judge("p:a@0 p:b@1 c:<a@0,b@1 nemesis:kill p:x@1 end=2 final:<a@0,x@1", tmp_path)
    (loss,) = run.of("lost-write")
    assert loss["sentence"] == (
        "b was acknowledged at x-0@1 by p at 0.004 s; c read it at 0.006 s before it vanished; its offset now holds x"
    )
    assert [(item["line"], item["says"]) for item in loss["evidence"]] == [
        (3, "p sends b"),
        (4, "b acknowledged at offset 1"),
        (6, "b read by c"),
        (10, "offset 1 holds x instead"),
    ]


def test_counts_and_lists_read_like_english(tmp_path: Path) -> None:
    run = judge("{p.acks=1} p:a@0 p:b@1 p:c@2 nemesis:kill end=1 final:<a@0", tmp_path / "two")
    assert (
        "(b, c) with acks=1, which waits for no follower, are gone; no recorded" in run.of("lost-write")[0]["sentence"]
    )
    values = [f"v{number}" for number in range(1100)]
    sent = " ".join(f"p:{value}@{offset}" for offset, value in enumerate(["a", *values]))
    (loss,) = judge(f"{sent} nemesis:kill end=1 final:<a@0", tmp_path / "many").of("lost-write")
    assert loss["sentence"].startswith("1,100 writes acknowledged at x-0@1-1100 (v0, v1, v2 and 1,097 more) are gone")
    assert (plural(1, "line"), plural(1087, "record")) == ("1 line", "1,087 records")
    assert (brokers(["2"]), brokers(["2", "3"])) == ("broker 2", "brokers 2, 3")


def test_acks_1_is_named_and_can_be_allowed(tmp_path: Path) -> None:
    history = "{p.acks=1} p:a@0 p:b@1 nemesis:kill end=1 final:<a@0"
    (loss,) = judge(history, tmp_path / "strict").of("lost-write")
    assert "with acks=1, which waits for no follower;" in loss["sentence"]
    assert loss["severity"] == "violation"
    allowed = judge(history, tmp_path / "allowed", allow=("lost-write:acks=1",))
    assert allowed.of("lost-write")[0]["severity"] == "permitted"
    assert allowed.verdict["rules"]["lost-write"]["verdict"] == "valid"
    other = judge(history.replace("acks=1", "acks=all"), tmp_path / "all", allow=("lost-write:acks=1",))
    assert other.of("lost-write")[0]["severity"] == "violation"


COPY = "{p.acks=1} p:a@0 p:b@1 p:u.. c:<a@0,b@1,u@2 nemesis:kill"
REPLACED = "{p.acks=1} p:a@0 p:b@1 c:<a@0,b@1 nemesis:kill q:x@1 end=2"


@pytest.mark.parametrize(
    ("history", "rule", "severity"),
    [
        (f"{REPLACED} final:<a@0,x@1", "inconsistent-offsets", "permitted"),
        (f"{REPLACED} d:<a@0,z@1 final:<a@0,x@1", "inconsistent-offsets", "violation"),
        (f"{REPLACED} c:<x@1 final:<a@0,x@1", "nonmonotonic-poll", "permitted"),
        ("{p.acks=1} p:a@0 p:b@1 p:e@2 nemesis:kill q:x@1 end=2 final:<a@0,x@1", "realtime-order", "permitted"),
        # The cut removed a record that was not acknowledged, but that a consumer had read.
        (
            "{p.acks=1} p:a@0 p:b@1 p:u~ c:<a@0,b@1,u@2 nemesis:kill q:x@1 c:<x@1 final:<a@0,x@1",
            "nonmonotonic-poll",
            "permitted",
        ),
        (
            "{p.acks=1} p:a@0 p:u~ p:b@2 c:<a@0,u@1,b@2 nemesis:kill q:x@1 q:y@2 end=3 final:<a@0,x@1,y@2",
            "inconsistent-offsets",
            "permitted",
        ),
        (
            "{p.acks=1} p:a@0 p:b@1 p:u~ c:<a@0,b@1,u@2 c:commit=3 nemesis:kill end=1 final:<a@0",
            "commit-beyond-end",
            "permitted",
        ),
        (
            "{p.acks=1} p:a@0 p:b@1 c:<a@0,b@1 c:commit=4 nemesis:kill end=1 final:<a@0",
            "commit-beyond-end",
            "violation",
        ),
        # The truncation removed a copy that a consumer had read; the producer sent the record again (KIP-101, 0.10.2).
        (f"{COPY} q:x@1 q:y@2 p:..u@3 final:<a@0,x@1,y@2,u@3", "inconsistent-offsets", "permitted"),
        (f"{COPY} q:x@1 q:y@2 p:..u@3 final:<a@0,x@1,y@2,u@3", "realtime-order", "permitted"),
        (
            "{p.acks=1} p:a@0 p:b@1 p:u~ c:<a@0,b@1,u@2 nemesis:kill q:x@1 end=2 final:<a@0,x@1",
            "realtime-order",
            "permitted",
        ),
        (f"{COPY} q:x@1 q:y@2 d:<y@2,z@2 p:..u@3 final:<a@0,x@1,y@2,u@3", "inconsistent-offsets", "violation"),
        # A producer aborted a record between the lost ones.
        (
            "{p.acks=1} p:a@0 p:(e@1)! p:b@2 r:<a@0,e@1,b@2 nemesis:kill q:x@1 q:y@2 final:<a@0,x@1,y@2",
            "inconsistent-offsets",
            "permitted",
        ),
        # The replacement is below an offset that was not lost, or below one of a writer with acks=all.
        ("{p.acks=1} p:a@0 p:e@2 nemesis:kill q:x@1 q:y@2 final:<a@0,x@1,y@2", "realtime-order", "violation"),
        ("{p.acks=1} p:a@0 r:b@1 p:e@2 nemesis:kill q:x@1 q:y@2 final:<a@0,x@1,y@2", "realtime-order", "violation"),
    ],
)
def test_only_consequences_of_a_permitted_loss_are_permitted(
    history: str, rule: str, severity: str, tmp_path: Path
) -> None:
    allowed = judge(history, tmp_path / "allowed", allow=("lost-write:acks=1",)).of(rule)
    assert [finding["severity"] for finding in allowed] == [severity]
    assert all(finding["related"] for finding in allowed)
    assert {finding["severity"] for finding in judge(history, tmp_path / "plain").of(rule)} == {"violation"}


@pytest.mark.parametrize("rule", ["replica-divergence", "acknowledged-absent"])
@pytest.mark.parametrize(
    ("values", "first", "last", "severity"),
    [
        (["b", "e"], 1, 2, "permitted"),
        (["e"], 2, 2, "permitted"),
        (["b", "e", "f"], 1, 3, "violation"),  # an offset more
        (["b", "f"], 1, 2, "violation"),  # another record at these offsets
    ],
)
def test_brokers_findings_are_permitted_as_far_as_they_concern_a_permitted_loss(
    rule: str, values: list[str], first: int, last: int, severity: str
) -> None:
    place: dict[str, Any] = {"topic": "x", "partition": 0}
    loss = Finding(
        "lost-write", "", **place, id="loss", severity="permitted", first_offset=1, last_offset=2, count=2,
        values=["b", "e"], related=["it"],
    )  # fmt: skip
    it = Finding(
        rule, "", **place, id="it", first_offset=first, last_offset=last, count=len(values), values=values,
        related=["loss"],
    )  # fmt: skip
    assert [one.severity for one in accept_consequences([loss, it], EMPTY)] == ["permitted", severity]
    breaches = [replace(loss, severity="violation"), it]
    assert accept_consequences(breaches, EMPTY) == breaches


@pytest.mark.parametrize(("values", "severity"), [(["b"], "permitted"), (["b", "e"], "violation"), ([], "violation")])
def test_a_divergence_may_span_unacknowledged_records_beside_the_loss(values: list[str], severity: str) -> None:
    place: dict[str, Any] = {"topic": "x", "partition": 0, "last_offset": 4}
    loss = Finding("lost-write", "", "x", 0, "permitted", 2, 2, values=["b"], id="loss", related=["it"])
    it = Finding("replica-divergence", "", **place, id="it", first_offset=1, count=4, values=values, related=["loss"])
    assert [one.severity for one in accept_consequences([loss, it], EMPTY)] == ["permitted", severity]


def test_a_consequence_of_a_permitted_loss_and_of_a_breach_is_a_breach() -> None:
    place: dict[str, Any] = {"topic": "x", "partition": 0}
    permitted = Finding("lost-write", "", **place, id="one", severity="permitted", first_offset=1, last_offset=1,
                        values=["a"])  # fmt: skip
    breach = Finding("lost-write", "", **place, id="other", first_offset=9, last_offset=9, values=["z"])
    it = Finding("realtime-order", "", **place, id="it", first_offset=1, last_offset=1, values=["a"])
    of_one, of_both = replace(it, related=["one"]), replace(it, related=["one", "other"])
    found = [accept_consequences([permitted, breach, one], EMPTY)[-1] for one in (of_one, of_both)]
    assert [one.severity for one in found] == ["permitted", "violation"]


def test_the_first_commit_beyond_a_missed_record_proves_the_loss(tmp_path: Path) -> None:
    [found] = judge("p:a@0 p:b@1 c:<a@0 c:commit=1 c:commit=2 c:commit=2", tmp_path).of("consumer-loss")
    assert "committed x-0@2 at 0.010 s" in found["sentence"]
    assert [item["says"] for item in found["evidence"]] == ["b acknowledged at offset 1", "c commits 2"]


ASSUMPTIONS = {
    "values unique": ("p:a@0 q:a@1 final:<a@0,a@1", "p:a@0 q:b@1 final:<a@0,b@1"),
    "timeouts not called failures": ("p:a@0 p:b!REQUEST_TIMED_OUT final:<a@0", "p:a@0 p:b!TOO_LARGE final:<a@0"),
    "final reads complete": ("p:a@0 p:b@1 end=2 final:<a@0", "p:a@0 p:b@1 end=2 final:<a@0,b@1"),
    "clients recorded": ("{c.role=consumer} p:a@0 final:<a@0", "{c.role=consumer} p:a@0 c:<a@0 final:<a@0"),
    "lines well formed": ("p:a@0 p:b.. p:b.. p:..b@1 final:<a@0,b@1", "p:a@0 p:b.. p:..b@1 final:<a@0,b@1"),
}


@pytest.mark.parametrize("name", ASSUMPTIONS)
def test_a_broken_assumption_keeps_the_run_from_being_valid(name: str, tmp_path: Path) -> None:
    broken, sound = (
        judge(_same_op(text) if name == "lines well formed" else text, tmp_path / str(number)).verdict
        for number, text in enumerate(ASSUMPTIONS[name])
    )
    holds = {item["name"]: item["holds"] for item in broken["assumptions"]}
    assert holds == {**dict.fromkeys(holds, True), name: False}
    assert broken["verdict"] != "valid"
    assert sound["verdict"] == "valid"
    assert all(item["holds"] is True for item in sound["assumptions"])


def _same_op(text: str) -> History:
    """Lets a doubled invocation use one operation number twice, which is malformed."""
    history = parse(text)
    invocations = [event for event in history.events if event.get("value") == "b" and event["type"] == "invoke"]
    for event in history.events:
        if event.get("value") == "b":
            event["op"] = invocations[0]["op"]
    return history


REPLACED = "nemesis:kill p:e@0#j final:assign=0 final:<e@0,b@1"


@pytest.mark.parametrize(
    ("history", "missing"),
    [
        (f"p:a@0#k p:b@1#k c:<a@0,b@1 {REPLACED}", "cleanup.policy of x, taken as delete"),
        (f"{{x.cleanup.policy=delete}} p:a@0#k p:b@1#k c:<a@0,b@1 {REPLACED}", ""),
        ("p:(a@0)! c:<a@0", "isolation.level of c"),
        ("{c.isolation.level=read_committed} p:(a@0)! c:<a@0", ""),
    ],
)
def test_missing_settings_are_named_if_findings_depend_on_them(history: str, missing: str, tmp_path: Path) -> None:
    items = judge(history, tmp_path).verdict["assumptions"]
    sentences = [item["says"] for item in items if item["name"] == "configuration recorded"]
    assert len(sentences) == bool(missing)
    assert all(text.startswith(f"run.json does not set {missing}, and verdicts depend on that") for text in sentences)


def test_a_sentence_shortens_long_values_and_the_finding_has_them_whole(tmp_path: Path) -> None:
    long = {value: '{"order": "' + value + '", "lines": [' + "17, " * 90 + f'"{value}"]}}' for value in "abex"}
    text = re.sub(
        r'"value": "([abex])"',
        lambda found: f'"value": {json.dumps(long[found[1]])}',
        json.dumps(parse(UNCLEAN).events),
    )
    findings = judge(History(json.loads(text), parse(UNCLEAN).config), tmp_path).findings
    loss = next(finding for finding in findings if finding["rule"] == "lost-write")
    assert set(loss["values"]) <= set(long.values())
    assert all(len(finding["sentence"]) < 500 for finding in findings)
    assert '{"order": "b", "lines"' in loss["sentence"]
    assert '"b"]}' in loss["sentence"]


@pytest.mark.parametrize(
    ("polls", "sentence"),
    [("c:<a@0 c:<a@0", "c read offset 0 of x-0 again"), ("c:<a@0,b@1 c:<a@0", "c went from 1 back to 0 of x-0")],
)
def test_a_record_that_was_read_again_is_named(polls: str, sentence: str, tmp_path: Path) -> None:
    [found] = judge(f"p:a@0 p:b@1 {polls}", tmp_path).of("nonmonotonic-poll")
    assert found["sentence"] == sentence
