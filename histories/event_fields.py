"""Fields of a native history that the format does not have, and values of a type that it does not have.

The reader leaves no line out for them (docs/format.md): it ignores the fields, and takes the values as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any, NamedTuple

import orjson

from .event_schema import event_schema
from .files import Split, blocks
from .readers import native
from .tables import PLACES_OF_SPLIT

MISSPELT = 0.7  # the least similarity of a name to one of the format that it may be meant for
ACKS = ("all", "1", "0", "-1")
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
                    count, place = found.get(oddity, (0, number))
                    found[oddity] = Seen(count + 1, place)
    return found


def merged(parts: Iterable[Found]) -> Found:
    """The oddities of splits in order, together."""
    found: Found = {}
    for part in parts:
        for oddity, seen in part.items():
            before = found.get(oddity, Seen(0, seen.place))
            found[oddity] = Seen(before.lines + seen.lines, before.place)
    return found


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
    close = [one for one in get_close_matches(name, level.names, n=1, cutoff=MISSPELT) if one not in item]
    if close:
        return Oddity(f"unknown field {name}", f"did you mean {close[0]}?", True)
    return Oddity(f"unknown field {name}", "checks ignore it", False)


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
