"""Histories with the verdicts of Jepsen's own checker: we find what it finds, error by error.

data/jepsen/README.md describes the sources of the cases and what can be compared exactly.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from logjudge.analysis.engines.local import judge_run
from logjudge.histories.bundle import open_run

Errors = dict[str, Counter[tuple[Any, ...]]]

_FILE = Path(__file__).parent / "data" / "jepsen" / "cases.jsonl.gz"
CASES = [json.loads(line) for line in gzip.decompress(_FILE.read_bytes()).splitlines()]

ALWAYS = ("inconsistent-offsets", "duplicate", "aborted-read", "precommitted-read", "unseen")
# Where an offset has two values, Jepsen takes the one that its hash order gives: so these rules have no unique result.
WITHOUT_INCONSISTENCY = (
    "lost-write",
    "poll-skip",
    "nonmonotonic-poll",
    "int-poll-skip",
    "int-nonmonotonic-poll",
    "nonmonotonic-send",
    "int-nonmonotonic-send",
    "int-send-skip",
)


def _judged(case: dict[str, Any], folder: Path) -> pl.DataFrame:
    file = folder / "history.edn"
    file.write_text(case["history"])
    return judge_run(open_run(file)).findings()


def _ours(case: dict[str, Any], findings: pl.DataFrame) -> Errors:
    indices = [int(found[1]) for found in re.finditer(r"^\{:index (\d+)", case["history"], re.MULTILINE)]
    assert len(indices) == case["history"].count("\n")
    found: Errors = {rule: Counter() for rule in ALWAYS + WITHOUT_INCONSISTENCY}
    for finding in findings.iter_rows(named=True):
        rule, key, values = finding["rule"], finding["topic"], tuple(finding["values"])
        if rule not in found:  # test_cycles.py compares cycles
            continue
        ops = tuple(indices[item["line"] - 1] for item in finding["evidence"])
        if rule == "inconsistent-offsets":
            error: tuple[Any, ...] = (key, finding["first_offset"], *sorted(values))
        elif rule == "duplicate":
            error = (key, *values, finding["first_offset"], finding["last_offset"])
        elif rule == "precommitted-read":
            error = ops
        elif rule == "poll-skip":
            error = (key, *ops)
        elif rule in ("nonmonotonic-poll", "nonmonotonic-send"):
            error = (key, *values, *ops)
        elif rule.startswith("int-"):
            error = (key, *values, ops[-1])
        else:
            error = (key, *values)
        found[rule][error] += 1
    return found


def _theirs(case: dict[str, Any]) -> Errors:
    jepsen = case["jepsen"]
    errors = jepsen["partial"]["errors"] if "partial" in jepsen else jepsen["errors"]
    found: Errors = {rule: Counter() for rule in ALWAYS + WITHOUT_INCONSISTENCY}
    for name, error in errors.items():
        rule = "aborted-read" if name == "G1a" else name
        if rule == "unseen":
            found[rule].update(_unseen(error, jepsen.get("unseen_phantom") or {}))
        elif rule in found:
            found[rule].update(_error(rule, each) for each in error["errs"])
    # Jepsen lists a pair of writer and reader each; we name the value once, with all its readers.
    found["aborted-read"] = Counter(dict.fromkeys(found["aborted-read"], 1))
    return found


def _unseen(error: dict[str, Any], phantoms: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key, values in error["messages"].items():
        for value in values:
            if value not in phantoms.get(key, []):
                yield (str(key), str(value))


def _error(rule: str, error: dict[str, Any]) -> tuple[Any, ...]:
    key = str(error.get("key"))
    values = tuple(str(value) for value in error.get("values", [error.get("value")]))
    if rule == "inconsistent-offsets":
        return (key, error["offset"], *sorted(values))
    if rule == "duplicate":
        return (key, *values, min(error["offsets"]), max(error["offsets"]))
    if rule == "precommitted-read":
        return (error["op"],)
    if rule == "poll-skip":
        return (key, *error["ops"])
    if rule in ("nonmonotonic-poll", "nonmonotonic-send"):
        return (key, *values, *error["ops"])
    if rule.startswith("int-"):
        return (key, *values, error["op"])
    return (key, *values)


def parameters() -> Iterator[Any]:
    """The cases. Of random ones with the same errors, or with none, all but three wait for a campaign."""
    seen: Counter[str] = Counter()
    for case in CASES:
        errors = {rule for rule, errors in _theirs(case).items() if errors}
        kinds = errors | {"exception"} if "exception" in case["jepsen"] else errors or {"valid"}
        some = case["name"].startswith("q") or min(seen[kind] for kind in kinds) < 3
        seen.update(kinds)
        yield pytest.param(case, id=case["name"], marks=() if some else pytest.mark.campaign)


@pytest.mark.sampled(22)
@pytest.mark.parametrize("case", list(parameters()))
def test_agrees_with_jepsen(case: dict[str, Any], tmp_path: Path) -> None:
    theirs = _theirs(case)
    findings = _judged(case, tmp_path)
    ours = _ours(case, findings)
    crashed = list(case["jepsen"].get("partial", {}).get("crashed", []))
    if "no-writer-of-value" in str(case["jepsen"].get("exception")):
        crashed.append("unseen")  # it then counts values that were read and never sent
    rules = ALWAYS if theirs["inconsistent-offsets"] else ALWAYS + WITHOUT_INCONSISTENCY
    for rule in rules:
        if rule in crashed:
            continue
        assert ours[rule] == theirs[rule], rule
    if "subscribe" not in case["history"]:  # a consumer that is assigned its keys is never excused
        assert "permitted" not in findings["severity"]


def test_the_selection_has_every_error() -> None:
    seen = Counter(rule for case in CASES for rule, errors in _theirs(case).items() if errors)
    assert set(seen) == set(ALWAYS + WITHOUT_INCONSISTENCY)
    assert min(seen.values()) >= 8
    assert any("exception" in case["jepsen"] for case in CASES)
    assert sum(case["jepsen"].get("valid") is True for case in CASES) >= 10
