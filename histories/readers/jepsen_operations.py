"""Reads one operation of Jepsen's kafka workload from any EDN, by the mapping in jepsen.py."""

from __future__ import annotations

import json
import re
from typing import Any

from ..tables import TYPES
from . import edn
from .edn import Keyword, Symbol, Tagged, by_name, excerpt
from .lines import INT64, MalformedError, decode_line

_PLAIN_KEYWORD = re.compile(r"[A-Za-z].*")
_HEALS = {  # of Jepsen's nemesis packages: the fault that each function ends, as format.md names it
    "start": "restart",
    "resume": "pause",
    "heal": "partition",
    "stop-partition": "partition",
}
# A whole operation of the nemesis: no text, collection or comment before its process can contain another operation.
_OF_NEMESIS = re.compile(r"\s*(#[\w.]+\s*)?\{[^\"\\\[\](){};#]*:process\s+:nemesis[\s,}].*\}\s*", re.DOTALL)
_FAULTS = {"start-partition": "partition"}


def event(line: bytes) -> dict[str, Any] | None:
    """The event of one line (a row of EVENTS without its line); None for a line without an event."""
    text = decode_line(line)
    try:
        forms = edn.read_all(text)
    except edn.EdnError as error:
        refused = MalformedError(str(error))
        # Lines may be missing after a torn one.
        is_torn = isinstance(error, edn.UnclosedError)
        refused.of_nemesis = not is_torn and text.count(":process") == 1 and bool(_OF_NEMESIS.fullmatch(text))
        raise refused from None
    if not forms:
        return None
    operation = forms[0].value if isinstance(forms[0], Tagged) else forms[0]  # #jepsen.history.Op{…}
    if not isinstance(operation, dict):
        raise MalformedError(f"found {excerpt(forms[0])}, expected an operation map")
    if len(forms) > 1:
        raise MalformedError(f"found {len(forms)} forms on the line, expected one operation map")
    try:
        return _event(by_name(operation))
    except MalformedError as error:
        error.of_nemesis = not _is_client(operation.get(Keyword("process")))
        raise


def _is_client(process: Any) -> bool:
    """Whether a process is a client; a missing one may be."""
    return process is None or (isinstance(process, int) and not isinstance(process, bool))


def notes(operation: dict[str, Any]) -> dict[str, Any]:
    """The columns of entries that any operation may have."""
    return {
        "error": _plain_text(operation.get("error")),
        "rebalanced": _rebalanced_keys(operation.get("rebalance-log")),
    }


def _event(operation: dict[str, Any]) -> dict[str, Any] | None:
    """The event of an operation; its entries are given by name."""
    for name in ("process", "type", "f"):
        if operation.get(name) is None:
            raise MalformedError(f"found an operation without :{name}, expected :process, :type and :f")
    kind, function, process = operation["type"], operation["f"], operation["process"]
    if not isinstance(kind, Keyword) or kind.name not in TYPES:
        raise MalformedError(f"found :type {excerpt(kind)}, expected :invoke, :ok, :fail or :info")
    time = operation.get("time")
    row = {
        "time": _int64(operation.get("index") if time is None else time, ":time or :index"),
        "process": text_of(process),
        "type": kind.name,
        **notes(operation),
    }
    if not _is_client(process):
        return row | _fault(function, operation.get("value"))
    if not isinstance(function, Keyword):
        raise MalformedError(f"found :f {excerpt(function)}, expected a keyword")
    data = _data(function.name, operation)
    return None if data is None else row | data


def _data(function: str, operation: dict[str, Any]) -> dict[str, Any] | None:
    """The columns that :f, :value and :seek-to-beginning? set; None if the operation is no event."""
    value = operation.get("value")
    if function == "send" and value is None and operation["type"] != Keyword("invoke"):
        return {"f": "send", "type": "info"}  # it may have sent what its invocation has
    if function in ("send", "poll", "txn"):
        steps = [_step(step) for step in _vector(value, ":value")]
        if function == "poll":
            records = [record for step in steps if step["f"] == "poll" for record in step["records"]]
            return {"f": "poll", "records": records}
        if function == "send":
            steps = [step for step in steps if step["f"] == "send"]
            if len(steps) == 1:
                return steps[0]
        return {"f": "txn", "ops": steps}
    if function == "assign":
        keys = [text_of(key) for key in _vector(value, ":value")]
        position = {"offset": 0} if operation.get("seek-to-beginning?") is True else {}
        return {"f": "assign", "offsets": [{"topic": key, "partition": 0, **position} for key in keys]}
    if function == "subscribe":
        return {"f": "subscribe", "topics": [text_of(key) for key in _vector(value, ":value")]}
    return {"f": "crash"} if function == "crash" else None


