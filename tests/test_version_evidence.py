"""What shows the order of two versions: a finding names the read, and a lost update is one incident with its cycle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from logjudge.analysis.figures import merge_figures
from logjudge.analysis.incidents.joining import findings_in, incidents_of
from logjudge.analysis.results import Results
from logjudge.plots import PLOTS, draw
from test_elle import judged
from test_elle_examples import history_of

# Two transactions that overlap and write both keys, before others read them.
LISTS = ("0 ax1ay1", "1 ax2ay2")
# Two transactions write both registers. One process reads x before and after a change, another one y.
_READS = (("2", "x", 1), ("2", "x", 2), ("3", "y", 2), ("3", "y", 1))
_WRITES = history_of("0 wx1wy1", "1 wx2wy2", is_register=True)
READ_IN_ORDER = [
    *_WRITES[:2],
    *(
        f"{{:type :{kind}, :f :txn, :value [[:r :{key} {value if kind == 'ok' else 'nil'}]], :process {process}}}"
        for process, key, value in _READS
        for kind in ("invoke", "ok")
    ),
    *_WRITES[2:],
]


def finding_of(results: Results) -> dict[str, Any]:
    (finding,) = results.findings().to_dicts()
    return finding


def evidence_of(results: Results) -> list[tuple[int, str]]:
    """The line of each item of evidence, and its sentence up to the steps of the transaction."""
    return [(item["line"], item["says"].split("; it ")[0]) for item in finding_of(results)["evidence"]]


def test_a_read_of_both_elements_shows_the_order_of_two_appends(tmp_path: Path) -> None:
    results = judged(tmp_path, history_of(*LISTS, ">2 rx12", "3 ry21"))
    assert finding_of(results)["rule"] == "G0"
    assert evidence_of(results) == [
        (3, "process 0: T1 appended 1 to key :x, before T2 appended 2 (process 2 read both in this order)"),
        (4, "process 1: T2 appended 2 to key :y, before T1 appended 1 (process 3 read both in this order)"),
        (7, "process 2: it shows 1 before 2, of key :x"),
        (8, "process 3: it shows 2 before 1, of key :y"),
    ]


def test_a_read_without_an_element_shows_that_it_was_appended_later(tmp_path: Path) -> None:
    results = judged(tmp_path, history_of(*LISTS, "2 rx1ry2"))
    assert evidence_of(results) == [
        (4, "process 0: T1 appended 1 to key :x, before T2 appended 2 (process 2 read 1 without 2)"),
        (5, "process 1: T2 appended 2 to key :y, before T1 appended 1 (process 2 read 2 without 1)"),
        (6, "process 2: it shows 1 before 2, of key :x"),
    ]


def test_a_transaction_of_the_cycle_that_read_both_has_its_name(tmp_path: Path) -> None:
    results = judged(tmp_path, history_of("0 ax1ay1", "1 ax2rx12ay2", ">3 ry21"))
    sentences = results.findings()["sentence"].to_list()
    assert any("before T2 appended 2 (T2 read both in this order)" in sentence for sentence in sentences), sentences


def test_an_assumption_names_the_transactions_that_show_the_order_of_registers(tmp_path: Path) -> None:
    replaced = judged(tmp_path, history_of("0 wx1", ">1 rx1wx2ry_", "2 rx1wy1", is_register=True), keys=("wfr",))
    sentence = finding_of(replaced)["sentence"]
    assert "T2 read 1 of key :x, before T1 wrote 2 (T1 read 1 and replaced it)" in sentence
    assert "read the initial state of key :y, before T2 wrote 1 (the initial state comes first)" in sentence
    one_by_one = judged(tmp_path, READ_IN_ORDER, keys=("sequential",))
    assert evidence_of(one_by_one) == [
        (11, "process 0: T1 wrote 1 to key :x, before T2 wrote 2 (process 2 left it with 1 and later used 2)"),
        (12, "process 1: T2 wrote 2 to key :y, before T1 wrote 1 (process 3 left it with 2 and later used 1)"),
        (4, "process 2: it shows 1 before 2, of key :x"),
        (6, "process 2: it shows 1 before 2, of key :x"),
        (8, "process 3: it shows 2 before 1, of key :y"),
        (10, "process 3: it shows 2 before 1, of key :y"),
    ]
    others = [
        line.replace(":process 3", ":process 4") if number > 7 else line for number, line in enumerate(READ_IN_ORDER)
    ]
    in_real_time = judged(tmp_path, others, keys=("linearizable",))
    assert "(process 3 left it with 2, process 4 later used 1)" in finding_of(in_real_time)["sentence"]
    assert not len(judged(tmp_path, others, keys=("sequential",)).findings())


def test_a_lost_update_is_one_incident_with_its_cycle_and_another_cycle_stays_apart(tmp_path: Path) -> None:
    updates = ("0 rxax1", "1 rxax2", "2 rxax3", ">3 rx321")
    results = judged(tmp_path, history_of(*updates, ">4 aa1rb", "5 ab1ra"))
    lost, other = incidents_of(findings_in(results.findings()), [])
    assert lost.findings == ("lost-update/0", "G-single-item/1")
    assert lost.headline.endswith("(so did 1 more); G-single-item of the same transactions")
    assert other.findings == ("G2-item/2",)
    related = {row["rule"]: row["related"] for row in results.findings().to_dicts()}
    assert related == {"lost-update": [], "G-single-item": ["lost-update/0"], "G2-item": []}


def test_two_lost_updates_of_different_transactions_are_two_incidents(tmp_path: Path) -> None:
    results = judged(tmp_path, history_of("0 rxax1", "1 rxax2", ">2 ryay1", "3 ryay2"))
    incidents = incidents_of(findings_in(results.findings()), [])
    assert [one.findings for one in incidents] == [("lost-update/0", "G2-item/2"), ("lost-update/1", "G2-item/3")]


def test_the_drawn_cycle_names_the_reads_within_the_sheet(tmp_path: Path) -> None:
    results = judged(
        tmp_path,
        history_of(*(text.replace("1", "1234567890") for text in LISTS), ">2 rx[1234567890 2]", "3 ry[2 1234567890]"),
    )
    figures = merge_figures(results.records, results.context, results.run.settings)
    (subject,) = PLOTS["cycles"].subjects(figures)
    figure = draw("cycles", figures, subject)
    figure.canvas.draw()
    (axis, *_) = figure.axes
    texts = [text for text in axis.texts if "read both" in text.get_text()]
    assert len(texts) == 2
    for text in texts:
        box = text.get_window_extent()
        assert 0 <= box.x0 < box.x1 <= figure.bbox.width
        assert 0 <= box.y0 < box.y1 <= figure.bbox.height
