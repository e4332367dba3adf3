"""Causes told as stories: what was lost, the dated facts that led to it, what would have prevented it.

Works on the `causes` of verdict.json alone. Explanations of one loss that several rules found are one story.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...analysis.wording import either, plural
from ..clock import clock
from ..style import number

MAX_WHYS = 12
MAX_STEPS = 30
MAX_BLAMED = 3
MAX_ALIKE = 8  # losses of other partitions that a title names
ONE_TIME = 2_000_000_000  # ns between what one event did to two partitions
ALIKE = ("kind", "epoch", "broker", "brokers", "isr", "snapshot")  # of facts that one event made of two partitions
REPEATED = "duplicate/"  # findings of this rule are many and alike

Record = dict[str, Any]


@dataclass
class Step:
    """One fact of a chain."""

    seconds: str  # since the start of the run; empty where nothing dates it
    clock: str  # UTC, or empty
    says: str
    source: str  # file:line or file byte N


@dataclass
class Why:
    """One cause with its chain, or what is missing to name it."""

    cause: str
    title: str
    facts: list[Record] = field(default_factory=list)  # the chain as verdict.json has it
    steps: list[Step] = field(default_factory=list)
    prevented_by: list[str] = field(default_factory=list)
    citation: str = ""
    missing: list[str] = field(default_factory=list)
    readings: list[Why] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    lost: Record | None = None
    alike: list[Record] = field(default_factory=list)  # what else was lost in the same way: other partitions' ranges
    alike_facts: list[Record] = field(default_factory=list)  # when that was acknowledged and lost, one each

    @property
    def known(self) -> bool:
        return self.cause != "unknown"


def whys_of(causes: list[Record], started_at: str | None) -> list[Why]:
    """The stories, losses first, most records first; explanations of overlapping losses are told once."""
    ordered = sorted(causes, key=lambda cause: -_size(cause))
    told: list[Why] = []
    near: dict[tuple[Any, ...], list[Why]] = {}  # those that another explanation may be the same as
    for cause in ordered:
        lost = cause.get("lost")
        beside = near.setdefault((cause["cause"], lost and (lost["topic"], lost["partition"])), [])
        same = next((why for why in beside if _is_same(why, cause)), None)
        if same:
            same.findings += [name for name in cause["findings"] if name not in same.findings]
            continue
        told.append(_why(cause, started_at or ""))
        if lost or _is_repeated(told[-1]):
            beside.append(told[-1])
    told = _incidents(told, started_at or "")
    for why in told:
        if why.lost is None and len(why.findings) > 1:
            why.title = f"{plural(len(why.findings), 'finding')}, for example {why.title}"
    # What is known goes first; a permitted duplicate must not hide a loss.
    return sorted(told, key=lambda why: (why.lost is None, not why.known))


def _incidents(told: list[Why], started_at: str) -> list[Why]:
    """Causes that led to losses of several partitions by the same steps are told once, with all that they lost."""
    out: list[Why] = []
    alike: dict[str, list[Why]] = {}  # of the same steps, though maybe at other times
    for why in told:
        beside = alike.setdefault(repr([why.cause, why.prevented_by, *map(_made_of, _steps_of(why))]), [])
        first = next((one for one in beside if _same_way(one, why)), None)
        if first is None or why.lost is None:
            out.append(why)
            if why.known and why.lost and _steps_of(why):
                beside.append(why)
            continue
        first.alike.append(why.lost)
        first.alike_facts.append(_in_short(why, why.lost))
        first.findings += why.findings
    for why in out:
        why.alike_facts.sort(key=lambda fact: (fact["time"] is None, fact["time"]))
        del why.alike_facts[MAX_STEPS:]
        why.steps += [step_of(fact, started_at) for fact in why.alike_facts]
        why.title += "".join(f"; {title_of({'lost': lost})}, in the same way" for lost in why.alike[:MAX_ALIKE])
        if (more := len(why.alike) - MAX_ALIKE) > 0:
            records = sum(lost["count"] for lost in why.alike[MAX_ALIKE:])
            why.title += f"; {plural(more, 'more loss', 'more losses')} of {plural(records, 'record')}, in the same way"
    return out


def _in_short(why: Why, lost: Record) -> Record:
    """A fact for a whole chain: when the records were acknowledged, and what happened to their partition next."""
    since, until, name = lost.get("first_acked"), lost.get("last_acked"), f"{lost['topic']}-{lost['partition']}"
    says = f"in the same way {place_of_lost(lost)}"
    if since is None or until is None:
        return {**why.facts[0], "kind": "acknowledged", "says": says, "time": None}
    says += ", acknowledged " + ("at" if since == until else f"from {since / 1e9:.3f} s to") + f" {until / 1e9:.3f} s"
    after = (fact for fact in why.facts if fact.get("partition") == name and (fact["time"] or 0) > until)
    if then := next(after, None):
        says += f"; at {then['time'] / 1e9:.3f} s {then['says']}"
    return {**(then or why.facts[0]), "kind": "acknowledged", "says": says, "time": since}


def _same_way(one: Why, other: Why) -> bool:
    """Whether their steps, which are alike, happened at one time to two partitions."""
    return other.lost is not None and all(map(_at_one_time, _steps_of(one), _steps_of(other)))


def _steps_of(why: Why) -> list[Record]:
    """The facts without the answers to clients, which are of each partition alone."""
    return [fact for fact in why.facts if fact.get("kind") != "acknowledged"]


def _made_of(fact: Record) -> list[Any]:
    return [fact.get(name) for name in ALIKE]


def _at_one_time(fact: Record, twin: Record) -> bool:
    """Whether one event made both; results of an earlier version don't tell of what kind facts are."""
    one_time = fact["time"] == twin["time"] or abs((fact["time"] or 0) - (twin["time"] or 0)) <= ONE_TIME
    return "kind" in fact and one_time


