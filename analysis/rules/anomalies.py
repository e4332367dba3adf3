"""Anomalies of transactions on lists and registers, in Elle's names: their texts, and the findings of a run.

They are not rules of a log: a native history has none of them. A finding is a violation if the consistency model that
the user demands forbids the anomaly, else permitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import polars as pl

from ...histories.references import ELLE
from ...histories.settings import Settings
from ...histories.tables import Evidence, Finding
from ..transactions.anomalies import Anomaly, shown, version_in_words
from ..transactions.consistency_models import boundary, forbidden_by
from ..transactions.cycle_types import TYPES
from ..transactions.cycles import Cycles
from ..transactions.txn_history import TxnHistory
from ..wording import clipped, plural
from .cycles import CycleInWords, Drawing, findings_of_cycles
from .rule import Rule, judge_later

DIALECTS = ("elle-append", "elle-register")
_NOT_OF_RECORDS = ("commit-beyond-end", "commit-fenced", "commit-regression", "ownership", "stale-end-offset")
MAX_STEPS_SHOWN = 120  # characters of a transaction's micro-operations
_BASES = {
    "G0": "Transactions wrote in a cycle",
    "G1c": "Transactions wrote and read each other's writes in a cycle",
    "G-single-item": "Transactions form a cycle with one anti-dependency: one read a state that the next replaced",
    "G-nonadjacent-item": "Transactions form a cycle with several anti-dependencies, no two of them in a row",
    "G2-item": "Transactions form a cycle with several anti-dependencies",
}
_ORDERS = {"": "", "-process": ", with the order of each process", "-realtime": ", with real-time order"}
_OTHERS = {
    "duplicate-elements": "A list that was read has an element twice, though it was appended once",
    "cyclic-versions": "The versions of a register contradict the order that --keys assumes",
    "garbage-read": "A transaction read an element that no transaction appended",
    "G1a": "A transaction read a write of an aborted transaction (aborted read)",
    "G1b": "A transaction read a version that its writer replaced before it ended (intermediate read)",
    "dirty-update": "A committed transaction appended after an aborted one",
    "incompatible-order": "Two reads of a list show different orders: neither is a prefix of the other",
    "future-read": "A transaction read its own write before it made it",
    "internal": "A transaction read something else than what it wrote or read before",
    "lost-update": "Two transactions read the same version of a key, and both then wrote the key",
}


def _anomaly(name: str, summary: str) -> Rule:
    weakest = boundary([name])[0]
    is_realtime = name in TYPES and name.endswith(("-process", "-realtime"))
    return Rule(
        name,
        group="transactions",
        summary=summary,
        breach=f"{summary}. It rules out {' and '.join(weakest)}, and all stronger models.",
        not_a_breach="Permitted if the model that --model demands allows it.",
        unknown_when="A line was left out, a key has a value twice, or the order of the versions is not known.",
        in_jepsen="Elle's anomaly of this name (garbage-read: of its paper).",
        source=ELLE,
        needs=("ok",),
        assumes=("values", *(("order",) if is_realtime else ())),
        judges=dict.fromkeys(DIALECTS, judge_later),
    )


ANOMALIES: dict[str, Rule] = {
    name: _anomaly(name, summary)
    for name, summary in (
        *_OTHERS.items(),
        *((base + suffix, text + order) for suffix, order in _ORDERS.items() for base, text in _BASES.items()),
    )
}


def severities_under(model: str) -> dict[str, str]:
    """The severity of each anomaly if a consistency model is demanded."""
    forbidden = forbidden_by(model)
    return {name: "violation" if name in forbidden else "permitted" for name in ANOMALIES}


def findings_of_anomalies(
    history: TxnHistory, anomalies: Iterable[Anomaly], cycles: Mapping[str, Cycles], settings: Settings
) -> list[tuple[Finding, Drawing | None]]:
    """The findings of a run in the order of ANOMALIES, those of cycles with their drawings."""
    anomalies = list(anomalies)
    severity, of_lists = severities_under(settings.model), settings.dialect == "elle-append"
    found: list[tuple[Finding, Drawing | None]] = [
        (_finding(history, one, severity[one.type], of_lists), None) for one in anomalies
    ]
    for finding, drawing in findings_of_cycles(cycles, severity, in_words=partial(_CycleOfKeys, of_lists=of_lists)):
        places = pl.Series([item.place for item in finding.evidence])
        txns = history.txns["at"].search_sorted(places).to_list()
        values = [value for value in finding.values if value]
        pairs = zip(finding.evidence, txns, strict=True)
        evidence = [replace(item, sentence=f"{item.sentence}; {_steps(history, txn, of_lists)}") for item, txn in pairs]
        found.append((replace(finding, topic=None, partition=None, evidence=evidence, values=values), drawing))
    position = {name: number for number, name in enumerate(ANOMALIES)}
    found.sort(key=lambda one: position[one[0].rule])
    numbered = [(replace(one, id=f"{one.rule}/{number}"), drawing) for number, (one, drawing) in enumerate(found)]
    return _link_cycles(numbered, [one.members for one in anomalies if one.members])


def _link_cycles(
    found: list[tuple[Finding, Drawing | None]], updates: list[tuple[int, ...]]
) -> list[tuple[Finding, Drawing | None]]:
    """The findings; a cycle of the transactions of a lost update is related to it, as these always form a cycle.

    `updates`: the places of the transactions of each lost update.
    """
    ids = [one.id for one, _ in found if one.rule == "lost-update"]
    linked = []
    for finding, drawing in found:
        if finding.rule in TYPES and drawing is not None:
            places = {item.place for item in finding.evidence[: len(drawing["operations"])]}
            behind = [name for name, of_update in zip(ids, updates, strict=True) if places.issubset(of_update)]
            finding = replace(finding, related=behind[:1])
        linked.append((finding, drawing))
    return linked


def _finding(history: TxnHistory, anomaly: Anomaly, severity: str, of_lists: bool) -> Finding:
    txns = tuple(dict.fromkeys(anomaly.txns))
    processes = [str(history.txns["process"][txn]) for txn in txns]
    names = [f"T{number} (process {process})" for number, process in enumerate(processes, 1)]
    more = f"; {anomaly.others:,} more like this" if anomaly.others else ""
    evidence = [
        Evidence(f"{name}: {_steps(history, txn, of_lists)}", int(history.txns["at"][txn]))
        for name, txn in zip(names, txns, strict=True)
    ]
    return Finding(
        rule=anomaly.type,
        sentence=f"{', '.join(names)}: {anomaly.sentence}{more}",
        severity=severity,
        count=1 + anomaly.others,
        values=list(anomaly.values),
        processes=list(dict.fromkeys(processes)),
        evidence=evidence,
    )


def _steps(history: TxnHistory, txn: int, of_lists: bool) -> str:
    """The micro-operations of a transaction in words."""
    did = {"r": "read {} of key {}", "w": f"{_WROTE[of_lists]} {{}} to key {{}}"}
    words = [did[f].format(version_in_words(value or ""), shown(key)) for f, key, value in history.steps_of(txn)]
    return clipped("it " + ", ".join(words), MAX_STEPS_SHOWN) if words else "it has no known steps"


_WROTE = {True: "appended", False: "wrote"}  # by whether the keys are lists


@dataclass(frozen=True)
class _CycleOfKeys(CycleInWords):
    """A cycle of transactions on keys in words: its places are lines, not times."""

    in_jepsen: bool = True
    of_lists: bool = False

    def dependency(self, kind: str, row: dict[str, Any], one: str, other: str) -> str:
        """The reason why one transaction comes before the other. A version of a list is known by its last element."""
        key, value, wrote = shown(row["topic"]), version_in_words(row["source_value"]), _WROTE[self.of_lists]
        if kind == "wr":
            return f"{one} {wrote} {value} to key {key}, {other} read it"
        before = f"before {other} {wrote} {version_in_words(row['target_value'])}"
        if kind == "ww":
            return f"{one} {wrote} {value} to key {key}, {before}{self._basis(row)}"
        if self.of_lists and row["source_value"]:
            return f"{one} read key {key} up to {value}, {before}"
        # An anti-dependency on a list needs no more: what was read lacks the later element.
        return f"{one} read {value} of key {key}, {before}{'' if self.of_lists else self._basis(row)}"

    def _basis(self, row: dict[str, Any]) -> str:
        """What shows that a version comes before another, in brackets."""
        # Transactions by their names, or by their processes if the cycle lacks them.
        ends = ((row[f"{txn}_at"], row[f"{txn}_process"]) for txn in ("one", "other"))
        by, other = (self.names.get(at, f"process {process}") for at, process in ends)
        first, later = (version_in_words(row[f"{end}_value"]) for end in ("source", "target"))
        words = {
            "both read": f"{by} read both in this order",
            "first read": f"{by} read {first} without {later}",
            "initial": "the initial state comes first",
            "wfr": f"{by} read {first} and replaced it",
        }
        in_time = f"{by} left it with {first}{' and' if by == other else f', {other}'} later used {later}"
        return f" ({words.get(row['basis'], in_time)})"

    def shown_by(self) -> list[Evidence]:
        """The operations beside those of the cycle that show the order of versions."""
        found: dict[int, Evidence] = {}
        for row in (step.row for step in self.cycle.steps if step.kind in (("ww",) if self.of_lists else ("ww", "rw"))):
            key, first, later = shown(row["topic"]), row["source_value"], row["target_value"]
            for txn in ("one", "other"):
                place = row[f"{txn}_at"]
                if place is not None and place not in self.names:
                    order = f"it shows {version_in_words(first)} before {version_in_words(later)}, of key {key}"
                    found.setdefault(place, Evidence(f"process {row[f'{txn}_process']}: {order}", place))
        return [*found.values()]


def count_text(rule: str, count: int, findings: int) -> str:
    """What the findings of a rule count, in words: records, or cycles, anomalies, commits and assignments."""
    of_findings = plural(findings, "finding")
    if rule not in TYPES and rule not in ANOMALIES and rule not in _NOT_OF_RECORDS:
        return f"{plural(count, 'record')} in {of_findings}"
    return of_findings if count == findings else f"{plural(count, 'case')} in {of_findings}"


def models_in_words(weakest: list[str], strongest: list[str]) -> str:
    """The models that a run rules out, as a sentence without its full stop."""
    if not weakest:
        return f"no model up to {strongest[0]} is ruled out"
    rest = f"{' and '.join(strongest)} {'is' if len(strongest) == 1 else 'are'} not ruled out" if strongest else ""
    return f"not {' and not '.join(weakest)}, nor anything stronger{'; ' + rest if rest else ''}"
