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

from .errors import NO_PERMISSION, NO_SUCH_FILE, InputError

COMPRESSION = 10  # of histories, about
BLOCK_BYTES = 16 << 20  # a block takes ten times its size while it is parsed; smaller ones take more time
SPLIT_BYTES = 32 << 20
MIN_SHARED_BYTES = 1 << 20  # of a compressed file; a smaller one is parsed where it is decompressed
TEXT_BLOCK_BYTES = 8 << 20  # decompressed
HEAD_BYTES = 64 << 10  # that readers look at to recognise a format
MAX_HEAD_BYTES = 16 << 20  # where the first line is longer than HEAD_BYTES
MAX_DECOMPRESSED_BYTES = 4 << 30  # of a file that is held in memory
MAX_LINE_BYTES = 256 << 20  # bounds the memory for a file without line feeds
_CHUNK_BYTES = 1 << 20
_ZSTD_SLICE_BYTES = 4 << 10  # small, as a few bytes of zstd may become 128 KB
GZIP_MAGIC, ZSTD_MAGIC, PARQUET_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1"


_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def is_uri(path: str) -> bool:
    """Whether only Spark can read it. file:// is a local path (see `local_path`)."""
    return bool(_URI.match(path)) and not path.startswith("file:")


def local_path(path: str) -> Path:
    """The path on this machine, given as a path or as a file:// URI."""
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

    @property
    def is_shared(self) -> bool:
        """Whether one task decompresses it and others parse its blocks, as it has no places to split it at."""
        return bool(self.compression) and self.end - self.start > MIN_SHARED_BYTES


@dataclass(frozen=True)
class Block:
    """Whole lines. `first_line` counts within the split; `damage` is the error that stopped the reading after them."""

    first_line: int
    data: bytes
    damage: str = ""

    @cached_property
    def lines(self) -> int:
        """The number of lines; the last may lack its line feed."""
        return count(self.data, b"\n") + (bool(self.data) and not self.data.endswith(b"\n"))


def count(data: bytes, byte: bytes) -> int:
    """The number of occurrences of a byte, three times as fast as `bytes.count`."""
    view = np.frombuffer(data, np.uint8)
    parts = (view[start : start + _CHUNK_BYTES] for start in range(0, len(view), _CHUNK_BYTES))  # fit the cache
    return sum(int(np.count_nonzero(part == ord(byte))) for part in parts)


def check_path(path: Path, expected: str) -> None:
    """Raises InputError unless the path is a folder, or a file that can be read without waiting."""
    try:
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            os.listdir(path)  # noqa: PTH208 (it raises now, and iterdir later)
        elif stat.S_ISREG(kind):
            _try_to_read(path)
    except (OSError, ValueError) as error:
        raise InputError(str(path), reason_of(error), expected, "check the path") from error
    if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
        raise InputError(str(path), f"{file_type_of(kind)}, not a file or a folder", expected, "check the path")


def _try_to_read(path: Path) -> None:
    """Raises OSError if the first byte cannot be read. Non-blocking, as some files of /proc never return."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.read(handle, 1)
    finally:
        os.close(handle)


def reason_of(error: OSError | ValueError) -> str:
    """The problem of a path, as the `found` of an InputError."""
    if isinstance(error, FileNotFoundError):
        return NO_SUCH_FILE
    if isinstance(error, PermissionError):
        return NO_PERMISSION
    reason = getattr(error, "strerror", None) or str(error)
    return f"a path that cannot be read ({reason})"


def file_type_of(mode: int) -> str:
    """The name of a special file's type, from its mode (stat)."""
    kinds = {
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "a special file")


def magic_of(path: Path) -> bytes:
    """The first four bytes of a file."""
    with path.open("rb") as file:
        return file.read(4)


def compression_of(path: Path) -> str:
    """ "gzip", "zstd", or "" for a file that is not compressed."""
    magic = magic_of(path)
    if magic.startswith(GZIP_MAGIC):
        return "gzip"
    return "zstd" if magic == ZSTD_MAGIC else ""


def head_of(path: Path) -> bytes:
    """The first bytes, decompressed, with at least one whole line; of a damaged file the bytes before the damage."""
    head = bytearray()
    try:
        for chunk in _chunks(path, compression_of(path), HEAD_BYTES):
            seen = len(head)
            head += chunk
            if len(head) >= MAX_HEAD_BYTES or (len(head) >= HEAD_BYTES and head.find(b"\n", seen) >= 0):
                break
    except (OSError, ValueError):
        pass
    return bytes(head[: max(HEAD_BYTES, head.find(b"\n"))])


def tail_of(path: Path) -> bytes:
    """The last whole lines, as many as `head_of` returns at most; none of a compressed file or an unreadable one."""
    try:
        if compression_of(path):
            return b""
        with path.open("rb") as opened:
            opened.seek(max(opened.seek(0, os.SEEK_END) - HEAD_BYTES, 0))
            tail = opened.read(HEAD_BYTES)
    except (OSError, ValueError):
        return b""
    return tail[tail.find(b"\n") + 1 :]


def is_tar(head: bytes) -> bool:
    """Whether a file with these first bytes (decompressed) is a tar archive. It holds whole texts, as a log does."""
    return head[257:].startswith((b"ustar\0", b"ustar  \0"))


