"""The simulator as machine code, for a night of schedules: `--compiled` of matrix.py and judge.py, or
`PYTHONPATH=$(python benchmarks/compiled.py) logjudge search ...`.

mypyc (of mypy; it needs a C compiler) compiles models/replication as it stands, in about a minute, once for each
state of its sources. What the processes send each other stays Python, as compiled frozen classes cannot be pickled.
Before the folder is used, both simulators run the same seeds and must have seen the same events and states.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "benchmarks" / "work"
PACKAGES = ("analysis", "cli", "histories", "models", "plots")
SENT = ("search.py", "scenario.py", "matrix.py")
SAME = """
import json
from logjudge.models.exploration.matrix import CELLS, SETTINGS, space
from logjudge.models.exploration.search import explore
def run(setting, variant):
    seen = explore(space(variant, setting), range(10), SETTINGS[setting].invariants, False)
    return [setting, variant, seen.events, sorted(seen.states), seen.broken]
print(json.dumps([run(setting, variant) for setting, cells in CELLS.items() for variant in cells]))
"""


def compiled() -> Path:
    """The folder with the compiled package, made where there is none of these sources yet."""
    sources = sorted((ROOT / "models" / "replication").rglob("*.py"))
    digest = hashlib.sha256(sys.version.encode() + b"".join(source.read_bytes() for source in sources)).hexdigest()
    folder = WORK / f"compiled-{digest[:16]}"
    if not folder.exists():
        WORK.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=WORK) as scratch:
            _build(Path(scratch))
            Path(scratch).rename(folder)
            Path(scratch).mkdir()  # which leaving the block removes
    for package in PACKAGES:  # all but the simulator may have changed since
        ignored = shutil.ignore_patterns("__pycache__", "replication")
        shutil.copytree(ROOT / package, folder / "logjudge" / package, dirs_exist_ok=True, ignore=ignored)
    return folder


def _build(folder: Path) -> None:
    package = folder / "logjudge"
    for name in PACKAGES:
        shutil.copytree(ROOT / name, package / name, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "__init__.py").touch()  # by which mypyc knows the modules' names
    sources = sorted((package / "models" / "replication").rglob("*.py"))
    modules = [str(source.relative_to(folder)) for source in sources if source.name not in SENT]
    mypyc = [sys.executable, "-m", "mypyc", "--config-file", str(ROOT / "pyproject.toml"), *modules]
    print("compiling the simulator", file=sys.stderr)
    built = subprocess.run(
        mypyc, cwd=folder, env={**os.environ, "MYPYPATH": str(folder)}, capture_output=True, text=True
    )
    if built.returncode:
        sys.exit(f"mypyc failed:\n{built.stdout[-2000:]}{built.stderr[-2000:]}")
    shutil.rmtree(folder / "build")
    if _seen(folder) != _seen(None):
        sys.exit("the compiled simulator does not run as the other does")


def _seen(folder: Path | None) -> object:
    env = {**os.environ, "PYTHONPATH": str(folder)} if folder else os.environ
    return json.loads(subprocess.run([sys.executable, "-c", SAME], env=env, check=True, capture_output=True).stdout)


def run_again() -> NoReturn:
    """The running script from its start, without `--compiled`, on the compiled simulator."""
    arguments = [word for word in sys.argv if word != "--compiled"]
    os.execve(sys.executable, [sys.executable, *arguments], {**os.environ, "PYTHONPATH": str(compiled())})


if __name__ == "__main__":
    print(compiled())
