"""The documents in which the guarantees of rules and causes are stated: titles and addresses."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple


class Reference(NamedTuple):
    """A document, by its title and address."""

    title: str
    url: str


_WIKI = "https://cwiki.apache.org/confluence"
_PAGES = {
    98: "KIP-98+-+Exactly+Once+Delivery+and+Transactional+Messaging",
    101: "KIP-101+-+Alter+Replication+Protocol+to+use+Leader+Epoch+rather+than+High+Watermark+for+Truncation",
    106: "KIP-106+-+Change+Default+unclean.leader.election.enabled+from+True+to+False",
    279: "KIP-279%3A+Fix+log+divergence+between+leader+and+follower+after+fast+leader+fail+over",
    320: "KIP-320%3A+Allow+fetchers+to+detect+and+handle+log+truncation",
    345: "KIP-345%3A+Introduce+static+membership+protocol+to+reduce+consumer+rebalances",
    429: "KIP-429%3A+Kafka+Consumer+Incremental+Rebalance+Protocol",
    447: "KIP-447%3A+Producer+scalability+for+exactly+once+semantics",
    516: "KIP-516%3A+Topic+Identifiers",
    848: "KIP-848%3A+The+Next+Generation+of+the+Consumer+Rebalance+Protocol",
    890: "KIP-890%3A+Transactions+Server-Side+Defense",
    966: "KIP-966%3A+Eligible+Leader+Replicas",
}


def kip(number: int) -> Reference:
    """A Kafka improvement proposal. The wiki's addresses have titles; where that is not known, the wiki's search."""
    path = f"display/KAFKA/{_PAGES[number]}" if number in _PAGES else f"dosearchsite.action?queryString=KIP-{number}"
    return Reference(f"KIP-{number}", f"{_WIKI}/{path}")


def ticket(number: int) -> Reference:
    """An issue of Kafka."""
    return Reference(f"KAFKA-{number}", f"https://issues.apache.org/jira/browse/KAFKA-{number}")


def references_in(text: str) -> list[Reference]:
    """The KIPs and tickets that a text mentions, each once."""
    return [_NUMBERED[kind](int(number)) for kind, number in dict.fromkeys(_MENTION.findall(text))]


def markdown_link(document: Reference) -> str:
    """A document as a link in Markdown."""
    return f"[{document.title}]({document.url})"


def with_links(text: str, link: Callable[[Reference], str]) -> str:
    """The text with a link instead of each KIP and ticket that it mentions."""
    return _MENTION.sub(lambda found: link(_NUMBERED[found[1]](int(found[2]))), text)


_MENTION = re.compile(r"\b(KIP|KAFKA)-(\d{1,6})\b")
_NUMBERED = {"KIP": kip, "KAFKA": ticket}

_KAFKA = "https://kafka.apache.org/41/documentation.html"
SEMANTICS = Reference("Kafka's documentation, message delivery semantics", f"{_KAFKA}#semantics")
REPLICATION = Reference("Kafka's documentation, replication", f"{_KAFKA}#replication")
MESSAGE_FORMAT = Reference("Kafka's documentation, message format", f"{_KAFKA}#messageformat")
GENERATIONS = Reference(
    "Kafka Client-side Assignment Proposal", f"{_WIKI}/display/KAFKA/Kafka+Client-side+Assignment+Proposal"
)
JEPSEN = Reference(
    "Jepsen's workload for Kafka", "https://github.com/jepsen-io/jepsen/blob/main/jepsen/src/jepsen/tests/kafka.clj"
)
ELLE = Reference("Elle", "https://github.com/jepsen-io/elle")
LINEARIZABILITY = Reference("Herlihy and Wing, Linearizability, TOPLAS 1990", "https://doi.org/10.1145/78969.78972")
