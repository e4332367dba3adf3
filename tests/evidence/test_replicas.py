"""The rules on what brokers kept: cases they find and leave alone, and slow twins that say the same."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logjudge.analysis.replicas.replica_logs import complete_sends, replica_logs_of
from logjudge.analysis.rules.log_order import judge_checkpoints, judge_epochs, judge_segments
from logjudge.analysis.rules.replica_absent import judge_absence
from logjudge.analysis.rules.replica_divergence import judge_divergence
from logjudge.histories.evidence.dump_text import text_digest
from logjudge.histories.evidence.server_log import parse_log
from logjudge.histories.evidence.tables import BATCHES, CHECKPOINTS, DAMAGE, EPOCHS, LOCATION, RECORDS, located

FILE = "brokers/{}/data/orders-0/" + f"{0:020d}.log"


def logs(text, snapshot=""):
    """Logs by broker, one a line: `1: 0a 1b 2c@1` is offset 0 with value a (epoch 0), …, offset 2 in epoch 1.

    `2k=c` is value c with key k; `2-` is a tombstone of key k in `2k=-`; `2!` is a commit marker.
    """
    records, batches = [], []
    for line in text.strip().splitlines():
        broker, _, entries = line.strip().partition(":")
        for position, entry in enumerate(entries.split()):
            body, _, epoch = entry.partition("@")
            digits = len(body) - len(body.lstrip("0123456789"))
            offset, body = int(body[:digits]), body[digits:]
            key, _found, value = body.partition("=") if "=" in body else (None, "", body)
            value = None if value in ("-", "!") else value
            control = "commit" if body == "!" else None
            where = {"snapshot": snapshot, "broker": broker.strip(), "file": FILE.format(broker.strip())}
            common = {"leader_epoch": int(epoch or 0), "byte": position * 100}
            records.append(
                {
                    **where,
                    **common,
                    "offset": offset,
                    "timestamp": 1,
                    "key": key,
                    "value": value,
                    "digest": text_digest(key, value),
                    "producer_id": None,
                    "transactional": control is not None,
                    "control": control,
                }
            )
            batches.append(
                {
                    **where,
                    **common,
                    "base_offset": offset,
                    "last_offset": offset,
                    "magic": 2,
                    "count": 1,
                    "crc_ok": True,
                    "size": 100,
                }
            )
    return {
        "records": pl.DataFrame(records, schema={**LOCATION, **RECORDS}),
        "batches": pl.DataFrame(batches, schema={**LOCATION, **BATCHES}),
    }


def joined(*parts):
    return {name: pl.concat([part[name] for part in parts]) for name in parts[0]}


def checkpoints(*rows):
    """Rows (name, broker, offset) or with a snapshot in front."""
    full = [row if len(row) == 4 else ("", *row) for row in rows]
    entries = [
        {
            "snapshot": s,
            "broker": b,
            "file": name,
            "name": name,
            "topic": "orders",
            "partition": 0,
            "offset": o,
            "line": 3,
        }
        for s, name, b, o in full
    ]
    return pl.DataFrame(entries, schema={**LOCATION, **CHECKPOINTS})


def epochs(broker, *entries):
    rows = [
        {
            "snapshot": "",
            "broker": broker,
            "file": "leader-epoch-checkpoint",
            "leader_epoch": e,
            "start_offset": s,
            "line": i,
        }
        for i, (e, s) in enumerate(entries, 3)
    ]
    return pl.DataFrame(rows, schema={**LOCATION, **EPOCHS})


def damage(kind, broker="1", first=None, last=None, byte=0):
    row = {"snapshot": "", "broker": broker, "file": FILE.format(broker), "kind": kind, "byte": byte}
    row |= {"first_offset": first, "last_offset": last, "reason": "a reason"}
    return pl.DataFrame([row], schema={**LOCATION, **DAMAGE})


def sends(*rows):
    """Rows `value@offset`, acknowledged; `value@` without offset; `value@3?` not acknowledged."""
    out = []
    for place, row in enumerate(rows):
        value, _, offset = row.rstrip("?").partition("@")
        value, _, key = value.partition("/")
        out.append(
            {
                "value": None if value == "-" else value,
                "key": key or None,
                "offset": int(offset) if offset else None,
                "acknowledged": not row.endswith("?"),
                "invoked": place,
                "completed": place + 1,
                "place": place,
                "acks": "all",
            }
        )
    return complete_sends(
        pl.DataFrame(out, schema_overrides={"offset": pl.Int64, "key": pl.String, "value": pl.String})
    )


def of(tables, **options):
    return replica_logs_of("orders", 0, tables, **options)


DIVERGENT = [
    ("the same", "1: 0a 1b\n2: 0a 1b", []),
    ("one is behind", "1: 0a 1b 2c\n2: 0a", []),
    ("no offset is shared", "1: 0a 1b\n2: 5f 6g", []),
    ("another value", "1: 0a 1b\n2: 0a 1x@1", [(1, 1)]),
    ("the same value of another epoch", "1: 0a 1b\n2: 0a 1b@1", [(1, 1)]),
    ("a run, then agreement again", "1: 0a 1b 2c 3d@2\n2: 0a 1x@1 2y@1 3d@2", [(1, 2)]),
    ("two runs", "1: 0a 1b 2c@1 3d\n2: 0x@1 1b 2c@1 3y@2", [(0, 0), (3, 3)]),
    ("compacted on one side alone", "1: 0k=a 2k=c\n2: 2k=c", []),
    ("a run over a gap of compaction", "1: 0a 4b 5c\n2: 0x@1 4y@1 5c", [(0, 4)]),
    ("a marker against a record", "1: 0a 1!\n2: 0a 1b@1", [(1, 1)]),
    ("three replicas, one apart", "1: 0a 1b\n2: 0a 1x@1\n3: 0a 1x@1", [(1, 1)]),
]


@pytest.mark.parametrize(("name", "text", "ranges"), DIVERGENT, ids=[case[0] for case in DIVERGENT])
def test_divergence_is_a_run_of_offsets_with_different_records(name, text, ranges):
    found = judge_divergence(of(logs(text)), sends()).findings
    assert [(f.first_offset, f.last_offset) for f in found] == ranges, name


def test_an_uncommitted_tail_is_a_note():
    [finding] = judge_divergence(of(logs("1: 0a 1b\n2: 0a 1x@1")), sends("x@1")).findings
    assert finding.severity == "note"
    assert finding.values == []


def test_a_retry_at_the_offset_of_a_dead_leader_s_copy_is_a_note():
    """Only the copy of the later epoch was acknowledged, though both stand at the offset that was told."""
    [finding] = judge_divergence(of(logs("1: 0a 1b\n2: 0a 1b@1")), sends("b@1")).findings
    assert (finding.severity, finding.values) == ("note", [])


@pytest.mark.parametrize(
    ("marks", "known", "unknown"),
    [((), (), 1), ((), ("x@1",), 0), ((("high-watermark", "1", 1), ("high-watermark", "2", 2)), (), 0)],
)
def test_without_history_and_high_watermark_committed_records_are_unknown(marks, known, unknown):
    tables = {**logs("1: 0a 1b\n2: 0a 1x@1"), "checkpoints": checkpoints(*marks)}
    judged = judge_divergence(of(tables), sends(*known))
    assert ([f.severity for f in judged.findings], len(judged.unknowns)) == (["note"], unknown)


@pytest.mark.parametrize(
    "proof",
    [
        {"sends": sends("b@1", "x@1")},
        {"sends": complete_sends(sends("b@1?").with_columns(read=pl.lit(True)))},
        {"checkpoints": checkpoints(("high-watermark", "1", 2))},
    ],
    ids=["acknowledged", "read", "below the high watermark"],
)
def test_a_committed_record_on_the_losing_side_is_a_breach(proof):
    tables = {**logs("1: 0a 1b\n2: 0a 1x@1"), "checkpoints": proof.get("checkpoints", checkpoints())}
    [finding] = judge_divergence(of(tables), proof.get("sends", sends())).findings
    assert finding.severity == "violation"
    assert finding.replicas == ["1", "2"]
    assert finding.values == (["b"] if "sends" in proof else [])


def test_snapshots_are_judged_one_by_one():
    tables = joined(logs("1: 0a 1b\n2: 0a 1x@1", "before"), logs("1: 0a 1x@1\n2: 0a 1x@1"))
    [finding] = judge_divergence(of(tables, snapshots=("before", "")), sends("b@1")).findings
    assert (finding.snapshot, finding.severity, finding.values) == ("before", "violation", ["b"])


def together(sent):
    """The sends as one transaction, whose completion is one line."""
    return sent.with_columns(place=pl.lit(0, pl.Int64), completed=pl.lit(9, pl.Int64))


ABSENT = [
    ("all there", "1: 0a 1b", ["a@0", "b@1"], {"leader": "1"}, []),
    ("gone everywhere", "1: 0a\n2: 0a", ["a@0", "b@1", "c@2"], {"leader": "1"}, [(1, 2, 2)]),
    ("replaced", "1: 0a 1x@1", ["a@0", "b@1", "x@1"], {"leader": "1"}, [(1, 1, 1)]),
    ("only on a follower", "1: 0a\n2: 0a 1b", ["a@0", "b@1"], {"leader": "1"}, [(1, 1, 1)]),
    ("at another offset", "1: 0a 5b", ["b@1"], {"leader": "1"}, []),
    ("not acknowledged", "1: 0a", ["b@1?"], {"leader": "1"}, []),
    ("without an offset", "1: 0a", ["b@"], {"leader": "1"}, [(None, None, 1)]),
    ("below the log start", "1: 3d", ["a@0", "d@3"], {"leader": "1", "log_start": 3}, []),
    ("below the log start, and one gone", "1: 3d", ["a@0", "d@3", "e@4"], {"leader": "1", "log_start": 3}, [(4, 4, 1)]),
    ("compacted by a newer record", "1: 1k=b", ["a/k@0", "b/k@1"], {"leader": "1", "compacted": True}, []),
    ("compacted, its tombstone too", "1: 5j=z", ["a/k@0", "-/k@1"], {"leader": "1", "compacted": True}, []),
    ("the newest of its key", "1: 1j=b", ["a/k@0", "b/j@1"], {"leader": "1", "compacted": True}, [(0, 0, 1)]),
    ("cleaned, keys unknown", "1: 9k=z", ["a@3"], {"leader": "1", "compacted": True, "cleaned": 5}, []),
]


@pytest.mark.parametrize("in_one_transaction", [False, True])
@pytest.mark.parametrize(("name", "text", "sent", "about", "expected"), ABSENT, ids=[case[0] for case in ABSENT])
def test_absent_is_what_was_acknowledged_and_stands_nowhere_it_should(
    name, text, sent, about, expected, in_one_transaction
):
    about = dict(about)
    points = [("log-start", "1", about.pop("log_start"))] if "log_start" in about else []
    points += [("cleaned", "1", about.pop("cleaned"))] if "cleaned" in about else []
    acked = together(sends(*sent)) if in_one_transaction else sends(*sent)
    judged = judge_absence(of({**logs(text), "checkpoints": checkpoints(*points)}, **about), acked)
    found = [(f.first_offset, f.last_offset, f.count) for f in judged.findings]
    assert found == expected, name
    assert judged.unknowns == ()


def test_without_the_leader_s_log_absence_is_unknown():
    judged = judge_absence(of(logs("1: 0a\n2: 0a"), replicas=("1", "2", "3")), sends("a@0", "b@1"))
    assert judged.findings == ()
    [why] = judged.unknowns
    assert "last leader is not known" in why


def test_all_assigned_replicas_are_enough_without_a_leader():
    judged = judge_absence(of(logs("1: 0a\n2: 0a"), replicas=("1", "2")), sends("a@0", "b@1"))
    assert [f.values for f in judged.findings] == [["b"]]


def test_what_a_damaged_range_may_hold_is_unknown():
    tables = {**logs("1: 0a 2c"), "damage": damage("crc", first=1, last=1)}
    judged = judge_absence(of(tables, leader="1"), sends("a@0", "b@1", "c@2"))
    assert judged.findings == ()
    assert len(judged.unknowns) == 1


def test_logs_that_lack_what_the_final_reads_hold_say_nothing_of_what_is_behind_them():
    sent = sends("a@0", "b@1", "c@2", "d@3").with_columns(held=pl.col("value") == "d")
    judged = judge_absence(of(logs("1: 0a 1x"), leader="1"), sent)
    assert [f.values for f in judged.findings] == [["b"]]
    [why] = judged.unknowns
    assert "copied before the run ended" in why


def test_an_early_snapshot_proves_nothing_about_later_sends():
    tables = logs("1: 0a", "early")
    judged = judge_absence(of(tables, snapshots=("early",), times={"early": 2}, leader="1"), sends("a@0", "b@1"))
    assert judged.findings == ()


def test_epochs_must_not_decrease():
    [finding] = judge_epochs(of(logs("1: 0a@1 1b@2 2c@1")), sends()).findings
    assert (finding.rule, finding.first_offset) == ("epoch-order", 2)


def claims(*led):
    """What brokers log of themselves: second, broker, epoch, offset, and the topic's id or None."""
    events = []
    for second, broker, epoch, offset, topic_id in led:
        known = f"with topic id Some({topic_id}) " if topic_id else ""
        line = f"[2027-01-15 08:00:{second:02d},000] INFO [Broker id={broker}] Leader orders-0 {known}starts at leader "
        line += f"epoch {epoch} from offset {offset} with high watermark 0 ISR [1] addingReplicas []. "
        line += "Previous leader epoch was 0. (state.change.logger)"
        events.append(located(parse_log(line), "", broker, f"brokers/{broker}/state-change.log"))
    return {"log_events": pl.concat(events)}


