"""Causes of records that a group missed; each case lists the events of its members."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from logjudge.analysis.causes import explain_missed, explain_regression
from logjudge.analysis.causes.cases import GROUP_EVENTS, Explanation, Missed, Regression
from logjudge.analysis.timelines.facts import SECOND, Fact

MISSED = Missed("x", 0, "g", 1, 1, 1)


def explained(events, missed=MISSED, config={}):  # noqa: B006
    """The cause of what the group missed; each event has its index as its time."""
    rows = [(time, time, *event) for time, event in enumerate(events)]
    return explain_missed(pl.DataFrame(rows, schema=GROUP_EVENTS, orient="row"), missed, config)


POLLED = [("poll", 0, 2), ("handle", 0, 0), ("commit", 3, 3)]
BEFORE = [("poll", 0, 2), ("handle", 0, 0), ("handle", 2, 2), ("commit", 3, 3)]
AFTER = [("poll", 3, 5), ("handle", 3, 5), ("commit", 6, 6)]
CRASH = ("crash", None, None)


@pytest.mark.parametrize(
    ("events", "cause"),
    [
        ([*POLLED, CRASH], "commit-before-handle"),
        ([*POLLED, ("poll", 3, 5), CRASH], "commit-before-handle"),
        # The member handled a later record, so the crash does not explain why it did not handle this one.
        ([*BEFORE, CRASH], "unknown"),
        ([*BEFORE, *AFTER, CRASH], "unknown"),
        ([*POLLED, *AFTER, CRASH], "unknown"),
        # What the restarted process handles does not matter.
        ([*POLLED, CRASH, *AFTER], "commit-before-handle"),
        # A crash before the commit did not follow it.
        ([*POLLED[:2], CRASH, POLLED[2]], "unknown"),
        (POLLED, "unknown"),
    ],
)
def test_only_a_crash_before_later_records_proves_that_a_commit_came_too_early(
    events: list[tuple[str, int | None, int | None]], cause: str
) -> None:
    assert explained([("g1", *event) for event in events]).cause == cause


AUTO = {"g1": {"enable.auto.commit": True, "auto.offset.reset": "latest"}, "g2": {"auto.offset.reset": "latest"}}
SILENT = [("g1", "poll", 0, 2), ("g1", "handle", 0, 0)]
DIED = [*SILENT, ("g1", "crash", None, None)]


@pytest.mark.parametrize(
    ("events", "cause"),
    [
        ([*DIED, ("g2", "assign", 3, None), ("g2", "commit", 5, None)], "commit-before-handle"),
        # The same client, started again.
        ([*DIED, ("g1", "assign", 3, None), ("g2", "commit", 5, None)], "commit-before-handle"),
        # The crash is not recorded, but the other member has the partition, and the first one did nothing more.
        ([*SILENT, ("g2", "assign", 3, None), ("g2", "commit", 5, None)], "commit-before-handle"),
        ([*SILENT, ("g2", "assign", 3, None), ("g1", "handle", 2, 2), ("g2", "commit", 5, None)], "unknown"),
        # No member recorded a commit afterwards.
        ([*DIED, ("g2", "assign", 3, None)], "commit-before-handle"),
        ([*DIED, ("g2", "assign", 1, None)], "unknown"),
        # Another member may have committed it.
        ([*DIED, ("g3", "commit", 3, None), ("g2", "assign", 3, None), ("g2", "commit", 5, None)], "unknown"),
        ([*DIED, ("g3", "commit-info", 3, None), ("g2", "assign", 3, None), ("g2", "commit", 5, None)], "unknown"),
        # It was assigned an offset before the records, or none, or chose its own.
        ([*DIED, ("g2", "assign", 1, None), ("g2", "commit", 5, None)], "unknown"),
        ([*DIED, ("g2", "assign", None, None), ("g2", "commit", 5, None)], "unknown"),
        ([*DIED, ("g2", "seek", 3, None), ("g2", "commit", 5, None)], "unknown"),
    ],
)
def test_the_next_assignment_proves_a_commit_without_a_recorded_callback(events, cause) -> None:
    assert explained(events, config=AUTO).cause == cause


STORED = {"dated": 3, "offset": 3, "file": "f", "byte": 0}


@pytest.mark.parametrize(
    ("events", "stored", "cause"),
    [
        (DIED, STORED, "commit-before-handle"),
        (DIED, None, "unknown"),
        # Its time is not known, or it is not beyond the record, or beyond what the member had polled.
        (DIED, {**STORED, "dated": None}, "unknown"),
        (DIED, {**STORED, "offset": 1}, "unknown"),
        (DIED, {**STORED, "offset": 4}, "unknown"),
        # The member did not end.
        (SILENT, STORED, "unknown"),
        # Another member was at work meanwhile, and may have committed it.
        ([*DIED, ("g2", "assign", None, None)], STORED, "unknown"),
        ([*SILENT, ("g2", "poll", 2, 2), DIED[-1]], STORED, "unknown"),
    ],
)
def test_the_stored_offset_proves_a_commit_without_a_recorded_callback(events, stored, cause) -> None:
    assert explained(events, replace(MISSED, stored=stored), AUTO).cause == cause


FRESH = [("g1", "assign", None, None)]
READ = [("g1", "poll", 0, 4), ("g1", "handle", 0, 4), ("g1", "commit", 5, None)]
AGAIN = [("g2", "assign", None, None), ("g2", "poll", 10, 12), ("g2", "commit", 13, None)]


@pytest.mark.parametrize(
    ("events", "cause"),
    [
        ([*FRESH, *READ, *AGAIN], "committed-offset-vanished"),
        # A group that had never committed anything.
        ([*FRESH, *AGAIN], "consumer-reset"),
        # The application assigned the partition, without an offset.
        ([("g1", "assign-own", None, None), ("g2", "assign-own", None, None), *AGAIN[1:]], "consumer-reset"),
        ([*FRESH, *READ, ("g2", "assign-own", None, None), *AGAIN[1:]], "unknown"),
        # The outcome of the commit is not recorded: it may not have been stored.
        ([*FRESH, *READ[:2], ("g1", "commit-info", 5, None), *AGAIN], "unknown"),
        # The offset was there, or the application chose where to begin.
        ([*FRESH, *READ, ("g2", "assign", 5, None), *AGAIN[1:]], "unknown"),
        ([*FRESH, *READ, AGAIN[0], ("g2", "seek", 10, None), *AGAIN[1:]], "unknown"),
        # The commit was already after some of the records.
        ([*FRESH, *READ[:2], ("g1", "commit", 7, None), *AGAIN], "unknown"),
    ],
)
def test_a_committed_offset_that_vanished_is_no_group_without_one(events, cause) -> None:
    found = explained(events, Missed("x", 0, "g", 5, 9, 5), AUTO)
    assert found.cause == cause
    if cause == "committed-offset-vanished":
        assert [fact.place for fact in found.chain] == [3, 4, None, 5]


@pytest.mark.parametrize(
    ("policy", "cause"),
    [("latest", "consumer-reset"), ("largest", "consumer-reset"), ("end", "consumer-reset")]
    + [(policy, "unknown") for policy in ("earliest", "smallest", "beginning", "none", "error")],
)
def test_clients_name_the_reset_to_the_end_differently(policy: str, cause: str) -> None:
    config = {"g2": {"auto.offset.reset": policy}}
    assert explained([*FRESH, *AGAIN], Missed("x", 0, "g", 5, 9, 5), config).cause == cause


UNHANDLED = [("g1", "poll", 5, 7), ("g1", "crash", None, None)]


@pytest.mark.parametrize(
    ("events", "cause"),
    [
        ([*FRESH, *READ, *UNHANDLED, *AGAIN], "committed-offset-vanished"),
        ([*FRESH, *UNHANDLED, *AGAIN], "consumer-reset"),
        ([*FRESH, *READ, ("g1", "poll", 5, 12), *UNHANDLED[1:], *AGAIN], "unknown"),  # it had polled beyond them
        # It had committed them.
        ([*FRESH, *READ, *UNHANDLED[:1], ("g1", "commit", 8, None), *UNHANDLED[1:], *AGAIN], "unknown"),
        # The reset did not skip them.
        ([*FRESH, *READ, AGAIN[0], ("g2", "poll", 5, 7), *AGAIN[1:]], "unknown"),
    ],
)
def test_a_reset_passes_over_what_an_earlier_member_polled_and_never_handled(events, cause) -> None:
    assert explained(events, Missed("x", 0, "g", 5, 9, 5), AUTO).cause == cause


EARLIER = {"time": 0, "place": 0, "process": "g1", "value": "a"}
READ = ("g1", "poll", 0, 4)


@pytest.mark.parametrize(
    ("events", "earlier", "cause"),
    [
        ([READ, ("g1", "poll", 5, 6)], EARLIER, "truncation-below-position"),
        ([("g1", "poll", 0, 1), ("g1", "commit", 2, None)], EARLIER, "truncation-below-position"),
        ([("g1", "poll", 0, 1), ("g2", "assign", 2, None)], EARLIER, "truncation-below-position"),
        # No poll, commit or assignment is beyond the missed record.
        ([("g1", "poll", 0, 0)], EARLIER, "unknown"),
        # The group was beyond it before it polled the other record.
        ([("g1", "commit", 2, None)], {**EARLIER, "time": 1}, "unknown"),
        # No member polled another record at its offset.
        ([READ, ("g1", "poll", 5, 6)], None, "unknown"),
    ],
)
def test_a_position_beyond_a_truncation_skips_what_is_written_there(events, earlier, cause) -> None:
    assert explained(events, replace(MISSED, earlier=earlier)).cause == cause


def test_the_cause_of_a_truncation_explains_what_the_group_skipped_after_it() -> None:
    elected = Fact("an election", "elected", 3)
    truncation = Explanation("unclean-election", (elected,), ("unclean.leader.election.enable=false",))
    found = explained([READ, ("g1", "poll", 5, 6)], replace(MISSED, earlier=EARLIER, truncation=truncation))
    assert elected in found.chain
    assert found.prevented_by[0] == "unclean.leader.election.enable=false"


@pytest.mark.parametrize(
    ("events", "deleted", "cause"),
    [
        ([("g1", "assign", 3, None), ("g2", "assign", 3, None), ("g2", "poll", 9, 9)], 1, "consumer-reset"),
        # A member that had read, and fell behind the log start.
        ([("g2", "assign", 0, None), ("g2", "poll", 0, 2), ("g2", "poll", 9, 9)], 2, "consumer-reset"),
        # The record was deleted later, or is still there; another position was valid, or the application chose it.
        ([("g2", "assign", 3, None), ("g2", "poll", 9, 9)], 2, "unknown"),
        ([("g2", "assign", 3, None), ("g2", "poll", 9, 9)], None, "unknown"),
        ([("g2", "assign", 5, None), ("g2", "poll", 9, 9)], 0, "unknown"),
        ([("g2", "assign", 3, None), ("g2", "seek", 9, None), ("g2", "poll", 9, 9)], 0, "unknown"),
    ],
)
def test_a_position_below_the_log_start_is_reset(events, deleted, cause) -> None:
    missed = Missed("x", 0, "g", 5, 8, 4, deleted_since=lambda _: deleted)
    found = explained(events, missed, AUTO)
    assert found.cause == cause
    assert [fact.kind for fact in found.chain] == (
        ["positioned", "log-start", "configured", "polled"] if cause != "unknown" else []
    )


COPIES = {"at": pl.Int64, "kind": pl.String, "offset": pl.Int64, "dated": pl.Int64, "file": pl.String, "byte": pl.Int64}


def copies(*rows, intact=True):
    """Rows of __consumer_offsets: (kind, offset, seconds)."""
    records = [(at, kind, offset, time * SECOND, "f", 7) for at, (kind, offset, time) in enumerate(rows)]
    return pl.DataFrame(records, schema=COPIES, orient="row").with_columns(intact=pl.lit(intact))


def regression(events, lower, stored=(), higher=0, intact=True):
    """The cause of a regression to 2; each event, a second after the one before, has its index as its place.

    `lower` and `higher` are the indices of the two commits or assignments.
    """
    rows = [(at * SECOND, at, *event) for at, event in enumerate(events, 10)]
    frame = pl.DataFrame(rows, schema=GROUP_EVENTS, orient="row")
    two = [None if index is None else frame.row(index, named=True) for index in (higher, lower)]
    return explain_regression(frame, Regression("x", 0, "g", 5, *two, copies(*stored, intact=intact)))


COMMITTED = ("g1", "commit", 5, None)
ASSIGNED = ("g2", "assign", 2, None)
SET_BACK = [("committed", 2, 5), ("committed", 5, 10), ("committed", 2, 11)]


@pytest.mark.parametrize(
    ("events", "lower", "stored", "cause"),
    [
        # The copies have an older commit, so that compaction did not remove the higher one.
        ([COMMITTED, ASSIGNED], 1, [("committed", 2, 5)], "commits-lost"),
        ([COMMITTED], None, [("committed", 2, 5)], "commits-lost"),
        ([COMMITTED, ASSIGNED], 1, [], "unknown"),
        ([COMMITTED, ASSIGNED], 1, [("committed", 2, 5), ("committed", 5, 10)], "unknown"),
        # The group committed that offset again after it had gone back.
        ([COMMITTED, ASSIGNED], 1, [("committed", 2, 5), ("committed", 5, 13)], "commits-lost"),
        ([COMMITTED, ASSIGNED], 1, [("committed", 2, 5), ("committed", 5, 12)], "unknown"),
        # The next member commits at once.
        ([COMMITTED, ASSIGNED], 1, [("committed", 2, 5), ("committed", 4, 11)], "commits-lost"),
        # A client without a record lowered it, or compaction may have removed it.
        ([COMMITTED, ASSIGNED], 1, [("committed", 1, 5), ("committed", 2, 11)], "unknown"),
        ([COMMITTED, ASSIGNED], 1, [("removed", None, 11)], "unknown"),
        ([COMMITTED, ASSIGNED], 1, [("committed", 7, 40)], "unknown"),
        # A client that is no member set it: no member was at this offset when, or since, the group had committed 5.
        ([COMMITTED, ASSIGNED], 1, [("committed", 5, 10), ("committed", 2, 11)], "offsets-altered"),
        ([("g1", "poll", 0, 1), ("g1", "poll", 2, 4), COMMITTED, ASSIGNED], 3, SET_BACK, "offsets-altered"),
        ([("g2", "poll", 0, 1), COMMITTED, ASSIGNED], 2, SET_BACK, "unknown"),
        ([COMMITTED, ("g1", "poll", 0, 1), ASSIGNED], 2, SET_BACK, "unknown"),
        ([COMMITTED, ("g1", "commit", 2, None), ASSIGNED], 2, SET_BACK, "unknown"),
        ([("g1", "commit-info", 2, None), COMMITTED, ASSIGNED], 2, SET_BACK, "unknown"),
        # A member's own commit, late or out of order.
        ([("g1", "poll", 0, 4), COMMITTED, ("g1", "commit", 2, None)], 2, [], "stale-commit"),
        ([("g2", "poll", 0, 1), COMMITTED, ("g2", "commit", 2, None)], 2, [], "stale-commit"),
        ([COMMITTED, ("g1", "poll", 0, 1), ("g1", "commit", 2, None)], 2, [], "unknown"),
        ([COMMITTED, ("g2", "commit", 2, None)], 1, [], "unknown"),
    ],
)
def test_the_cause_of_a_committed_offset_that_went_back(events, lower, stored, cause) -> None:
    found = regression(events, lower, stored, events.index(COMMITTED))
    assert found.cause == cause
    assert found.missing or found.prevented_by
    times = [fact.time for fact in found.chain]
    assert times == sorted(times)


# The group's commits in a run of Kafka 4.1, and what its members did around `kafka-consumer-groups --reset-offsets
# --to-latest`, which committed 757: c0 had polled 344 offsets, and c1 started at 757.
MEMBERS = [("c0", "poll", 343, 344), ("c0", "commit", 345, None), ("c1", "assign", 757, None), ("c1", "poll", 757, 760)]
RESET = [("committed", 345, 7), ("committed", 757, 11), ("committed", 767, 14)]


@pytest.mark.parametrize(
    ("events", "stored", "cause"),
    [
        (MEMBERS, RESET, "offsets-altered"),
        (MEMBERS, [], "unknown"),
        (MEMBERS, [RESET[0], RESET[2]], "unknown"),
        # A member had reached the offset, or went there itself.
        ([("c0", "poll", 343, 756), *MEMBERS[1:]], RESET, "commit-before-handle"),
        ([*MEMBERS[:2], ("c1", "seek", 757, None), *MEMBERS[2:]], RESET, "unknown"),
        ([*MEMBERS[:2], ("c0", "commit-info", 757, None), *MEMBERS[2:]], RESET, "unknown"),
    ],
)
def test_an_offset_that_no_member_had_reached_was_set_by_another_client(events, stored, cause) -> None:
    rows = [(at * SECOND, at, *event) for at, event in enumerate(events, 8)]
    missed = Missed("orders", 0, "g", 345, 756, 412, copies=copies(*stored))
    found = explain_missed(pl.DataFrame(rows, schema=GROUP_EVENTS, orient="row"), missed, {})
    assert found.cause == cause
    assert cause != "offsets-altered" or [fact.offset for fact in found.chain] == [757, 757]


def test_copies_without_any_commit_are_not_called_missing() -> None:
    """All copies may have been collected, and have lost every commit of the partition."""
    [missing] = [text for text in regression([COMMITTED, ASSIGNED], 1, []).missing if "__consumer_offsets" in text]
    assert missing.startswith("a commit of x-0 by group g in the brokers' copies of __consumer_offsets")
    assert missing.endswith("no collected copy has one")


def test_a_damaged_copy_may_lack_the_commit() -> None:
    found = regression([COMMITTED, ASSIGNED], 1, [("committed", 2, 5)], intact=False)
    assert found.cause == "unknown"
    assert "an undamaged copy of __consumer_offsets, as this one may lack the commit" in " ".join(found.missing)


@pytest.mark.parametrize(
    ("seconds", "stored", "reason", "measure"),
    [
        (70, [], "offsets.retention.minutes, or the group was deleted", "offsets.retention.minutes longer"),
        (70, [("committed", 5, 1)], "offsets.retention.minutes, or the group was", "offsets.retention.minutes longer"),
        (59, [], "too soon for offsets.retention.minutes", "offsets.topic.replication.factor=3"),
        (70, [("committed", 5, 1), ("removed", None, 66)], "it had expired, or was deleted", "offsets.retention.min"),
        # kafka-consumer-groups --delete-offsets of Kafka 4.2.
        (11, [("committed", 5, 0), ("removed", None, 5)], "a client deleted it", "deleting the offsets of a group"),
        (70, [("committed", 5, 0), ("removed", None, 5)], "a client deleted it", "deleting the offsets of a group"),
        (70, [("committed", 9, 99)], "have neither that commit nor its removal", "offsets.topic.replication.factor=3"),
    ],
)
def test_why_a_committed_offset_vanished(seconds, stored, reason, measure) -> None:
    events = [(0, "commit", 5, None), (seconds, "assign", None, None), (seconds + 1, "poll", 9, 9)]
    rows = [(at * SECOND, at, "g1", *event) for at, *event in events]
    frame = pl.DataFrame(rows, schema=GROUP_EVENTS, orient="row")
    missed = Missed("x", 0, "g", 5, 8, 4, copies=copies(*stored))
    found = explain_missed(frame, missed, {"g1": {"auto.offset.reset": "latest"}})
    assert found.cause == "committed-offset-vanished"
    assert reason in " ".join(fact.sentence for fact in found.chain)
    assert found.prevented_by[0].startswith(measure)


@pytest.mark.parametrize(
    ("seconds", "stored", "intact", "kinds"),
    [
        (20, [("committed", 9, 30)], True, ["committed", "committed"]),
        (20, [("committed", 9, 30)], False, ["committed"]),  # the damaged copy may have had the commit
        (20, [("committed", 5, 0), ("committed", 9, 30)], True, ["committed"]),
        (70, [("committed", 9, 99)], True, ["committed"]),  # it may have expired
    ],
)
def test_copies_that_lack_the_vanished_commit_are_a_fact(seconds, stored, intact, kinds) -> None:
    events = [(0, "commit", 5, None), (seconds, "assign", None, None), (seconds + 1, "poll", 9, 9)]
    frame = pl.DataFrame([(at * SECOND, at, "g1", *event) for at, *event in events], schema=GROUP_EVENTS, orient="row")
    missed = Missed("x", 0, "g", 5, 8, 4, copies=copies(*stored, intact=intact))
    found = explain_missed(frame, missed, {"g1": {"auto.offset.reset": "latest"}})
    assert found.cause == "committed-offset-vanished"
    assert [fact.kind for fact in found.chain if fact.kind == "committed"] == kinds


# A run of Kafka 4.2 whose only copy of __consumer_offsets was on a disk that was lost: the group began again at 0.
BEGAN_AGAIN = [
    ("early0", "commit", 237, None),
    ("early1", "assign", None, None),
    ("early1", "poll", 0, 49),
    ("early1", "commit", 50, None),
]


@pytest.mark.parametrize(
    ("events", "stored", "cause"),
    [
        (BEGAN_AGAIN, [], "committed-offset-vanished"),
        # The group committed the higher offset again later.
        (BEGAN_AGAIN, [("committed", 50, 13), ("committed", 237, 14)], "committed-offset-vanished"),
        (
            BEGAN_AGAIN,
            [("committed", 237, 10), ("removed", None, 11), ("committed", 50, 13)],
            "committed-offset-vanished",
        ),
        # The offset was there, so that another reason kept the member from it.
        (BEGAN_AGAIN, [("committed", 237, 10), ("committed", 50, 13)], "unknown"),
        ([BEGAN_AGAIN[0], ("early1", "assign", 237, None), *BEGAN_AGAIN[2:]], [], "unknown"),
        # Another member read there, or the assignment came first.
        ([*BEGAN_AGAIN[:2], ("early2", "poll", 0, 49), BEGAN_AGAIN[3]], [], "unknown"),
        ([BEGAN_AGAIN[1], BEGAN_AGAIN[0], *BEGAN_AGAIN[2:]], [], "unknown"),
    ],
)
def test_a_group_that_began_anew_had_lost_its_committed_offset(events, stored, cause) -> None:
    rows = [(at * SECOND, at, *event) for at, event in enumerate(events, 10)]
    frame = pl.DataFrame(rows, schema=GROUP_EVENTS, orient="row")
    higher, lower = (frame.row(events.index(BEGAN_AGAIN[index]), named=True) for index in (0, 3))
    found = explain_regression(frame, Regression("orders", 0, "g-early", 237, higher, lower, copies(*stored)))
    assert found.cause == cause
    assert cause == "unknown" or "committed" in {fact.kind for fact in found.chain} >= {"assigned", "polled"}


def test_an_offset_that_no_member_had_committed_is_named_without_copies() -> None:
    rows = [(at * SECOND, at, *event) for at, event in enumerate(MEMBERS, 8)]
    missed = Missed("orders", 0, "g", 345, 756, 412, copies=copies())
    [missing] = explain_missed(pl.DataFrame(rows, schema=GROUP_EVENTS, orient="row"), missed, {}).missing
    assert missing.startswith("which client committed offset 757 of orders-0 before c1 was assigned it")
