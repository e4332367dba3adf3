"""Lines of brokers' logs without the prefixes that collectors put in front of them, and in Kafka's own layout.

`docker compose logs` writes `kafka-1  | `, `kubectl logs --prefix` writes `[pod/kafka-0/kafka] `, journald a time, the
host and the unit, syslog these in the form of RFC 5424, `<30>1 time host unit 7 - - `. `--timestamps` adds a time;
files below /var/log/pods have a time and the stream (stdout or stderr). A file may hold the lines of several brokers.
Lines may have other layouts than Kafka's: Strimzi's have the thread, and since Kafka 4.0 no milliseconds
(default-logging/KafkaCluster.properties). `%d{ISO8601}`, its variants with a zone, and `[%t] %p %c - %m` are common in
log4j.

Collectors also write lines in JSON, an object a line. docker's json-file driver wraps each line:
`{"log": "[…] INFO …\\n", "stream": "stdout", "time": "…"}`; so do `journalctl -o json` and Loki's `logcli -o jsonl`, in
other fields. `journalctl -o export` writes `MESSAGE=[…] INFO …` between lines with other fields. JSON layouts of log4j
have fields for time, level, logger and message. Their names are those of JsonLayout, of JsonTemplateLayout with the
templates EcsLayout and LogstashJsonEventLayoutV1, and of KIP-1338.

The broker that wrote a log follows from its configuration or the ids in front of lines, at the head of the log. The
log's folder does not decide: logs of several hosts may be in one folder, beside the log.dirs of one of them, and one
file may hold the lines of several brokers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..files import HEAD_BYTES, Split, blocks, compression_of, head_of, tail_of
from .parts import Part

STAMP = re.compile(r"\[(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)[,.](\d{3})\]")
_COLOUR = r"(?:\x1b\[[\d;]*m)*"
_ISO_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.,]*(?:Z|[+-]\d\d:?\d\d) "
_LEVEL = "(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL) +"
_THREAD = r"\[(?!\d{4}-)[^\[\]]*\] +"
_PREFIX = re.compile(
    rf"\ufeff?{_COLOUR}(?:(?P<service>[\w.\-]+) *\|(?:{_COLOUR} )?|(?P<pod>\[pod/[^\]\s]+\]) ?"
    rf"|(?:[A-Z][a-z]{{2}} [ \d]\d [\d:]{{8}} |{_ISO_TIME})(?P<unit>[\w.\-]+ [\w.\-@]+)(?:\[\d+\])?: ?"
    rf"|<\d{{1,3}}>1 (?:{_ISO_TIME}|- )(?P<syslog>\S+ \S+) \S+ \S+ (?:-|(?:\[(?!\d{{4}}-)[^\]]*\])+) \ufeff?)?"
    rf"{_COLOUR}(?:(?!{_ISO_TIME}(?:{_THREAD})?{_LEVEL}){_ISO_TIME}(?:std(?:out|err) [FP] )?)?{_COLOUR}"
)
_LAYOUT = re.compile(
    r"\[?(?P<second>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?P<fraction>[,.]\d{3})?\d*(?P<zone>Z|[+-]\d\d:?\d\d)?\]? +"
    rf"(?P<thread>{_THREAD})?(?P<level>{_LEVEL})"
)
# In Strimzi's layout since Kafka 4.0 a line number is behind the logger; before, logger and thread are at the end.
_LOGGER = re.compile(rf"(?:{_THREAD})?(?:(?P<named>[\w.$]+)(?::(?:\d+|\?))? - |(?P<dotted>[\w$]+(?:\.[\w$]+)+): )")
# Names of fields in JSON. The first ones have a line as the broker wrote it.
_WRAPPED = ("log", "MESSAGE", "line")
_TIMES = ("@timestamp", "timestamp", "timeMillis", "instant")
_LEVELS = ("level", "log.level")
_LOGGERS = ("logger_name", "log.logger", "loggerName", "logger")
_EPOCH = datetime(1970, 1, 1)
# The id of a broker.
_CONFIGURED = re.compile(r"^\t(?:node|broker)\.id = (\d+)\s*$", re.MULTILINE)
_HEAD = r"^\[[-\d]{10} [\d:,.]{12}\] [A-Z]+ "
_NAMED = re.compile(
    _HEAD
    # [KafkaServer id=1], [Partition orders-0 broker=1], [SocketServer listenerType=BROKER, nodeId=1], since 1.0
    + r"(?:\[[A-Za-z][\w .\-]*(?: listenerType=\w+,)? (?:id|nodeId|brokerId|broker|controllerId|replicaId)=(\d+)\b"
    # [Kafka Server 1], [Controller 3], [ReplicaFetcherManager on broker 1], before
    + r"|\[(?:Kafka Server|Controller|GroupCoordinator|[\w ]+ on (?:[Bb]roker|[Cc]ontroller)) (\d+)\]"
    + r"|Partition \[[\w.\-]+,\d+\] on broker (\d+):"
    # state-change.log
    + r"|(?:Broker|Controller) (\d+) (?:epoch|received|handling|cached|stopped|completed) )",
    re.MULTILINE,
)
_OF_KAFKA = re.compile(r"\(kafka\.|\(org\.apache\.kafka\.")


def split_prefix(line: str) -> tuple[str, str]:
    """The source that a line's prefix names ("" without a prefix), and the rest of the line in Kafka's own layout."""
    found = _PREFIX.match(line)
    assert found is not None  # all of its parts are optional
    source = next(filter(None, found.groups()), "")
    return source, in_kafkas_layout(line[found.end() :])


def in_kafkas_layout(line: str) -> str:
    """A line without a prefix as Kafka's own configuration writes it: `[time] LEVEL message (logger)`."""
    line = line.removeprefix("\ufeff").removeprefix("MESSAGE=")  # a byte order mark; journald's export format
    if line.startswith("{"):
        line = from_json(line)
    found = None if STAMP.match(line) else _LAYOUT.match(line)
    if found is None:
        return line
    text = line[found.end() :]
    logger = _LOGGER.match(text) if found["thread"] or text.startswith("[") else None
    if logger:
        text = f"{text[logger.end() :]} ({logger['named'] or logger['dotted']})"
    elif text.endswith("]"):
        message, end, thread = text.rpartition(") [")
        text = message + ")" if end and "]" not in thread[:-1] else text
    second = found["second"].replace("T", " ")
    if found["zone"]:
        with suppress(ValueError, OverflowError):
            second = f"{datetime.fromisoformat(second + found['zone']).astimezone(UTC):%Y-%m-%d %H:%M:%S}"
    return f"[{second}{found['fraction'] or ',000'}] {found['level'].rstrip()} {text}"


