"""ownership and commit-fenced against naive twins, on random histories of groups."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, permutations
from pathlib import Path
from random import Random

import pytest
from campaign import IS_CAMPAIGN, Selection
from combined_corpus import judge_combined
from notation import judge, parse
from twin_events import FOREVER, Op, operations


def random_history(random: Random) -> str:
    """Members of one or two groups in generations that mostly grow, and sometimes go wrong."""
    options = [f"{name}.group.id={'h' if random.random() < 0.15 else 'g'}" for name in "cdef"]
    options += [f"{name}.group.instance.id=i" for name in "cdef" if random.random() < 0.08]
    options += [f"{name}.group.protocol=consumer" for name in "cdef" if random.random() < 0.3]
    generation, tokens, late = 3, ["p:a@0"], []
    reported: dict[str, int] = {}
    for _ in range(random.randint(4, 18)):
        generation += random.random() < 0.4
        busy = {owner for owner, _ in late}
        name = random.choice([each for each in "cde" if each not in busy] or ["f"])
        now = max(0, generation - (random.random() < 0.4) * random.randint(1, 3))
        if random.random() < 0.97:
            now = max(now, reported.get(name, 0))
        reported[name] = now
        member = f"^{now}" + random.choice(("", "", "", f"/{name}2"))
        verb = random.choice(
            [
                *(f"group=0{member}", f"group=0{member}", f"group=else{member}", f"group=else{member}+0", "group=0"),
                *(f"revoked{member}", f"revoked=0{member}", "revoked=0", "revoked=else", "crash", "subscribe"),
                *(f"commit={random.randint(1, 3)}{member}", f"auto={random.randint(1, 3)}{member}", "commit=1", "<a@0"),
            ]
        )
        if verb.startswith("commit") and random.random() < 0.4:
            tokens.append(f"{name}:{verb}..")
            late.append((name, verb))
            continue
        tokens.append(f"{name}:{verb}" + random.choice((*[""] * 10, "!", "~")))
        if late and random.random() < 0.4:
            owner, verb = late.pop()
            tokens.append(f"{owner}:..{verb}")
    return " ".join(["{" + " ".join(options) + "}", *tokens, *(f"{owner}:..{verb}" for owner, verb in late)])


class Twin:
    """The rules as loops over all pairs of operations."""

    def __init__(self, text: str) -> None:
        history = parse(text)
        self.about = history.config["processes"]
        self.ops = list(operations(history.events))

    def group(self, process: str) -> str:
        return str(self.about.get(process, {}).get("group.id", ""))

    def _is_classic(self, process: str) -> bool:
        of_group = [about for name, about in self.about.items() if self.group(name) == self.group(process)]
        return not any(about.get("group.protocol") == "consumer" for about in of_group)

    def _fellows(self, one: Op, other: Op) -> bool:
        instance = self.about[one.process].get("group.instance.id")
        same = instance and instance == self.about[other.process].get("group.instance.id")
        return one.process != other.process and self.group(one.process) == self.group(other.process) and not same

    def _takes(self, op: Op) -> bool:
        names = [*op.event.get("offsets", []), *op.event.get("assignment", [])]
        is_assign = op.f == "assign" and op.event.get("group") and not op.event.get("revoked") and op.outcome == "ok"
        return bool(is_assign and any(place["partition"] == 0 for place in names))

    def _ends(self, op: Op) -> bool:
        if op.outcome == "fail" or op.f not in ("assign", "crash", "subscribe"):
            return False
        here = any(place["partition"] == 0 for place in op.event.get("offsets", []))
        return not op.event.get("revoked") or here or not op.event["offsets"]

    def _end(self, hold: Op) -> tuple[int, bool]:
        """The end of a hold, and whether a revocation ends it."""
        after = [op for op in self.ops if op.process == hold.process and self._ends(op) and op.begun >= hold.done]
        first = min(after, key=lambda op: op.begun, default=None)
        return (FOREVER, False) if first is None else (first.begun, bool(first.event.get("revoked")))

    def _has_joined(self, hold: Op, generation: int, end: int) -> bool:
        """Whether the holder had joined a generation by the end of its hold, or joined it later as a dynamic member."""
        seen = [
            (op.begun, op.event["generation"])
            for op in self._reports(self.group(hold.process))
            if op.process == hold.process and op.event["member"] == hold.event["member"]
        ]
        is_static = bool(self.about[hold.process].get("group.instance.id"))
        by_then = any(begun <= end and number >= generation for begun, number in seen)
        return by_then or (not is_static and generation in [number for _, number in seen])

    def _reports(self, group: str) -> list[Op]:
        kinds = ("assign", "commit")
        return sorted(
            (op for op in self.ops if op.f in kinds and op.done < FOREVER and "generation" in op.event
             and self.group(op.process) == group),
            key=lambda op: op.done,
        )  # fmt: skip

    def _is_sure(self, group: str) -> bool:
        by_process: dict[str, list[Op]] = {}
        for op in self._reports(group):
            by_process.setdefault(op.process, []).append(op)
        begun_anew = any(
            other.event["generation"] > op.event["generation"]
            for op in self._reports(group)
            if op.event.get("group") and self._takes(op)
            for other in self._reports(group)
            if other.done <= self._joined(op.process, op.done)
        )
        return not begun_anew and all(map(self._rise, by_process.values()))

    def _rise(self, reports: list[Op]) -> bool:
        """Whether the generations of a process never fall, and rise when it gets another member id."""
        is_static = bool(self.about[reports[0].process].get("group.instance.id"))
        return all(
            last.event["generation"] + (last.event["member"] != op.event["member"] and not is_static)
            <= op.event["generation"]
            for last, op in pairwise(reports)
        )

    def _joined(self, process: str, until: int) -> int:
        """When the process last subscribed before."""
        return max(
            (o.begun for o in self.ops if o.f == "subscribe" and o.process == process and o.begun <= until), default=-1
        )

    def ownership(self) -> Iterator[tuple[str, str]]:
        holds = [op for op in self.ops if self._takes(op)]
        for one, other in permutations(holds, 2):
            end, revoked = self._end(one)
            if (
                not self._fellows(one, other)
                or not one.done < other.done < end
                or not self._is_sure(self.group(one.process))
            ):
                continue
            first, second = one.event.get("generation"), other.event.get("generation")
            if first is None or second is None:
                continue
            classic = self._is_classic(one.process)
            if first == second or (first < second and revoked and classic and self._has_joined(one, second, end)):
                yield one.process, other.process

    def _has_lost(self, hold: Op, commit: Op, begun: int) -> bool:
        """Whether another member got the partition in a later epoch while `commit`'s process held it."""
        if hold.process != commit.process or not hold.done <= begun < self._end(hold)[0]:
            return False
        first = hold.event.get("generation")
        return first is not None and any(
            self._takes(o) and self._fellows(commit, o) and hold.done < o.done < begun
            and o.event.get("generation", -1) > first
            for o in self.ops
        )  # fmt: skip

    def _polled(self, process: str, offset: int) -> int:
        """When the process first polled an offset; -1 if it never did."""
        polls = [op for op in self.ops if op.f == "poll" and op.process == process]
        return min(
            (op.done for op in polls for read in op.event.get("records", []) if read["offset"] == offset), default=-1
        )

    def commit_fenced(self) -> Iterator[tuple[int, int]]:
        for op in sorted(self.ops, key=lambda op: op.done):
            if op.f != "commit" or op.outcome != "ok":
                continue
            mine, offset = op.event.get("generation"), op.event["offsets"][0]["offset"]
            begun = self._polled(op.process, offset - 1) if op.event.get("auto") else op.begun
            if mine is None or not self._is_sure(self.group(op.process)):
                continue
            joined = self._joined(op.process, begun)
            newer = [
                o
                for o in self._reports(self.group(op.process))
                if joined <= o.done < begun and o.event["generation"] > mine
            ]
            classic = self._is_classic(op.process)
            holds = [o for o in self.ops if self._takes(o) and o.event.get("generation") == mine]
            owns = any(hold.process == op.process for hold in holds)
            others = [o for o in holds if self._fellows(op, o) and o.done < begun and self._end(o)[0] > op.done]
            former = not classic and any(self._takes(o) and self._has_lost(o, op, begun) for o in self.ops)
            if (newer and classic) or (others and not owns) or former:
                yield op.done, offset


