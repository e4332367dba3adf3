"""The judge is judged: simulated runs of every variant, setting and fault, where `check` must find exactly what
truth.json says was lost, divergent, duplicated or out of order, and why.

Run: python benchmarks/judge.py [runs] [processes] [first seed]
"""

from __future__ import annotations

import multiprocessing
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
from logjudge.analysis.local import judge_run
from logjudge.analysis.verdict import verdict_of
from logjudge.histories.bundle import open_run
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.models.replication.matrix import CELLS, SETTINGS, space
from logjudge.models.replication.scenario import Scenario
from logjudge.models.replication.schedule import PATTERNS, Draw
from logjudge.models.replication.search import Space
from logjudge.models.replication.variants import VARIANTS

CELLS_IN_ORDER = [(setting, variant) for setting, cells in CELLS.items() for variant in cells]
# What a client may be configured to; each draw takes some of them.
CLIENTS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"acks": "1", "enable.idempotence": False},
    {"acks": "0", "enable.idempotence": False},
    {"enable.idempotence": False},
    {"enable.idempotence": False, "max.in.flight.requests.per.connection": 1},
)
KINDS = tuple(kind for kind in PATTERNS if kind not in ("handover", "lagging-mark"))


def scenario(seed: int) -> Scenario:
    """Half of the seeds go through the cells of the matrix, half mix all faults, clients and flushes."""
    if seed % 2 == 0:
        setting, variant = CELLS_IN_ORDER[seed // 2 % len(CELLS_IN_ORDER)]
        return space(variant, setting).scenario(seed)
    rng = Draw(seed)
    variant = list(VARIANTS)[seed // 2 % len(VARIANTS)]
    options = {
        **CLIENTS[rng.below(len(CLIENTS))],
        "num.partitions": rng.between(1, 2),
        "min.insync.replicas": rng.between(1, 2),
        "unclean.leader.election.enable": rng.chance(0.5),
        "simulation.commit": ("none", "after", "before")[rng.below(3)],
    }
    kinds = tuple(KINDS[rng.below(len(KINDS))] for _ in range(rng.between(1, 3)))
    return Space(variant, kinds, options, 4).scenario(seed)


def disagreements(seed: int, folder: Path) -> list[str]:
    """How what `check` finds differs from the truth, as sentences."""
    written = write_bundle(scenario(seed), folder)
    results = judge_run(open_run(folder))
    return compare(written.truth, results.findings(), verdict_of(results))


def compare(truth: dict[str, Any], findings: pl.DataFrame, verdict: dict[str, Any]) -> list[str]:
    found = [*_losses(truth, findings)]
    return found


def _losses(truth: dict[str, Any], findings: pl.DataFrame) -> list[str]:
    told = {value: one for one in truth["losses"] for value in one["values"]}
    judged: dict[str, set[str]] = {}
    for row in findings.filter(pl.col("rule").is_in(["lost-write", "unseen", "acknowledged-absent"])).iter_rows(
        named=True
    ):
        for value in row["values"]:
            judged.setdefault(value, set()).add(f"{row['rule']}:{row['severity']}:{row['cause']}")
    out = []
    for value in sorted(set(told) | set(judged)):
        if value not in judged:
            out.append(f"loss-missed {told[value]['cause']} {value}")
        elif value not in told:
            out.append(f"loss-invented {sorted(judged[value])} {value}")
        else:
            causes = {j.split(":")[2] for j in judged[value]}
            if causes != {told[value]["cause"]}:
                out.append(f"cause {told[value]['cause']} judged {sorted(judged[value])} {value}")
    return out
