"""Scenario files: TOML with Kafka's configuration names, to store, share and replay a run."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...models.exploration.invariants import INVARIANTS
from ...models.replication.config import MS, ConfigError
from ...models.replication.faults.fault import Fault
from ...models.replication.faults.kinds import FAULTS
from ...models.replication.options import OPTIONS
from ...models.replication.scenario import LATEST, OWN_VERSION, Scenario
from ...models.replication.variants import VARIANTS
from ..errors import InputError, LogjudgeError, close_names, shortened
from ..files import reason_of

KEYS = (
    "name",
    "variant",
    "defaults",
    "seed",
    "title",
    "story",
    "source",
    "theme",
    "picture",
    "trace_ms",
    "breaks",
    "causes",
    "config",
    "broker",
    "fault",
)
MAX_MS = 10**12
FAULT_KEYS = ("at_ms", "kind", "nodes", "for_ms", "amount", "to")


def read(path: Path, default_variant: str = "kip-320") -> Scenario:
    """Read a scenario file; raises InputError with a sentence."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(str(path), reason_of(error), "a scenario file", "check the path") from error
    except UnicodeDecodeError as error:
        raise InputError(str(path), "bytes that are not UTF-8", "a scenario file") from error
    scenario = parse(text, str(path), default_variant)
    try:
        scenario.config()
    except ConfigError as error:
        raise LogjudgeError(f"{path}: {error}") from error
    return scenario


def parse(text: str, source: str, default_variant: str = "kip-320") -> Scenario:
    """The scenario in a file's text; raises InputError with a sentence."""
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(source, f"text that is not TOML ({error})", "a scenario file") from error
    for key in data:
        if key not in KEYS:
            raise InputError(source, f"the key {key!r}", f"one of {', '.join(KEYS)}")
    brokers = {
        _number(b, source): _settings(_typed_value({b: options}, b, dict, {}, source), source)
        for b, options in _typed_value(data, "broker", dict, {}, source).items()
    }
    faults = tuple(_fault(entry, source) for entry in _list(data, "fault", dict, source))
    return Scenario(
        name=_typed_value(data, "name", str, Path(source).stem, source),
        variant=_typed_value(data, "variant", str, default_variant, source),
        seed=_typed_value(data, "seed", int, 0, source),
        options=_settings(_typed_value(data, "config", dict, {}, source), source),
        per_broker=brokers,
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
        title=_typed_value(data, "title", str, "", source),
        story=_typed_value(data, "story", str, "", source).strip(),
        source=_typed_value(data, "source", str, "", source),
        theme=_typed_value(data, "theme", str, "", source),
        picture=_typed_value(data, "picture", str, "swimlane", source),
        breaks=_invariants(data, source),
        causes=_list(data, "causes", str, source),
        defaults=_defaults(data, source),
        trace=_trace(data, source),
    )


_TYPE_NAMES = {str: "text", int: "a whole number", dict: "a table"}


def _typed_value(table: Mapping[str, Any], key: str, kind: type, default: Any, source: str) -> Any:
    found = table.get(key, default)
    if type(found) is not kind:  # not isinstance: true is no number
        raise InputError(source, f"{key} = {shortened(repr(found))}", _TYPE_NAMES[kind])
    return found


def _list(table: Mapping[str, Any], key: str, kind: type, source: str) -> tuple[Any, ...]:
    found = table.get(key, [])
    if not isinstance(found, list) or any(type(item) is not kind for item in found):
        form = f"[[{key}]]" if kind is dict else f"a list of {_TYPE_NAMES[kind].removeprefix('a ')}s"
        raise InputError(source, f"{key} = {shortened(repr(found))}", form)
    return tuple(found)


def _invariants(data: Mapping[str, Any], source: str) -> tuple[str, ...]:
    named = _list(data, "breaks", str, source)
    for name in named:
        _check_name("invariant", name, INVARIANTS, "`logjudge search --help` lists all invariants", source)
    return named


def _check_name(what: str, name: str, known: Iterable[str], listing: str, source: str) -> None:
    """Raise InputError with the known names that are close to this one, unless it is known."""
    if name not in known:
        close = " or ".join(close_names(name, known))
        raise InputError(source, f"the {what} {shortened(repr(name))}", close or "a known one", listing)


