"""`logjudge collect HOST:FOLDER`: over a real sshd on loopback where one is installed, and over a stand-in for ssh."""

from __future__ import annotations

import getpass
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import free_port
from command_line import shell
from logjudge.histories.errors import LogjudgeError, UsageError
from logjudge.histories.recording.batch_bounds import batches
from logjudge.histories.recording.collect import collect, fetch_sources
from logjudge.histories.recording.remote_copy import Place, place_of

from recording.test_collect import LOG, SEGMENT, collected, disk

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/bin:/usr/local/sbin")
STAND_IN = 'for command; do :; done\nexec sh -c "$command"\n'


def script(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An `ssh` that comes first on PATH."""
    folder.mkdir()
    (folder / "ssh").write_text(f"#!/bin/sh\n{text}")
    (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


@pytest.fixture
def sshd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port of an sshd that lets this user in by a key; `ssh` takes the key."""
    if not SSHD:
        pytest.skip("no sshd is installed")
    home = tmp_path / "sshd"
    home.mkdir()
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(home / name)], check=True)
    port = free_port()
    (home / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {home}/host\nAuthorizedKeysFile {home}/user.pub\n"
        "StrictModes no\nUsePAM no\nPidFile none\nPasswordAuthentication no\nPermitRootLogin yes\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True)  # sshd wants it, also for its empty root
    options = f"-i {home}/user -o IdentitiesOnly=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
    script(tmp_path / "bin", f'exec {shutil.which("ssh")} -F none {options} -o LogLevel=ERROR "$@"\n', monkeypatch)
    with (
        (home / "log").open("wb") as log,
        subprocess.Popen([SSHD, "-D", "-e", "-f", home / "config"], stderr=log) as it,
    ):
        end = time.monotonic() + 60
        while "listening" not in (home / "log").read_text():
            assert it.poll() is None, (home / "log").read_text()
            assert time.monotonic() < end
            time.sleep(0.1)
        yield port
        it.terminate()


def test_a_broker_on_another_machine_is_copied_by_ssh(sshd: int, tmp_path: Path) -> None:
    data = disk(tmp_path / "it's a disk", "7", "orders-0", "__consumer_offsets-3")
    for name in (f"{0:020d}.txnindex", f"{9:020d}.snapshot"):
        (data / "orders-0" / name).touch()
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "server.log").write_text("[2026-11-23 10:00:00,000] INFO started (kafka)\n")
    host = f"ssh://{getpass.getuser()}@127.0.0.1:{sshd}"
    out = tmp_path / "runs" / "run"
    done = shell("collect", f"{host}{data}", f"7={host}{tmp_path}/logs", "--out", out, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{out}: 9 files" in done.stdout
    collect(fetch_sources([str(data), f"7={tmp_path}/logs"], tmp_path)[0], tmp_path / "local")
    assert collected(out) == collected(tmp_path / "local")
    assert (out / "brokers" / "7" / "data" / "orders-0" / SEGMENT).read_bytes() == LOG.read_bytes()
    assert [path.name for path in out.parent.iterdir()] == ["run"]
    refused = shell("collect", f"{host}/nowhere", "--out", tmp_path / "other", cwd=tmp_path)
    assert refused.returncode == 2
    assert "/nowhere: cannot be read there by tar" in refused.stderr


def test_a_segment_that_grows_is_cut_at_a_whole_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that does not grow keeps its torn tail."""
    ends = [batch.end for batch in batches(LOG)]
    data = disk(tmp_path / "data", "1", "orders-0", "orders-1")
    for name in ("orders-0", "orders-1"):
        (data / name / SEGMENT).write_bytes(LOG.read_bytes()[: ends[2] + 20])  # a part of the fourth batch
    growing = data / "orders-0" / SEGMENT
    grow = f'case "$command" in *tar*) printf more >> "{growing}" ;; esac\n'
    script(tmp_path / "bin", STAND_IN.replace("exec ", "") + grow, monkeypatch)
    sources, problems = fetch_sources([f"host:{data}"], tmp_path / "scratch")
    collect(sources, tmp_path / "run")
    found = tmp_path / "run" / "brokers" / "1" / "data"
    assert problems == []
    assert (found / "orders-0" / SEGMENT).stat().st_size == ends[2]
    assert (found / "orders-1" / SEGMENT).stat().st_size == ends[2] + 20


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("echo 'ssh: connect to host h port 22: Connection refused' >&2; exit 255\n", "no connection by ssh .*refused"),
        ("echo no archive\n", "h:/data: cannot be read there by tar"),
        ("exit 0\n", "h:/data: cannot be read there by tar"),
        (
            "cd /; tar -cf - --transform=s,^,/tmp/, etc/hostname 2> /dev/null\n",
            "found no segments, checkpoints or logs",
        ),
    ],
)
def test_a_failure_of_ssh_is_one_sentence(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path / "bin", text, monkeypatch)
    with pytest.raises(LogjudgeError, match=message):
        fetch_sources(["h:/data"], tmp_path / "scratch")


def test_an_archive_writes_nothing_outside_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = disk(tmp_path / "data", "1", "orders-0")
    (data / "server.log").symlink_to("/etc/passwd")
    pack = f'cd {data}; case "$*" in *tar*) exec tar -cPf - --transform=s,^./orders-0,../../orders-0, . ;; esac\n'
    script(tmp_path / "bin", pack, monkeypatch)
    sources, _ = fetch_sources(["h:/data"], tmp_path / "a" / "b" / "scratch")
    collect(sources, tmp_path / "run")
    assert collected(tmp_path / "run" / "brokers" / "1") == {
        "data/meta.properties",
        "data/replication-offset-checkpoint",
    }
    assert not list(tmp_path.rglob("a/orders-0"))


@pytest.mark.parametrize(
    ("argument", "place"),
    [
        ("broker1:/var/lib/kafka", Place("", "broker1", "/var/lib/kafka")),
        ("1=me@broker1:kafka data", Place("1", "me@broker1", "kafka data")),
        ("2=ssh://me@[::1]:2222/var/lib", Place("2", "ssh://me@[::1]:2222", "/var/lib")),
        ("me@[fe80::1]:/data", Place("", "me@fe80::1", "/data")),
        ("/var/lib/kafka", None),
        ("1=/var/lib:kafka", None),
        ("data", None),
    ],
)
def test_places_are_named_as_for_scp(argument: str, place: Place | None) -> None:
    assert place_of(argument) == place


def test_a_host_is_no_option(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a host that begins with -"):
        fetch_sources(["1=-oProxyCommand:/data"], tmp_path)