@pytest.mark.parametrize(
    ("led", "both"),
    [
        ([(1, "1", 3, 20, "x"), (2, "2", 3, 21, "x")], ["1", "2"]),
        ([(1, "1", 0, 0, "x"), (2, "2", 0, 0, "x")], ["1", "2"]),
        ([(1, "1", 3, 20, None), (2, "2", 3, 21, None)], ["1", "2"]),
        ([(1, "1", 3, 20, "x"), (2, "1", 3, 25, "x"), (3, "2", 4, 25, "x")], None),
        ([(1, "1", 3, 20, "x"), (2, "2", 3, 0, "y")], None),
        ([(1, "1", 0, 0, None), (2, "2", 0, 0, None)], None),
        ([(1, "1", 1, 0, None), (2, "1", 2, 9, None), (3, "2", 0, 0, None), (4, "2", 1, 5, None)], None),
    ],
    ids=[
        "two",
        "at the first",
        "without ids",
        "one that restarts",
        "made again",
        "perhaps made again",
        "epochs go back",
    ],
)
def test_one_broker_leads_a_leader_epoch(led, both):
    found = judge_epochs(of({**logs("1: 0a"), **claims(*led)}), sends()).findings
    assert [f.replicas for f in found] == ([both] if both else [])
    assert all(len(f.evidence) == 2 for f in found)


