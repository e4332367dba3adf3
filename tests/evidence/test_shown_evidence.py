"""Evidence as it is shown: a late write that real brokers accepted in terminal, report and plot; times of records."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import invoke
from logjudge.cli.output import _where
from logjudge.plots import PLOTS, draw
from logjudge.plots.report.saved import load_figures
from matplotlib.patches import Rectangle

DATA = Path(__file__).parent / "data" / "transactions"
NAMES = ("late-write-open", "late-write-committed")


@pytest.fixture(scope="module", params=NAMES)
def judged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, Path]:
    """The name of the run, the output of `check` in one line, and the folder with the results."""
    folder = tmp_path_factory.mktemp(request.param)
    shutil.unpack_archive(DATA / f"{request.param}.tar.xz", folder / "runs")
    [run] = (folder / "runs").iterdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        result = invoke("check", run, "--engine", "local", "--out", folder / "out")
    assert result.return_value == 1
    return request.param, " ".join(result.output.split()), folder / "out"


def test_the_terminal_cites_the_bytes_that_prove_it(judged: tuple[str, str, Path]) -> None:
    name, output, _ = judged
    places = re.findall(r"\[([^\]]*(?:history\.jsonl:|byte )[^\]]*)\]", output)
    log = "data/x-0/00000000000000000000.log byte 294"
    coordinator = "brokers/1/data/__transaction_state-0/00000000000000000000.log byte 714"
    assert (
        places
        == {
            "late-write-open": [f"brokers/2/{log}, {coordinator}, history.jsonl:6"],
            "late-write-committed": [f"history.jsonl:4, :16, brokers/1/{log}"],
        }[name]
    )


def test_the_report_names_the_evidence_and_what_a_client_could_see(judged: tuple[str, str, Path]) -> None:
    name, _, folder = judged
    report = (folder / "report.md").read_text()
    detection = report.partition("## Detection")[2].partition("## Timeline")[0].strip()
    if name == "late-write-open":
        assert detection == "Found by logjudge in the brokers' files. No client's operation shows it."
    else:
        assert detection.startswith("Found by logjudge in the clients' history and the brokers' files. The first sign")
        assert "r read late at x-0@4" in detection
    timeline = report.partition("## Timeline")[2].partition("## Supporting")[0]
    assert "the coordinator decided to abort the transaction of t" in timeline
    assert "hanging-transaction:" not in timeline
    assert "torn-transaction:" not in timeline


def test_places_of_one_file_are_in_the_order_of_its_lines() -> None:
    incident = SimpleNamespace(findings=["lost-write/x-0/0"], is_known=False, chain=())
    evidence = [{"source": "history.jsonl", "line": line, "byte": None} for line in (754, 757, 755, 9)]
    report = {"findings": [{"id": "lost-write/x-0/0", "evidence": evidence}]}
    assert _where(report, incident) == " [history.jsonl:754, :755, :757]"  # type: ignore[arg-type]


def test_its_transaction_is_drawn(judged: tuple[str, str, Path]) -> None:
    name, _, folder = judged
    figures = load_figures(folder)
    assert PLOTS["transactions"].subjects(figures)[0] == {"partition": "x-0"}
    [part] = [part for part in figures["partitions"] if part["name"] == "x-0"]
    *before, late = part["transactions"]["shown"]
    assert [one["findings"] for one in before] == [[], []]
    assert late["first"] == 4
    sheet = draw("transactions", figures, {"partition": "x-0"})
    high = sheet.axes[1].get_xlim()[1]
    bars = [bar for bar in sheet.axes[1].patches if isinstance(bar, Rectangle) and bar.get_y() + 0.3 == 2]
    pale, full = (sum(bar.get_width() for bar in bars if (bar.get_alpha() is None) is full) for full in (False, True))
    if name == "late-write-open":
        assert late["findings"] == ["hanging-transaction"]
        assert late["prepared"] == late["began"] == 7_591_000_000
        assert pale == 0
        assert full == pytest.approx(high - 7.591)  # to the end of the run
        assert high == figures["span"][1] / 1e9
        assert sheet.get_suptitle() == "x-0: hanging-transaction of tx-t @4"
    else:
        assert late["findings"] == ["aborted-read", "torn-transaction"]
        assert pale > 0
        assert high < figures["span"][1] / 1e9
        assert sheet.get_suptitle() == "x-0: aborted-read, torn-transaction of tx-t @4"
    assert any(text.get_text() == ", ".join(late["findings"]) for text in sheet.axes[1].texts)


@pytest.mark.parametrize(("started", "date"), [("2026-11-21", ""), ("2099-01-01", "2026-11-21 ")])
def test_a_time_of_a_record_has_its_date_if_that_is_not_the_date_of_the_run(
    unpacked: Callable[[str], Path], tmp_path: Path, started: str, date: str
) -> None:
    run_folder = shutil.copytree(unpacked("unclean-election-a"), tmp_path / "run")
    config = json.loads((run_folder / "run.json").read_text())
    config["started_at"] = f"{started}T09:00:00.000Z"
    (run_folder / "run.json").write_text(json.dumps(config))
    time = r"(2026-11-21 )?\d\d:\d\d:\d\d\.\d{3}Z? +"
    shown = re.findall(rf"broker \d +\d+ +{time}", invoke("explain", run_folder, "orders-0@300").stdout)
    compared = re.findall(rf"\be\d+ {time}", invoke("diff", run_folder, "orders-0").stdout)
    assert shown
    assert compared
    assert {*shown, *compared} == {date}
