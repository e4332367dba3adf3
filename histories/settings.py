"""run.json: what configures a run, with the names of Kafka's configuration."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from .config_check import check_config, count_of
from .errors import InputError, no_json
from .files import check_path, reason_of

SEVEN_DAYS_MS = 604_800_000  # Kafka's default of retention.ms
DAY_MS = 86_400_000
ROLES = ("producer", "consumer", "producer+consumer", "final", "admin")
EXPECTED = "the run's JSON object"
UNDATED = "1970-01-01T00:00:00+00:00"
SINCE_1970 = "1970-01-01T00:00:00Z"  # of histories with times in UTC; UNDATED is spelled otherwise, as it is no start


@dataclass(frozen=True)
class Settings:
    """The content of run.json, with the names of Kafka's configuration."""

    name: str = ""
    dialect: str = "native"  # "jepsen" for Jepsen's own histories: its semantics of rules apply
    config: dict[str, Any] = field(default_factory=dict)
    allow: tuple[str, ...] = ()  # accepted breaches: a rule, or rule:acks=1
    rules: tuple[str, ...] = ()  # the rules to judge; empty: all
    strict: bool = False  # also report breaches that the configuration permits
    ww_deps: bool = False  # in Jepsen histories: cycles may contain write-write dependencies (Jepsen's option ww-deps)
    batches: int = 0  # in which small partitions are judged together (analysis/batches.py); 0: each by itself
    large_rows: int = 2_000_000  # a partition with more is proved by ranges before its rows are brought together
    range_offsets: int = 1 << 18  # of each of its ranges (analysis/screening/ranges.py)
    model: str = "strict-serializable"  # of transactions on lists and registers: the consistency model to demand
    keys: tuple[str, ...] = ()  # what is assumed of each register (analysis/transactions/rw_register.py)

    @cached_property
    def processes(self) -> dict[str, dict[str, Any]]:
        """The configuration of each process, by its name; null is a setting that is not set."""
        processes = _object(self.config, "processes").items()
        return {name: _set_fields(about) for name, about in processes if isinstance(about, dict)}

    @property
    def has_final_reads(self) -> bool:
        """Whether run.json declares that the run ends with final reads of all partitions (docs/format.md)."""
        return self.config.get("final") is True

    @property
    def is_unfinished(self) -> bool:
        """Whether run.json states that its recorder did not finish, so that its last lines may be missing."""
        return self.config.get("finished") is False

    @property
    def has_run_json(self) -> bool:
        """Whether run.json sets anything but the start of the run, which readers of histories may set."""
        return bool(self.config.keys() - {"started_at"})

    @property
    def is_undated(self) -> bool:
        """Whether times count from 1970, as the start of the run is not recorded."""
        return self.config.get("started_at") == UNDATED

    @cached_property
    def started_ms(self) -> int | None:
        """The run's start, ms since the epoch; None if it is not recorded."""
        try:
            return int(datetime.fromisoformat(str(self.config.get("started_at"))).timestamp() * 1000)
        except ValueError:
            return None

    @property
    def snapshot_times(self) -> dict[str, int]:
        """The times (ns) of the dated snapshots, by name."""
        snapshots = _object(self.config, "snapshots").items()
        dated = {name: about.get("time") for name, about in snapshots if isinstance(about, dict)}
        return {name: time for name, time in dated.items() if isinstance(time, int)}

    def isolation(self, process: str) -> str | None:
        """read_committed or read_uncommitted; None: not set."""
        level = str(self.setting_of(process, "isolation.level")).lower()
        return level if level in ("read_committed", "read_uncommitted") else None

    def setting_of(self, process: str | None, name: str, default: Any = None) -> Any:
        """A setting of a process, such as group.id; `default` if run.json does not set it."""
        return self.processes.get(process or "", {}).get(name, default)

    def role(self, process: str) -> str:
        """The role of a process (of ROLES), or nothing."""
        return str(self.setting_of(process, "role", ""))

    def final_processes(self) -> list[str]:
        """The processes that made the final reads."""
        return [name for name in self.processes if self.role(name) == "final"]

    def final_readers(self) -> list[str]:
        """The `final_processes`; none if run.json does not declare final reads."""
        return self.final_processes() if self.has_final_reads else []

    def producers(self) -> list[str]:
        """The processes with the role of a producer."""
        return [name for name in self.processes if self.role(name) in ("producer", "producer+consumer")]

    def unknown_roles(self) -> list[str]:
        """Processes with an unknown role, as `process: role`."""
        return [f"{name}: {self.role(name)}" for name in self.processes if self.role(name) not in ("", *ROLES)]

    def acks(self, process: str) -> str:
        """The configured acks: all, 1 or 0. Kafka's default since 3.0 is all; -1 means all."""
        acks = str(self.setting_of(process, "acks", "all")).lower()
        return "all" if acks == "-1" else acks

    def with_acks(self) -> list[str]:
        """The processes for which run.json sets acks."""
        return [name for name, about in self.processes.items() if "acks" in about]

    def reads_uncommitted(self, process: str) -> bool:
        """Whether read_uncommitted is configured. Kafka's default is it; logjudge's is read_committed."""
        return self.isolation(process) == "read_uncommitted"

    def group_of(self, process: str) -> str:
        """The configured group.id, or nothing."""
        return str(self.setting_of(process, "group.id", ""))

    def topic(self, name: str) -> dict[str, Any]:
        """The configuration of a topic, with partitions and replication.factor as numbers."""
        about = _set_fields(_object(_object(self.config, "topics"), name))
        counts = {name: count_of(about.get(name)) for name in ("partitions", "replication.factor")}
        return about | {name: count for name, count in counts.items() if count is not None}

    def is_compacted(self, topic: str) -> bool:
        """Whether cleanup.policy contains compact."""
        return "compact" in str(self.topic(topic).get("cleanup.policy", ""))

    def retention_ms(self, topic: str) -> int | None:
        """The age in ms at which records of the topic may be deleted; None: never, 0: the setting is not a number."""
        return self._deletion_limit(topic, "retention.ms", SEVEN_DAYS_MS)

    def delete_retention_ms(self, topic: str) -> int:
        """How long (ms) compaction keeps a tombstone; 0 if the setting is not a number."""
        setting = str(self.topic(topic).get("delete.retention.ms", DAY_MS))
        return int(setting) if re.fullmatch(r"[0-9]{1,12}", setting) else 0

    def limited_in_size(self, topic: str) -> bool:
        """Whether records of the topic may be deleted for the size of the log (retention.bytes)."""
        return self.retention_bytes(topic) is not None

    def retention_bytes(self, topic: str) -> int | None:
        """The size at which records of the topic may be deleted; None: never, 0: the setting is not a number."""
        return self._deletion_limit(topic, "retention.bytes", -1)

    def _deletion_limit(self, topic: str, name: str, default: int) -> int | None:
        about = self.topic(topic)
        limit = str(about.get(name, default))
        if limit == "-1" or "delete" not in str(about.get("cleanup.policy", "delete")):
            return None
        return int(limit) if re.fullmatch(r"[0-9]{1,18}", limit) else 0

    def to_json(self) -> str:
        """The settings as JSON."""
        return json.dumps({name: getattr(self, name) for name in self.__dataclass_fields__})