def _size(cause: Record) -> int:
    lost = cause.get("lost")
    # Of two findings on one loss the client's own count is the greater one, or they are equal.
    return int(lost["count"]) if lost else 0


def _is_same(why: Why, cause: Record) -> bool:
    """Whether they tell of overlapping losses. What is no loss is small and often repeated: once is enough."""
    one, other = why.lost, cause.get("lost")
    if one is None or other is None:
        return one is other and why.missing == cause["missing"] and _is_repeated(why)
    here = (one["topic"], one["partition"]) == (other["topic"], other["partition"])
    return bool(here and one["first"] <= other["last"] and other["first"] <= one["last"])


def _is_repeated(why: Why) -> bool:
    return any(name.startswith(REPEATED) for name in why.findings[:1])


def _why(cause: Record, started_at: str) -> Why:
    return Why(
        cause["cause"],
        title_of(cause),
        list(cause["chain"]),
        [step_of(fact, started_at) for fact in cause["chain"][:MAX_STEPS]],
        list(cause["prevented_by"]),
        cause["citation"],
        list(cause["missing"]),
        [_why(reading, started_at) for reading in cause["readings"]],
        list(cause.get("findings", ())),
        cause.get("lost"),
    )


def title_of(cause: Record) -> str:
    """What the cause explains, in a sentence without its full stop."""
    lost = cause.get("lost")
    if lost is None:
        return str(cause.get("says") or ", ".join(cause.get("findings", ())[:3]))
    return f"{place_of_lost(lost)} lost, {amount(lost['count'], lost['read'])}"


def place_of_lost(lost: Record) -> str:
    name = f"{lost['topic']}-{lost['partition']}"
    if lost["first"] == lost["last"]:
        return f"offset {lost['first']} of {name}"
    return f"offsets {lost['first']} to {lost['last']} of {name}"


def amount(count: int, read: int | None) -> str:
    """17 acknowledged writes, 3 of them consumed before."""
    said = plural(count, "acknowledged write")
    if read is None:
        return said
    if count == 1:
        return f"{said}, {'consumed before' if read else 'never consumed'}"
    if read in (0, count):
        return f"{said}, {'all' if read else 'none'} of them consumed before"
    return f"{said}, {number(read)} of them consumed before"


def blame(whys: list[Why], breaches: set[str]) -> str:
    """The causes of these findings, each with what would have prevented it, for a headline; empty where none was
    asked for. What is permitted has causes too, but nobody is to be blamed for it."""
    asked = [why for why in whys if breaches.intersection(why.findings)]
    causes = {why.cause: why.prevented_by for why in asked if why.known}
    if asked and not causes:
        return "The cause is not known."
    told = [
        f"Cause: {cause}" + (f", which would have been prevented by {either(prevented)}." if prevented else ".")
        for cause, prevented in list(causes.items())[:MAX_BLAMED]
    ]
    if len(causes) > MAX_BLAMED:
        told.append(f"{plural(len(causes) - MAX_BLAMED, 'more cause')} below.")
    if not all(why.known for why in asked):
        told.append("The cause of the rest is not known.")
    return " ".join(told)


def step_of(fact: Record, started_at: str) -> Step:
    time = fact["time"]
    return Step(
        "" if time is None else f"{time / 1e9:.3f}",
        "" if time is None else clock(started_at, time),
        fact["says"],
        source_of(fact),
    )


def source_of(fact: Record) -> str:
    """Where a fact is written: file:line, or the byte in the file; of all files that tell it."""
    if fact.get("also"):
        return "; ".join(source_of({**one, "also": None}) for one in (fact, *fact["also"]))
    source = fact["source"] or ""
    if fact["line"] is not None:
        return f"{source}:{fact['line']}"
    return f"{source} byte {fact['byte']}" if fact["byte"] is not None else source


def impact_by_cause(whys: list[Why]) -> list[tuple[str, int, int | None]]:
    """Cause, lost records, and how many of them were consumed before (None where nobody knows)."""
    totals: dict[str, tuple[int, int | None]] = {}
    for why in whys:
        for lost in (why.lost, *why.alike) if why.lost is not None else ():
            count, read = totals.get(why.cause, (0, 0))
            seen = lost["read"]
            totals[why.cause] = (count + lost["count"], None if read is None or seen is None else read + seen)
    return sorted(((name, *both) for name, both in totals.items()), key=lambda row: (-row[1], row[0]))
