"""Lines of a client are missing, as in a truncated file: its operations there are unknown, and no breach."""

from __future__ import annotations

from pathlib import Path

import pytest
from notation import History, judge, parse

SYNCHRONOUS = "{c.group.id=g d.group.id=g c.enable.auto.commit=false d.enable.auto.commit=false}"
OF_C = ["c:subscribe", "c:group=0", "c:<a@0", "c:handle<a@0", "c:commit=1", "c:<b@1", "c:handle<b@1", "c:commit=2"]
OF_D = "d:subscribe d:group=2 d:<e@2 d:handle<e@2 d:commit=3"


def _run(tokens: list[str], options: str = SYNCHRONOUS) -> History:
    return parse(f"{options} p:a@0 p:b@1 p:e@2 {' '.join(tokens)} {OF_D}")


def _verdict(history: History, folder: Path) -> str:
    return str(judge(history, folder).verdict["rules"]["consumer-loss"]["verdict"])


@pytest.mark.parametrize("length", range(5, 8))
def test_the_last_lines_of_a_member_that_made_a_commit_are_missing(length: int, tmp_path: Path) -> None:
    """The next member is assigned the commit, so the first one did more than its lines show."""
    assert _verdict(_run(OF_C), tmp_path / "whole") == "valid"
    assert _verdict(_run(OF_C[:length]), tmp_path / "cut") == ("unknown" if length < 7 else "valid")


@pytest.mark.parametrize(
    ("options", "commit"),
    [
        (SYNCHRONOUS.replace("false", "true"), "commit"),  # an automatic one has no line before its callback
        (SYNCHRONOUS, "auto"),  # an asynchronous one has none either
        ("{c.group.id=g d.group.id=g}", "commit"),  # commits are automatic by default
    ],
)
def test_a_commit_without_a_line_may_be_one_of_the_background(options: str, commit: str, tmp_path: Path) -> None:
    cut = [token.replace("commit", commit) for token in OF_C[:6]]
    assert _verdict(_run(cut, options), tmp_path) == "invalid"


def test_what_a_recorded_commit_passed_over_is_missed_whatever_is_missing_later(tmp_path: Path) -> None:
    passed_over = [*OF_C[:2], "c:commit=1", *OF_C[5:6]]
    assert _verdict(_run(passed_over), tmp_path) == "invalid"


@pytest.mark.parametrize("first", [2, 5])
def test_the_first_lines_of_a_member_are_missing(first: int, tmp_path: Path) -> None:
    """The other member recorded its assignment, so a poll without one shows the cut."""
    assert _verdict(_run(OF_C[first:]), tmp_path) == ("valid" if first == 2 else "unknown")


def test_members_without_any_recorded_assignment_do_not_record_them(tmp_path: Path) -> None:
    text = f"{SYNCHRONOUS} p:a@0 p:b@1 c:group=0 d:<b@1 d:handle<b@1 d:commit=2"
    plain = parse(text.replace("c:group=0 ", "c:<a@0 "))
    assert _verdict(plain, tmp_path) == "invalid"


MISSED = _run([token for token in OF_C if token not in ("c:<a@0", "c:handle<a@0")])
[SENT_LAST] = [event for event in MISSED.events if event["type"] == "invoke" and event.get("value") == "e"]


def test_completions_without_an_invocation_show_missing_lines(tmp_path: Path) -> None:
    """They are of a producer, but a member's lines may be missing as well."""
    assert _verdict(MISSED, tmp_path / "whole") == "invalid"
    events = [event for event in MISSED.events if event is not SENT_LAST]
    assert _verdict(History(events, MISSED.config), tmp_path / "cut") == "unknown"


def test_the_invocation_of_a_completion_may_be_the_unreadable_line(tmp_path: Path) -> None:
    """Then no other line is missing."""
    events = [{**event, "f": "sned"} if event is SENT_LAST else event for event in MISSED.events]
    assert _verdict(History(events, MISSED.config), tmp_path) == "invalid"


def test_a_poll_may_be_missing_beside_completions_without_an_invocation(tmp_path: Path) -> None:
    """The final reader may have returned what it seems to have passed over."""
    text = "p:a@0 p:b@1 q:e@2 c:<a@0 c:<b@1 c:<e@2 end=3 final:assign=0 final:<a@0 {} final:<e@2"
    whole, skipped = parse(text.format("final:<b@1")), parse(text.format(""))
    cut = History([event for event in skipped.events if event != _first_of(skipped, "q")], skipped.config)
    for history, expected in ((whole, "valid"), (skipped, "invalid"), (cut, "unknown")):
        rules = judge(history, tmp_path / expected).verdict["rules"]
        assert [rules[rule]["verdict"] for rule in ("lost-write", "poll-skip")] == [expected] * 2


def _first_of(history: History, process: str) -> object:
    return next(event for event in history.events if event["process"] == process)


def test_a_missing_line_may_be_of_the_later_record_of_a_key(tmp_path: Path) -> None:
    """Compaction may then have removed the record, although the history has no other one of its key."""
    text = "{{x.cleanup.policy={}}} p:a@0#i q:b@1#j p:e@2#k p:g@3#l c:<a@0,e@2 end=4 final:assign=0 final:<a@0,b@1,g@3"
    for policy, expected in (("delete", "invalid"), ("compact", "unknown")):
        whole = parse(text.format(policy))
        cut = History([event for event in whole.events if event != _first_of(whole, "q")], whole.config)
        found = [judge(one, tmp_path / f"{policy}-{n}").verdict for n, one in enumerate((whole, cut))]
        assert [one["rules"]["lost-write"]["verdict"] for one in found] == ["invalid", expected]


@pytest.mark.parametrize(
    ("options", "expected"), [("", "unknown"), ("{q.acks=all}", "invalid"), ("{q.acks=0}", "valid")]
)
def test_a_producer_without_any_offset_may_have_no_acks(options: str, expected: str, tmp_path: Path) -> None:
    """run.json without the producers' settings has no acks; no broker returns an offset with acks=0."""
    history = parse(f"{options} p:a@0 q:b@? q:e@? c:<a@0,e@1 end=1 final:assign=0 final:<a@0")
    verdict = judge(history, tmp_path).verdict
    assert verdict["rules"]["unseen"]["verdict"] == expected
    broken = " ".join(one["says"] for one in verdict["assumptions"] if one["holds"] is False)
    assert ("run.json does not set acks of q" in broken) == (not options)


def test_no_producer_with_offsets_shows_no_acks(tmp_path: Path) -> None:
    """An application's log may lack all offsets."""
    history = parse("p:a@? q:b@? c:<a@0 end=1 final:assign=0 final:<a@0")
    assert judge(history, tmp_path).verdict["rules"]["unseen"]["verdict"] == "invalid"
