"""Causes as stories: wording, merging, conflicts, and text of strangers in reports and on terminals."""

from __future__ import annotations

import copy
from typing import Any

import click
import pytest
from logjudge.cli.document import Document
from logjudge.plots.report.incidents import timeline
from logjudge.plots.report.root_causes import amount, blame, impact_by_cause, whys_of

FACT = {
    "says": "broker 1 was killed",
    "time": 10_830_589_426,
    "source": "history.jsonl",
    "line": 2568,
    "byte": None,
    "kind": "kill",
    "broker": "1",
}
LOST = {"topic": "orders", "partition": 0, "first": 255, "last": 630, "count": 376, "read": 3}


def cause(**changed: Any) -> dict[str, Any]:
    told = {
        "findings": ["lost-write/orders-0/0"],
        "lost": LOST,
        "cause": "unclean-election",
        "chain": [FACT],
        "prevented_by": ["unclean.leader.election.enable=false"],
        "citation": "KIP-106",
        "missing": [],
        "readings": [],
    }
    return copy.deepcopy({**told, **changed})


def test_a_story_counts_what_was_lost() -> None:
    (why,) = whys_of([cause()], "2026-11-21T09:45:55.831Z")
    assert why.title == "offsets 255 to 630 of orders-0 lost, 376 acknowledged writes, 3 of them consumed before"
    (step,) = why.steps
    assert (step.seconds, step.clock, step.source) == ("10.831", "2026-11-21 09:46:06.661Z", "history.jsonl:2568")


def test_amounts_read_like_english() -> None:
    assert amount(17, 3) == "17 acknowledged writes, 3 of them consumed before"
    assert amount(17, 17) == "17 acknowledged writes, all of them consumed before"
    assert amount(17, 0) == "17 acknowledged writes, none of them consumed before"
    assert amount(1, 1) == "1 acknowledged write, consumed before"
    assert amount(1, 0) == "1 acknowledged write, never consumed"
    assert amount(2, None) == "2 acknowledged writes"


def test_what_several_rules_say_of_one_loss_is_told_once() -> None:
    again = cause(findings=["acknowledged-absent/orders-0/0"], lost={**LOST, "first": 300, "count": 331})
    (why,) = whys_of([again, cause()], "")
    assert why.findings == ["lost-write/orders-0/0", "acknowledged-absent/orders-0/0"]
    assert impact_by_cause([why]) == [("unclean-election", 376, 3)]


def test_losses_of_other_partitions_and_causes_stay_apart() -> None:
    later = [{**FACT, "time": 99_000_000_000}]
    others = [
        cause(lost={**LOST, "partition": 1}, chain=later),
        cause(cause="unknown", chain=[], missing=["the controller's log"]),
    ]
    assert len(whys_of([cause(), *others], "")) == 3


def test_unknown_reads_make_the_impact_unknown() -> None:
    whys = whys_of([cause(), cause(lost={**LOST, "partition": 1, "read": None})], "")
    assert impact_by_cause(whys) == [("unclean-election", 752, None)]


def test_other_partitions_of_an_incident_have_a_line_each() -> None:
    acked = {"first_acked": 9_000_000_000, "last_acked": 10_000_000_000}
    cut = {**FACT, "says": "broker 1 cut its log of orders-1 to 255", "kind": "truncated", "partition": "orders-1"}
    twin = cause(lost={**LOST, "partition": 1, **acked}, chain=[cut])
    first = cause(chain=[{**cut, "says": "cut in other words", "partition": "orders-0"}])
    (why,) = whys_of([first, twin], "")
    assert len(why.steps) == 2
    told = "in the same way offsets 255 to 630 of orders-1, acknowledged from 9.000 s to 10.000 s"
    assert why.steps[1].says == f"{told}; at 10.831 s broker 1 cut its log of orders-1 to 255"
    assert why.steps[1].seconds == "9.000"


def test_other_partitions_of_an_incident_are_told_in_order_of_time() -> None:
    def later(partition: int, count: int, acked: int | None) -> dict[str, Any]:
        return cause(lost={**LOST, "partition": partition, "count": count, "first_acked": acked, "last_acked": acked})

    (why,) = whys_of([cause(), later(1, 9, None), later(2, 8, 7 * 10**9), later(3, 7, 5 * 10**9)], "")
    assert [step.seconds for step in why.steps] == ["10.831", "5.000", "7.000", ""]


def test_a_title_names_few_of_many_partitions_of_an_incident() -> None:
    (why,) = whys_of([cause(lost={**LOST, "partition": number, "count": 2}) for number in range(3000)], "")
    assert why.title.count("orders-") == 9
    assert why.title.endswith("; 2,991 more losses of 5,982 records, in the same way")
    assert len(why.steps) < 40
    assert impact_by_cause([why])[0][1] == 6000


