"""Compiles the simulator to machine code, for long searches: `--compiled` of matrix.py and judge.py, or
`PYTHONPATH=$(python benchmarks/compiled.py) logjudge search ...`.

mypyc (part of mypy; needs a C compiler) compiles models/replication in some four minutes, once for each state of its
sources. Modules with classes that processes exchange stay Python, as compiled frozen classes cannot be pickled; so do
clients, as a member of KIP-848's protocol has two base classes. Both simulators then run the same seeds, and must reach
the same events and states.
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
EXCHANGED = ("search.py", "scenario.py", "matrix.py")
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
    """The folder of the compiled package, built if these sources have none yet."""
    sources = sorted((ROOT / "models" / "replication").rglob("*.py"))
    digest = hashlib.sha256(sys.version.encode() + b"".join(source.read_bytes() for source in sources)).hexdigest()
    folder = WORK / f"compiled-{digest[:16]}"
    if not folder.exists():
        WORK.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=WORK) as scratch:
            _build(Path(scratch))
            Path(scratch).rename(folder)
            Path(scratch).mkdir()  # the end of the block removes it
    for package in PACKAGES:  # other packages may have changed since
        ignored = shutil.ignore_patterns("__pycache__", "replication")
        shutil.copytree(ROOT / package, folder / "logjudge" / package, dirs_exist_ok=True, ignore=ignored)
    return folder


def _build(folder: Path) -> None:
    package = folder / "logjudge"
    for name in PACKAGES:
        shutil.copytree(ROOT / name, package / name, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "__init__.py").touch()  # mypyc derives the modules' names from it
    sources = sorted((package / "models" / "replication").rglob("*.py"))
    chosen = [source for source in sources if source.name not in EXCHANGED and source.parent.name != "clients"]
    modules = [str(source.relative_to(folder)) for source in chosen]
    mypyc = [sys.executable, "-m", "mypyc", "--config-file", str(ROOT / "pyproject.toml"), *modules]
    print("compiling the simulator", file=sys.stderr)
    built = subprocess.run(
        mypyc, cwd=folder, env={**os.environ, "MYPYPATH": str(folder)}, capture_output=True, text=True
    )
    if built.returncode:
        sys.exit(f"mypyc failed:\n{built.stdout[-2000:]}{built.stderr[-2000:]}")
    shutil.rmtree(folder / "build")
    if _seen(folder) != _seen(None):
        sys.exit("the compiled simulator differs from the interpreted one")


def _seen(folder: Path | None) -> object:
    env = {**os.environ, "PYTHONPATH": str(folder)} if folder else os.environ
    return json.loads(subprocess.run([sys.executable, "-c", SAME], env=env, check=True, stdout=subprocess.PIPE).stdout)


def run_again() -> NoReturn:
    """Restarts the running script without `--compiled`, on the compiled simulator."""
    arguments = [word for word in sys.argv if word != "--compiled"]
    os.execve(sys.executable, [sys.executable, *arguments], {**os.environ, "PYTHONPATH": str(compiled())})


if __name__ == "__main__":
    print(compiled())
