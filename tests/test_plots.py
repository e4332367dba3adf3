"""The figures: what they draw of real runs, hostile names, and how big they get."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from figure_cases import REAL, judged
from hypothesis import example, given
from hypothesis import strategies as st
from logjudge.analysis.wording import duration
from logjudge.plots import PLOTS, around, draw, glance, heatmap, lag, offsets, style, time_axis, unread
from logjudge.plots.escaping import file_name, markdown
from logjudge.plots.layout import lay_out
from logjudge.plots.scale import scale_of
from logjudge.plots.time_axis import bands_of
from matplotlib.patches import StepPatch
from matplotlib.text import Text
from notation import parse


def figures_of(name: str) -> dict[str, Any]:
    return judged(next(path for path in REAL if path.name == name)).figures


def test_the_same_figure_is_the_same_bytes(tmp_path: Path) -> None:
    figures = figures_of("unclean-election-a")
    for ending in ("svg", "png"):
        for turn in ("one", "two"):
            style.save(draw("offsets", figures, {"partition": "orders-0"}), tmp_path / f"{turn}.{ending}")
        assert (tmp_path / f"one.{ending}").read_bytes() == (tmp_path / f"two.{ending}").read_bytes()


@pytest.mark.parametrize("title", ["short", "transactions (the longest 12 of 78)", "a longer title " * 4])
def test_a_title_never_runs_into_the_legend(title: str) -> None:
    with style.look():
        figure, (axis,) = style.sheet("sheet", [1], 3)
        axis.set_title(title)
        for label in ("committed", "aborted", "waits for a transaction", "last stable offset"):
            axis.plot([0, 1], [0, 1], label=label)
        style.legend(axis, ncols=4)
        lay_out(figure)
        figure.draw_without_rendering()
        (shown,) = [child for child in axis.get_children() if isinstance(child, Text) and child.get_text() == title]
        legend = axis.get_legend()
        assert legend is not None
        assert not shown.get_window_extent().overlaps(legend.get_window_extent())
        assert shown.get_window_extent().y1 < figure.bbox.y1


def test_glance_stacks_the_lost_writes_apart() -> None:
    layers = {label: rates for label, _, rates in glance.layers(figures_of("unclean-election-a"))}
    assert list(layers) == ["acknowledged, lost later: 753", "acknowledged: 2,246", "outcome unknown: 304"]
    axis = draw("glance", figures_of("unclean-election-a"), {}).axes[1]
    edges = next(patch for patch in axis.patches if isinstance(patch, StepPatch)).get_data().edges
    rates = layers["acknowledged, lost later: 753"]
    seconds = edges[1] - edges[0]
    assert len(edges) == len(rates) + 1
    assert 1 <= seconds < 2  # a rate needs bins of a second
    assert sum(rates) * seconds == pytest.approx(753)
    assert axis.get_title("left").startswith("sends per second, in bins of 1.07 s")
    below = draw("glance", figures_of("unclean-election-a"), {}).axes[2]
    assert below.get_title("left") == "latency of acknowledged sends (log scale), in bins of 268 ms"
    assert "bins" not in below.get_xlabel()  # which both panels share


def test_a_run_below_ten_seconds_has_counts_instead_of_rates_and_one_time_of_day() -> None:
    run = figures_of("unclean-election-a")
    first = run["span"][0]
    panels = draw("glance", {**run, "span": [first, first + 10**6]}, {}).axes
    titles = [axis.get_title(loc="left") or axis.get_title() for axis in panels]
    assert any(title.startswith("sends in each bin of ") for title in titles)
    assert "sends per second" not in titles
    label = next(axis.get_xlabel() for axis in panels if axis.get_xlabel())
    assert label.endswith("; UTC: 2026-11-21 09:24:56")


def test_latency_quantiles_are_in_order() -> None:
    found = glance.quantiles(figures_of("clean-a"))
    rows = [
        row
        for row in zip(found["median"], found["99th percentile"], found["longest"], strict=True)
        if row[0] is not None
    ]
    assert rows
    assert all(low <= high <= top for low, high, top in rows)  # type: ignore[operator]


def test_unread_ends_with_the_unread_records() -> None:
    waiting, never = unread.levels(figures_of("acks1-failover-a")["series"])
    assert never[-1] == 233
    assert waiting[-1] == 0
    assert unread.levels(figures_of("unclean-election-a")["series"])[1][-1] == 0


def test_lag_leaves_the_final_reader_out() -> None:
    assert set(lag.lines(figures_of("kip-101-c"))) == {"c0"}


def test_the_heat_map_shows_breaches_before_what_is_permitted() -> None:
    severity, names, counts = heatmap.grid(figures_of("unclean-election-a"))
    assert (severity, sorted(names)) == ("violation", ["orders-0", "orders-1"])
    assert max(max(row) for row in counts) > 300
    assert heatmap.grid(figures_of("transactions-a"))[0] == "permitted"
    assert heatmap.grid(figures_of("clean-a")) == ("violation", [], [])


@pytest.mark.parametrize(
    ("accepted", "title"),
    [([False], "Permitted findings"), ([True], "Accepted findings"), ([True, False], "Accepted or permitted findings")],
)
def test_the_heat_map_names_what_was_accepted(accepted: list[bool], title: str) -> None:
    figures = figures_of("transactions-a")
    row = figures["heat"][0]
    cells = [{**row["cells"][0], "accepted": each} for each in accepted]
    drawn = draw("heatmap", {**figures, "heat": [{**row, "cells": cells}]}, {})
    assert drawn.get_suptitle().startswith(title)


def test_titles_count_lost_records() -> None:
    figures = figures_of("kip-101-c")
    titles = [offsets.title_of(part) for part in figures["partitions"]]
    assert titles == [
        "orders-0: 198 acknowledged records lost (offsets 635 to 832), all of them after being read",
        "orders-1: 164 acknowledged records lost (offsets 617 to 780), none read by a recorded consumer",
    ]


def test_a_title_calls_no_record_unread_if_no_consumer_is_recorded() -> None:
    part = figures_of("kip-101-c")["partitions"][1]
    unrecorded = {**part, "offsets": {**part["offsets"], "readers": [], "readers_left_out": 0}}
    expected = "orders-1: 164 acknowledged records lost (offsets 617 to 780), no consumer is recorded"
    assert offsets.title_of(unrecorded) == expected


@pytest.mark.parametrize(
    ("history", "title"),
    [
        ("p:a@0 p:b@1 delete=1 c:<b@1", "1 acknowledged record was deleted legally before it was read"),
        ("p:a@0 p:b@1 p:c@2 delete=2 c:<c@2", "2 acknowledged records were deleted legally before they were read"),
    ],
)
def test_a_title_counts_what_was_deleted_unread(history: str, title: str, tmp_path: Path) -> None:
    figures = judged(parse(history).write(tmp_path / "run")).figures
    drawn = draw("unread", figures, {}).get_suptitle().replace("\n", " ")
    assert drawn == f"{title}; of the others at most 1 waited at one time"


def test_a_title_names_a_breach_without_a_loss() -> None:
    findings = [[3, 4, "realtime-order", "violation", ""], [6, 6, "poll-skip", "violation", ""]]
    part = {"name": "x-0", "lost": 0, "offsets": {"blocks": [], "findings": findings, "first": 0, "last": 7}}
    assert offsets.title_of(part) == "x-0: realtime-order at offsets 3 to 4 and 1 more; no loss found"


def test_a_title_names_a_lone_offset() -> None:
    part = {"name": "x-0", "lost": 0, "offsets": {"blocks": [], "findings": [], "first": 7, "last": 7}}
    assert offsets.title_of(part) == "x-0: no loss found at offset 7"


def test_a_title_counts_what_a_later_group_never_handled() -> None:
    figure = {"blocks": [], "findings": [[0, 383, "consumer-loss", "permitted", ""]], "first": 0, "last": 599}
    title = offsets.title_of({"name": "orders-0", "lost": 0, "offsets": figure})
    assert title == "orders-0: no write was lost; offsets 0 to 383 are older than their group, not handled"


def test_around_draws_what_followed_a_loss_only_on_request() -> None:
    figures = figures_of("unclean-election-a")
    assert [subject["finding"].split("/")[0] for subject in around.subjects(figures)] == ["lost-write"] * 2


def test_overlapping_bands_are_in_separate_rows() -> None:
    figures = figures_of("kip-101-c")
    rows = {band.name: band.row for band in bands_of(figures, *figures["span"])}
    assert rows["pause broker 1"] == rows["kill broker 1"]
    assert len({rows["pause broker 1"], rows["kill broker 2"], rows["kill broker 3"]}) == 3


def test_a_long_log_is_cut_beside_the_loss() -> None:
    scale = scale_of(0, 10_000_000, [(5_000_000, 5_000_099)])
    assert scale.place(5_000_100) - scale.place(5_000_000) > 0.5
    assert len(scale.cuts) == 2
    assert scale_of(0, 1000, [(100, 500)]).cuts == ()


@given(
    st.integers(0, 2**60), st.integers(1, 2**60), st.lists(st.tuples(st.floats(0, 1), st.floats(0, 0.2)), max_size=9)
)
def test_a_scale_keeps_the_order_of_offsets(low: int, length: int, shares: list[tuple[float, float]]) -> None:
    starts = [(low + int(length * share), wide) for share, wide in shares]
    high = low + length
    ranges = [(min(first, high), min(first + int(length * wide), high)) for first, wide in starts]
    scale = scale_of(low, high, ranges)
    marks = sorted({low, high + 1, *(first for first, _ in ranges), *(last + 1 for _, last in ranges)})
    places = [scale.place(mark) for mark in marks]
    assert places == sorted(places)
    assert -1e-9 <= places[0] <= places[-1] <= 1 + 1e-9


@given(st.text())
@example("\ufffe \uffff \U0001ffff")  # XML, and so SVG, excludes the first two
def test_labels_hold_nothing_that_cannot_be_printed(text: str) -> None:
    label = style.printable(text)
    assert len(label) <= 48
    assert not any(ord(c) < 32 or 0x202A <= ord(c) <= 0x202E or 0xD800 <= ord(c) < 0xE000 for c in label)
    assert not set(label) & {"\ufffe", "\uffff"}


@given(st.text(), st.text())
def test_file_names_are_harmless_and_apart(one: str, other: str) -> None:
    assert file_name(one).replace("_", "a").replace("-", "a").isalnum()
    assert len(file_name(one)) <= 80
    assert one == other or file_name(one) != file_name(other)


@given(st.text(max_size=200))
@example("see https://a.example and www.b.example")
def test_markdown_shows_text_as_it_is(text: str) -> None:
    from markdown_it import MarkdownIt

    assert "://" not in markdown(text)  # GitHub makes links of these
    assert "www." not in markdown(text)

    tokens = MarkdownIt("commonmark").enable("table").parse("- x " + markdown(text))
    inline = [child for token in tokens if token.type == "inline" for child in token.children or []]
    comments = {child.content for child in inline if child.type == "html_inline"}
    assert {child.type for child in inline} <= {"text", "text_special", "html_inline"}
    assert comments <= {"<!-- -->"}


def words_of(path: Path) -> list[str]:
    return [text for element in ET.fromstring(path.read_bytes()).iter() if (text := (element.text or "").strip())]


@pytest.mark.parametrize("unit", [1, 10**3, 10**6, 10**9, 10**12])
def test_ticks_are_distinct_for_runs_of_any_length(unit: int) -> None:
    times = [0, 25 * unit, 50 * unit, 75 * unit]
    texts = time_axis.seconds_texts(times)
    assert len(set(texts)) == len(texts)
    assert [round(float(text) * 1e9) for text in texts] == times


def test_time_axes_name_the_time_of_day_in_utc(tmp_path: Path) -> None:
    figures = figures_of("kip-101-c")
    for name in ("glance", "around", "unread", "lag", "heatmap"):
        style.save(draw(name, figures, PLOTS[name].subjects(figures)[0]), tmp_path / "x.svg")
        assert any("below: UTC, 2026-11-21" in text for text in words_of(tmp_path / "x.svg"))
        assert any(text.startswith("09:5") for text in words_of(tmp_path / "x.svg"))
    style.save(draw("glance", {**figures, "started_at": ""}, {}), tmp_path / "x.svg")
    assert not any("UTC" in text for text in words_of(tmp_path / "x.svg"))


def test_each_line_of_the_latency_can_be_seen() -> None:
    """In bins with few sends the longest latency is the 99th percentile: both lines must be visible."""
    figure = draw("glance", figures_of("kip-101-c"), {})
    widths = {patch.get_label(): patch.get_linewidth() for patch in figure.axes[2].patches}
    assert widths["longest"] > 2 * widths["99th percentile"]


def test_durations_have_the_unit_of_times_up_to_ten_minutes() -> None:
    known = {
        68.9e9: "68.9 s",
        599e9: "599 s",
        690e9: "11.5 min",
        4e12: "1.11 h",
        2.5e6: "2.5 ms",
        4e3: "4 µs",
        7: "7 ns",
    }
    assert {ns: duration(ns) for ns in known} == known


@pytest.mark.parametrize(("low", "high"), [(0.001, 0.002), (3, 40), (0.05, 60_000)])
def test_latency_has_ticks_at_every_scale(low: float, high: float) -> None:
    ticks = glance.latency_ticks(low, high)
    assert 2 <= len(ticks) <= 10
    assert len({duration(tick * 1e6) for tick in ticks}) == len(ticks)


def test_a_lag_of_microseconds_has_ticks_of_its_own() -> None:
    figures = figures_of("kip-101-c")
    for part in figures["partitions"]:
        for line in part["lags"]:
            line["behind"] = [behind and behind // 100_000 for behind in line["behind"]]
    axis = draw("lag", figures, {}).axes[1]
    texts = [axis.yaxis.get_major_formatter()(tick) for tick in axis.get_yticks()]
    assert len(set(texts)) == len(texts)


def test_the_loss_of_packets_is_not_called_loss() -> None:
    assert style.fault_name({"kind": "loss", "nodes": ["2", "3"]}) == "packet loss brokers 2, 3"
    assert style.fault_name({"kind": "partition", "nodes": ["n1"]}) == "network partition n1"
    assert style.fault_name({"kind": "truncate", "nodes": ["1"], "place": "x-0"}) == "truncate of x-0 on broker 1"
    assert style.fault_name({"kind": "delete-records", "nodes": [], "place": "x-0@7"}) == "delete-records of x-0@7"


def test_the_name_of_a_late_fault_stands_before_it() -> None:
    kill = {"kind": "kill", "nodes": ["1"], "to": None}
    faults = [{**kill, "from": time} for time in (5, 50, 95)]
    bands = bands_of({"faults": faults}, 0, 100, float)
    assert [(band.row, band.is_late) for band in bands] == [(0, False), (1, False), (2, True)]


def test_red_is_red() -> None:
    """Captions name it: far from orange, and darker, for readers who see no hue."""
    red, green, blue = (int(style.RED[at : at + 2], 16) for at in (1, 3, 5))
    assert red > 4 * green
    assert red > 4 * blue


def test_a_png_of_twice_the_size(tmp_path: Path) -> None:
    figures, sizes = figures_of("clean-a"), []
    for scale in (1, 2):
        style.save(draw("glance", figures, {}), tmp_path / "x.png", scale=scale)
        head = (tmp_path / "x.png").read_bytes()[16:24]
        sizes.append((int.from_bytes(head[:4]), int.from_bytes(head[4:])))
    assert sizes[1] == (2 * sizes[0][0], 2 * sizes[0][1])
    assert sizes[0][0] == 1100
