"""A consumer's place in its group, as Kafka's clients report it: member id and generation.

| client | where |
|---|---|
| confluent-kafka | `consumer_group_metadata()`, bytes that librdkafka writes (rd_kafka_consumer_group_metadata_write) |
| aiokafka | `member_id` and `generation` of the consumer's coordinator, which has no public name |
| kafka-python | `group_metadata()` of 2.3 and later, with `member_id` and `generation_id` |
"""

from __future__ import annotations

import re
import struct
from typing import Any

from ..errors import UsageError
from .client_values import partitions_of
from .event_log import Fields

# The generation (int32 of the machine), the group's id and the member's id, each ended by a zero byte.
_METADATA = re.compile(rb"CGMDv2:(.{4})([^\0]*)\0([^\0]*)\0", re.DOTALL)
_EXPECTED = "(member id, generation), or a consumer of confluent-kafka, aiokafka or kafka-python"


def membership_of(member: Any, assignment: Any = None) -> Fields:
    """The fields `member` and `generation` of a consumer or of a pair, and `assignment`, all that the member owns.

    A consumer that is in no group has none of the first two. Raises UsageError.
    """
    fields: Fields = {}
    if member is not None:
        name, generation = _pair(member)
        if name and generation >= 0:
            fields = {"member": name, "generation": generation}
    return fields if assignment is None else {**fields, "assignment": partitions_of(assignment)}


def _pair(member: Any) -> tuple[str, int]:
    if isinstance(member, tuple) and len(member) == 2:
        name, generation = member
    elif callable(getattr(member, "consumer_group_metadata", None)):
        try:
            found = _match(member.consumer_group_metadata())
        except RuntimeError:  # it is being closed
            found = None
        return (_text(found[3]), struct.unpack("=i", found[1])[0]) if found else ("", -1)
    elif callable(getattr(member, "group_metadata", None)):
        metadata = member.group_metadata()
        name, generation = metadata.member_id, metadata.generation_id
    else:
        coordinator = getattr(member, "_coordinator", member)
        name, generation = getattr(coordinator, "member_id", ""), getattr(coordinator, "generation", -1)
        if coordinator is member and not name:
            raise UsageError(f"found {member!r:.80}, expected {_EXPECTED}")
    if isinstance(name, str) and isinstance(generation, int) and not isinstance(generation, bool):
        return name, generation
    raise UsageError(f"found {(name, generation)!r:.80}, expected {_EXPECTED}")


def group_of_metadata(metadata: Any) -> str | None:
    """The group.id in what confluent-kafka's `consumer_group_metadata()` returned; None: the format is not known."""
    found = _match(metadata)
    return _text(found[2]) if found else None


def _match(metadata: Any) -> re.Match[bytes] | None:
    return _METADATA.match(metadata) if isinstance(metadata, bytes) else None


def _text(found: bytes) -> str:
    return found.decode(errors="replace")
