"""The plot of under-replicated partitions: counts over time, and what each state means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import LOSSY
from figure_cases import judged
from logjudge.cli.plot import _subject, command
from logjudge.histories.errors import UsageError
from logjudge.plots import PLOTS, draw, style, under_replicated

S = 1_000_000_000
TERM = {"epoch": 0, "leader": "1", "time": 0, "start": 0, "how": "", "unclean": False, "ended": None, "rivals": []}


def part(name: str, isr: list[Any], lives: list[Any], min_isr: int | None, ended: int | None = None) -> dict[str, Any]:
    evidence = {"brokers": ["1", "2", "3"], "factor": 3, "min_isr": min_isr, "leader": "1"}
    return {"name": name, "replicas": {**evidence, "isr": isr, "lives": lives, "terms": [{**TERM, "ended": ended}]}}


def figures(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"span": [0, 10 * S], "started_at": "", "faults": [], "partitions": list(parts), "partitions_left_out": 0}


ALL, TWO, ONE = ["1", "2", "3"], ["1", "2"], ["1"]


def test_partitions_are_counted_in_their_worst_state() -> None:
    shrunk = part("a-0", [[0, ALL], [2 * S, TWO], [4 * S, ONE], [6 * S, ALL]], [], 2)
    headless = part("a-1", [[0, ALL]], [[8 * S, "1", "died"]], 2)
    figure = draw("under-replicated", figures(shrunk, headless), {})
    drawn = {artist.get_label(): artist.get_data() for artist in figure.axes[1].patches}
    counts = {}
    for name, data in drawn.items():
        counts[name] = [int(top - low) for top, low in zip(data.values, data.baseline, strict=True)]
        assert list(data.edges) == [0, 2, 4, 6, 8, 10]
    assert counts == {
        "no leader": [0, 0, 0, 0, 1],
        "below min.insync.replicas": [0, 0, 1, 0, 0],
        "fewer replicas in sync": [0, 1, 0, 0, 0],
    }
    assert " ".join(figure.get_suptitle().split()) == (
        "2 of 2 partitions were under-replicated for up to 4 s; 1 was below min.insync.replicas for up to 2 s;"
        " 1 had no leader for up to 2 s"
    )


def test_min_insync_replicas_that_is_not_recorded_is_not_judged() -> None:
    figure = draw("under-replicated", figures(part("a-0", [[0, ALL], [4 * S, ONE]], [], None)), {})
    assert [artist.get_label() for artist in figure.axes[1].patches] == ["fewer replicas in sync"]


def test_whole_partitions_have_no_figure_in_a_report(tmp_path: Path) -> None:
    whole = figures(part("a-0", [[0, ALL]], [], 2))
    assert PLOTS["under-replicated"].subjects(whole) == []
    figure = draw("under-replicated", whole, {})
    assert figure.get_suptitle() == "Every replica was in sync throughout"
    style.save(figure, tmp_path / "x.svg")
    assert "No brokers" in str([text.get_text() for text in draw("under-replicated", figures(), {}).axes[0].texts])


def test_a_real_unclean_election() -> None:
    found = judged(LOSSY).figures
    assert PLOTS["under-replicated"].subjects(found) == [{}]
    spans = under_replicated._spans_by_partition(found)["orders-0"]
    states = [(round(since / S), state) for since, _, state in spans if state]
    assert states[0] == (8, "fewer replicas in sync")
    assert (11, "no leader") in states
    assert sum(until - since for since, until, _ in spans) <= found["span"][1] - found["span"][0]


def test_a_run_without_a_history_is_drawn_from_its_first_event() -> None:
    later = 1795253096 * S
    shrunk = part("a-0", [[later, ALL], [later + 2 * S, ONE], [later + 6 * S, ALL]], [], 2)
    without_clients = {**figures(shrunk), "span": [0, 0], "started_at": "1970-01-01T00:00:00+00:00"}
    assert PLOTS["under-replicated"].subjects(without_clients) == [{}]
    figure = draw("under-replicated", without_clients, {})
    [drawn] = figure.axes[1].patches
    assert list(drawn.get_data().edges) == [0, 2, 6]
    assert "seconds since 2026-11-21 09:24:56.000Z" in figure.axes[1].get_xlabel()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "under-replicated",
            {},
            "the run has no brokers' files with the ISR, so the plot under-replicated has nothing",
        ),
        ("heatmap", {}, "the run has no findings with a time, so the plot heatmap has nothing to draw"),
        ("lag", {}, "the run has no consumers, so the plot lag has nothing to draw"),
        ("around", {"finding": "x/a-0/0"}, "--finding x/a-0/0: the run has no findings with client operations to draw"),
    ],
)
def test_a_plot_without_data_is_refused(name: str, options: dict[str, str], message: str) -> None:
    quiet = {"name": "a-0", "replicas": None, "transactions": None, "lags": []}
    run = {"span": [0, 0], "started_at": "", "partitions": [quiet], "heat": [], "windows": []}
    with pytest.raises(UsageError) as refused:
        _subject(name, run, {"partition": None, "finding": None, **options})
    assert str(refused.value).startswith(message)
    assert "--partition" not in str(refused.value)


def test_the_help_names_every_figure() -> None:
    text = " ".join(str(command.help).split())
    assert all(name in text for name in PLOTS)
