"""Brokers' logs and files of one partition, written as short texts."""

from __future__ import annotations

import polars as pl
from logjudge.analysis.replicas.replica_logs import SENT_RECORDS, complete_sends, replica_logs_of
from logjudge.histories.evidence.dump_text import text_digest
from logjudge.histories.evidence.tables import BATCHES, CHECKPOINTS, DAMAGE, EPOCHS, LOCATION, RECORDS

FILE = "brokers/{}/data/orders-0/" + f"{0:020d}.log"


def logs(text, snapshot=""):
    """Logs by broker, one a line: `1: 0a 1b 2c@1` is offset 0 with value a (epoch 0), …, offset 2 in epoch 1.

    `2k=c` is value c with key k, `2k=-` is a tombstone of that key, and `2!` is a commit marker.
    """
    records, batches = [], []
    for line in text.strip().splitlines():
        broker, _, entries = line.strip().partition(":")
        for position, entry in enumerate(entries.split()):
            body, _, epoch = entry.partition("@")
            digits = len(body) - len(body.lstrip("0123456789"))
            offset, body = int(body[:digits]), body[digits:]
            key, _found, value = body.partition("=") if "=" in body else (None, "", body)
            value = None if value in ("-", "!") else value
            control = "commit" if body == "!" else None
            location = {"snapshot": snapshot, "broker": broker.strip(), "file": FILE.format(broker.strip())}
            common = {**location, "leader_epoch": int(epoch or 0), "byte": position * 100}
            record = {**common, "offset": offset, "timestamp": 1, "key": key, "value": value, "control": control}
            digest = text_digest(key, value)
            records.append({**record, "digest": digest, "producer_id": None, "transactional": control is not None})
            batch = {**common, "base_offset": offset, "last_offset": offset, "magic": 2, "count": 1}
            batches.append({**batch, "crc_ok": True, "size": 100})
    return {
        "records": pl.DataFrame(records, schema={**LOCATION, **RECORDS}),
        "batches": pl.DataFrame(batches, schema={**LOCATION, **BATCHES}),
    }


def joined(*parts):
    return {name: pl.concat([part[name] for part in parts]) for name in parts[0]}


def checkpoints(*rows):
    """Rows (name, broker, offset) or with a snapshot in front."""
    place = {"topic": "orders", "partition": 0, "line": 3}
    entries = [
        {**place, "snapshot": snapshot, "broker": broker, "file": name, "name": name, "offset": offset}
        for snapshot, name, broker, offset in (row if len(row) == 4 else ("", *row) for row in rows)
    ]
    return pl.DataFrame(entries, schema={**LOCATION, **CHECKPOINTS})


def epochs(*rows):
    """Rows (broker, leader epoch, start offset)."""
    file = {"snapshot": "", "file": "leader-epoch-checkpoint"}
    entries = [
        {**file, "broker": broker, "leader_epoch": epoch, "start_offset": start, "line": line}
        for line, (broker, epoch, start) in enumerate(rows, 3)
    ]
    return pl.DataFrame(entries, schema={**LOCATION, **EPOCHS})


def damage(kind, broker="1", first=None, last=None, byte=0):
    row = {"snapshot": "", "broker": broker, "file": FILE.format(broker), "kind": kind, "byte": byte}
    row |= {"first_offset": first, "last_offset": last, "reason": "a reason"}
    return pl.DataFrame([row], schema={**LOCATION, **DAMAGE})


def sends(*rows):
    """Rows `value@offset`, acknowledged; `value@` without offset; `value@3?` not acknowledged."""
    out = []
    for place, row in enumerate(rows):
        value, _, offset = row.rstrip("?").partition("@")
        value, _, key = value.partition("/")
        out.append(
            {
                "value": None if value == "-" else value,
                "key": key or None,
                "offset": int(offset) if offset else None,
                "acknowledged": not row.endswith("?"),
                "invoked": place,
                "completed": place + 1,
                "place": place,
                "acks": "all",
            }
        )
    names = ("value", "key", "offset", "acknowledged", "invoked", "completed", "place", "acks")
    return complete_sends(pl.DataFrame(out, schema={name: SENT_RECORDS[name] for name in names}))


def of(tables, **options):
    return replica_logs_of("orders", 0, tables, **options)
