"""The generations of a topic, from records of the metadata log, faults, and the topic ids of copies."""

from __future__ import annotations

import json

import polars as pl
import pytest
from logjudge.analysis.partitions import generation_parts
from logjudge.analysis.partitions.common import Common
from logjudge.analysis.partitions.generation_split import copy_positions, split_observed
from logjudge.analysis.partitions.topic_generations import (
    ANY_TIME,
    CREATE,
    DELETE,
    MAX_CLOCK_SKEW_NS,
    Span,
    TopicChange,
    TopicCopy,
    TopicGeneration,
    generations_of,
    recorded_changes,
    without_other_changes,
)
from logjudge.histories.evidence.server_log import parse_log
from logjudge.histories.evidence.tables import FINAL, LOCATION, LOG_EVENTS, METADATA, PROPERTIES
from logjudge.histories.settings import Settings
from logjudge.histories.tables import (
    CONTEXT,
    MARKS,
    MAX_INT64,
    MIN_INT64,
    OBSERVED,
    READS,
    SENDS,
    complete,
    without_key,
)

S = 1_000_000_000
OLD, NEW = "J0DgbTaRRgumsVCtWMRZBg", "lnugIDh2Sk6s2r7gl-dRIw"


def copy(id_: str, time: int | None, broker: str = "1") -> TopicCopy:
    return TopicCopy(FINAL if time == MAX_INT64 else f"at {time}", broker, id_, time)


def shown(found: list[TopicGeneration]) -> list[tuple[str | None, Span | None, bool]]:
    return [(one.topic_id, one.deleted, one.is_deletion_certain) for one in found]


DELETED = TopicChange(DELETE, Span(10 * S, 11 * S))
MAYBE = TopicChange(DELETE, Span(10 * S, MAX_INT64), None, False)
AGAIN = TopicChange(DELETE, Span(12 * S, 13 * S))  # a second attempt
CREATED = TopicChange(CREATE, Span(15 * S, 16 * S))
AT_END = copy(NEW, MAX_INT64)


@pytest.mark.parametrize(
    ("faults", "copies", "expected"),
    [
        ([], [], [(None, None, True)]),
        ([DELETED], [], [(None, Span(10 * S, 11 * S), True)]),
        ([DELETED, CREATED], [AT_END], [(None, Span(10 * S, 11 * S), True), (NEW, None, True)]),
        ([DELETED], [copy(OLD, 9 * S), AT_END], [(OLD, Span(10 * S, 11 * S), True), (NEW, None, True)]),
        ([MAYBE], [], [(None, Span(10 * S, MAX_INT64), False)]),
        ([MAYBE, CREATED], [], [(None, Span(10 * S, 16 * S), True), (None, None, True)]),
        ([MAYBE, AGAIN], [], [(None, Span(12 * S, 13 * S), True)]),
        ([MAYBE], [copy(OLD, 9 * S), copy(OLD, MAX_INT64)], [(OLD, None, True)]),
        ([MAYBE], [copy(OLD, 9 * S), AT_END], [(OLD, Span(10 * S, MAX_INT64), True), (NEW, None, True)]),
        ([], [copy(OLD, 9 * S), AT_END], [(OLD, Span(9 * S, MAX_INT64), True), (NEW, None, True)]),
        ([], [copy(OLD, None), AT_END], [(OLD, Span(MIN_INT64, MAX_INT64), True), (NEW, None, True)]),
        ([], [copy(OLD, 9 * S), copy(OLD, MAX_INT64)], [(OLD, None, True)]),
        ([TopicChange(DELETE, ANY_TIME)], [AT_END], [(None, ANY_TIME, True), (NEW, None, True)]),
    ],
)
def test_generations(faults, copies, expected):
    assert shown(generations_of([], faults, copies, False)) == expected


