"""The pytest plugin: the example project passes, and a failed test leaves its run and its report."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import verdict_in

ROOT = Path(__file__).parents[1]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ROOT / "examples" / "pytest", tmp_path / "project"))


def run(project: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    settings = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, cwd=project, env=settings, check=False)


@pytest.mark.thorough
def test_the_example_passes(project: Path) -> None:
    done = run(project, "--strict-markers")
    assert done.returncode == 0, done.stdout
    assert not (project / "logjudge-failures").exists()


def test_a_failed_test_leaves_its_run_and_report(project: Path) -> None:
    done = run(project, "--logjudge-dir", "kept", LOSE="50")
    assert done.returncode == 1
    expected = "AssertionError: test_no_acknowledged_order_is_lost: invalid. 4 acknowledged writes of 200 were lost."
    assert expected in done.stdout
    folder = project / "kept" / "test_orders.py-test_no_acknowledged_order_is_lost"
    assert f"report: {folder / 'report' / 'report.html'}" in done.stdout
    assert verdict_in(folder / "report")["rules"]["lost-write"]["count"] == 4
    assert (folder / "run" / "history.jsonl").is_file()


def test_a_failure_before_anything_was_recorded_is_reported(project: Path) -> None:
    (project / "test_orders.py").write_text("def test_nothing(recorder):\n    raise ValueError('early')\n")
    done = run(project)
    assert "ValueError: early" in done.stdout
    assert "INTERNALERROR" not in done.stdout
    assert (project / "logjudge-failures" / "test_orders.py-test_nothing" / "run" / "run.json").is_file()


@pytest.mark.parametrize("arguments", ["topic={'orders': {}}", "{'orders': {}}"])
def test_a_marker_with_other_arguments_is_refused(project: Path, arguments: str) -> None:
    test = f"import pytest\n\n@pytest.mark.logjudge({arguments})\ndef test_orders(recorder):\n    pass\n"
    (project / "test_orders.py").write_text(test)
    done = run(project)
    assert done.returncode == 1
    found = arguments.split("=")[0]
    assert f"marker logjudge: found {found}, expected name=…, topics=…, processes=…, system=…" in done.stdout


def test_a_fixture_of_the_same_name_is_left_alone(project: Path) -> None:
    (project / "test_orders.py").write_text(
        "import pytest\n\n@pytest.fixture\ndef recorder():\n    return 7\n\n"
        "def test_own(recorder):\n    assert recorder == 8\n"
    )
    done = run(project)
    assert "assert 7 == 8" in done.stdout
    assert not (project / "logjudge-failures").exists()


def test_the_plugin_imports_nothing_heavy(project: Path) -> None:
    program = (
        "import sys\nimport logjudge.pytest_plugin\n"
        "print([name for name in ('polars', 'numpy', 'orjson') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=project, check=True)
    assert done.stdout.strip() == "[]"