@pytest.mark.parametrize(
    ("entries", "ranges"),
    [
        ([(0, 0), (1, 2)], []),
        ([(0, 0), (1, 2), (2, 4)], []),
        ([(0, 0)], []),
        ([(1, 2)], []),
        ([(0, 0), (1, 1)], [(1, 1)]),
        ([(0, 0), (3, 2)], [(2, 3)]),
    ],
    ids=["agrees", "entry at the end", "older than the log", "begins later", "too early", "another epoch"],
)
def test_the_epoch_file_must_agree_with_the_log(entries, ranges):
    tables = {**logs("1: 0a 1b 2c@1 3d@1"), "epochs": epochs("1", *entries)}
    found = judge_epochs(of(tables), sends()).findings
    assert [(f.first_offset, f.last_offset) for f in found] == ranges


@pytest.mark.parametrize(
    ("name", "offset", "breach"),
    [
        ("high-watermark", 2, False),
        ("high-watermark", 3, True),
        ("recovery-point", 3, True),
        ("log-start", 3, True),
    ],
)
def test_no_checkpoint_is_ahead_of_its_log(name, offset, breach):
    tables = {**logs("1: 0a 1b"), "checkpoints": checkpoints((name, "1", offset))}
    found = judge_checkpoints(of(tables), sends()).findings
    assert [f.severity for f in found] == (["violation"] if breach else [])


