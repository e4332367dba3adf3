"""What the contents that gets returned show about a map's values, if no value is a prefix of another.

Then each content is one sequence of values. A chain is a series of contents of a key, each a prefix of the next one;
contents of two chains of a key contradict each other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..operations import UNKNOWN
from . import machine as m
from .history import Numbered


class Place(NamedTuple):
    """A content in its chain."""

    chain: int
    length: int  # its values


class Contents:
    """The contents of completed gets, as sequences of values."""

    def __init__(self, history: Numbered, written: Sequence[str]) -> None:
        self.history = history
        self.times: Counter[tuple[Any, str]] = Counter()  # how often a value is written, by key and value
        # The number of values before a value that is written once. Every linearization appends it there, so the search
        # does not try it elsewhere.
        self.places: dict[tuple[Any, str], int] = {}
        # The last value, by key and content. A content is absent if it has more than was written.
        self.last: dict[tuple[Any, str], str] = {}
        self.chains: list[list[str]] = []  # the values of the longest content of each
        self.place_of: dict[tuple[Any, str], Place] = {}  # by key and content; absent if it is no sequence of values
        found: dict[Any, set[str]] = defaultdict(set)  # the contents, by key
        action_of: list[int] = history.action_of.tolist()
        counts = Counter(action_of)
        completed = {action for action, end in zip(action_of, history.ends, strict=True) if end is not None}
        for action, (f, value, result, key) in enumerate(history.actions):
            if f == "put" or value:
                self.times[key, value or ""] += counts[action]
            elif f == "get" and action in completed and result and isinstance(result, str):
                found[key].add(result)
        lengths = sorted({len(value) for value in written})
        for key, contents in found.items():
            self._parse(key, sorted(contents), frozenset(written), lengths)

    def _parse(self, key: Any, contents: list[str], written: frozenset[str], lengths: list[int]) -> None:
        """Add the contents of a key. Most extend the previous one, whose values are not parsed again."""
        before = None
        # How many of its characters are parsed, their values, and whether it has a value twice that is written once.
        at, values, is_doubled = 0, list[str](), False
        for content in contents:
            if before is None or not content.startswith(before):
                at, values, is_doubled = 0, [], False
                self.chains.append(values)
            before = content
            # No value is a prefix of another, so at most one fits.
            while value := next((content[at : at + n] for n in lengths if content[at : at + n] in written), ""):
                if self.times[key, value] == 1:
                    place = self.places.setdefault((key, value), len(values))
                    is_doubled |= place < len(values) and values[place] == value
                values.append(value)
                at += len(value)
            if at == len(content):
                self.place_of[key, content] = Place(len(self.chains) - 1, len(values))
                if not is_doubled:
                    self.last[key, content] = values[-1]

    def monitored(self) -> tuple[m.Monitored, ...]:
        """The actions for the monitors: of keys with appends alone, and of keys with puts."""
        keys = {key for *_, key in self.history.actions}
        with_puts = {key for f, _, _, key in self.history.actions if f == "put"}
        of_appends = (self.as_appends(),) if keys - with_puts else ()
        return (*of_appends, self.as_register()) if with_puts else of_appends

    def as_appends(self) -> m.Monitored:
        """Appends and gets: a get has its chain and its number of values. The monitor leaves keys with puts alone."""
        numbers: dict[str, int] = {}
        code = []
        for f, value, result, key in self.history.actions:
            if f == "put":
                code.append((m.REPLACE, 0, 0))
            elif f == "append":
                code.append((m.APPEND, numbers.setdefault(value, len(numbers)), -1) if value else (m.PASS, 0, 0))
            elif result is UNKNOWN:
                code.append((m.PASS, 0, 0))
            elif result is None or result == "":
                code.append((m.IS, 0, 0))
            else:
                place = self.place_of.get((key, result))
                code.append((m.IS, *place) if place else (m.NEVER, 0, 0))
        words = [[numbers.setdefault(value, len(numbers)) for value in values] for values in self.chains]
        return m.Monitored(m.CONTENTS, m.machine_of(code, words), len(numbers), len(numbers))

    def as_register(self) -> m.Monitored:
        """The last value of the content as a register: if no order explains its reads, none explains the gets.

        Such a value is last from its write to the next one. Values that are written more often are left out.
        """
        numbers: dict[str, int] = {}
        code = []
        for f, value, result, key in self.history.actions:
            content = (result if f == "get" else value) or ""
            last = self.last.get((key, content), content) if f == "get" else content
            times = self.times[key, last]
            if content is UNKNOWN or times > 1 or (not last and (times or f != "get")):
                code.append((m.PASS, 0, 0))
            else:
                code.append((m.READ if f == "get" else m.WRITE, numbers.setdefault(last, len(numbers)), 0))
        initial = numbers.get("", len(numbers))
        return m.Monitored(m.REGISTER, m.machine_of(code), initial, len(numbers) + 1, refutes_only=True)
