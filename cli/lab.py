"""`logjudge lab`: starts a real Kafka cluster on this machine, and injects faults."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .options import LocalPath, settings_of

if TYPE_CHECKING:
    from ..histories.recording.lab.handle import Lab

DEFAULT_FOLDER = "logjudge-lab"
in_folder = click.option(
    "--lab",
    "folder",
    type=LocalPath(),
    default=DEFAULT_FOLDER,
    envvar="LOGJUDGE_LAB",
    show_default=True,
    help="The folder of the lab.",
)
nodes = click.argument("names", nargs=-1, required=True, metavar="NODE...")
link_source = click.argument("source", metavar="FROM")
link_target = click.argument("target", metavar="TO")


def _find(folder: Path) -> Lab:
    from ..histories.recording.lab.handle import Lab

    return Lab.find(folder)


@click.group("lab")
def command() -> None:
    """Start a real Kafka cluster on this machine's loopback, and inject faults.

    The brokers are nodes 1, 2, 3, and the controllers 100, 101, … (before Kafka 3: zookeeper). No command needs
    privileges. `record --lab` starts a cluster of its own.
    """


@command.command("up")
@in_folder
@click.option(
    "--kafka",
    default="",
    metavar="VERSION",
    help="Kafka's version: 4.0 to 4.4, 3.9, 2.8, 1.1 or 0.10.2 [default: that of KAFKA_HOME, else 4.1].",
)
@click.option("--brokers", default=3, show_default=True, type=click.IntRange(1, 9))
@click.option("--controllers", default=1, show_default=True, type=click.IntRange(1, 9), help="Since Kafka 3.")
@click.option("--heap", default=256, show_default=True, type=click.IntRange(96), metavar="MB", help="Heap of a node.")
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of every node, by Kafka's name."
)
def up(folder: Path, kafka: str, brokers: int, controllers: int, heap: int, settings: tuple[str, ...]) -> None:
    """Start a cluster and print its bootstrap servers."""
    from ..histories.recording.lab.cluster import Plan
    from ..histories.recording.lab.handle import Lab
    from ..histories.recording.lab.releases import fetch_kafka

    click.echo("looking for Kafka's jars; the first start downloads them", err=True)
    found = fetch_kafka(kafka)
    click.echo(f"starting Kafka {found.version}: {brokers} brokers", err=True)
    plan = Plan(
        str(folder.absolute()),
        found.version,
        str(found.jars),
        brokers,
        heap,
        settings_of("--set", settings),
        controllers=controllers,
    )
    with Lab.start(plan) as lab:
        lab.leave()
    click.echo(lab.bootstrap)


@command.command("down")
@in_folder
def down(folder: Path) -> None:
    """Stop every process of the lab; its files stay."""
    _find(folder).down()


@command.command("status")
@in_folder
def status(folder: Path) -> None:
    """Show the nodes and the active faults."""
    lab = _find(folder)
    found = lab.request("status")
    click.echo(f"Kafka {lab.version}, bootstrap servers {lab.bootstrap}")
    for name, node in found["nodes"].items():
        state = node["state"] if node["ready"] or node["state"] != "running" else "starting"
        click.echo(f"  {name:<10} {state:<8} pid {node['pid']}  {folder / 'brokers' / name}")
    for link, fault in found["links"].items():
        click.echo(f"  {link}: {fault}")


def _node_command(name: str, about: str) -> None:
    @command.command(name, help=about)
    @nodes
    @in_folder
    def run(names: tuple[str, ...], folder: Path) -> None:
        _find(folder).request(name, nodes=list(names))


_node_command("start", "Start killed or stopped nodes again, and wait until they are ready.")
_node_command("kill", "Kill nodes (SIGKILL).")
_node_command("stop", "Shut nodes down (SIGTERM).")
_node_command("pause", "Freeze nodes (SIGSTOP).")
_node_command("resume", "Resume paused nodes (SIGCONT).")


@command.command("isolate")
@nodes
@click.option("--clients", is_flag=True, help="Cut them off from the clients too.")
@in_folder
def isolate(names: tuple[str, ...], clients: bool, folder: Path) -> None:
    """Cut nodes off from the other nodes until `heal`."""
    hold = {"kind": "hold"}
    _find(folder).request("links", around=list(names), clients=clients, forward=hold, backward=hold)


def _set_links(folder: Path, source: str, target: str, forward: dict[str, Any], backward: dict[str, Any]) -> None:
    _find(folder).request("links", source=source, target=target, forward=forward, backward=backward)


@command.command("drop")
@link_source
@link_target
@click.option("--one-way", is_flag=True, help="Block only traffic from FROM to TO.")
@in_folder
def drop(source: str, target: str, one_way: bool, folder: Path) -> None:
    """Block all traffic between FROM (a node, or `clients`) and TO until `heal`."""
    _set_links(folder, source, target, {"kind": "hold"}, {"kind": "pass" if one_way else "hold"})


@command.command("delay")
@link_source
@link_target
@click.option("--ms", default=200.0, show_default=True, type=click.FloatRange(0, 60_000))
@in_folder
def delay(source: str, target: str, ms: float, folder: Path) -> None:
    """Delay traffic between FROM (a node, or `clients`) and TO by --ms in each direction until `heal`."""
    _set_links(folder, source, target, {"delay_s": ms / 1000}, {"delay_s": ms / 1000})


@command.command("lose-acks")
@link_source
@link_target
@in_folder
def lose_acks(source: str, target: str, folder: Path) -> None:
    """Deliver requests from FROM (a node, or `clients`) to TO, but lose the responses until `heal`."""
    _set_links(folder, source, target, {}, {"kind": "discard"})


@command.command("heal")
@in_folder
def heal(folder: Path) -> None:
    """End all network and disk faults, and resume paused nodes. `start` brings dead nodes back."""
    _find(folder).request("heal")


@command.command("truncate")
@click.argument("node")
@click.argument("partition", metavar="TOPIC-PARTITION")
@click.option(
    "--records",
    default=100,
    show_default=True,
    type=click.IntRange(1),
    help="Minimum number of records to cut; only whole batches are cut.",
)
@in_folder
def truncate(node: str, partition: str, records: int, folder: Path) -> None:
    """Cut the tail of a log on the disk of a stopped node."""
    cut = _find(folder).request("truncate", node=node, partition=partition, records=records)
    first, last = cut["offsets_cut"]
    click.echo(f"cut offsets {first} to {last}: {cut['bytes_cut']} of {cut['bytes_before']} bytes of {cut['file']}")


@command.command("fill-disk")
@nodes
@click.option("--bytes", "limit", default=0, show_default=True, type=click.IntRange(0), help="Maximum size of a file.")
@in_folder
def fill_disk(names: tuple[str, ...], limit: int, folder: Path) -> None:
    """Make writes of nodes fail, as on a full disk, until `heal` (Linux only)."""
    _find(folder).request("fill-disk", nodes=list(names), bytes=limit)