def test_a_checkpoint_copied_after_its_running_log_is_a_note():
    tables = joined(logs("1: 0a 1b", "live"), logs("1: 0a 1b 2c 3d"))
    tables["checkpoints"] = checkpoints(("live", "high-watermark", "1", 3), ("", "high-watermark", "1", 4))
    [finding] = judge_checkpoints(of(tables, snapshots=("live", "")), sends()).findings
    assert finding.severity == "note"


def test_a_high_watermark_must_not_go_back():
    tables = joined(logs("1: 0a 1b 2c", "one"), logs("1: 0a 1b 2c"))
    tables["checkpoints"] = checkpoints(("one", "high-watermark", "1", 3), ("", "high-watermark", "1", 1))
    [finding] = judge_checkpoints(of(tables, snapshots=("one", "")), sends()).findings
    assert (finding.first_offset, finding.last_offset, finding.severity) == (1, 2, "violation")


def test_the_order_of_two_undated_snapshots_is_unknown():
    tables = joined(logs("1: 0a 1b 2c", "after"), logs("1: 0a", "before"), logs("1: 0a 1b 2c"))
    marks = ("after", "high-watermark", "1", 3), ("before", "high-watermark", "1", 1), ("", "high-watermark", "1", 3)
    tables["checkpoints"] = checkpoints(*marks)
    judged = judge_checkpoints(of(tables, snapshots=("after", "before", "")), sends())
    assert judged.findings == ()
    assert len(judged.unknowns) == 1
    times = {"before": 1, "after": 2}
    dated = judge_checkpoints(of(tables, snapshots=("before", "after", ""), times=times), sends())
    assert (dated.findings, dated.unknowns) == ((), ())


