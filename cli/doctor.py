"""`logjudge doctor`: what is there, what is missing, and the remedy of each."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import NamedTuple

import click

from .main import EXIT_USAGE, EXIT_VALID

JAVA_REMEDY = (
    "install a JRE of Java 17 or newer (Debian and Ubuntu: apt-get install openjdk-17-jre-headless; Fedora: dnf install"
    " java-17-openjdk-headless; macOS: brew install openjdk@17), or use --engine local"
)


class Check(NamedTuple):
    """One thing looked at: fine, missing but optional, or missing."""

    state: str  # ok | optional | missing
    name: str
    says: str
    remedy: str = ""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the checks as JSON.")
def command(as_json: bool) -> int:
    """Say what this machine has for logjudge and what it lacks."""
    checks = [_python(), java(), _memory(), *_packages(), *_extras()]
    if as_json:
        import json

        click.echo(json.dumps([check._asdict() for check in checks], indent=2))
    else:
        colours = {"ok": "green", "optional": "yellow", "missing": "red"}
        for check in checks:
            mark = click.style(f"{check.state:9}", fg=colours[check.state])
            click.echo(f"{mark} {check.name}: {check.says}" + (f"; {check.remedy}" if check.remedy else ""))
    return EXIT_USAGE if any(check.state == "missing" for check in checks) else EXIT_VALID


def _python() -> Check:
    found = ".".join(str(part) for part in sys.version_info[:3])
    return Check("ok", "Python", f"{found} at {sys.executable}, which Spark's workers run too")


def java() -> Check:
    """Spark needs Java 17 or newer; JAVA_HOME wins over PATH, as in Spark's own scripts."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if not program or not Path(program).exists():
        return Check("missing", "Java", "not found" + (f" in JAVA_HOME={home}" if home else ""), JAVA_REMEDY)
    try:
        told = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=20, check=False).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check("missing", "Java", f"{program} does not run ({error})", JAVA_REMEDY)
    match = re.search(r'version "(\d+)(?:\.(\d+))?', told)
    major = int(match[2] if match and match[1] == "1" else match[1]) if match else 0
    if major < 17:
        return Check("missing", "Java", f"{major or 'an unknown version'} at {program}", JAVA_REMEDY)
    return Check("ok", "Java", f"{major} at {program}")


def _memory() -> Check:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    says = f"{total:.1f} GiB, {os.cpu_count()} cores"
    if total < 4:
        return Check("optional", "Memory", says, "Spark wants 4 GiB; --engine local needs less for small histories")
    return Check("ok", "Memory", says)


def _packages() -> Iterator[Check]:
    required = [one for one in requires("logjudge") or [] if "extra ==" not in one]
    for name in re.findall(r"^[\w.-]+", "\n".join(required), re.MULTILINE):
        try:
            yield Check("ok", name, version(name))
        except PackageNotFoundError:
            yield Check("missing", name, "not installed", "pip install logjudge")


def _extras() -> Iterator[Check]:
    try:
        yield Check("ok", "Spark Connect", f"grpcio {version('grpcio')}, for --remote")
    except PackageNotFoundError:
        yield Check("optional", "Spark Connect", "not installed", "pip install 'logjudge[connect]' for --remote")
