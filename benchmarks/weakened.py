"""Tests the judge with less evidence: simulated runs without some of their files, lines and settings, at random.

The results of `check` must still be true: it reports no record lost that is not, no verdict is valid where records are
lost, and a cause is the simulator's or `unknown`.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from judge import Compared, compare_causes, lost_values, numbers_from_arguments, scenario, tally, values_of
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.verdict.document import verdict_of
from logjudge.histories.bundle import open_run
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.models.exploration.schedule import Draw
from weaknesses import WEAKNESSES, choose

COPIES = 4  # of each run, each with one or two weaknesses


def compare(seed: int) -> Compared:
    """Judges a simulated run several times with less evidence; no comparison if no record is lost."""
    compared = Compared()
    rng = Draw(seed)
    with tempfile.TemporaryDirectory() as scratch:
        whole = write_bundle(scenario(seed), Path(scratch) / "whole").folder
        truth = json.loads((whole / "truth.json").read_text())
        for copy in range(COPIES if truth["lost_acked_count"] else 0):
            names = choose(WEAKNESSES, 2, rng)
            weak = Path(scratch) / str(copy)
            shutil.copytree(whole, weak)
            for name in names:
                WEAKNESSES[name](weak, rng)
            wrong = len(compared.wrong)
            _judge(weak, truth, compared)
            compared.wrong[wrong:] = [f"without {', '.join(names)}: {sentence}" for sentence in compared.wrong[wrong:]]
    return compared


def _judge(run: Path, truth: dict[str, Any], compared: Compared) -> None:
    results = judge_run(open_run(run))
    found = results.findings()
    compared.counts["runs with less evidence"] += 1
    compare_causes(truth, results, found, compared)
    lost, on_no_replica = lost_values(truth)
    # The truth gives all tombstones of an offset the same name.
    judged = {value.partition("#")[0] for value in values_of(found, "lost-write", "acknowledged-absent")}
    if invented := judged - lost - on_no_replica:
        compared.wrong.append(f"lost records invented: {sorted(invented)[:5]}, {len(invented)} in all")
    if truth["final"] and verdict_of(results)["verdict"] == "valid":
        compared.wrong.append(f"{len(lost)} records are lost, but the verdict is valid")


def main(runs: int, jobs: int, first: int) -> int:
    began = time.perf_counter()
    counts, wrong = tally(compare, runs, jobs, first)
    named, known = counts["named"], counts["named"] + counts["unnamed"]
    print(f"{counts['runs with less evidence']} runs with less evidence; {named} of {known} causes are still found")
    print(f"{wrong} of {runs} seeds have wrong results; {time.perf_counter() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*numbers_from_arguments(__doc__, 400)))
