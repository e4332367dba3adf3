"""Fields of a native history that the format does not have, and values of a type that it does not have.

The reader leaves no line out for them (docs/format.md): it ignores the fields, and takes the values as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import Any, NamedTuple

import orjson

from .event_schema import event_schema
from .files import Split, blocks
from .readers import native
from .tables import PLACES_OF_SPLIT

MISSPELT = 0.7  # the least similarity of a name to one of the format that it may be meant for
MAX_ODDITIES = 50  # of one history
ACKS = ("all", "1", "0", "-1")
# The kinds of faults that checks, plots or the simulator know; recorders may have others.
_OF_LOGS = ("truncate", "restore", "restore-backup", "corrupt", "bit-flip")
FAULT_KINDS = (
    *("kill", "power-loss", "shutdown", "stop", "pause", "restart", "disk-full", "partition", "lose-acks", *_OF_LOGS),
    *("delete-records", "add-partitions", "delete-topic", "create-topic", "init-transactions", "preferred-election"),
    *("reassignment", "cancel-reassignment", "loss", "duplication", "delay", "slow-disk", "clock-skew"),
    *("controller-crash", "controller-pause", "consumer-seek", "consumer-crash", "consumer-shutdown"),
    *("consumer-replace", "consumer-pause"),
)
_FAULT_FIELDS = {
    **dict.fromkeys(_OF_LOGS, ("topic", "partition")),
    "delete-records": ("topic", "offsets"),
    "add-partitions": ("topic", "partitions"),
    "delete-topic": ("topic",),
    "create-topic": ("topic", "partitions", "topic_id"),
    "init-transactions": ("transactional_ids",),
}
_TEXT, _NAME = (str,), (str, int)
_WORDS = {dict: "an object", list: "a list", bool: "true or false", float: "a fraction", int: "an integer"}


class Oddity(NamedTuple):
    """Something odd that may be on many lines."""

    found: str
    expected: str
    is_warning: bool  # else it may be what the recorder meant


class Seen(NamedTuple):
    """The lines with an oddity."""

    lines: int
    place: int  # of the first


class _Level(NamedTuple):
    """What the objects of one level may have."""

    names: frozenset[str]
    texts: dict[str, tuple[type, ...]]  # the fields that the reader takes as text, and their types in JSON
    items: dict[str, _Level]  # the lists of objects


Found = dict[Oddity, Seen]


def odd_fields(split: Split) -> Found:
    """The oddities of a split of a native history; none of other formats."""
    found: Found = {}
    if split.reader != native.NAME:
        return found
    first = split.number * PLACES_OF_SPLIT
    for block in blocks(split):
        for number, line in enumerate(block.data.split(b"\n"), first + block.first_line):
            try:
                event = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
            if isinstance(event, dict):
                for oddity in dict.fromkeys([*_odd_in(event, _event_level()), *_odd_event(event)]):
                    _add(found, oddity, Seen(1, number))
    return found


def merged(parts: Iterable[Found]) -> Found:
    """The oddities of splits in order, together."""
    found: Found = {}
    for part in parts:
        for oddity, seen in part.items():
            _add(found, oddity, seen)
    return found


def _add(found: Found, oddity: Oddity, seen: Seen) -> None:
    """Counts lines with an oddity, after those with it so far. Past MAX_ODDITIES others are left out."""
    if oddity in found:
        lines, place = found[oddity]
        found[oddity] = Seen(lines + seen.lines, place)
    elif len(found) < MAX_ODDITIES:
        found[oddity] = seen


def _odd_in(item: Mapping[str, Any], level: _Level) -> Iterable[Oddity]:
    """The oddities of an object and of the objects in it."""
    if not item.keys() <= level.names:
        yield from (_unknown(name, item, level) for name in sorted(item.keys() - level.names))
    for name, types in level.texts.items():
        value = item.get(name)
        if value is not None and value.__class__ not in types:
            expected = "text or an integer" if int in types else "text"
            yield Oddity(
                f"{_WORDS[value.__class__]} as {name}", f"expected {expected}; check takes its JSON as text", True
            )
    for name, below in level.items.items():
        within = item.get(name)
        for one in within if isinstance(within, list) else ():
            if isinstance(one, dict):
                yield from _odd_in(one, below)


def _unknown(name: str, item: Mapping[str, Any], level: _Level) -> Oddity:
    """A field that the format does not have. It may be a misspelt one, unless the object has this one, too."""
    meant = _closest(name, level.names.difference(item))
    return Oddity(f"unknown field {name}", f"did you mean {meant}?" if meant else "checks ignore it", bool(meant))


@lru_cache(4096)
def _closest(name: str, names: frozenset[str]) -> str:
    """The name that a misspelt one may be meant for; empty if none is close."""
    return next(iter(get_close_matches(name, sorted(names), n=1, cutoff=MISSPELT)), "")


def _odd_event(event: Mapping[str, Any]) -> Iterable[Oddity]:
    """What is odd about acks and fault."""
    acks = event.get("acks")
    if acks is not None and str(acks) not in ACKS:
        yield Oddity(f"acks {acks!s:.40}", "expected all, 1 or 0; check takes it as acknowledged", True)
    if event.get("f") not in ("fault", "heal"):
        return
    fault = event.get("fault")
    if (fault is None and event.get("type") == "invoke") or not isinstance(fault, dict | None):
        yield Oddity(f"a {event['f']} without an object as fault", 'expected {"kind": …, "nodes": […]}', True)
    if isinstance(fault, dict):
        yield from _odd_fault(fault)


def _odd_fault(fault: Mapping[str, Any]) -> Iterable[Oddity]:
    """What is odd about the object of a fault. A field that is close to none of its kind is the recorder's own."""
    kind = fault.get("kind")
    if not isinstance(kind, str):
        yield Oddity("a fault without kind", f"expected one, such as {FAULT_KINDS[0]}", True)
    elif kind not in FAULT_KINDS:
        meant = _closest(kind, frozenset(FAULT_KINDS))
        advice = f"did you mean {meant}?" if meant else "causes do not know it"
        yield Oddity(f"unknown kind of fault {kind}", advice, bool(meant))
    names = frozenset(("kind", "nodes", *_FAULT_FIELDS.get(str(kind), ())))
    for name in sorted(fault.keys() - names):
        if meant := _closest(name, names.difference(fault)):
            yield Oddity(f"unknown field {name} in a fault", f"did you mean {meant}?", True)
    if not isinstance(fault.get("nodes"), list | None):
        yield Oddity(f"{_WORDS.get(fault['nodes'].__class__, 'text')} as nodes of a fault", "expected a list", True)


@cache
def _event_level() -> _Level:
    schema = event_schema()
    return _level_of(schema, schema["$defs"])


def _level_of(schema: Mapping[str, Any], shared: Mapping[str, Any]) -> _Level:
    """The level that a schema of objects describes."""
    texts: dict[str, tuple[type, ...]] = {}
    items: dict[str, _Level] = {}
    for name, about in schema["properties"].items():
        kind = shared[about["$ref"].rsplit("/", 1)[-1]] if "$ref" in about else about
        types = kind.get("type", ())
        if "string" in types:
            texts[name] = _NAME if "integer" in types else _TEXT
        elif "properties" in kind.get("items", {}):
            items[name] = _level_of(kind["items"], shared)
    return _Level(frozenset(schema["properties"]), texts, items)
