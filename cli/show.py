"""`logjudge show FILE [BYTE]`: the record batch of a segment that a finding cites."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from ..analysis.wording import plural, printable, utc_text
from ..histories.errors import UsageError
from .document import Document
from .options import Form, LocalPath, form_options, show

Row = dict[str, Any]


@click.command()
@click.argument("file", metavar="FILE", type=LocalPath())
@click.argument("byte", metavar="[BYTE]", type=click.IntRange(min=0), required=False)
@form_options("Print the batches as JSON.")
def command(file: Path, byte: int | None, form: Form) -> None:
    """Show the record batch that begins at BYTE of a segment, as findings cite it; without BYTE, a line for each.

    FILE is a .log file of a broker's partition. Records of __transaction_state, __consumer_offsets and
    __cluster_metadata are decoded. Times are UTC.
    """
    from ..histories.evidence.batch_content import headers_of, records_at  # loads compiled loops, which takes time

    expected = f"expected a segment of a broker, such as orders-0/{0:020d}.log"
    if not file.is_file():
        raise UsageError(f"found {'a folder' if file.is_dir() else 'no file'} {file}, {expected}")
    headers = headers_of(file)
    if not headers:
        raise UsageError(f"found no record batch in {file}, {expected}")
    found = [header for header in headers if byte in (None, header["byte"])]
    if not found:
        near = _nearest_positions([header["byte"] for header in headers], byte or 0)
        raise UsageError(f"found no batch that begins at byte {byte} of {file}, expected one of {near}")
    batches = [header if byte is None else {**header, "records": records_at(file, byte)} for header in found]
    if form == "json":
        click.echo(json.dumps(batches, default=_json))
        return
    document = Document()
    if byte is None:
        document.listed([(_header(batch), "") for batch in batches])
    else:
        document.heading(_header(batches[0]))
        document.listed([(_record(record), "") for record in batches[0]["records"]])
    show(document, form)


def _nearest_positions(begins: list[int], byte: int) -> str:
    """The positions that are closest to a byte."""
    return ", ".join(str(at) for at in sorted(sorted(begins, key=lambda at: abs(at - byte))[:3]))


def _header(batch: Row) -> str:
    offsets = f"offset {batch['base_offset']}"
    offsets += "" if batch["last_offset"] == batch["base_offset"] else f" to {batch['last_offset']}"
    parts = [f"byte {batch['byte']}", offsets, plural(batch["count"] or 0, "record"), f"{batch['size']} bytes"]
    if batch["leader_epoch"] is not None:
        parts.append(f"leader epoch {batch['leader_epoch']}")
    if batch["producer_id"] is not None:
        sequence = "" if batch["base_sequence"] is None else f", sequence {batch['base_sequence']}"
        parts.append(f"producer {batch['producer_id']}, epoch {batch['producer_epoch']}{sequence}")
    parts += [name for name in ("transactional", "control") if batch[name]]
    if batch["codec"] != "none":
        old = f" (records inside a message of format v{batch['magic']} are not shown)" if batch["magic"] < 2 else ""
        parts.append(f"{batch['codec']}{old}")
    parts.append("CRC right" if batch["crc_ok"] else "CRC WRONG: its records are not shown")
    return ", ".join(parts)


def _record(record: Row) -> str:
    fields = {name: value for name, value in record.items() if name not in ("offset", "timestamp")}
    content = ", ".join(f"{name} {_value_text(value)}" for name, value in fields.items())
    return f"offset {record['offset']}, {utc_text(record['timestamp'])}: {content}"


def _value_text(value: Any) -> str:
    return printable(value if isinstance(value, str) else json.dumps(value, default=_json))


def _json(value: object) -> str:
    return f"bytes:{value.hex()}" if isinstance(value, bytes) else str(value)
