"""The JSON Schema of an event line of the run bundle (event.schema.json), for recorders in other languages."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any


def event_schema() -> dict[str, Any]:
    """The schema (draft 2020-12). The native reader accepts what the schema accepts, and looser lines, too."""
    schema: dict[str, Any] = json.loads(files(__package__).joinpath("event.schema.json").read_text())
    return schema