def encoding_of(head: bytes) -> str | None:
    """UTF-16 or UTF-32, by the byte order mark or by the zero bytes of ASCII characters."""
    for mark, encoding in ((b"\xff\xfe\0\0", "UTF-32"), (b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16")):
        if head.startswith(mark):
            return encoding
    if re.match(rb"(?:[\t\n\r -~]\0){8}", head):
        return "UTF-16LE"
    return "UTF-16BE" if re.match(rb"(?:\0[\t\n\r -~]){8}", head) else None


def read_whole(path: Path) -> bytes:
    """All bytes of a file, decompressed. Raises OSError or ValueError for a damaged file or a decompression bomb."""
    data = bytearray()
    for chunk in _chunks(path, compression := compression_of(path)):
        data += chunk
        if compression and len(data) > MAX_DECOMPRESSED_BYTES:
            raise ValueError(f"more than {MAX_DECOMPRESSED_BYTES >> 30} GiB when decompressed")
    return bytes(data)


def blocks(split: Split, block_bytes: int = BLOCK_BYTES, max_line_bytes: int | None = None) -> Iterator[Block]:
    """The split's lines in blocks of about `block_bytes`; a compressed file is one split. A longer line is damage."""
    first_line, pending, pending_bytes = 0, [], 0
    max_line = MAX_LINE_BYTES if max_line_bytes is None else max_line_bytes
    try:
        for part in _lines_of(split):
            pending.append(part)
            pending_bytes += len(part)
            cut = part.rfind(b"\n") + 1
            if pending_bytes >= block_bytes and cut:
                pending[-1] = part[:cut]
                block = Block(first_line, b"".join(pending))
                yield block
                first_line += block.lines
                pending, pending_bytes = [part[cut:]], len(part) - cut
            elif pending_bytes > block_bytes + max_line:
                raise ValueError(f"a line of more than {max_line >> 20} MiB")
    except (OSError, ValueError) as error:
        # The lines before the damage are judged; the report names the damage.
        yield Block(first_line, b"".join(pending), f"the file cannot be read further: {error}")
        return
    if pending_bytes:
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
        while position < split.end and (chunk := file.read(min(_CHUNK_BYTES, split.end - position))):
            position += len(chunk)
            if position >= split.end and not chunk.endswith(b"\n"):
                chunk += file.readline()
            yield chunk


def _chunks(path: Path, compression: str, max_bytes: int = 16 * _CHUNK_BYTES) -> Iterator[bytes]:
    """A file's bytes, decompressed: of gzip at most `max_bytes` at a time.

    Raises OSError or ValueError where the file is damaged or truncated.
    """
    with path.open("rb") as file:
        if compression == "gzip":
            yield from _gunzip(iter(lambda: file.read(_CHUNK_BYTES), b""), max_bytes)
        elif compression == "zstd":
            yield from _unzstd(iter(lambda: file.read(_ZSTD_SLICE_BYTES), b""))
        else:
            yield from iter(lambda: file.read(_CHUNK_BYTES), b"")


def _unzstd(slices: Iterator[bytes]) -> Iterator[bytes]:
    """The bytes of all frames, in order. The library's stream reader ends without an error at a truncated frame."""
    import zstandard

    decompressor = zstandard.ZstdDecompressor().decompressobj()
    has_begun = False
    for piece in slices:
        data = piece
        while data:
            if decompressor.eof:  # another frame follows, as in concatenated files
                decompressor = zstandard.ZstdDecompressor().decompressobj()
            try:
                yield decompressor.decompress(data)
            except zstandard.ZstdError as error:
                raise ValueError(str(error)) from error
            has_begun = True
            data = decompressor.unused_data if decompressor.eof else b""
    if has_begun and not decompressor.eof:
        raise ValueError("the zstd data ends before its end mark")


def decompress(payload: bytes, compression: str, max_bytes: int) -> bytes:
    """Bytes in memory, decompressed. Raises ValueError if they are damaged or grow beyond `max_bytes`."""
    slices = (payload[at : at + _ZSTD_SLICE_BYTES] for at in range(0, len(payload), _ZSTD_SLICE_BYTES))
    data = bytearray()
    for chunk in _gunzip(iter([payload]), max_bytes + 1) if compression == "gzip" else _unzstd(slices):
        data += chunk
        if len(data) > max_bytes:
            raise ValueError(f"more than {max_bytes >> 20} MiB when decompressed")
    return bytes(data)


def _gunzip(chunks: Iterator[bytes], max_bytes: int) -> Iterator[bytes]:
    """The bytes of all members, at most `max_bytes` at a time.

    Uses zlib, as the gzip module drops what it read before a truncation.
    """
    decompressor = zlib.decompressobj(wbits=31)
    for chunk in chunks:
        data = chunk
        while data:
            if decompressor.eof:  # another member follows, as in concatenated files
                decompressor = zlib.decompressobj(wbits=31)
            try:
                # Bounded output: a decompression bomb costs no memory.
                yield decompressor.decompress(data, max_bytes)
            except zlib.error as error:
                raise ValueError(str(error)) from error
            data = decompressor.unused_data if decompressor.eof else decompressor.unconsumed_tail
    if not decompressor.eof:
        raise ValueError("the gzip data ends before its end mark")
