"""Bytes of history files: compression, splits by byte range, and blocks of whole lines."""

from __future__ import annotations

import os
import re
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote, urlparse

import numpy as np

from .errors import InputError

BLOCK_BYTES = 32 << 20
SPLIT_BYTES = 32 << 20
HEAD_BYTES = 64 << 10
MAX_HEAD = 16 << 20  # where the first line is longer than HEAD_BYTES
MAX_DECOMPRESSED = 4 << 30  # of a file that is held whole
MAX_LINE = 256 << 20  # of what ends in no line feed, so that it costs no more memory
_CHUNK = 1 << 20
_SLICE = 4 << 10  # of zstd data, of which a few bytes may become 128 KB
GZIP_MAGIC, ZSTD_MAGIC, PARQUET_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1"


_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def is_uri(path: str) -> bool:
    """Whether Spark must read it; file:// is a local path in other words (see `local_path`)."""
    return bool(_URI.match(path)) and not path.startswith("file:")


def local_path(path: str) -> Path:
    """The path that a user gave, file:// or not."""
    return Path(unquote(urlparse(path).path)) if path.startswith("file:") else Path(path)


@dataclass(frozen=True)
class Split:
    """A part of a history that one task reads. The number orders the parts of a run as files and bytes do."""

    number: int
    path: str
    reader: str
    compression: str  # "", "gzip" or "zstd"
    start: int  # byte, or row group of a Parquet file
    end: int  # exclusive; a line belongs to the split in which it starts


@dataclass(frozen=True)
class Block:
    """Whole lines. `first_line` counts within the split; `damage` says what stopped the reading after them."""

    first_line: int
    data: bytes
    damage: str = ""

    @cached_property
    def lines(self) -> int:
        """How many lines; the last may lack its line feed. numpy counts bytes three times as fast as `bytes.count`."""
        feeds = int(np.count_nonzero(np.frombuffer(self.data, np.uint8) == ord("\n")))
        return feeds + (bool(self.data) and not self.data.endswith(b"\n"))


def check_path(path: Path, expected: str) -> None:
    """Raises InputError where the path is neither a folder nor a file that can be read without waiting."""
    try:
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            os.listdir(path)  # noqa: PTH208 (it raises now, and iterdir later)
        elif stat.S_ISREG(kind):
            _try_to_read(path)
    except (OSError, ValueError) as error:
        raise InputError(str(path), reason_of(error), expected, "check the path") from error
    if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
        raise InputError(str(path), f"{type_of(kind)}, not a file or a folder", expected, "check the path")


def _try_to_read(path: Path) -> None:
    """Raises OSError where the first byte cannot be read; some files of /proc would be waited for."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.read(handle, 1)
    finally:
        os.close(handle)


def reason_of(error: OSError | ValueError) -> str:
    """What is wrong with a path, in words that go on "found"."""
    if isinstance(error, FileNotFoundError):
        return "nothing"
    reason = getattr(error, "strerror", None) or str(error)
    return f"something that cannot be read ({reason})"


def type_of(mode: int) -> str:
    """What kind of file a mode of stat is of."""
    kinds = {
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "a special file")


def magic_of(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4)


def compression_of(path: Path) -> str:
    magic = magic_of(path)
    if magic.startswith(GZIP_MAGIC):
        return "gzip"
    return "zstd" if magic == ZSTD_MAGIC else ""


def head_of(path: Path) -> bytes:
    """The first bytes with one whole line at least, decompressed; of a damaged file what it still gives."""
    head = bytearray()
    try:
        for chunk in _chunks(path, compression_of(path)):
            begun = len(head)
            head += chunk
            if len(head) >= MAX_HEAD or (len(head) >= HEAD_BYTES and head.find(b"\n", begun) >= 0):
                break
    except (OSError, ValueError):
        pass
    return bytes(head[: max(HEAD_BYTES, head.find(b"\n"))])


def whole(path: Path) -> bytes:
    """All of a file, decompressed. Raises OSError or ValueError where it is damaged, or a bomb."""
    data = bytearray()
    for chunk in _chunks(path, compression := compression_of(path)):
        data += chunk
        if compression and len(data) > MAX_DECOMPRESSED:
            raise ValueError(f"more than {MAX_DECOMPRESSED >> 30} GiB when decompressed")
    return bytes(data)


def blocks(split: Split, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """The split's lines in blocks of about `block_bytes`; a compressed file is one split."""
    first_line, pending, gathered = 0, [], 0
    try:
        for part in _lines_of(split):
            pending.append(part)
            gathered += len(part)
            cut = part.rfind(b"\n") + 1
            if gathered >= block_bytes and cut:
                pending[-1] = part[:cut]
                block = Block(first_line, b"".join(pending))
                yield block
                first_line += block.lines
                pending, gathered = [part[cut:]], len(part) - cut
            elif gathered > block_bytes + MAX_LINE:
                raise ValueError(f"a line of more than {MAX_LINE >> 20} MiB")
    except (OSError, ValueError) as error:
        # What was read before the damage is judged; the report says that the rest is missing.
        yield Block(first_line, b"".join(pending), f"the file cannot be read further: {error}")
        return
    if gathered:
        yield Block(first_line, b"".join(pending))


