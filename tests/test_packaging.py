"""The package as others get it: a wheel, installed normally, typed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CACHE = ROOT / ".mypy_cache"
PACKAGES = ("analysis", "cli", "histories", "models", "plots")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installed() -> Path:
    """A folder with only the wheel's content. Its path is always the same, so that mypy's cache stays valid."""
    target = CACHE / "site"
    shutil.rmtree(target, ignore_errors=True)
    shutil.rmtree(ROOT / "build", ignore_errors=True)  # setuptools packs what an earlier build left there
    target.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
    command = [*pip, "--target", str(target), str(ROOT)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=target)
    assert done.returncode == 0, done.stderr
    return target


@pytest.mark.thorough
def test_the_wheel_has_every_module_and_template(installed: Path) -> None:
    def files(folder: Path) -> set[Path]:
        found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        return {path.relative_to(folder) for path in found}

    for name in PACKAGES:
        api = {path for path in files(ROOT / name) if name == "cli" and path.parts[0] == "api"}
        assert files(installed / "logjudge" / name) == files(ROOT / name) - api
    root = {path for path in files(installed / "logjudge") if path.parts[0] not in PACKAGES}
    assert root == files(ROOT / "cli" / "api")


def test_the_wheel_runs_without_the_checkout(installed: Path, tmp_path: Path) -> None:
    program = f"import sys; sys.path.insert(0, {str(installed)!r}); sys.argv = ['logjudge', 'rules', 'lost-write']\n"
    program += "import logjudge.cli.main as cli; print(cli.__file__); cli.main()"
    done = subprocess.run(
        [sys.executable, "-S", "-c", _with_libraries(program)], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert done.stdout.startswith(str(installed))
    assert "An acknowledged value is gone" in done.stdout


def _with_libraries(program: str) -> str:
    """Without `site` the editable install's finder is not there; the libraries' folder is added by hand."""
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    return f"import sys; sys.path += {libraries!r}\n{program}"


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="numpy's stubs are others; Python 3.11 checks the types")
def test_types(installed: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
    command += [f"--cache-dir={CACHE}"]
    command += ["-p", "logjudge"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=installed, check=False)
    assert done.returncode == 0, done.stdout
