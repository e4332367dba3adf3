"""Tiny random histories in the language of notation.py: a log with clients, and things that go wrong with it."""

from __future__ import annotations

from random import Random

OPTIONS = (
    "p.acks=1",
    "q.acks=0",
    "p.enable.idempotence=false",
    "c.isolation.level=read_uncommitted",
    "d.isolation.level=read_uncommitted",
    "c.isolation.level=read_committed",
    "p.isolation.level=read_committed",
    "admin.isolation.level=read_committed",
    "admin.isolation.level=read_uncommitted",
    "final.isolation.level=read_uncommitted",
    "x.cleanup.policy=compact",
    "x.cleanup.policy=delete",
    "c.group.id=g",
    "c.group.id=g d.group.id=g",
)


class Simulated:
    """One run; `tokens` is its history.

    Of 100 times, something goes wrong `wrong` times, and a value is one that was sent before `again` times.
    """

    def __init__(self, random: Random, wrong: int, again: int = 3) -> None:
        self.random, self.wrong, self.again = random, wrong, again / 100
        self.log: list[str | None] = []  # value by offset; None: a marker, or a record that no consumer is shown
        self.start = 0
        self.sent = 0
        self.positions: dict[str, int] = {}
        self.tokens: list[str] = []
        self.late: list[str] = []
        self.tombstones: set[int] = set()  # offsets
        self.keyed = random.random() < 0.3

    def history(self) -> str:
        options = [option for option in OPTIONS if self.random.random() < 0.15]
        steps = (self.send, self.send, self.send, self.poll, self.poll, self.poll, self.transact, self.move)
        rare = (self.fault, self.fault, self.ask, self.commit, self.commit, self.commit, self.finish_late, self.crash)
        for _ in range(self.random.randint(3, 16)):
            self.random.choice(steps if self.random.random() < 0.6 else rare)()
        while self.late:
            self.finish_late()
        if self.random.random() < 0.6:
            self.read_finally()
        return " ".join([*(["{" + " ".join(options) + "}"] if options else []), *self.tokens])

    def goes_wrong(self) -> bool:
        return self.random.randrange(100) < self.wrong

    def value(self) -> str:
        old = [number for number in range(self.sent) if f"v{number}@" not in " ".join(self.late)]
        if old and self.random.random() < self.again:
            return f"v{self.random.choice(old)}"  # not unique
        self.sent += 1
        return f"v{self.sent - 1}"

    def append(self, value: str | None) -> int:
        self.log.append(value)
        return len(self.log) - 1

    def send(self) -> None:
        process, value = self.random.choice("pq"), self.value()
        key = f"#{self.random.choice('kj')}" if self.keyed else ""
        kind = self.random.choice(("ok", "ok", "ok", "ok", "info", "fail", "blind", "late", "nowhere"))
        # Only in true logs: where offsets are wrong, values that occur twice would be ambiguous; the corpus has them.
        if kind == "ok" and not self.wrong and self.random.random() < 0.08:
            value = "null"  # a tombstone
        appended = kind not in ("fail", "nowhere") or self.goes_wrong()
        if kind == "info":
            appended = self.random.random() < 0.5
        if kind not in ("info", "fail", "nowhere") and self.goes_wrong():
            appended = False
        offset = self.append(value) if appended else max(len(self.log) - 1, 0)
        if self.goes_wrong():
            offset = self.random.choice((max(0, offset - 1), offset + 1, self.random.randint(0, len(self.log))))
        if value == "null" and offset in self.tombstones:
            # Two tombstones at one offset would be indistinguishable.
            value = self.value()
            self.log[-1:] = [value] if appended else self.log[-1:]
        self.tombstones |= {offset} if value == "null" else set()
        token = {"ok": f"@{offset}", "late": f"@{offset}", "blind": "@?", "info": "", "fail": "", "nowhere": "?"}[kind]
        ending = {"info": "~", "fail": "!", "nowhere": "~"}.get(kind, "")
        if kind == "late":
            self.tokens.append(f"{process}:{value}{key}..")
            self.late.append(f"{process}:..{value}{token}{key}")
        else:
            self.tokens.append(f"{process}:{value}{token}{key}{ending}")

    def finish_late(self) -> None:
        if self.late:
            self.tokens.append(self.late.pop(self.random.randrange(len(self.late))))

    def transact(self) -> None:
        ending = self.random.choice(("", "", "!", "~"))
        shown = ending == "" or (ending == "~" and self.random.random() < 0.5) or self.goes_wrong()
        steps = []
        for _ in range(self.random.randint(1, 2)):
            value = self.value()
            offset = self.append(value if shown else None)
            if self.random.random() < 0.15:
                self.send()  # of another process, in between
            steps.append(f"{value}@{offset}")
            if self.goes_wrong():
                steps.append(f"<{value}@{offset}")
        if self.goes_wrong():
            steps.reverse()
        self.append(None)
        self.tokens.append(f"{self.random.choice('pq')}:({','.join(steps)}){ending}")

    def poll(self, process: str = "", max_records: int = 3) -> None:
        process = process or self.random.choice("ccd")
        position = max(self.positions.get(process, self.start), self.start)
        if self.goes_wrong():
            position = max(0, position + self.random.choice((-2, -1, 1, 2)))
        records = []
        for offset in range(position, min(position + max_records, len(self.log))):
            value = self.log[offset]
            if self.goes_wrong():
                value = f"v{self.random.randrange(self.sent + 2)}"
            if value is not None and not self.goes_wrong():
                records.append(f"{value}@{offset}")
            self.positions[process] = offset + 1
        if self.goes_wrong():
            self.random.shuffle(records)
        self.tokens.append(f"{process}:<{','.join(records)}")
        if records and self.random.random() < 0.1:
            self.tokens.append(f"{process}:handle<{','.join(records[:1])}")

    def move(self) -> None:
        process, to = self.random.choice("cd"), self.random.randint(0, len(self.log))
        of_other_partition = self.random.choice(("assign=else", "group=else", "revoked=else", "revoked=0"))
        step = self.random.choice(
            ("seek", "assign", "group", "assign=null", "group=null", of_other_partition, "revoked", "subscribe")
        )
        if step in ("seek", "assign", "group") or "null" in step:
            self.positions[process] = to
        if step in ("seek", "assign", "group"):
            step += f"={to}" + ("!" if step == "seek" and self.goes_wrong() else "")
        self.tokens.append(f"{process}:{step}")

    def crash(self) -> None:
        process = self.random.choice("pcd")
        self.positions.pop(process, None)
        self.tokens.append(f"{process}:crash")

    def fault(self) -> None:
        if self.random.random() < 0.3:
            self.start = self.random.randint(self.start, max(self.start, len(self.log)))
            self.tokens.append(f"delete={self.start}")
            return
        self.tokens.append(self.random.choice(("nemesis:kill", "nemesis:heal")))
        if self.wrong and self.random.random() < 0.4:
            del self.log[self.random.randint(0, len(self.log)) :]

    def ask(self) -> None:
        end = len(self.log) if not self.goes_wrong() else self.random.randint(0, len(self.log) + 1)
        start = f"/{self.start}" if self.random.random() < 0.3 else ""
        self.tokens.append(f"end={end}{start}")

    def commit(self) -> None:
        process = self.random.choice("cd")
        position = self.positions.get(process, 0)
        if self.goes_wrong() or self.goes_wrong():
            position = self.random.randint(0, len(self.log))
        ending = self.random.choice(("", "", "", "!"))
        step = f"({self.value()}@{self.append(None)},commit={position})" if self.goes_wrong() else f"commit={position}"
        self.tokens.append(f"{process}:{step}{ending}")

    def read_finally(self) -> None:
        if self.random.random() < 0.5:
            self.ask()
        if self.random.random() < 0.7:
            self.tokens.append(f"final:assign={self.start}")
        self.positions["final"] = self.start
        for _ in range(self.random.randint(1, 2)):
            self.poll("final", len(self.log) or 1)