BEHIND = "p:a@0 c:group=0^4 d:group=0^5 c:revoked=0^4 c:group=else"
LATE = [
    ("", "^6", False),  # c misses generation 5 and keeps its member id (ILLEGAL_GENERATION, KAFKA-13419)
    ("", "^5", True),  # a dynamic member that joins generation 5 must join before the assignments are made
    ("c.group.instance.id=i", "^5", False),  # a static member is in generation 5 before it joins
    ("c.group.instance.id=i", "^6", False),
]


@pytest.mark.parametrize(("setting", "joins", "is_breach"), LATE)
def test_a_member_that_is_behind_gives_up_later_than_another_gets(
    setting: str, joins: str, is_breach: bool, tmp_path: Path
) -> None:
    text = f"{{c.group.id=g d.group.id=g {setting}}} {BEHIND}{joins}"
    found = judge(text, tmp_path, rules=("ownership",)).findings
    assert [finding["rule"] for finding in found] == ["ownership"] * is_breach


def test_a_member_that_joined_after_a_newer_generation_shows_that_the_count_began_anew(tmp_path: Path) -> None:
    """Its first assignment names the partition among those that it owns, without an offset."""
    text = "{c.group.id=g d.group.id=g e.group.id=g} p:a@0 e:group=else^4 c:subscribe c:group=else^3+0 d:group=0^3"
    judged = judge(text, tmp_path, rules=("ownership",))
    assert (judged.findings, judged.verdict["verdict"]) == ([], "unknown")


def test_rules_of_membership_and_their_twins_agree(tmp_path: Path) -> None:
    selection, theirs = Selection(14), {}
    for seed in range(3000 if IS_CAMPAIGN else 500):
        text = random_history(Random(seed))
        twin = Twin(text)
        pairs, offsets = set(twin.ownership()), sorted(offset for _, offset in twin.commit_fenced())
        if selection.takes({"ownership" for _ in pairs} | {"commit-fenced" for _ in offsets}):
            theirs[text] = pairs, offsets
    for judged in judge_combined(list(theirs), tmp_path, "ownership", "commit-fenced"):
        for text, findings in judged.findings_by_history().items():
            pairs, offsets = theirs[text]
            owned = [one for one in findings if one["rule"] == "ownership" and one["partition"] == 0]
            assert {tuple(one["processes"]) for one in owned} == pairs, text
            fenced = [one["first_offset"] for one in findings if one["rule"] == "commit-fenced"]
            assert sorted(fenced) == offsets, text
    assert min(selection.met[kind] for kind in ("ownership", "commit-fenced", "none")) >= 6
