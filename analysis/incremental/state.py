"""The state between two calls, as a file: a zip archive of state.json and Parquet tables, written whole or not at all.

It has no values and no records of what is closed, so its size follows from what is not closed yet.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
import zlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from ...histories.appended import Position
from ...histories.errors import InputError, UsageError, describe_error
from ...histories.pairing import PLACED_EVENTS
from ...histories.tables import CONTEXT, OBSERVED, SENDS, Schema, typed, without_key
from ..batches import Unit, by_unit
from ..screening.range_facts import RangeFacts
from ..stages import QUARANTINED, Parts
from .closing import Closed
from .key_set import KeySet

FORMAT, VERSION = "logjudge state", 1
MAX_BYTES = 4 << 30  # of one table, decompressed
_KEYS: Schema = {"first": pl.UInt64, "last": pl.UInt64}
_TABLES: dict[str, Schema] = {
    "context": CONTEXT,
    "unplaced": SENDS,
    "waiting": PLACED_EVENTS,  # Parts.unpaired
    "quarantine": {**QUARANTINED},
    **OBSERVED,
    "values": {"topic": pl.String, "partition": pl.Int32, **_KEYS},
    "operations": _KEYS,
}


@dataclass(frozen=True)
class Carried:
    """The rows and facts that a call needs from earlier ones: rows that are not closed, and facts of closed offsets."""

    rows: Parts = field(default_factory=Parts)
    closed: dict[Unit, Closed] = field(default_factory=dict)
    operations: KeySet = field(default_factory=KeySet)  # that were invoked so far


@dataclass(frozen=True)
class State:
    """The position in each file of a run, and the carried rows; None: the next call judges the whole history."""

    basis: str  # settings and versions; a call with others judges the whole history
    positions: dict[str, Position]  # by file, in the order in which they were first read
    carried: Carried | None


def load_state(file: Path) -> State | None:
    """The state in a file; None without the file. Raises InputError for any other file."""
    expected = "a state that `logjudge check --state` wrote"
    hint = "name another file, or remove it to begin anew"
    if file.exists() and not file.is_file():  # a pipe would never end
        raise InputError(str(file), "something that is not a state (no regular file)", expected, hint)
    try:
        with zipfile.ZipFile(file) as archive:
            if "state.json" not in archive.namelist():
                raise InputError(str(file), "a zip archive that is not a state", expected, hint)
            return _parse_state(archive)
    except FileNotFoundError:
        return None
    except zipfile.BadZipFile as error:
        is_archive = zipfile.is_zipfile(file)  # with a damaged part
        found = (
            f"a damaged state ({describe_error(error)})"
            if is_archive
            else "a file that is not a state, or a part of one"
        )
        raise InputError(str(file), found, expected, hint) from error
    except (OSError, RuntimeError, NotImplementedError, zlib.error) as error:
        raise InputError(str(file), f"a file that is not a state ({describe_error(error)})", expected, hint) from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, pl.exceptions.PolarsError) as error:
        found = f"a damaged state ({type(error).__name__}: {describe_error(error)})"
        raise InputError(str(file), found, expected, hint) from error
    except pl.exceptions.PanicException as error:
        raise InputError(str(file), "a damaged state", expected, hint) from error


def _parse_state(archive: zipfile.ZipFile) -> State:
    content = json.loads(_member(archive, "state.json"))
    if content["format"] != FORMAT or content["version"] != VERSION:
        raise ValueError(f"version {content['version']} of {content['format']}, expected {VERSION} of {FORMAT}")
    members = {name: _member(archive, name) for name in archive.namelist() if name.removesuffix(".parquet") in _TABLES}
    if content.pop("checksum") != _checksum(content, members):
        raise ValueError("another checksum")
    positions = {str(name): _parse_position(entry) for name, entry in content["files"].items()}
    basis, carried = str(content["basis"]), content["carried"]
    if carried is None:
        return State(basis, positions, None)
    tables = {
        name: typed(pl.read_parquet(io.BytesIO(members[f"{name}.parquet"])), schema) for name, schema in _TABLES.items()
    }
    rows = Parts(
        observations=[(unit, name, frame) for name in OBSERVED for unit, frame in by_unit(tables[name])],
        context=[tables["context"]],
        unplaced=[tables["unplaced"]],
        unpaired=[tables["waiting"]],
        quarantine=[tables["quarantine"]],
        counts=Counter({str(name): int(number) for name, number in carried["counts"].items()}),
    )
    values = {unit: _key_set(table) for unit, table in by_unit(tables["values"])}
    closed = dict(_parse_closed(entry, values) for entry in carried["closed"])
    if not closed.keys() <= {unit for unit, _, _ in rows.observations}:
        raise ValueError("closed offsets of a partition without rows")
    return State(basis, positions, Carried(rows, closed, _key_set(tables["operations"])))


def _key_set(table: pl.DataFrame) -> KeySet:
    """The set of a table. Raises ValueError unless it is in order, as look-ups need."""
    first, last = (table[name].to_numpy() for name in _KEYS)
    if (first > last).any() or (first[1:] <= last[:-1]).any():
        raise ValueError("keys that are not in order")
    return KeySet(first, last)


def _parse_position(entry: dict[str, Any]) -> Position:
    numbers = int(entry["bytes"]), int(entry["lines"])
    if min(numbers) < 0:
        raise ValueError(f"a position of {min(numbers)}")
    return Position(*numbers, str(entry["head"]), str(entry["tail"]))


def _parse_closed(entry: dict[str, Any], values: dict[Unit, KeySet]) -> tuple[Unit, Closed]:
    unit = Unit(str(entry["topic"]), int(entry["partition"]))
    facts = RangeFacts.of_json(entry["facts"])
    groups, handlers = ([str(name) for name in entry[names]] for names in ("groups", "handlers"))
    known = values.get(unit, KeySet())
    return unit, Closed(int(entry["below"]), facts, known, int(entry["dropped_until"]), groups, handlers)


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).file_size > MAX_BYTES:
        raise ValueError(f"{name} of more than {MAX_BYTES >> 30} GiB")
    return archive.read(name)


def save_state(file: Path, state: State) -> None:
    """Writes the state to a new file and renames it. Raises UsageError if it cannot be written."""
    scratch = file.with_name(f".{file.name[:200]}.new")  # of a killed call, it is overwritten
    try:
        scratch.unlink(missing_ok=True)
        with scratch.open("xb") as out:
            _write(out, state)
            out.flush()
            os.fsync(out.fileno())
        scratch.replace(file)
    except OSError as error:
        raise UsageError(
            f"{file}: cannot write the state ({error.strerror}); name another file with --state"
        ) from error


def _write(out: Any, state: State) -> None:
    carried = state.carried
    content = {
        "format": FORMAT,
        "version": VERSION,
        "basis": state.basis,
        "files": {name: position._asdict() for name, position in state.positions.items()},
        "carried": None,
    }
    tables: dict[str, pl.DataFrame] = {}
    if carried is not None:
        closed = [{**unit._asdict(), **_record(offsets)} for unit, offsets in carried.closed.items()]
        content["carried"] = {"counts": carried.rows.counts, "closed": closed}
        tables = _tables_of(carried)
    members: dict[str, bytes] = {}
    for name, frame in tables.items():
        buffer = io.BytesIO()
        frame.write_parquet(buffer)
        members[f"{name}.parquet"] = buffer.getvalue()
    content["checksum"] = _checksum(content, members)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("state.json", json.dumps(content, indent=1))
        for name, payload in members.items():
            archive.writestr(name, payload)


def _checksum(content: dict[str, Any], members: dict[str, bytes]) -> str:
    """The SHA-256 of a state, which reveals later edits."""
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for _, payload in sorted(members.items()):
        digest.update(payload)
    return digest.hexdigest()


def _record(closed: Closed) -> dict[str, Any]:
    fields = {name: value for name, value in closed._asdict().items() if name != "values"}  # these are in a table
    return {**fields, "facts": closed.facts._asdict()}


def _tables_of(carried: Carried) -> dict[str, pl.DataFrame]:
    rows = carried.rows
    frames = {
        "context": rows.context,
        "unplaced": rows.unplaced,
        "waiting": rows.unpaired,
        "quarantine": rows.quarantine,
    }
    for name, schema in OBSERVED.items():
        frames[name] = [
            _with_unit(frame.select(list(without_key(schema))), unit)
            for unit, table, frame in rows.observations
            if table == name
        ]
    frames["operations"] = [_keys_table(carried.operations)]
    frames["values"] = [_with_unit(_keys_table(closed.values), unit) for unit, closed in carried.closed.items()]
    return {
        name: pl.concat([pl.DataFrame(schema=schema), *(frame.select(list(schema)) for frame in frames[name])])
        for name, schema in _TABLES.items()
    }


def _keys_table(keys: KeySet) -> pl.DataFrame:
    return pl.DataFrame(keys._asdict(), schema=_KEYS)


def _with_unit(frame: pl.DataFrame, unit: Unit) -> pl.DataFrame:
    return frame.with_columns(topic=pl.lit(unit.topic), partition=pl.lit(unit.partition, pl.Int32))
