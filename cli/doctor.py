"""`logjudge doctor`: checks Java, memory and packages, and prints how to install missing parts."""

from __future__ import annotations

import os
import platform
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
    """The state of one component."""

    state: str  # ok | optional | missing
    name: str
    message: str
    remedy: str = ""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the checks as JSON.")
def command(as_json: bool) -> int:
    """Check the installation, and print how to install missing parts."""
    python = f"{platform.python_version()} at {sys.executable}, also used by Spark's workers"
    checks = [Check("ok", "Python", python), java(), _memory(), *_packages(), *_extras(), _object_stores()]
    if as_json:
        import json

        names = ("state", "name", "says", "remedy")
        click.echo(json.dumps([dict(zip(names, check, strict=True)) for check in checks], indent=2))
    else:
        colours = {"ok": "green", "optional": "yellow", "missing": "red"}
        for check in checks:
            mark = click.style(f"{check.state:9}", fg=colours[check.state])
            click.echo(f"{mark} {check.name}: {check.message}" + (f"; {check.remedy}" if check.remedy else ""))
    return EXIT_USAGE if any(check.state == "missing" for check in checks) else EXIT_VALID


def java() -> Check:
    """Checks for Java 17 or newer, which Spark needs. JAVA_HOME comes before PATH, as in Spark's own scripts."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if not program or not Path(program).exists():
        return Check("missing", "Java", "not found" + (f" in JAVA_HOME={home}" if home else ""), JAVA_REMEDY)
    try:
        output = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=20, check=False).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check("missing", "Java", f"{program} does not run ({error})", JAVA_REMEDY)
    match = re.search(r'version "(\d+)(?:\.(\d+))?', output)
    major = 0
    if match:
        major = int(match[2] if match[1] == "1" else match[1])  # Java 8 calls itself 1.8
    if major < 17:
        return Check("missing", "Java", f"{major or 'an unknown version'} at {program}", JAVA_REMEDY)
    return Check("ok", "Java", f"{major} at {program}")


def _memory() -> Check:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    message = f"{total:.1f} GiB, {os.cpu_count()} cores"
    if total >= 4:
        return Check("ok", "Memory", message)
    remedy = "Spark needs 4 GiB; --engine local judges small histories with less"
    return Check("optional", "Memory", message, remedy)


def _packages() -> Iterator[Check]:
    required = [line for line in requires("logjudge") or [] if "extra ==" not in line]
    for name in re.findall(r"^[\w.-]+", "\n".join(required), re.MULTILINE):
        try:
            yield Check("ok", name, version(name))
        except PackageNotFoundError:
            yield Check("missing", name, "not installed", "pip install logjudge")


def _extras() -> Iterator[Check]:
    for name, package, prefix, extra, use in (
        ("Spark Connect", "grpcio", "grpcio ", "connect", "--remote"),
        ("confluent-kafka", "confluent-kafka", "", "record", "`logjudge record`"),
    ):
        try:
            yield Check("ok", name, f"{prefix}{version(package)}, for {use}")
        except PackageNotFoundError:
            yield Check("optional", name, "not installed", f"pip install 'logjudge[{extra}]' for {use}")
    from ..histories.recording.lab.releases import ivy

    fetcher = "Maven" if shutil.which("mvn") else "pyspark's Ivy" if ivy() else ""
    if fetcher or os.environ.get("KAFKA_HOME"):
        yield Check("ok", "Kafka", os.environ.get("KAFKA_HOME") or f"{fetcher} fetches its jars, for `logjudge lab`")
    else:
        yield Check("optional", "Kafka", "neither KAFKA_HOME nor Maven", "set one up for `logjudge lab`")


def hadoop_version() -> str:
    """The version of Hadoop in Spark's jars, those of SPARK_HOME or else of pyspark; empty without jars."""
    from importlib.util import find_spec

    spec = find_spec("pyspark")
    home = os.environ.get("SPARK_HOME") or (str(Path(spec.origin).parent) if spec is not None and spec.origin else "")
    names = [path.name for path in Path(home, "jars").glob("hadoop-client-api-*.jar")] if home else []
    return names[0].removeprefix("hadoop-client-api-").removesuffix(".jar") if names else ""


def _object_stores() -> Check:
    """The Hadoop version in Spark's jars. hadoop-aws, which reads and writes s3a://, must have the same version."""
    version = hadoop_version()
    if not version:
        return Check(
            "optional", "S3", "no Hadoop found in Spark's jars", "install the hadoop-aws of your Spark's Hadoop version"
        )
    package = f"org.apache.hadoop:hadoop-aws:{version}"
    return Check("ok", "S3", f"this Spark has Hadoop {version}; for s3a:// add --conf spark.jars.packages={package}")