def test_a_record_confirms_or_refutes_a_fault_of_unknown_outcome():
    record = TopicChange(DELETE, Span(12 * S, 14 * S), OLD)
    assert shown(generations_of([record], [MAYBE], [], True)) == [(OLD, Span(12 * S, 14 * S), True)]
    assert shown(generations_of([], [MAYBE], [], True)) == [(None, None, True)]


def test_records_by_another_clock_are_those_of_the_faults():
    records = [TopicChange(DELETE, Span(3600 * S, 3602 * S), OLD), TopicChange(CREATE, Span(3605 * S, 3607 * S), NEW)]
    found = generations_of(records, [DELETED, CREATED], [], True)
    assert shown(found) == [(OLD, DELETED.span, True), (NEW, None, True)]
    assert found[1].created == CREATED.span


def test_the_longest_copy_of_the_metadata_log_is_used():
    rows = [
        {"snapshot": "early", "broker": "1", "offset": 1, "time": 0, "kind": "topic", "topic": "x", "topic_id": OLD},
        {"snapshot": FINAL, "broker": "1", "offset": 1, "time": 0, "kind": "topic", "topic": "x", "topic_id": OLD},
        {
            "snapshot": FINAL,
            "broker": "1",
            "offset": 5,
            "time": 9,
            "kind": "remove-topic",
            "topic": "x",
            "topic_id": OLD,
        },
        {"snapshot": FINAL, "broker": "1", "offset": 6, "time": 9, "kind": "topic", "topic": "y", "topic_id": NEW},
    ]
    metadata = complete(pl.DataFrame(rows), {**LOCATION, **METADATA})
    common = Common(Settings(), pl.DataFrame(schema=CONTEXT), pl.DataFrame(), {"metadata": metadata})
    changes, is_complete = recorded_changes("x", common.metadata_log, 0)
    assert [(change.kind, change.topic_id) for change in changes] == [(CREATE, OLD), (DELETE, OLD)]
    assert changes[1].span == Span(9_000_000 - MAX_CLOCK_SKEW_NS, 9_000_000 + MAX_CLOCK_SKEW_NS)
    assert is_complete


@pytest.mark.parametrize(("zero", "text"), [(0, "5.000 s"), (1795381600 * S, "2026-11-22 21:06:45.000Z")])
def test_a_creation_in_a_run_without_a_history_has_its_time_in_utc(zero, text):
    created = Span(zero + 4 * S, zero + 6 * S)
    assert TopicGeneration(created=created).describe("x") == f"This is topic x, created at about {text}."


GENERATIONS = [
    TopicGeneration(1, None, Span(10 * S, 11 * S), topic_id=OLD),
    TopicGeneration(2, Span(15 * S, 16 * S), topic_id=NEW),
]


def test_copies_belong_to_the_generation_of_their_topic_id_else_of_their_time():
    times = {"before": 9 * S, "between": 13 * S, "after": 20 * S}
    places = [
        ("before", "1"),
        ("before", "2"),
        ("between", "1"),
        ("after", "1"),
        ("undated", "1"),
        (FINAL, "1"),
        (FINAL, "2"),
    ]
    held = pl.DataFrame(places, schema=["snapshot", "broker"], orient="row")
    copies = [TopicCopy("before", "2", NEW, 9 * S), TopicCopy(FINAL, "2", OLD, MAX_INT64)]
    found = copy_positions(copies, held, GENERATIONS, times)
    numbers = {(snapshot, broker): number for snapshot, broker, number in found.iter_rows()}
    assert [numbers[place] for place in places] == [0, 1, None, 1, None, 1, 0]


@pytest.mark.parametrize(
    ("offset", "value", "logs", "expected"),
    [
        (1, "b", [], [(0, None, False), (1, None, False)]),  # nothing shows which generation it belongs to
        (1, "b", [(1, 1, "b")], [(1, 1, True)]),  # the new log has it
        (1, "b", [(0, 1, "b")], [(0, 1, True)]),
        (1, "b", [(1, 1, "c")], [(0, 1, True)]),  # the new log has another record there
    ],
)
def test_a_send_across_the_deletion_belongs_where_its_record_is(offset, value, logs, expected):
    assert split_send(GENERATIONS, offset, value, logs) == (expected, len(expected) > 1)