def _step(step: Any) -> dict[str, Any]:
    """[:send key value], [:send key [offset value]], [:poll] or [:poll {key [[offset value] …]}]."""
    match step:
        case (Keyword("send"), key, (offset, value)):
            return {"f": "send", **_record(key, offset, value)}
        case (Keyword("send"), key, value):
            return {"f": "send", **_record(key, None, value)}
        case (Keyword("poll"),) | (Keyword("poll"), None):
            return {"f": "poll", "records": []}
        case (Keyword("poll"), dict() as polled):
            records = [_records(key, pairs) for key, pairs in polled.items()]
            return {"f": "poll", "records": [record for of_key in records for record in of_key]}
    raise MalformedError(f"found {excerpt(step)}, expected [:send key value] or [:poll {{key [[offset value] …]}}]")


def _records(key: Any, pairs: Any) -> list[dict[str, Any]]:
    records = []
    for pair in _vector(pairs, "the records of a key"):
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise MalformedError(f"found {excerpt(pair)}, expected [offset value]")
        records.append(_record(key, *pair))
    return records or [{"topic": text_of(key), "partition": 0}]


def _record(key: Any, offset: Any, value: Any) -> dict[str, Any]:
    return {
        "topic": text_of(key),
        "partition": 0,
        "offset": None if offset is None else _int64(offset, "an offset"),
        "value": _value(value),
    }


def _fault(function: Any, value: Any) -> dict[str, Any]:
    name = _plain_text(function) or ""
    fault = {"kind": _HEALS.get(name) or _FAULTS.get(name, name), "value": _plain_text(value)}
    return {"f": "heal" if name in _HEALS else "fault", "fault": json.dumps(fault, ensure_ascii=False)}


def _rebalanced_keys(log: Any) -> list[str] | None:
    """The keys of a :rebalance-log, each once, in order."""
    if log is None:
        return None
    entries = [entry for entry in _vector(log, ":rebalance-log") if isinstance(entry, dict)]
    keys = [key for entry in entries for key in _vector(entry.get(Keyword("keys")), ":keys")]
    return list(dict.fromkeys(text_of(key) for key in keys))


def _vector(form: Any, what: str) -> tuple[Any, ...]:
    if form is None:
        return ()
    if not isinstance(form, tuple):
        raise MalformedError(f"found {what} {excerpt(form)}, expected a vector")
    return form


def _int64(form: Any, what: str) -> int:
    if isinstance(form, bool) or not isinstance(form, int) or form not in INT64:
        raise MalformedError(f"found {excerpt(form)} as {what}, expected an integer of 64 bits")
    return form


def _value(form: Any) -> str:
    if isinstance(form, tuple):
        raise MalformedError(f"found {excerpt(form)} as a value, expected a scalar, map or set: a vector has an offset")
    return text_of(form)


def text_of(form: Any) -> str:
    """The text of a key or value: only equal EDN forms have equal texts.

    Nil, booleans and numbers are written as they are. A keyword that begins with an ASCII letter loses its colon (`:x`
    becomes `x`), except `:nil`, `:true` and `:false`. A string that begins with such a letter and contains a space, as
    no keyword does, loses its quotes. Other keywords and strings keep theirs (`:1`, `"1"`). A symbol gets an
    apostrophe. Characters, tagged literals and collections are written as in EDN.
    """
    match form:
        case Keyword(name) if _PLAIN_KEYWORD.fullmatch(name) and name not in ("nil", "true", "false"):
            return name
        case str() if form[:1].isascii() and form[:1].isalpha() and " " in form:
            return form
        case Symbol(name):
            return f"'{name}"
    return edn.dumps(form)


def _plain_text(form: Any) -> str | None:
    """A readable text, which may be ambiguous."""
    match form:
        case None:
            return None
        case Keyword(name):
            return name
        case str():
            return form
    return edn.dumps(form)
