"""The data of the pictures of replicas and leadership, and that hostile and huge ones can be drawn."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.figures import merge_figures
from logjudge.histories.bundle import open_run
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.histories.simulation.scenarios import load
from logjudge.plots import PLOTS, draw, replicas, style, swimlane
from matplotlib.colors import to_hex

Unpack = Callable[[str], Path]


def figures_of(root: Path) -> dict[str, Any]:
    results = judge_run(open_run(root))
    figures = merge_figures(results.summaries, results.context, results.run.settings)
    return json.loads(json.dumps(figures))  # type: ignore[no-any-return]


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
    assert swimlane._down({"lives": lives, "isr": []}, "1", 0, 10) == [(1, 3)]
    assert swimlane._down({"lives": lives, "isr": []}, "2", 0, 10) == [(6, 10)]


def test_a_log_went_as_far_as_the_high_watermark_of_a_dead_broker_and_is_cut_where_it_is_shorter() -> None:
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
    assert swimlane.path_of(facts, "1", ends) == [
        (0, 980, "seen"),
        (5, 1507, "reached"),
        (5, 1115, "cut"),
        (8, 1115, "seen"),
        (9, 1115, "seen"),
    ]
    assert swimlane.path_of(facts, "2", ends) == [(9, 7, "seen")]
    assert swimlane.path_of(facts, "3", ends) == []


def test_a_broker_has_one_colour_and_its_cut_is_named(unclean: dict[str, Any]) -> None:
    _, lanes, ends = draw("swimlane", unclean, {"partition": "orders-0"}).axes
    assert "truncated to 477" in [text.get_text() for text in ends.texts]
    logs = {line.get_label(): line.get_color() for line in ends.lines}
    led = {(round(bar.get_y() + bar.get_height() / 2), to_hex(bar.get_facecolor())) for bar in lanes.patches}
    assert {(-1, logs["broker 2"]), (-2, logs["broker 3"])} <= led


def test_labels_of_replicas_do_not_collide() -> None:
    def broker(name: str, end: int, mark: int, *blocks: list[Any]) -> dict[str, Any]:
        return {"broker": name, "start": 0, "end": end, "high_watermark": mark, "blocks": list(blocks)}

    one = broker("1", 833, 828, [0, 634, None, None], [635, 832, None, "1"])
    other = broker("2", 1453, 1452, [0, 634, None, None], [635, 832, None, "2"], [833, 1452, None, None])
    logs = [{"name": "s", "time": 57 * 10**9, "brokers": [one, other], "differ": [[635, 832]]}]
    drawn = {"logs": logs, "leader": "2", "terms": [], "cuts": [[60 * 10**9, "1", 828, 833]]}
    figure = replicas.draw({"partitions": [{"name": "orders-0", "lost": 198, "replicas": drawn}]}, "orders-0")
    figure.draw_without_rendering()
    boxes = [
        text.get_window_extent() for text in figure.axes[0].texts if text.get_text().startswith(("truncated", "high"))
    ]
    assert len(boxes) == 3
    assert not any(one.overlaps(two) for number, one in enumerate(boxes) for two in boxes[:number])


def test_two_leaders_of_one_epoch_are_drawn(tmp_path: Path) -> None:
    figures = figures_of(write_bundle(load("zombie-controller"), tmp_path / "run").folder)
    replicas = figures["partitions"][0]["replicas"]
    first, second, third, last = replicas["terms"]
    # The same broker led on in epochs 1 and 2, until its session ended.
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