def test_another_record_shows_no_generation_if_two_copies_alone_show_a_deletion():
    """The other record may have replaced that of the send in the same log, before the deletion."""
    between_copies = generations_of([], [], [copy(OLD, 9 * S), copy(NEW, 16 * S)], False)
    expected = [(0, None, False), (1, None, False)]
    assert split_send(between_copies, 1, "b", [(0, 1, "c")]) == (expected, True)


def test_a_send_that_may_be_of_an_unobserved_generation_leaves_the_observed_one_unknown():
    """Nothing else shows the topic that was created again, so only the deleted one is judged."""
    tables = {name: pl.DataFrame(schema=without_key(schema)) for name, schema in OBSERVED.items()}
    rows = ((1, "a", 1 * S, 2 * S), (None, "b", 9 * S, 17 * S))
    about = {"process": "p", "outcome": "ok", "at": 1, "invoked_at": 0, "acknowledged": True, "index": 0, "txn": False}
    sends = [{**about, "offset": o, "value": v, "invoked": begun, "completed": end} for o, v, begun, end in rows]
    tables["sends"] = pl.DataFrame(sends, schema=tables["sends"].schema)
    common = Common(Settings(), pl.DataFrame(schema=CONTEXT), pl.DataFrame(), {})
    [part] = generation_parts._parts(generation_parts.Recorded("orders", tables, common), GENERATIONS)
    assert part.generation.number == 1
    assert [kind for kind, _ in part.ambiguous] == ["acknowledged"]


def split_send(generations, offset, value, logs):
    """The generations, offsets and acknowledgements of a send, and whether they are ambiguous."""
    send = {"process": "p", "outcome": "ok", "invoked": 9 * S, "completed": 17 * S, "at": 1, "invoked_at": 0}
    send |= {"offset": offset, "value": value, "acknowledged": True, "index": 0, "acks": "all", "txn": False}
    names = {"sends": SENDS, "reads": READS, "marks": MARKS}
    schemas = {name: without_key(schema) for name, schema in names.items()}
    tables = {name: pl.DataFrame(schema=schema) for name, schema in schemas.items()}
    tables["sends"] = pl.DataFrame([send], schema=schemas["sends"])
    records = pl.DataFrame(logs, schema={"generation": pl.Int32, "offset": pl.Int64, "value": pl.String}, orient="row")
    observed, undecided, _ = split_observed(tables, generations, records)
    return observed["sends"].select("generation", "offset", "acknowledged").rows(), undecided > 0


def test_ids_in_brokers_logs_are_generations_where_nothing_else_records_a_deletion():
    """Two topic ids of one partition without metadata log, faults or partition.metadata: the logs were two."""
    lines = [("1", 1_000, OLD), ("2", 4_000, OLD), ("1", 9_000, NEW)]
    events = [
        {"broker": broker, "kind": "leader", "time": time, "fields": json.dumps({"topic_id": topic_id})}
        for broker, time, topic_id in lines
    ]
    context = pl.DataFrame(schema=CONTEXT)

    def generations(rows: list[dict[str, object]], **config: str) -> list[tuple[str | None, Span | None, bool]]:
        tables = {"log_events": complete(pl.DataFrame(rows), {**LOCATION, **LOG_EVENTS})}
        common = Common(Settings(config=config), context, pl.DataFrame(), tables)
        return shown(generation_parts._generations(generation_parts.Recorded("x", tables, common)))

    dated = generations(events, started_at="1970-01-01T00:00:00Z")
    assert [(id_, span) for id_, span, _ in dated] == [(OLD, Span(4 * S, 9 * S)), (NEW, None)]
    assert len(generations(events[:2], started_at="1970-01-01T00:00:00Z")) == 1
    assert generations(events[::-1])[0] == (OLD, ANY_TIME, False)
    assert len(generations(events[:2])) == 1