@pytest.mark.parametrize(
    "other",
    [
        {"kind": "power-loss"},
        {"broker": "2"},
        {"epoch": 3},
        {"isr": ["1", "2"]},
        {"time": FACT["time"] + 3 * 10**9},
    ],
)
def test_what_is_alike_in_words_alone_is_not_one_incident(other: dict[str, Any]) -> None:
    twin = cause(lost={**LOST, "partition": 1}, chain=[{**FACT, **other}])
    assert len(whys_of([cause(), twin], "")) == 2
    assert len(whys_of([cause(), cause(lost=twin["lost"])], "")) == 1


def test_a_death_that_a_fault_tells_is_no_moment_of_its_own() -> None:
    band = {"kind": "kill", "nodes": ["1"], "place": "", "from": 10 * 10**9, "to": 20 * 10**9}
    figures = {"faults": [band], "partitions": [], "started_at": "", "times": {}}
    noticed = {**FACT, "says": "broker 1 was killed", "kind": "failed"}
    chain = [{**FACT, "says": "in other words"}, {**FACT, "kind": "restart"}, {**FACT, "broker": "2"}, noticed]
    moments, _ = timeline([], figures, whys_of([cause(chain=chain)], ""))
    assert [moment.kind for moment in moments] == ["fault", "fact", "heal"]
    moments, _ = timeline([], {**figures, "faults": []}, whys_of([cause(chain=chain[:1])], ""))
    assert [moment.says for moment in moments] == ["in other words"]


def test_results_of_an_earlier_version_are_told_apart() -> None:
    bare = {name: value for name, value in FACT.items() if name not in ("kind", "broker")}
    assert len(whys_of([cause(chain=[bare]), cause(chain=[bare], lost={**LOST, "partition": 1})], "")) == 2


def test_a_headline_blames_the_causes_of_breaches_alone() -> None:
    other = cause(findings=["duplicate/orders-0/0"], lost=None, cause="retry", prevented_by=[])
    whys = whys_of([cause(), other], "")
    known = "Cause: unclean-election, which would have been prevented by unclean.leader.election.enable=false."
    assert blame(whys, {"lost-write/orders-0/0"}) == known
    assert blame(whys, {"lost-write/orders-0/0", "duplicate/orders-0/0"}) == f"{known} Cause: retry."
    assert not blame(whys, set())
    unknown = cause(findings=["lost-write/orders-1/0"], lost={**LOST, "partition": 1}, cause="unknown", chain=[])
    assert blame(whys_of([unknown], ""), {"lost-write/orders-1/0"}) == "The cause is not known."
    both = whys_of([cause(), unknown], "")
    named = {"lost-write/orders-0/0", "lost-write/orders-1/0"}
    assert blame(both, named) == f"{known} The cause of the rest is not known."


def test_hostile_text_is_harmless_in_documents() -> None:
    evil = "\x1b[31m<script>alert(1)</script> | @everyone [x](http://e.vil) \u202e"
    document = Document()
    document.heading(evil)
    document.say(evil)
    document.numbered([(evil, evil)])
    document.table([evil], [[evil]])
    terminal = click.unstyle(document.terminal())
    assert "\x1b" not in terminal
    assert "\u202e" not in terminal
    shown = document.markdown()
    assert "<script>" not in shown
    assert "[x](http" not in shown
    assert "http://" not in shown
    assert "@everyone" not in shown
    assert "\x1b" not in shown


def test_one_incident_of_two_partitions_is_told_once_and_names_both() -> None:
    def lost_of(partition: int, first: int, at: int, broker: int = 2) -> dict[str, Any]:
        name = f"orders-{partition}"
        steps = [
            {"says": f"a {first}", "time": at - first * 10**9, "kind": "acknowledged"},
            {"says": f"b {first}", "time": at, "kind": "elected", "broker": str(broker), "epoch": 3, "offset": first},
        ]
        facts = [{**step, "partition": name, "source": "x.log", "line": 1, "byte": None} for step in steps]
        span = {"first": first, "last": first + 4, "count": 5, "read": 5}
        return {
            "findings": [f"lost-write/{name}/0"],
            "says": "",
            "lost": {"topic": "orders", "partition": partition, **span},
            "cause": "unclean-election",
            "chain": facts,
            "prevented_by": [],
            "citation": "",
            "missing": [],
            "readings": [],
        }

    at = 80_000_000_000
    [why] = whys_of([lost_of(0, 0, at), lost_of(1, 7, at + 1_000_000)], None)
    assert "of orders-0" in why.title
    assert "of orders-1" in why.title
    assert len(why.findings) == 2
    assert impact_by_cause([why]) == [("unclean-election", 10, 10)]
    assert len(whys_of([lost_of(0, 0, at), lost_of(1, 7, 2 * at)], None)) == 2
    assert len(whys_of([lost_of(0, 0, at), lost_of(1, 7, at, broker=1)], None)) == 2