def idempotence(producer: Mapping[str, Any], acks: str) -> bool | None:
    """Whether a process of run.json is an idempotent producer; None if run.json does not decide it.

    Where enable.idempotence is not set, acks 0 and 1 turn it off, as it needs acks=all (KIP-98).
    """
    setting = producer.get("enable.idempotence")
    if setting is not None:
        return str(setting).lower() == "true"
    return None if acks in ("all", "-1") else False


def _set_fields(about: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in about.items() if value is not None}


def _object(parent: dict[str, Any], name: str) -> dict[str, Any]:
    value = parent.get(name)
    return value if isinstance(value, dict) else {}


def read_config(file: Path) -> dict[str, Any]:
    """The object in a run.json. Raises InputError."""
    check_path(file, EXPECTED)
    try:
        return config_of(file.read_bytes(), str(file))
    except OSError as error:
        raise InputError(str(file), "a folder" if file.is_dir() else reason_of(error), EXPECTED) from error


def config_of(content: bytes, source: str) -> dict[str, Any]:
    """The object in run.json. Raises InputError."""
    try:
        config = json.loads(content, object_pairs_hook=_object_of)
        json.dumps(config, ensure_ascii=False).encode()  # a lone surrogate is no text
    except UnicodeEncodeError as error:
        raise InputError(source, f"{error.object[error.start]!r}, half of a character", "valid Unicode") from error
    except json.JSONDecodeError as error:
        hint = f"correct line {error.lineno}, column {error.colno}, or copy the file again if it was cut"
        raise InputError(source, no_json(error), EXPECTED, hint) from error
    except (ValueError, RecursionError) as error:
        raise InputError(source, no_json(error), EXPECTED) from error
    if not isinstance(config, dict):
        raise InputError(source, "JSON that is not an object", EXPECTED)
    version = config.get("format", 1)
    if version != 1 or version is True:
        raise InputError(source, f"format {json.dumps(version)}", "format 1", "use a newer logjudge")
    check_config(config, source)
    return config


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object. Raises ValueError if a name occurs twice: which value counts would be a guess."""
    content = dict(pairs)
    if len(content) < len(pairs):
        [(name, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"{name!r} twice in an object")
    return content
