"""A consumer's place in its group, as Kafka's clients report it: member id and generation.

| client | where |
|---|---|
| confluent-kafka | `consumer_group_metadata()`, bytes that librdkafka writes (rd_kafka_consumer_group_metadata_write) |
| aiokafka | `member_id` and `generation` of the consumer's coordinator, which has no public name |
| kafka-python | `group_metadata()` of 2.3 and later, with `member_id` and `generation_id` |
"""

from __future__ import annotations

import struct
from typing import Any

from ..errors import UsageError
from .client_values import partitions_of
from .journal import Fields

# "CGMDv2:", the generation (int32 of the machine), the group's id and the member's id, each ended by a zero byte.
_MAGIC = b"CGMDv2:"
_GENERATION = struct.Struct("=i")
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
            return _unpack_metadata(member.consumer_group_metadata())
        except RuntimeError:  # it is being closed
            return "", -1
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


def _unpack_metadata(metadata: Any) -> tuple[str, int]:
    """Member id and generation of librdkafka's bytes; none of a consumer without a group, or of another layout."""
    if not isinstance(metadata, bytes) or not metadata.startswith(_MAGIC):
        return "", -1
    end = len(_MAGIC) + _GENERATION.size
    (generation,) = _GENERATION.unpack_from(metadata.ljust(end, b"\xff"), len(_MAGIC))
    _, _, rest = metadata[end:].partition(b"\0")
    return rest.partition(b"\0")[0].decode(errors="replace"), generation
