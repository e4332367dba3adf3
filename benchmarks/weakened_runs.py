"""Tests the judge with less evidence: copies of recorded runs without some of their files, lines and settings.

What `check` finds in a whole run is taken as true. In a copy, it must report no other record as lost, no verdict may be
valid if the history still has the acknowledgement of a lost record, and a cause is the same or `unknown`.

The folder has bundles, or archives of bundles; by default it is that of the tests.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from judge import values_of
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.verdict.document import verdict_of
from logjudge.histories.bundle import open_run
from logjudge.models.exploration.schedule import Draw
from weaknesses import OF_RECORDED_RUNS, WEAKNESSES, Weakness, choose

RUNS = Path(__file__).parent.parent / "tests/evidence/data/runs"
LOSSES = ("lost-write", "acknowledged-absent")
ALL: dict[str, Weakness] = WEAKNESSES | OF_RECORDED_RUNS


@dataclass(frozen=True)
class Judged:
    """The verdict of a run, the values of its lost records, and the causes of each."""

    verdict: str
    causes: dict[str, set[str]]

    @property
    def lost(self) -> set[str]:
        """The values of the lost records."""
        return set(self.causes)

    @staticmethod
    def of(run: Path) -> Judged:
        """Judges a run."""
        results = judge_run(open_run(run))
        found = results.findings()
        values = dict(zip(found["id"], found["values"].to_list(), strict=True))
        causes: dict[str, set[str]] = {value: set() for value in values_of(found, *LOSSES)}
        for explained in results.causes():
            for value in (value for name in explained.findings for value in values.get(name) or ()):
                if value in causes and explained.lost is not None and explained.cause != "unknown":
                    causes[value].add(explained.cause)
        return Judged(str(verdict_of(results)["verdict"]), causes)


def differences(copy: Path, whole: Judged) -> Iterator[str]:
    """What `check` finds in a copy that is not true, as sentences."""
    judged = Judged.of(copy)
    if invented := sorted(judged.lost - whole.lost):
        yield f"lost records invented: {invented[:5]}, {len(invented)} in all"
    if judged.verdict == "valid" and (missed := whole.lost & acknowledged_values(copy)):
        yield f"{len(missed)} acknowledged records are lost, but the verdict is valid"
    for value in sorted(judged.lost & whole.lost):
        if others := judged.causes[value] - whole.causes[value]:
            yield f"{value} has the cause {', '.join(sorted(others))}, expected {sorted(whole.causes[value])}"
            return


def acknowledged_values(run: Path) -> set[str]:
    """The values of the sends that are acknowledged in the history."""
    history = run / "history.jsonl"
    events = [json.loads(line) for line in history.read_text().splitlines()] if history.exists() else []
    ended = {(event["process"], event["op"]) for event in events if event["type"] == "ok"}
    sends = [event for event in events if event["f"] == "send" and (event["process"], event["op"]) in ended]
    return {event["value"] for event in sends if event.get("value") is not None}


def weaken(run: Path, copy: Path, rng: Draw) -> list[str]:
    """Copies a run with one to three weaknesses, and returns their names."""
    names = choose(ALL, 3, rng)
    shutil.copytree(run, copy, copy_function=shutil.copyfile)
    (copy / "truth.json").unlink(missing_ok=True)
    for name in names:
        ALL[name](copy, rng)
    return names


def runs_in(folder: Path, scratch: Path) -> list[Path]:
    """Copies of the bundles in a folder, with plain histories."""
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            shutil.copytree(path, scratch / path.name, copy_function=shutil.copyfile)
        elif ".tar" in path.suffixes:
            shutil.unpack_archive(path, scratch, filter="data")
    for packed in scratch.glob("*/history.jsonl.gz"):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()
    return sorted(run for run in scratch.iterdir() if (run / "run.json").exists())


def main(copies: int, first: int, folder: Path) -> int:
    began, wrong, whole = time.perf_counter(), 0, dict[Path, Judged]()
    with tempfile.TemporaryDirectory() as scratch:
        runs = runs_in(folder, Path(scratch))
        for seed in range(first, first + copies):
            rng = Draw(seed)
            run = runs[rng.below(len(runs))]
            if run not in whole:
                whole[run] = Judged.of(run)
            copy = Path(scratch) / "copy" / run.name
            names = weaken(run, copy, rng)
            found = list(differences(copy, whole[run]))
            wrong += bool(found)
            for sentence in found:
                print(f"seed {seed}, {run.name} without {', '.join(names)}: {sentence}", flush=True)
            shutil.rmtree(copy)
    print(f"{wrong} of {copies} copies have wrong results; {time.perf_counter() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("copies", type=int, nargs="?", default=60, help="by default 60")
    parser.add_argument("first_seed", type=int, nargs="?", default=0, help="by default 0")
    parser.add_argument("folder", type=Path, nargs="?", default=RUNS)
    given = parser.parse_args()
    sys.exit(main(given.copies, given.first_seed, given.folder))