def _lines_of(split: Split) -> Iterator[bytes]:
    """The bytes of the lines that start in the split."""
    if split.compression:
        yield from _chunks(Path(split.path), split.compression)
        return
    with Path(split.path).open("rb") as file:
        position = split.start
        if split.start:
            file.seek(split.start - 1)
            position += len(file.readline()) - 1
        while position < split.end and (chunk := file.read(min(_CHUNK, split.end - position))):
            position += len(chunk)
            if position >= split.end and not chunk.endswith(b"\n"):
                chunk += file.readline()
            yield chunk


def _chunks(path: Path, compression: str) -> Iterator[bytes]:
    """A file's bytes, decompressed. Raises OSError or ValueError where the file is damaged or cut."""
    with path.open("rb") as file:
        if compression == "gzip":
            yield from _gunzip(iter(lambda: file.read(_CHUNK), b""))
        elif compression == "zstd":
            yield from _unzstd(iter(lambda: file.read(_SLICE), b""))
        else:
            yield from iter(lambda: file.read(_CHUNK), b"")


def _unzstd(slices: Iterator[bytes]) -> Iterator[bytes]:
    """All frames, one after the other; the stream reader of the library ends in silence where a frame is cut."""
    import zstandard

    decompressor = zstandard.ZstdDecompressor().decompressobj()
    begun = False
    for piece in slices:
        data = piece
        while data:
            if decompressor.eof:  # another frame follows, as in concatenated files
                decompressor = zstandard.ZstdDecompressor().decompressobj()
            try:
                yield decompressor.decompress(data)
            except zstandard.ZstdError as error:
                raise ValueError(str(error)) from error
            begun = True
            data = decompressor.unused_data if decompressor.eof else b""
    if begun and not decompressor.eof:
        raise ValueError("the zstd data ends before its end mark")


def unpacked(payload: bytes, compression: str, most: int) -> bytes:
    """Bytes in memory, decompressed. Raises ValueError where they are damaged, or more than `most` come of them."""
    slices = (payload[at : at + _SLICE] for at in range(0, len(payload), _SLICE))
    data = bytearray()
    for chunk in _gunzip(iter([payload])) if compression == "gzip" else _unzstd(slices):
        data += chunk
        if len(data) > most:
            raise ValueError(f"more than {most >> 20} MiB when decompressed")
    return bytes(data)


def _gunzip(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """zlib itself rather than the gzip module, which throws away what it read before a truncation."""
    decompressor = zlib.decompressobj(wbits=31)
    for chunk in chunks:
        data = chunk
        while data:
            if decompressor.eof:  # another member follows, as in concatenated files
                decompressor = zlib.decompressobj(wbits=31)
            try:
                # Bounded output, so that a bomb costs no memory.
                yield decompressor.decompress(data, 16 * _CHUNK)
            except zlib.error as error:
                raise ValueError(str(error)) from error
            data = decompressor.unused_data if decompressor.eof else decompressor.unconsumed_tail
    if not decompressor.eof:
        raise ValueError("the gzip data ends before its end mark")