@pytest.mark.parametrize("time", [8, 11])
def test_a_copy_from_around_the_deletion_has_the_id_of_the_only_other_generation(time):
    """A snapshot was taken before the controller deleted the topic, or meanwhile."""
    deleted = TopicChange(DELETE, Span(9 * S, 15 * S))
    found = generations_of([deleted], [CREATED], [copy(OLD, time * S), AT_END], False)
    assert [one.topic_id for one in found] == [OLD, NEW]


BEGUN = (
    "[1970-01-01 00:00:%02d,000] INFO [Topic Deletion Manager 3] Deletion of topic x (re)started (kafka.controller.X)"
)
ENDED = "[1970-01-01 00:00:%02d,000] INFO [Topic Deletion Manager 3] Deletion of topic x successfully completed (k.c.X)"


@pytest.mark.parametrize(
    ("lines", "deleted"),
    [
        ([BEGUN % 10, BEGUN % 12, ENDED % 14], [Span(9 * S, 15 * S)]),  # it began anew
        ([BEGUN % 10, ENDED % 11, BEGUN % 20, ENDED % 21], [Span(9 * S, 12 * S), Span(19 * S, 22 * S)]),
        ([BEGUN % 10], []),  # it never ended, or another controller ended it
        ([ENDED % 14], []),  # when it began is not known
        ([line.replace("topic x", "topic y") for line in (BEGUN % 10, ENDED % 14)], []),
    ],
)
def test_a_controller_before_kraft_logs_deletions(lines, deleted):
    events = parse_log("\n".join(lines)).with_columns(broker=pl.lit("3"), snapshot=pl.lit(FINAL), file=pl.lit("c"))
    shared = {"log_events": complete(events, {**LOCATION, **LOG_EVENTS})}
    dated = Settings(config={"started_at": "1970-01-01T00:00:00Z"})
    for settings, times in ((dated, deleted), (Settings(), [ANY_TIME for _ in deleted])):
        common = Common(settings, pl.DataFrame(schema=CONTEXT), pl.DataFrame(), shared)
        found = generation_parts._generations(generation_parts.Recorded("x", {}, common))
        assert [one.deleted for one in found if one.deleted is not None] == times
        assert generation_parts.topics_with_deletions(["x"], common) == ({"x"} if deleted else set())


@pytest.mark.parametrize(("at", "number"), [(5, 1), (20, 2)])
def test_a_new_log_after_a_deletion_is_of_another_topic(at, number):
    """No client is recorded, so only the brokers show that the topic exists again."""
    events = parse_log(f"{BEGUN % 10}\n{ENDED % 14}").with_columns(broker=pl.lit("3"), snapshot=pl.lit(FINAL))
    lines = [{"snapshot": FINAL, "broker": "1", "kind": "created", "time": at * 1000, "fields": "{}"}]
    tables = {name: pl.DataFrame(schema=without_key(schema)) for name, schema in OBSERVED.items()}
    tables["log_events"] = complete(pl.DataFrame(lines), {**LOCATION, **LOG_EVENTS})
    shared = {"log_events": complete(events, {**LOCATION, **LOG_EVENTS})}
    settings = Settings(config={"started_at": "1970-01-01T00:00:00Z"})
    common = Common(settings, pl.DataFrame(schema=CONTEXT), pl.DataFrame(), shared)
    [part], _ = generation_parts.parts_of(generation_parts.Recorded("x", tables, common))
    assert part.generation.number == number


# A broker lost its disk with the metadata log, and its restart created the topic automatically.
LED_TWICE = """\
[2026-11-28 09:13:29,997] INFO [Broker id=1] Leader orders-0 with topic id Some(nxOfKAKVTxiNnlASg3nU0g) starts at \
leader epoch 0 from offset 0 with partition epoch 0, high watermark 0, ISR [1], adding replicas [] and removing \
replicas [] . Previous leader None and previous leader epoch was -1. (state.change.logger)
[2026-11-28 09:13:50,867] INFO [Broker id=1] Leader orders-0 with topic id Some(EBa3JN3XQvyyd_zWiqm-Hw) starts at \
leader epoch 0 from offset 0 with partition epoch 0, high watermark 0, ISR [1], adding replicas [] and removing \
replicas [] . Previous leader None and previous leader epoch was -1. (state.change.logger)
"""