def _settings(table: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The settings of a table, by Kafka's names."""
    found = flatten(table, source)
    for name in found:
        _check_name("setting", name, OPTIONS, "`logjudge simulate --help` lists all settings", source)
    return found


def _trace(data: Mapping[str, Any], source: str) -> tuple[int, int] | None:
    if "trace_ms" not in data:
        return None
    found = data["trace_ms"]
    if not isinstance(found, list) or len(found) != 2:
        raise InputError(source, f"trace_ms = {shortened(repr(found))}", "two times, as in [1000, 1500]")
    since, until = (_microseconds(time, source) for time in found)
    return since, until


def _defaults(data: Mapping[str, Any], source: str) -> str:
    named = _typed_value(data, "defaults", str, OWN_VERSION, source)
    if named not in (LATEST, OWN_VERSION):
        raise InputError(source, f"defaults = {shortened(repr(named))}", f'"{OWN_VERSION}" or "{LATEST}"')
    return str(named)


def flatten(table: Mapping[str, Any], source: str, prefix: str = "") -> dict[str, Any]:
    """Dotted names from nested tables: TOML reads Kafka's names as tables unless they are quoted."""
    flat: dict[str, Any] = {}
    for key, item in table.items():
        name = f"{prefix}{key}"
        inner = flatten(item, source, f"{name}.") if isinstance(item, Mapping) else {name: item}
        for twice in flat.keys() & inner.keys():
            raise InputError(source, f"{twice} twice", "each setting once")
        flat.update(inner)
    return flat


def _number(text: str, source: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text):
        raise InputError(source, f"the broker {text!r}", "a broker's number, as in [broker.2]")
    return int(text)


def _fault(entry: Mapping[str, Any], source: str) -> Fault:
    for key in entry:
        if key not in FAULT_KEYS:
            raise InputError(source, f"the key {key!r} of a fault", f"one of {', '.join(FAULT_KEYS)}")
    kind = _typed_value(entry, "kind", str, "", source)
    _check_name("fault", kind, FAULTS, "`logjudge simulate --help` lists all faults", source)
    return Fault(
        at=_microseconds(entry.get("at_ms", 0), source),
        kind=kind,
        nodes=_list(entry, "nodes", int, source),
        lasts=_microseconds(entry.get("for_ms", 0), source),
        amount=_typed_value(entry, "amount", int, 0, source),
        to=_list(entry, "to", int, source),
    )


def _microseconds(value: Any, source: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_MS:
        raise InputError(source, f"the time {shortened(repr(value))}", f"milliseconds, zero to {MAX_MS}")
    return round(value * MS)


def dump(scenario: Scenario) -> str:
    """The scenario as a file that reads back as the same scenario."""
    has_other_defaults = scenario.defaults != OWN_VERSION and VARIANTS[scenario.variant].era.defaults
    lines = [
        f"name = {_quote(scenario.name)}",
        *_entries(title=scenario.title),
        f"variant = {_quote(scenario.variant)}",
        *_entries(defaults=scenario.defaults if has_other_defaults else ""),
        f"seed = {scenario.seed}",
        *_entries(
            source=scenario.source,
            theme=scenario.theme,
            picture="" if scenario.picture == "swimlane" else scenario.picture,
            breaks=scenario.breaks,
            causes=scenario.causes,
        ),
    ]
    if scenario.trace is not None:
        lines += _entries(trace_ms=[_milliseconds(time) for time in scenario.trace])
    if scenario.story:
        body = scenario.story.replace("\\", "\\\\").replace('"""', '""\\"')
        lines.append(f'story = """\n{body}\n"""')
    if scenario.options:
        lines += ["", "[config]", *_options(scenario.options)]
    for broker in sorted(scenario.per_broker):
        lines += ["", f"[broker.{broker}]", *_options(scenario.per_broker[broker])]
    for fault in scenario.faults:
        lines += ["", "[[fault]]", f"at_ms = {_milliseconds(fault.at)}", f"kind = {_quote(fault.kind)}"]
        lines += _entries(nodes=fault.nodes, for_ms=_milliseconds(fault.lasts), amount=fault.amount, to=fault.to)
    return "\n".join(lines) + "\n"


def _entries(**entries: Any) -> list[str]:
    """A line for each that is not empty."""
    return [f"{key} = {_quote(entry)}" for key, entry in entries.items() if entry]


def _options(options: Mapping[str, Any]) -> list[str]:
    return [f"{_quote(name)} = {_quote(options[name])}" for name in options]


def _milliseconds(time: int) -> float:
    return time // MS if time % MS == 0 else time / MS


def _quote(value: Any) -> str:
    """JSON's strings, numbers, booleans and flat lists are TOML's."""
    return json.dumps(value, ensure_ascii=False)