def _heads(path: Path) -> dict[str | None, str]:
    """The first lines of each source in a log, without prefixes; a log without prefixes has the source None.

    A file with prefixes is read as a whole, as one source may begin after another ends. No lines of an unreadable one.
    """
    try:
        found = path.stat()
    except OSError:
        return {}
    return _read_heads(path, found.st_ino, found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=64)  # several questions about a file follow each other
def _read_heads(path: Path, *version: int) -> dict[str | None, str]:  # noqa: ARG001 - a file that changed is read again
    found: dict[str | None, list[str]] = {}
    sizes: dict[str, int] = {}
    try:
        head = head_of(path)
        whole = head[: head.rfind(b"\n") + 1] if len(head) >= HEAD_BYTES else head  # a cut line may end within an id
        lines = [in_kafkas_layout(line) for line in (whole or head).decode("utf-8", "replace").split("\n")]
        if any(map(STAMP.match, lines)) or not any(STAMP.match(split_prefix(line)[1]) for line in lines):
            return {None: "\n".join(lines)}
        for line in _lines(path):
            source, text = split_prefix(line)
            if sizes.setdefault(source, 0) < HEAD_BYTES:
                sizes[source] += len(text)
                found.setdefault(source, []).append(text)
    except (OSError, ValueError):
        return {}
    stamped = {source: texts for source, texts in found.items() if any(map(STAMP.match, texts))}
    return {source: "\n".join(texts) for source, texts in stamped.items()}


