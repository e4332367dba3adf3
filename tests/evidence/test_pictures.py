"""The data of the pictures of replicas and leadership, and that hostile and huge ones can be drawn."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from figure_cases import SECOND, figures_of
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.histories.simulation.scenarios import load
from logjudge.plots import PLOTS, draw, leadership, log_ends, replicas, style, swimlane
from matplotlib.colors import to_hex

Unpack = Callable[[str], Path]


@pytest.fixture(scope="module")
def unclean(unpacked: Unpack) -> dict[str, Any]:
    return figures_of(unpacked("unclean-election-m"))


def test_the_logs_of_a_recorded_run(unclean: dict[str, Any]) -> None:
    (part,) = unclean["partitions"]
    assert part["causes"] == [[477, 1085, "unclean-election"]]
    before = part["replicas"]["logs"][0]
    assert (before["name"], before["differ"]) == ("before-rejoin", [[477, 1085]])
    blocks = {broker["broker"]: broker["blocks"] for broker in before["brokers"]}
    assert blocks["3"][:2] == [[0, 476, 0, None], [477, 1085, 0, "3"]]
    assert blocks["1"][1] == [477, 1085, 2, "1"]
    assert [cut[1:] for cut in part["replicas"]["cuts"]] == [["3", 477, 1086]]
    assert [(t["epoch"], t["leader"], t["start"], t["how"]) for t in part["replicas"]["terms"]][-1] == (
        *(2, "2", 477),
        "unclean election",
    )
    assert part["replicas"]["logs"][-1]["differ"] == []


def test_a_fenced_broker_is_out_of_sync_unless_it_was_the_last(unclean: dict[str, Any]) -> None:
    """The controller logged that it fenced 1 and 2, then 3, and no ISR between the first election and the unclean."""
    (part,) = unclean["partitions"]
    in_sync = [set(brokers) for _, brokers in part["replicas"]["isr"]]
    assert in_sync[in_sync.index({"1", "2", "3"}) :][:4] == [{"1", "2", "3"}, {"1", "3"}, {"3"}, {"2"}]


def test_titles_describe_the_figure(unclean: dict[str, Any]) -> None:
    (subject,) = replicas.subjects(unclean)
    title = draw("replicas", unclean, subject).get_suptitle()
    lost = "orders-0: 609 acknowledged records lost"
    where = "differ at offsets 477 to 1085; later reconciled by truncation"
    assert " ".join(title.split()) == f"{lost}: brokers 1, 2 and broker 3 {where}"
    title = draw("swimlane", unclean, subject).get_suptitle()
    assert title == "orders-0: 609 acknowledged records lost: unclean election of broker 2 in epoch 2"


def test_a_broker_is_away_from_its_fencing_to_its_unfencing() -> None:
    lives = [[1, "1", "died"], [3, "1", "unfenced"], [4, "1", "started"], [6, "2", "died"], [12, "1", "died"]]
    assert leadership.down_times({"lives": lives, "isr": []}, "1", 0, 10) == [(1, 3)]
    assert leadership.down_times({"lives": lives, "isr": []}, "2", 0, 10) == [(6, 10)]


def test_a_log_reached_the_high_watermark_of_a_dead_broker_and_is_cut_where_it_is_shorter() -> None:
    ends = [
        [0, "1", 980, "snapshot"],
        [0, "1", 990, "high-watermark"],  # of a broker that runs: copied later than its log
        [5, "1", 1115, "snapshot"],
        [5, "1", 1507, "high-watermark"],
        [8, "1", 1115, "corruption"],  # nothing was left to cut
        [9, "1", 1115, "loaded"],
        [9, "2", 7, "truncated"],
    ]
    facts = {"lives": [[4, "1", "died"], [6, "1", "started"]], "isr": []}
    assert log_ends.path_of(facts, "1", ends) == [
        (0, 980, "seen"),
        (5, 1507, "reached"),
        (5, 1115, "cut"),
        (8, 1115, "seen"),
        (9, 1115, "seen"),
    ]
    assert log_ends.path_of(facts, "2", ends) == [(9, 7, "seen")]
    assert log_ends.path_of(facts, "3", ends) == []


def test_a_broker_has_one_colour_and_its_cut_is_named(unclean: dict[str, Any]) -> None:
    _, lanes, ends = draw("swimlane", unclean, {"partition": "orders-0"}).axes
    assert "1086 → 477" in [text.get_text() for text in ends.texts]
    logs = {line.get_label(): line.get_color() for line in ends.lines}
    led = {(round(bar.get_y() + bar.get_height() / 2), to_hex(bar.get_facecolor())) for bar in lanes.patches}
    assert {(-1, logs["broker 2"]), (-2, logs["broker 3"])} <= led


WHOLE = {"span": [0, 60 * SECOND]}


def _drawn(terms: list[tuple[int, str, float]], span: tuple[int, int] = (0, 60), **evidence: Any) -> dict[str, Any]:
    """Figures of orders-0 with these terms (epoch, leader, seconds); `span`: the seconds with clients' operations."""
    led = [
        {"epoch": epoch, "leader": name, "time": int(time * SECOND), "start": 0, "unclean": False, "ended": None}
        for epoch, name, time in terms
    ]
    known = {"brokers": ["1", "2"], "leader": terms[-1][1], "isr": [], "lives": [], "cuts": [], "ends": [], "logs": []}
    facts = {**known, "terms": [{**term, "rivals": []} for term in led], **evidence}
    part = {"name": "orders-0", "lost": 0, "violations": 0, "causes": [], "replicas": facts, "offsets": None}
    times = [second * SECOND for second in span]
    return {"partitions": [part], "span": times, "faults": [], "started_at": "2026-01-01T00:00:00Z"}


