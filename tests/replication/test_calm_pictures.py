"""The pages of scenarios without breaches: any picture that needs no finding is drawn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import invoke
from logjudge.cli.plot import figures_of
from logjudge.cli.scenarios import draw_picture
from logjudge.histories.errors import UsageError
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.histories.simulation.scenario_file import parse
from logjudge.plots import PLOTS

CALM = '[config]\n"simulation.ops" = 10\n"simulation.consumers" = 0\n'
NEEDS_FINDING = ("around", "cycles")


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The figures of a run without breaches."""
    return figures_of(write_bundle(parse(CALM, "calm.toml"), tmp_path_factory.mktemp("calm") / "run").folder)


@pytest.mark.parametrize("picture", sorted(set(PLOTS) - {*NEEDS_FINDING}))
def test_a_picture_that_needs_no_finding_is_drawn(picture: str, figures: dict[str, Any], tmp_path: Path) -> None:
    draw_picture(replace(parse(CALM, "calm.toml"), picture=picture), figures, tmp_path / "x.svg", "")
    assert "<svg" in (tmp_path / "x.svg").read_text()


@pytest.mark.parametrize("picture", NEEDS_FINDING)
def test_a_picture_that_needs_a_finding_is_refused(picture: str, figures: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"no finding that the plot {picture} could show"):
        draw_picture(replace(parse(CALM, "calm.toml"), picture=picture), figures, tmp_path / "x.svg", "")


@pytest.mark.parametrize("picture", ["around", "offsets"])
def test_the_command_draws_or_refuses_the_picture_of_a_page(picture: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(f'picture = "{picture}"\n{CALM}')
    result = invoke("scenarios", "run", file, "--out", tmp_path / "run", "--page", tmp_path)
    assert (tmp_path / "run-judged" / "verdict.json").exists()
    if picture in NEEDS_FINDING:
        assert f"no finding that the plot {picture} could show" in str(result.exception)
    else:
        assert result.exit_code == 0
        assert "<svg" in (tmp_path / "run.svg").read_text()
