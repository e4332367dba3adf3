"""The pytest plugin: the fixture `recorder`, and the saved run and report of a failed test (docs/python.md).

pytest loads it in every project in which logjudge is installed, so it imports the rest when a test uses it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .histories.recording.recorder import Recorder

FIXTURE = "recorder"
DEFAULT_FOLDER = "logjudge-failures"
MARKED = ("name", "topics", "processes", "system")  # the arguments of the marker


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --logjudge-dir and logjudge_dir."""
    help_text = "Folder for the run and the report of each failed test that records one."
    parser.getgroup("logjudge").addoption("--logjudge-dir", metavar="FOLDER", help=help_text)
    parser.addini("logjudge_dir", help_text, default=DEFAULT_FOLDER)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker `logjudge`."""
    marker = f"logjudge({', '.join(MARKED)}): what the fixture `recorder` writes into run.json."
    config.addinivalue_line("markers", marker)


@pytest.fixture(name=FIXTURE)
def _recorder(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Recorder, None, None]:
    """A logjudge.Recorder of the test's run, in the test's temporary folder; it is finished after the test."""
    from .histories.recording.recorder import Recorder

    options: dict[str, Any] = {"name": request.node.name}
    if marker := request.node.get_closest_marker("logjudge"):
        if unknown := [*map(repr, marker.args), *(name for name in marker.kwargs if name not in MARKED)]:
            pytest.fail(f"marker logjudge: found {', '.join(unknown)}, expected {'=…, '.join(MARKED)}=…", pytrace=False)
        options |= marker.kwargs
    recorder = Recorder(tmp_path / "run", **options)
    yield recorder
    recorder.finish()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Keep the run of a test that failed."""
    outcome = yield
    report = outcome.get_result()
    recorder: Any = getattr(item, "funcargs", {}).get(FIXTURE)
    if call.when == "call" and report.failed and _is_recorder(recorder):
        report.sections.append(("logjudge", _keep(recorder, _target(item))))


def _is_recorder(found: object) -> bool:
    """Whether an object is our Recorder: a test may have its own fixture of the same name."""
    return found is not None and type(found).__module__ == f"{__package__}.histories.recording.recorder"


def _target(item: pytest.Item) -> Path:
    folder: str = item.config.getoption("--logjudge-dir") or item.config.getini("logjudge_dir")
    return item.config.rootpath / folder / re.sub(r"[^\w.\-]+", "-", item.nodeid).strip("-")[:150]


def _keep(recorder: Recorder, target: Path) -> str:
    """Copy the run and write its report. Errors are returned as text: they must not hide the failure of the test."""
    from .histories.errors import LogjudgeError
    from .judging import check

    try:
        run = recorder.finish()
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(run, target / "run")
        result = check(target / "run")
        result.save(target / "report")
    except (LogjudgeError, OSError) as error:
        return f"no report of the run in {target}: {error}"
    return f"{result.name}: {result.verdict}\nrun:    {target / 'run'}\nreport: {target / 'report' / 'report.html'}"
