"""ownership and commit-fenced: a partition has one owner in a generation, and members of older ones commit nothing."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from ...histories.references import GENERATIONS
from ...histories.tables import MAX_INT64, Evidence, Finding
from ..partitions.coordinators import group_evidence
from ..partitions.foreign_clock import foreign_clock
from ..partitions.marks import IS_REVOCATION_OF_ALL
from ..partitions.partition import Partition, once
from .consumer_groups import Group, commits_of, latest_before, with_begin
from .rule import MissingSetting, Result, Row, Rule, Unknown, finding, seconds, where

GENERATION = pl.col("group_generation").alias("generation")


@Rule(
    "ownership",
    group="consumers",
    summary="Two members of a group owned a partition at once",
    example="{c.group.id=g d.group.id=g} p:a@0 c:group=0^5 d:group=0^5 c:<a@0 d:<a@0",
    source=GENERATIONS,
    needs=("generations",),
    assumes=("clock", "order"),
).judged_by
def ownership(p: Partition) -> Iterator[Result]:
    """One finding for each two members of a group that held the partition at once: their first time.

    Breach: Two members were assigned the partition in the same generation and held it at the same time. Or one record
    of a generation in __consumer_offsets assigns it to two. Or its records let a member of KIP-848 own it before
    another member has revoked it. Or a member joined a later generation, but its revocation follows the assignment to
    another member in that generation. A member holds a partition from its assignment until it is revoked, the group
    assigns again, or the member crashes.
    Not a breach: A member of an older generation holds the partition while another has it in a newer one: it has not
    noticed that its session expired, and its commits are rejected. With the same member id it may later join a
    generation after that one (KAFKA-13419), and a static member may join that one. Two instances of one static member
    (group.instance.id) follow each other within a generation.
    Unknown when: Two members held the partition at once, and one of them recorded no generation. The group's
    generations go back, as they do after its metadata is lost, or a process that joined with another member id has none
    that is higher than before. run.json does not set group.id of a member.
    In Jepsen histories: Not judged: its histories have no generations.
    """
    yield from _missing_groups(p)
    if len(p.groups):
        yield from _assigned_twice(p)
        yield from _not_revoked(p)
    for group in _groups(p):
        pairs = overlaps(ownerships_of(p, group)).filter(_are_two_members(p))
        breaches = _breaches(p, group, pairs)
        if len(breaches) and (reason := _unsure_generations(p, group)):
            yield Unknown(reason)
            continue
        yield from (_owned_twice_finding(p, group, row) for row in breaches.iter_rows(named=True))
        for row in pairs.filter(pl.any_horizontal(pl.col("generation", "generation_other").is_null())).rows(named=True):
            without = row["process"] if row["generation"] is None else row["process_other"]
            yield Unknown(f"{without} of {group} held {p.name} with another member and recorded no generation")


def _assigned_twice(p: Partition) -> Iterator[Finding]:
    """Generations in `__consumer_offsets` that assign the partition to two members."""
    assigned = group_evidence(p).filter(kind="assigned")
    for _, rows in assigned.group_by("group", "generation", "at", maintain_order=True):
        members = sorted(rows["member"].unique())
        if len(members) > 1:
            row = rows.row(0, named=True)
            yield finding(
                p,
                f"generation {row['generation']} of group {row['group']} assigns {p.name} to {' and '.join(members)}",
                (None, None),
                [Evidence.in_file("the generation's record", row)],
            )


def _not_revoked(p: Partition) -> Iterator[Finding]:
    """Records of KIP-848 in `__consumer_offsets` by which a member owns the partition while another still does."""
    known = group_evidence(p).filter(pl.col("kind").is_in(["owned", "released"]))
    for _, rows in known.group_by("group", maintain_order=True):
        owners: dict[str, Row] = {}
        for row in rows.rows(named=True):
            if row["kind"] == "released":
                owners.pop(row["member"], None)
                continue
            others = [one for one in owners.values() if not row["instance"] or one["instance"] != row["instance"]]
            owners[row["member"]] = row
            if others:
                yield _still_owned_finding(p, others[0], row)


def _still_owned_finding(p: Partition, before: Row, row: Row) -> Finding:
    return finding(
        p,
        f"member {row['member']} of group {row['group']} owned {p.name} in epoch {row['generation']}, but"
        f" member {before['member']} had not revoked it",
        (None, None),
        [Evidence.in_file(f"{one['member']} owns it in epoch {one['generation']}", one) for one in (before, row)],
    )


def overlaps(ownerships: pl.DataFrame) -> pl.DataFrame:
    """Pairs of ownerships (process, since, until) of two processes at one time; columns of the later have `_other`."""
    ordered = ownerships.sort("since", "at").with_row_index("order")
    pairs = ordered.join_where(
        ordered, pl.col("order") < pl.col("order_other"), pl.col("since_other") < pl.col("until"), suffix="_other"
    )
    return pairs.filter(pl.col("process") != pl.col("process_other")).sort("order_other", "order")


def _breaches(p: Partition, group: Group, pairs: pl.DataFrame) -> pl.DataFrame:
    """Pairs of ownerships in one generation, or with a revocation too late for the later one: the first of each two."""
    if not len(pairs):
        return pairs
    # In KIP-848 each member has an epoch of its own, and a fenced one joins again with the same member id.
    memberships = _memberships(p, group).drop_nulls("member")
    latest = pl.col("generation").cum_max().over("process", "member")
    latest_generations = memberships.sort("at").select("process", "member", "at", latest=latest)
    joined = memberships.select("process", "member", generation_other="generation", has_joined=pl.lit(True)).unique()
    has_joined = pl.col("has_joined").fill_null(False) & ~_is_static(p)
    is_late = (
        pl.col("is_revoked")
        & (pl.col("generation") < pl.col("generation_other"))
        & ((pl.col("latest") >= pl.col("generation_other")) | has_joined)
        & pl.lit(not have_own_epochs(p, group))
    )
    return (
        pairs.with_row_index("pair")
        .sort("ended_at")
        .join_asof(
            latest_generations,
            left_on="ended_at",
            right_on="at",
            by=["process", "member"],
            suffix="_seen",
            check_sortedness=False,
        )
        .join(joined, on=["process", "member", "generation_other"], how="left")
        .sort("pair")
        .filter((pl.col("generation") == pl.col("generation_other")) | is_late)
        .unique(["process", "process_other"], keep="first", maintain_order=True)
    )


def _static_members(p: Partition) -> dict[str, str]:
    """The group.instance.id of each process that has one."""
    ids = {name: str(p.settings.setting_of(name, "group.instance.id", "")) for name in p.settings.processes}
    return {name: found for name, found in ids.items() if found}


def _is_static(p: Partition) -> pl.Expr:
    """Selects the rows of static members. They stay in the group while they miss a rebalance."""
    return pl.col("process").is_in(list(_static_members(p)))


def _are_two_members(p: Partition) -> pl.Expr:
    """Selects pairs that are not two instances of one static member."""
    instances = _static_members(p)
    first, second = (pl.col(name).replace_strict(instances, default="") for name in ("process", "process_other"))
    return (first == "") | (first != second)


@once
def ownerships_of(p: Partition, group: Group) -> pl.DataFrame:
    """From when (ns, certain) until when the members of a group held the partition.

    Columns: process, member, generation, since, until, at (place of the assignment), is_revoked (whether a revocation
    ended it), ended_at.
    """
    marks, context = (frame.filter(group.is_member) for frame in (p.marks, p.context))
    is_begin = pl.col("kind").is_in(["assign", "owned"]) & pl.col("group") & (pl.col("outcome") == "ok")
    begun = marks.filter(is_begin).unique(["process", "at"], keep="first", maintain_order=True)
    ownerships = begun.select("process", "member", GENERATION, since="completed", at="at")
    all_ended = context.filter(pl.col("kind").is_in(["assign", "crash", "subscribe"]) | IS_REVOCATION_OF_ALL)
    ended = pl.concat([all_ended, marks.filter(kind="revoke")], how="diagonal").filter(pl.col("outcome") != "fail")
    ends = ended.select("process", until="invoked", ended_at="at", is_revoked=pl.col("kind") == "revoke").drop_nulls()
    # At one time the order of the lines counts, and an assignment ends what was held before it, not itself.
    order = (pl.coalesce("since", "until"), pl.coalesce("at", "ended_at"), "since")
    events = pl.concat([ends, ownerships], how="diagonal").sort(*order, nulls_last=False, maintain_order=True)
    next_end = pl.col("until", "ended_at", "is_revoked").fill_null(strategy="backward").over("process")
    return (
        events.with_columns(next_end)
        .drop_nulls("since")
        .select("process", "member", "generation", "since", "until", "at", "is_revoked", "ended_at")
        .with_columns(pl.col("until").fill_null(MAX_INT64), pl.col("is_revoked").fill_null(False))
    )


@once
def _memberships(p: Partition, group: Group) -> pl.DataFrame:
    """The generations that members reported, in the order of time: process, member, generation, completed."""
    columns = ("process", "member", GENERATION, "completed", "at")
    frames = [
        frame.filter(group.is_member & pl.col("group_generation").is_not_null()).select(columns)
        for frame in (p.marks, p.context)
    ]
    return pl.concat(frames).drop_nulls("completed").sort("completed", "at")


def _groups(p: Partition) -> list[Group]:
    """The groups of processes with a recorded generation, each with all of its processes."""
    names = sorted({p.settings.group_of(process) for process in _processes_with_generation(p)} - {""})
    processes = sorted(p.settings.processes)
    return [Group(name, tuple(one for one in processes if p.settings.group_of(one) == name)) for name in names]


@once
def _processes_with_generation(p: Partition) -> list[str]:
    """The processes that recorded a generation in this partition."""
    return sorted(p.marks.filter(pl.col("group_generation").is_not_null())["process"].unique())


def _missing_groups(p: Partition) -> list[MissingSetting]:
    names = _processes_with_generation(p)
    return [MissingSetting(f"group.id of {name}") for name in names if not p.settings.group_of(name)]


def _unsure_generations(p: Partition, group: Group) -> str:
    """The reason why generations and times do not order the actions of members; empty if they do."""
    seen = _memberships(p, group)
    own = seen.with_columns(
        highest=pl.col("generation").cum_max().shift().over("process"),
        is_new=(pl.col("member") != pl.col("member").shift().over("process")) & ~_is_static(p),
    )
    # A dynamic member that joins with another id begins a higher generation, unless the group began anew.
    goes_back = own.select((pl.col("generation") < pl.col("highest") + pl.col("is_new").fill_null(False)).any()).item()
    # Or a process that joined after a newer generation was known got an older one.
    highest = seen.select(known="completed", highest=pl.col("generation").cum_max())
    assigned = p.marks.filter(pl.col("group"), group.is_member, pl.col("kind").is_in(["assign", "owned"]), outcome="ok")
    joined = _with_joined(assigned.select("process", GENERATION, "completed"), p, group, at="completed")
    joined = joined.drop_nulls().sort("joined")
    later = joined.join_asof(highest, left_on="joined", right_on="known", check_sortedness=False)
    if goes_back or later.select((pl.col("generation") < pl.col("highest")).any()).item():
        return f"the generations of {group} go back, so one number may stand for two generations"
    return foreign_clock(p)


@once
def have_own_epochs(p: Partition, group: Group) -> bool:
    """Whether a group has a member of KIP-848's protocol, or had one: then all generations are a member's own epochs.

    Members are configured so, or the coordinator recorded what they owned.
    """
    is_configured = any(p.settings.setting_of(name, "group.protocol") == "consumer" for name in group.members)
    return is_configured or "owned" in group_evidence(p).filter(group=group.id)["kind"]


def _owned_twice_finding(p: Partition, group: Group, row: Row) -> Finding:
    in_generation = f"in generation {row['generation_other']}"
    if row["generation"] == row["generation_other"]:
        how = f"{row['process']} had it {in_generation}, too, since {seconds(row['since'])}"
    else:
        how = f"{row['process']}, which joined that generation or a later one, gave it up at {seconds(row['until'])}"
    return finding(
        p,
        f"{group} assigned {p.name} to {row['process_other']} {in_generation} at {seconds(row['since_other'])},"
        f" but {how}",
        (None, None),
        [
            (f"{row['process']} is assigned {p.name} in generation {row['generation']}", row["at"]),
            (f"{row['process_other']} is assigned {p.name} {in_generation}", row["at_other"]),
            (f"{row['process']} gives it up", row["ended_at"] if row["is_revoked"] else None),
        ],
        processes=[row["process"], row["process_other"]],
    )


@Rule(
    "commit-fenced",
    group="consumers",
    summary="A commit of an older generation or of another member took effect",
    example="{c.group.id=g d.group.id=g} p:a@0 c:group=0^5 c:<a@0 d:group=0^6 c:commit=1^5",
    source=GENERATIONS,
    needs=("generations", "commits"),
    assumes=("clock", "order"),
).judged_by
def commit_fenced(p: Partition) -> Iterator[Result]:
    """One finding for each such commit.

    Breach: A commit succeeded though a member of the group had a newer generation before the commit began. Or a member
    committed the partition that another member held in the same generation, from before the commit until after it. Or,
    with KIP-848, a member committed the partition after another got it in a later epoch, and had not given it up. The
    generation of a commit is what the client reports after it.
    Not a breach: One of these explains it:
    - The commit began before anyone had the newer generation.
    - The member joined after it, so the group's generations have begun anew, as when all its offsets expire.
    - An automatic commit is recorded after it happened, and the callbacks of several may come late together: it counts
      from the first poll of the record below it, if its process recorded one.
    - The group has a member of KIP-848's protocol, by run.json or by its records in __consumer_offsets. Then each
      member has an epoch of its own, so another member's later epoch proves nothing. This holds also for members of the
      classic protocol, and if the group was converted during the run.
    Unknown when: The group's generations go back, as they do after its metadata is lost. run.json does not set group.id
    of a member.
    In Jepsen histories: Not judged: its histories have no generations.
    """
    yield from _missing_groups(p)
    for group in _groups(p):
        commits = commits_of(p, group).filter(pl.col("group_generation").is_not_null())
        if not len(commits):
            continue
        commits = with_begin(p, commits).rename({"group_generation": "generation"})
        has_own_epoch = pl.lit(have_own_epochs(p, group))
        old = _of_older_generations(p, group, commits.filter(~has_own_epoch))
        foreign = _of_other_members(p, group, commits.join(old, on=["at", "index"], how="anti"))
        rest = commits.filter(has_own_epoch).join(foreign, on=["at", "index"], how="anti")
        breaches = pl.concat([old, foreign, _of_former_owners(p, group, rest)], how="diagonal")
        if len(breaches) and (reason := _unsure_generations(p, group)):
            yield Unknown(reason)
            continue
        yield from (
            _fenced_finding(p, group, row) for row in breaches.sort("completed", "at", "index").iter_rows(named=True)
        )


def _of_older_generations(p: Partition, group: Group, commits: pl.DataFrame) -> pl.DataFrame:
    """Commits that began after a newer generation was known, with the membership that shows it (`_other`).

    A member that joined afterwards got its generation later: the group's count has begun anew.
    """
    known = _memberships(p, group).with_columns(highest=pl.col("generation").cum_max())
    newest = known.filter(pl.col("generation") == pl.col("highest")).select(
        process_other="process", generation_other="generation", since_other="completed", at_other="at"
    )
    older = latest_before(commits, newest, "since_other").filter(pl.col("generation") < pl.col("generation_other"))
    joined = _with_joined(older, p, group, at="begun")
    return joined.filter((pl.col("since_other") >= pl.col("joined")).fill_null(True))


def _with_joined(rows: pl.DataFrame, p: Partition, group: Group, at: str) -> pl.DataFrame:
    """Adds `joined`: when (ns) the process of a row last subscribed before the time in the column `at`, if recorded."""
    subscribed = p.context.filter(group.is_member, kind="subscribe").select("process", joined="invoked").sort("joined")
    return rows.sort(at).join_asof(
        subscribed, left_on=at, right_on="joined", by="process", coalesce=False, check_sortedness=False
    )


def _of_other_members(p: Partition, group: Group, commits: pl.DataFrame) -> pl.DataFrame:
    """Commits of a partition that another member owned all the while in that generation, with that ownership."""
    ownerships = ownerships_of(p, group)
    unowned = commits.join(ownerships, on=["process", "generation"], how="anti", maintain_order="left")
    others = ownerships.select(pl.all().name.suffix("_other")).with_columns(generation=pl.col("generation_other"))
    return (
        unowned.join(others, on="generation", maintain_order="left_right")
        .filter(
            (pl.col("process") != pl.col("process_other"))
            & (pl.col("since_other") < pl.col("begun"))
            & (pl.col("completed") < pl.col("until_other"))
        )
        .filter(_are_two_members(p))
        .unique(["at", "index"], keep="first", maintain_order=True)
    )


def _of_former_owners(p: Partition, group: Group, commits: pl.DataFrame) -> pl.DataFrame:
    """Commits of an owner that had not given the partition up when another member got it, with the latter's columns.

    The coordinator assigns it to the other member only after it removed the owner (KIP-848).
    """
    taken = overlaps(ownerships_of(p, group)).filter(
        _are_two_members(p), pl.col("generation") < pl.col("generation_other")
    )
    taken = taken.select("process", pl.col("^.*_other$"), is_taken=pl.lit(True), lost_at="until")
    return (
        commits.join(taken, on="process", maintain_order="left_right")
        .filter((pl.col("since_other") < pl.col("begun")) & (pl.col("begun") < pl.col("lost_at")))
        .unique(["at", "index"], keep="first", maintain_order=True)
    )


def _fenced_finding(p: Partition, group: Group, row: Row) -> Finding:
    if row.get("is_taken"):
        how = f"{row['process_other']} had got it in epoch {row['generation_other']} at {seconds(row['since_other'])}"
    elif row["generation"] < row["generation_other"]:
        how = f"{row['process_other']} was in generation {row['generation_other']} since {seconds(row['since_other'])}"
    else:
        how = f"{row['process_other']} owned it in that generation since {seconds(row['since_other'])}"
    return finding(
        p,
        f"{row['process']} of {group} committed {where(p, row['offset'])} in generation {row['generation']} at"
        f" {seconds(row['completed'])}, but {how}",
        (row["offset"], row["offset"]),
        [
            (f"{row['process_other']} is in generation {row['generation_other']}", row["at_other"]),
            (f"{row['process']} commits {row['offset']} in generation {row['generation']}", row["at"]),
        ],
        processes=[row["process"], row["process_other"]],
    )