@pytest.mark.parametrize(
    ("first", "file", "generations"),
    [
        (1795857228618, "00000000000000000000.log", 1),  # a new metadata log: no one deleted the first topic
        (1795857208000, "00000000000000000000.log", 2),  # it is older than the first topic
        (1795857228618, "00000000000000000012-0000000001.checkpoint", 2),  # earlier records were removed
    ],
)
def test_a_topic_from_before_the_first_metadata_record_was_not_deleted(first, file, generations):
    key = {"snapshot": FINAL, "broker": "1", "file": file}
    metadata = [
        {**key, "offset": 2, "time": first, "kind": "feature", "key": "metadata.version", "value": "27"},
        {**key, "offset": 40, "time": 1795857230700, "kind": "topic", "topic": "orders", "topic_id": NEW},
    ]
    # Broker 2 kept its disk, and its metadata log is that of the old controllers with the records of the new ones.
    older = {"snapshot": FINAL, "broker": "2", "file": f"{0:020d}.log"}
    metadata += [{**older, "offset": 2, "time": 1795857206000, "kind": "feature", "key": "metadata.version"}]
    copies = [("tar", OLD), (FINAL, NEW)]
    properties = [{"snapshot": name, "broker": "1", "key": "topic_id", "value": id_} for name, id_ in copies]
    settings = Settings(config={"started_at": "2026-11-28T09:13:29.496Z", "snapshots": {"tar": {"time": 6 * S}}})
    shared = {"metadata": complete(pl.DataFrame(metadata), {**LOCATION, **METADATA})}
    common = Common(settings, pl.DataFrame(schema=CONTEXT), pl.DataFrame(), shared)
    lines = parse_log(LED_TWICE).with_columns(broker=pl.lit("1"), snapshot=pl.lit(FINAL))
    located = pl.DataFrame(properties).with_columns(file=pl.lit("data/orders-0/partition.metadata"))
    for tables in ({"log_events": lines}, {"properties": complete(located, {**LOCATION, **PROPERTIES})}):
        found = generation_parts._generations(generation_parts.Recorded("orders", tables, common))
        assert len(found) == generations


def test_a_line_in_another_time_zone_is_of_the_generation_that_elections_show():
    """Broker 1 logs in local time, 5:45 hours ahead. The topic was deleted at 20 s; nothing else bounds the clock."""
    zone, key = 20_700_000, {"snapshot": FINAL, "broker": "1", "file": "x"}
    led = [{"kind": "leader", "time": zone + at, "topic_id": id_} for at, id_ in ((1_000, OLD), (21_000, NEW))]
    lines = [
        {**key, **line, "fields": json.dumps({"topic_id": line.pop("topic_id"), "leader_epoch": 0})} for line in led
    ]
    lines += [{**key, "kind": "truncated", "time": zone + at, "fields": "{}"} for at in (10_000, 30_000)]
    epochs = [{**key, "kind": "partition", "leader_epoch": 0, "leader": 1}] * 2
    elected = [
        row | {"time": at, "topic_id": id_} for row, at, id_ in zip(epochs, (900, 20_900), (OLD, NEW), strict=True)
    ]
    tables = {
        "log_events": complete(pl.DataFrame(lines), {**LOCATION, **LOG_EVENTS}),
        "metadata": complete(pl.DataFrame(elected), {**LOCATION, **METADATA}),
    }
    common = Common(Settings(), pl.DataFrame(schema=CONTEXT), pl.DataFrame(), {"log_events": tables["log_events"]})
    generations = [TopicGeneration(1, None, Span(20 * S, 20 * S), topic_id=OLD), TopicGeneration(2, topic_id=NEW)]
    recorded = generation_parts.Recorded("orders", tables, common)
    assert generation_parts._positions_of_evidence(recorded, generations)["log_events"].to_list() == [0, 1, 0, 1]