def _title(plot: str, figures: dict[str, Any]) -> str:
    return " ".join(draw(plot, figures, {"partition": "orders-0"}).get_suptitle().split())


def test_a_swimlane_counts_the_changes_that_it_draws_and_begins_with_its_topic() -> None:
    figures = _drawn([(0, "1", 20), (1, "2", 61)])
    title = "orders-0: no change of leader or epoch; 1 after the last operation, not drawn"
    assert _title("swimlane", figures) == title
    low, high = swimlane.span_of(figures, figures["partitions"][0]["replicas"], [])
    assert (low // SECOND, high // SECOND) == (19, 60)
    figures = _drawn([(0, "1", 20), (1, "2", 40), (2, "1", 61)])
    title = "orders-0: 1 change of leader or epoch, none unclean; 1 after the last operation, not drawn"
    assert _title("swimlane", figures) == title


def test_a_log_end_goes_on_to_the_end_of_the_run() -> None:
    logs = [{"name": None, "time": None, "brokers": [{"broker": "1", "end": 684}, {"broker": "2", "end": 684}]}]
    ends = [[second * SECOND, "1", end, "snapshot"] for second, end in ((21, 0), (22, 90))]
    figure = draw("swimlane", _drawn([(0, "1", 20)], logs=logs, ends=ends), {"partition": "orders-0"})
    names = {line.get_label(): line for line in figure.axes[-1].lines}
    assert {"broker 1", "broker 2"} <= set(names)
    last = [line.get_ydata()[-1] for line in figure.axes[-1].lines if len(line.get_ydata()) > 1]
    assert last.count(684) == 1
    assert figure.axes[-1].get_ylim()[1] > 684
    assert figure.axes[-1].get_xticklabels()[-1].get_text() == "end of\nthe run"


def test_lost_records_are_drawn_where_and_when_they_were_acknowledged() -> None:
    ends = [[40 * SECOND, "1", 380, "loaded"]]
    figures = _drawn([(0, "1", 20), (1, "1", 40)], ends=ends)
    rows = [[380, 467, "lost-write", "violation", "F1"], [468, 470, "lost-write", "violation", "F2"]]
    figures["partitions"][0]["offsets"] = {"findings": [*rows, [100, 470, "poll-skip", "violation", "F3"]]}
    undated = {"from": None, "to": None, "acked_from": None, "acked_to": None}
    dated = {**undated, "acked_from": 30 * SECOND, "acked_to": 35 * SECOND}
    figures["times"] = {"F1": dated, "F2": undated}
    axis = draw("swimlane", figures, {"partition": "orders-0"}).axes[-1]
    drawn = [(*map(float, line.get_xdata()), *line.get_ydata()) for line in axis.lines if line.get_linewidth() == 6]
    assert drawn == [(30, 35, 380, 467), ()]  # the second is the legend's
    assert axis.get_xlim()[0] < 30
    assert axis.get_ylim()[1] > 467
    assert "acknowledged, then lost" in [text.get_text() for text in axis.get_legend().get_texts()]


def test_the_offset_of_truncations_at_one_time_is_written_once() -> None:
    ends = [[time * SECOND, name, end, kind] for time, name, end, kind in (
        (1, "1", 900, "loaded"), (1, "2", 900, "loaded"), (3, "3", 950, "loaded"),
        (30, "1", 403, "truncated"), (30, "2", 403, "truncated"), (31, "3", 410, "truncated"),
    )]  # fmt: skip
    figures = _drawn([(0, "1", 0)], ends=ends, brokers=["1", "2", "3"])
    figure = draw("swimlane", figures, {"partition": "orders-0"})
    texts = [text for text in figure.axes[-1].texts if "→" in text.get_text()]
    assert sorted(text.get_text() for text in texts) == ["900 → 403", "950 → 410"]
    figure.draw_without_rendering()
    assert not texts[0].get_window_extent().overlaps(texts[1].get_window_extent())


def test_the_time_without_a_leader_is_drawn() -> None:
    lives = [[30 * SECOND, "1", "died"], [33 * SECOND, "1", "started"]]
    figures = _drawn([(0, "1", 0), (1, "2", 39)], lives=lives, isr=[[0, ["1", "2"]]])
    facts = figures["partitions"][0]["replicas"]
    led = leadership.leaders_between(facts, 0, 60 * SECOND)
    assert leadership.without_leader(led) == [(30 * SECOND, 39 * SECOND)]
    assert [leadership.leader_at(facts, second * SECOND) for second in (29, 31, 35, 40)] == ["1", None, None, "2"]
    legend = draw("swimlane", figures, {"partition": "orders-0"}).axes[1].get_legend()
    assert legend is not None
    drawn = [
        "leads (in its own colour)",
        "in the ISR",
        "in the ISR, but down",
        "down or fenced",
        "runs again",
        "no leader",
    ]
    assert [text.get_text() for text in legend.get_texts()] == drawn
    calm = _drawn([(0, "1", 0), (1, "2", 39)], isr=[[0, ["1", "2"]]])
    legend = draw("swimlane", calm, {"partition": "orders-0"}).axes[1].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["leads (in its own colour)", "in the ISR"]


def test_labels_of_replicas_do_not_collide() -> None:
    one = _broker("1", 833, [0, 634, None, None], [635, 832, None, "1"], mark=828)
    other = _broker("2", 1453, [0, 634, None, None], [635, 832, None, "2"], [833, 1452, None, None], mark=1452)
    logs = [{"name": "s", "time": 57 * SECOND, "brokers": [one, other], "differ": [[635, 832]]}]
    drawn = {"logs": logs, "leader": "2", "terms": [], "cuts": [[60 * SECOND, "1", 828, 833]]}
    figure = replicas.draw({**WHOLE, "partitions": [{"name": "orders-0", "lost": 198, "replicas": drawn}]}, "orders-0")
    figure.draw_without_rendering()
    texts = [text for text in figure.axes[0].texts if text.get_text().startswith(("after", "HW checkpoint"))]
    boxes = [text.get_window_extent() for text in texts]
    assert len(boxes) == 3
    assert not any(one.overlaps(two) for number, one in enumerate(boxes) for two in boxes[:number])


def _broker(name: str, end: int, *blocks: list[Any], mark: int | None = None) -> dict[str, Any]:
    return {"broker": name, "start": 0, "end": end, "high_watermark": mark, "blocks": list(blocks)}


def test_a_truncation_is_drawn_where_the_panels_show_it_best() -> None:
    """Before the first panel, a follower truncated its log and became the leader (KIP-101)."""
    one = _broker("1", 234, [0, 186, None, None], [187, 233, None, "1"])
    other = _broker("2", 553, [0, 186, None, None], [187, 233, None, "2"], [234, 552, None, None])
    end = [_broker(name, 555, [0, 554, None, None]) for name in ("1", "2")]
    logs = [
        {"name": "before-rejoin", "time": 31 * SECOND, "brokers": [one, other], "differ": [[187, 233]]},
        {"name": None, "time": None, "brokers": end, "differ": []},
    ]
    cuts = [[20 * SECOND, "2", 187, 232], [32 * SECOND, "1", 0, 234]]
    figures = _drawn([(0, "1", 0), (1, "2", 22)], logs=logs, cuts=cuts)
    first, last = draw("replicas", figures, {"partition": "orders-0"}).axes
    texts = {text.get_text() for text in first.texts}
    assert {"before: truncated from 232 to 187 at 20.0 s", "after: 234 → 0"} <= texts  # the latter has less room
    first.figure.draw_without_rendering()
    (frame,) = [patch for patch in first.patches + first.artists if to_hex(patch.get_edgecolor()) == style.RED]
    edges = [first.transData.transform((x, 0))[0] for x in (frame.get_x(), frame.get_x() + frame.get_width())]
    boxes = [text.get_window_extent() for text in first.texts if text.get_text().startswith(("before", "after"))]
    assert not [box for box in boxes for edge in edges if box.x0 < edge < box.x1]
    assert first.get_title("left") == "snapshot before-rejoin, 31.0 s: different records at offsets 187 to 233"
    assert not [text for text in last.texts if "truncated" in text.get_text()]
    legend = first.get_legend()
    assert legend is not None
    labels = [text.get_text() for text in legend.get_texts()]
    assert not [label for label in labels if "same" in label], labels  # only broker 2 has 234 to 552


def test_a_block_is_labelled_with_all_of_its_offsets_and_a_stopped_broker_does_not_lead() -> None:
    one = _broker("1", 408, [0, 402, 0, None], [403, 407, 0, "1"], mark=2000)
    other = _broker("2", 1818, [0, 402, 0, None], [403, 407, 1, "2"], [408, 1817, 1, None])
    logs = [{"name": "restored", "time": 33 * SECOND, "brokers": [one, other], "differ": [[403, 407]]}]
    figures = _drawn([(0, "2", 0), (2, "1", 30)], logs=logs, lives=[[32 * SECOND, "1", "died"]])
    (axis,) = draw("replicas", figures, {"partition": "orders-0"}).axes
    assert "epoch 1: 403–1817" in [text.get_text() for text in axis.texts]
    assert [text.get_text() for text in axis.get_yticklabels()] == ["broker 1", "broker 2"]
    assert "≈" in [text.get_text() for text in axis.texts]
    figures["partitions"][0].update(lost=544)
    logs[0]["differ"] = []
    assert _title("replicas", figures) == (
        "orders-0: 544 acknowledged records lost: broker 1's log ended at 408, below its own high watermark 2000"
    )


def test_two_leaders_of_one_epoch_are_drawn(tmp_path: Path) -> None:
    figures = figures_of(write_bundle(load("zombie-controller"), tmp_path / "run").folder)
    first, second, third, last = figures["partitions"][0]["replicas"]["terms"]
    # The same broker continued to lead in epochs 1 and 2, until its session ended.
    assert (first["ended"], second["ended"]) == (None, None)
    assert (third["ended"] // 1_000_000, third["rivals"]) == (8_400, [])
    assert (last["leader"], last["rivals"]) == ("1", [["2", 9_300_000_000]])
    assert draw("swimlane", figures, {"partition": "orders-0"}).get_suptitle() == (
        "orders-0: brokers 1 and 2 each led epoch 4"
    )


def test_hostile_names_are_drawn(unclean: dict[str, Any], tmp_path: Path) -> None:
    evil = "\x1b$\\frac<script>\u202e"
    figures = json.loads(json.dumps(unclean).replace('"3"', json.dumps(evil)))
    figures["partitions"][0]["name"] = evil
    figures["partitions"][0]["replicas"]["logs"][0]["name"] = evil
    for name in ("replicas", "swimlane", "offsets"):
        file = tmp_path / f"{name}.svg"
        style.save(draw(name, figures, {"partition": evil}), file)
        assert "<script>" not in file.read_text()
        assert "\x1b" not in file.read_text()


def test_without_brokers_there_is_nothing_to_draw(unclean: dict[str, Any]) -> None:
    figures = json.loads(json.dumps(unclean))
    figures["partitions"][0]["replicas"] = None
    assert replicas.subjects(figures) == swimlane.subjects(figures) == []
    name = figures["partitions"][0]["name"]
    for plot in ("replicas", "swimlane"):
        assert draw(plot, figures, {"partition": name}).get_axes()


def test_leaders_of_calm_partitions_are_drawn_too(unclean: dict[str, Any]) -> None:
    (part,) = json.loads(json.dumps(unclean))["partitions"]
    calm = [{**part, "name": f"orders-{n}", "lost": 0, "violations": 0} for n in range(5)]
    drawn = [subject["partition"] for subject in swimlane.subjects({"partitions": calm})]
    assert drawn == ["orders-0", "orders-1", "orders-2"]
    assert swimlane.subjects({"partitions": [*calm, part]}) == [{"partition": part["name"]}]


def test_files_of_brokers_alone_have_pictures(unpacked: Unpack, tmp_path: Path) -> None:
    (tmp_path / "brokers").symlink_to(unpacked("kip-101-c") / "brokers")
    figures = figures_of(tmp_path)
    assert [part["name"] for part in figures["partitions"]] == ["orders-0", "orders-1"]
    drawn = {name: plot.subjects(figures) for name, plot in PLOTS.items()}
    assert drawn["replicas"] == [{"partition": "orders-0"}, {"partition": "orders-1"}]
    assert drawn["swimlane"]
    for name, subjects in drawn.items():
        for subject in subjects[:1]:
            assert draw(name, figures, subject).get_axes()
    texts = {text.get_text() for text in draw("replicas", figures, {"partition": "orders-0"}).axes[0].texts}
    assert "before: truncated from 833 to 635 at 2026-11-21 09:52:05.127Z" in texts, texts


def test_the_times_below_operations_do_not_collide() -> None:
    moments = [second * SECOND for second in range(13)]
    operations = [
        {"process": "p0", "kind": "send", "text": f"p0-{n}", "outcome": "ok", "proof": True, "lost": False,
         "invoked": since, "completed": since + SECOND // 2}
        for n, since in enumerate(moments)
    ]  # fmt: skip
    window = {"id": "w", "rule": "lost-write", "partition": "orders-0", "first_offset": 1, "last_offset": 1}
    figures = _drawn([(0, "1", 0)]) | {"windows": [{**window, "operations": operations, "left_out": 0}]}
    figure = draw("around", figures, {"finding": "w"})
    style.lay_out(figure)
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in figure.axes[-1].get_xticklabels()]
    assert len(boxes) > 5
    assert min(two.x0 - one.x1 for one, two in pairwise(boxes)) > 8  # pixels: about a character
