"""Copies a broker's folder from another machine, by the system's ssh and the tar of that machine. It only reads there.

The user's ssh configuration applies: keys, ports, jump hosts. No password is requested. paramiko and asyncssh read
only a part of that configuration, and SFTP would list and read thousands of files one by one.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from ..errors import LogjudgeError, MissingComponentError, UsageError
from ..evidence.missing_segments import SEGMENT
from .batch_bounds import cut_to_whole_batches

CONNECT_SECONDS = 20
_OPTIONS = (f"ConnectTimeout={CONNECT_SECONDS}", "BatchMode=yes", "ServerAliveInterval=15", "ServerAliveCountMax=4")
# As scp and ssh take them: [USER@]HOST:FOLDER, or ssh://[USER@]HOST[:PORT]/FOLDER.
_PLACE = re.compile(
    r"(?:(?P<broker>[^/=:@]+)=)?"
    r"(?:(?P<uri>ssh://[^/\s]+)(?P<root>/.*)|(?P<host>(?:[^/\s:@]+@)?(?:[^/\s:@\[\]]+|\[[^/\s@]+\])):(?P<folder>.+))"
)
_UNUSED = ("*.index", "*.timeindex", "*.deleted")
_SSH_FAILED = 255
_WARNED = 1  # GNU tar's code for files that changed while it read them
_SIZE = re.compile(r"\s*(\d+) \./(.+)")  # a line of wc -c


class Place(NamedTuple):
    """A folder on another machine. The broker is empty where files in the folder name it."""

    broker: str
    host: str  # as ssh takes it
    folder: str


def place_of(argument: str) -> Place | None:
    """The place that an argument of `collect` names; None for a local folder. Raises UsageError."""
    found = _PLACE.fullmatch(argument)
    if not found or Path(argument).exists():
        return None
    host = found["uri"] or re.sub(r"[\[\]]", "", found["host"])  # ssh takes brackets in a URI alone
    if host.startswith("-"):
        raise UsageError(f"{argument}: found a host that begins with -, expected [USER@]HOST:FOLDER")
    return Place(found["broker"] or "", host, found["root"] or found["folder"])


def fetch(place: Place, target: Path, is_wanted: Callable[[PurePosixPath], bool]) -> list[str]:
    """Copy the wanted files below a place to `target`, a new folder; return what that machine could not read.

    A segment that grows meanwhile ends with a whole batch. Raises LogjudgeError if the machine cannot be reached or
    has no such folder.
    """
    excludes = " ".join(f"--exclude={shlex.quote(pattern)}" for pattern in _UNUSED)
    target.mkdir(parents=True)
    with _output_of(place, f"tar -cf - {excludes} .") as (stream, problems):
        segments = dict(_unpack(stream, target, is_wanted))
    with _output_of(place, "find . -type f -name '*.log' -exec wc -c {} +") as (stream, _):
        listed = map(_SIZE.fullmatch, stream.read().decode(errors="replace").splitlines())
        now = {PurePosixPath(line[2]): int(line[1]) for line in listed if line}
    for name, size in segments.items():
        if now.get(name) != size:
            cut_to_whole_batches(target / name)
    return problems


def _unpack(
    stream: IO[bytes], target: Path, is_wanted: Callable[[PurePosixPath], bool]
) -> Iterator[tuple[PurePosixPath, int]]:
    """Writes the wanted files of an archive; yields the size of each segment as the archive has it."""
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            name = PurePosixPath(member.name)
            content = archive.extractfile(member) if member.isreg() else None
            if content is None or name.is_absolute() or ".." in name.parts or not is_wanted(name):
                continue
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            with content, (target / name).open("xb") as copy:
                shutil.copyfileobj(content, copy, 1 << 20)
            if SEGMENT.fullmatch(name.name):
                yield name, member.size


@contextmanager
def _output_of(place: Place, command: str) -> Iterator[tuple[IO[bytes], list[str]]]:
    """The output of a command in the place's folder, and a list that gets its problems at the end.

    Raises LogjudgeError if ssh fails, and if the command fails without output.
    """
    ssh = shutil.which("ssh")
    if not ssh:
        raise MissingComponentError(
            f"{place.host}: found no ssh, expected OpenSSH's client (`apt-get install openssh-client`)"
        )
    options = [part for option in _OPTIONS for part in ("-o", option)]
    remote = f"cd {shlex.quote(place.folder)} && LC_ALL=C {command}"
    problems: list[str] = []
    with tempfile.TemporaryFile() as errors:
        with subprocess.Popen(
            [ssh, "-T", *options, "--", place.host, remote],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as process:
            assert process.stdout is not None
            damage = ""
            try:
                yield process.stdout, problems
                while process.stdout.read(1 << 16):  # what pads an archive
                    pass
            except tarfile.TarError as error:
                damage = str(error)
            except BaseException:
                process.kill()
                raise
        errors.seek(0)
        lines = errors.read().decode(errors="replace").splitlines()
    reason = lines[-1].strip()[:300] if lines else damage
    if process.returncode == _SSH_FAILED:
        raise LogjudgeError(
            f"{place.host}: found no connection by ssh ({reason}), expected one without a password;"
            f" try `ssh -o BatchMode=yes {shlex.quote(place.host)} true`"
        )
    if damage:
        raise LogjudgeError(f"{place.host}:{place.folder}: cannot be read there by tar ({reason})")
    if process.returncode not in (0, _WARNED):
        problems += lines