@pytest.mark.parametrize(("second", "positions"), [(21_000, [0, 1, 0, 1]), (None, [0, 0, 0])])
def test_a_line_in_another_time_zone_is_of_the_generation_that_new_logs_show(second, positions):
    """Broker 1 logs 9:30 hours behind. It creates a log for each generation, unless it lacks the second one."""
    zone, key = -34_200_000, {"snapshot": FINAL, "broker": "1", "file": "x"}
    created = [{**key, "kind": "created", "time": zone + at} for at in (1_000, second) if at is not None]
    lines = [*created, *({**key, "kind": "truncated", "time": zone + at} for at in (10_000, 30_000))]
    tables = {"log_events": complete(pl.DataFrame(lines).with_columns(fields=pl.lit("{}")), {**LOCATION, **LOG_EVENTS})}
    common = Common(Settings(), pl.DataFrame(schema=CONTEXT), pl.DataFrame(), {})
    generations = [TopicGeneration(1, None, Span(20 * S, 20 * S)), TopicGeneration(2, Span(20 * S, 21 * S))]
    recorded = generation_parts.Recorded("orders", tables, common)
    assert generation_parts._positions_of_evidence(recorded, generations)["log_events"].to_list() == positions


STARTED = "[2026-11-28 09:13:%s] INFO Registered `kafka:type=kafka.Log4jController` MBean (kafka.utils.X)\n"


@pytest.mark.parametrize(
    ("starts", "certain"),
    [
        ({"1": ["05,000"]}, True),
        ({"1": ["05,000", "40,000"]}, False),
        ({"1": ["05,000", "40,000"], "2": ["05,000"]}, True),
        ({"1": ["05,000", "40,000"], "2": ["45,000"]}, False),
    ],
)
def test_a_topic_that_only_lines_show_again_was_surely_deleted_if_a_broker_ran_meanwhile(starts, certain):
    """Else the cluster may have lost its metadata while all brokers were down."""

    def located(text, broker):
        return parse_log(text).with_columns(broker=pl.lit(broker), snapshot=pl.lit(FINAL), file=pl.lit(broker))

    boots = [located("".join(STARTED % at for at in times), broker) for broker, times in starts.items()]
    settings = Settings(config={"started_at": "2026-11-28T09:13:00.000Z"})
    common = Common(settings, pl.DataFrame(schema=CONTEXT), pl.DataFrame(), {"log_events": pl.concat(boots)})
    lines = pl.concat([located(LED_TWICE, broker) for broker in starts])
    found = generation_parts._generations(generation_parts.Recorded("orders", {"log_events": lines}, common))
    assert [one.is_deletion_certain for one in found] == [certain, True]


def test_a_generation_has_its_own_creation_and_deletion_among_the_faults():
    rows = [
        ("fault", 0, 1, {"kind": "create-topic", "topic": "orders"}),
        ("fault", 10, 12, {"kind": "delete-topic", "topic": "orders"}),
        ("fault", 10, 12, {"kind": "delete-topic", "topic": "others"}),
        ("fault", 15, 16, {"kind": "kill", "nodes": ["1"]}),
        ("fault", 20, 22, {"kind": "create-topic", "topic": "orders"}),
    ]
    columns = ("kind", "invoked", "completed")
    context = pl.DataFrame([{**dict(zip(columns, row, strict=False)), "detail": json.dumps(row[3])} for row in rows])
    first = TopicGeneration(created=Span(0, 1), deleted=Span(10, 12))
    second = TopicGeneration(number=2, created=Span(20, 22))
    faults_by_generation = [
        without_other_changes("orders", context, one)["invoked"].to_list() for one in (first, second)
    ]
    assert faults_by_generation == [[0, 10, 10, 15], [10, 15, 20]]