def test_an_undated_snapshot_proves_nothing_about_acknowledged_records():
    tables = logs("1: 0a", "before")
    judged = judge_absence(of(tables, snapshots=("before", "")), sends("b@1"))
    assert judged.findings == ()
    assert len(judged.unknowns) == 1


@pytest.mark.parametrize(
    ("row", "severity"),
    [
        (damage("crc", first=3, last=4, byte=77), "violation"),
        (damage("magic", first=3, last=4), "violation"),
        (damage("torn-tail", first=3), "note"),
        (damage("zeros", first=3), "note"),
        (damage("zeros", first=3, last=4), "violation"),
    ],
)
def test_corruption_is_a_breach_and_a_torn_tail_a_note(row, severity):
    [finding] = judge_segments(of({**logs("1: 0a"), "damage": row}), sends()).findings
    assert finding.severity == severity
    assert finding.evidence[0].byte == row["byte"][0]


def test_an_unreadable_file_is_unknown():
    judged = judge_segments(of({**logs("1: 0a"), "damage": damage("unreadable")}), sends())
    assert (len(judged.findings), len(judged.unknowns)) == (0, 1)


def test_offsets_must_rise_within_a_log():
    found = judge_segments(of(logs("1: 0a 2c 1b 3d")), sends()).findings
    assert [(f.rule, f.first_offset) for f in found] == [("log-corruption", 1)]


LOG = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 1)), max_size=5)


def as_text(broker, log, skipped=()):
    ordered = sorted(log, key=lambda entry: entry[1])
    return f"{broker}: " + " ".join(f"{i}{v}@{e}" for i, (v, e) in enumerate(ordered) if i not in skipped)


@given(LOG, LOG, LOG, st.sets(st.integers(0, 4)))
@settings(max_examples=150, deadline=None)
def test_divergence_is_what_a_comparison_of_each_offset_finds(one, two, three, skipped):
    text = "\n".join([as_text("1", one), as_text("2", two, skipped), as_text("3", three)])
    tables = logs(text)
    by_offset = {}
    for row in tables["records"].iter_rows(named=True):
        by_offset.setdefault(row["offset"], {})[row["broker"]] = (row["value"], row["leader_epoch"])
    expected = {o for o, held in by_offset.items() if len(held) > 1 and len(set(held.values())) > 1}
    found = set()
    for finding in judge_divergence(of(tables), sends()).findings:
        inside = {o for o, held in by_offset.items() if len(held) > 1}
        covered = {o for o in inside if finding.first_offset <= o <= finding.last_offset}
        assert not covered & found
        found |= covered
    assert found == expected


@given(LOG, LOG, st.sets(st.integers(0, 6)), st.sampled_from(["1", "2"]), st.integers(0, 3), st.booleans())
@settings(max_examples=150, deadline=None)
def test_absent_is_what_a_search_of_each_log_finds(one, two, gone, leader, start, in_one_transaction):
    # Values are unique in an acknowledged history: number them by broker and offset, sharing a prefix.
    texts = []
    for broker, log in (("1", one), ("2", two)):
        remaining = [i for i in range(len(log)) if not (broker == "2" and i in gone)]
        texts.append(f"{broker}: " + " ".join(f"{i}v{i}" for i in remaining))
    tables = logs("\n".join(texts))
    if not tables["batches"].filter(pl.col("broker") == leader).height:
        return
    acked = sends(*(f"v{i}@{i}" for i in range(6)))
    held = tables["records"].filter(pl.col("broker") == leader)["value"].to_list()
    tables["checkpoints"] = checkpoints(("log-start", leader, start))
    expected = {f"v{i}" for i in range(start, 6)} - set(held)
    judged = judge_absence(of(tables, leader=leader), together(acked) if in_one_transaction else acked)
    values = [value for finding in judged.findings for value in finding.values]
    assert sorted(values) == sorted(expected)