def is_undated(path: Path) -> bool:
    """Whether a file has text, but no line of a broker with a time. Raises OSError or ValueError.

    A file at a URI may be fetched in part: then it has its first lines, and zeros instead of the rest.
    """
    is_empty = True
    for line in _lines(path):
        if "\0" in line or STAMP.match(split_prefix(line)[1]):
            return False
        is_empty = is_empty and not line.strip()
    return not is_empty


def _lines(path: Path) -> Iterator[str]:
    if compression := compression_of(path):
        for block in blocks(Split(0, str(path), "", compression, 0, 0)):
            yield from block.data.decode("utf-8", "replace").split("\n")
    else:
        with path.open(encoding="utf-8", errors="replace", newline="\n") as opened:
            while line := opened.readline(HEAD_BYTES):
                yield line.rstrip("\n")


def from_json(line: str) -> str:
    """A line in JSON as `[time] LEVEL message (logger)`, with its time in UTC; any other line unchanged."""
    with suppress(ValueError, RecursionError, OverflowError):
        fields = json.loads(line)
        if isinstance(fields, dict):
            wrapped = None if "message" in fields else _first_field(fields, _WRAPPED)
            if isinstance(wrapped, str):
                return wrapped.rstrip("\n")
            time = _time_of(_first_field(fields, _TIMES))
            if time is not None and isinstance(fields.get("message"), str):
                level, logger = _first_field(fields, _LEVELS), _first_field(fields, _LOGGERS)
                stamp = f"[{time:%Y-%m-%d %H:%M:%S},{time.microsecond // 1000:03}]"
                return f"{stamp} {level} {fields['message']} ({logger})"
    return line


def _first_field(fields: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((fields[name] for name in names if name in fields), None)


def _time_of(value: Any) -> datetime | None:
    """A time in UTC: ISO 8601, milliseconds since the epoch, or seconds and nanoseconds. None if it is no time.

    Raises ValueError or OverflowError.
    """
    if isinstance(value, str):
        time = datetime.fromisoformat(value)
        return time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)
    if isinstance(value, int):
        return _EPOCH + timedelta(milliseconds=value)
    if isinstance(value, dict):
        seconds, nanoseconds = value.get("epochSecond"), value.get("nanoOfSecond", 0)
        if isinstance(seconds, int) and isinstance(nanoseconds, int):
            return _EPOCH + timedelta(seconds=seconds, microseconds=nanoseconds // 1000)
    return None


def writer_of(path: Path) -> str | None:
    """The id of the broker or controller that wrote a log; None without one, or with two."""
    ids = {writer_in(head) for head in _heads(path).values()}
    return ids.pop() if len(ids) == 1 else None


def logs_in(part: Part) -> list[Part]:
    """A log as a part for each source of its lines. Of several sources each has the broker of its own lines.

    Lines of a source that no broker's id names are left out.
    """
    heads = _heads(part.path)
    if len(heads) < 2:
        return [replace(part, source=source) for source in heads] or [part]
    found = []
    for source, head in sorted(heads.items()):
        broker = writer_in(head)
        if broker is not None:
            found.append(replace(part, broker=broker, source=source))
        elif _OF_KAFKA.search(head):
            reason = f"no line of {source or 'those without a name'} has the id of the broker that wrote it"
            found.append(replace(part, kind="left-out", source=source, reason=reason))
    return found


def writers_without_prefix(path: Path) -> list[str]:
    """The ids of the brokers that wrote a log without prefixes, by its first and its last lines.

    With two, the broker of a line is not known: many lines have no id.
    """
    heads = _heads(path)
    if [*heads] != [None]:
        return []
    last = "\n".join(map(in_kafkas_layout, tail_of(path).decode("utf-8", "replace").split("\n")))
    return sorted(_ids_in(heads[None]) | _ids_in(last))


def writer_in(head: str) -> str | None:
    """The id of the broker or controller that wrote these lines; None without one, or with two."""
    found = set(_CONFIGURED.findall(head)) or _ids_in(head)
    return found.pop() if len(found) == 1 else None


def _ids_in(text: str) -> set[str]:
    return {*_CONFIGURED.findall(text), *("".join(groups) for groups in _NAMED.findall(text))}
