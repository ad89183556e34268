"""Simulated consumer groups: who holds which partition, and whose word still counts."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from tocsin.ports.dispatch_log import CommitOutcome, Mark

Member = Any
"""Any object; its identity is the membership's."""


class Group:
    """A group that rebalances cooperatively: a partition is given on only when it was given up, or its holder expelled.

    Attributes:
        generation: grows with every change; a member learns of it when it polls.
        holder: of each partition, the member that it was given to and has not left.
        target: of each partition, the member that should hold it.
        terms: counts how often each partition was given to somebody.
    """

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.generation = 0
        self.holder: list[Member | None] = [None] * partitions
        self.target: list[Member | None] = [None] * partitions
        self.terms = [0] * partitions
        self._members: dict[Member, int] = {}
        """With the generation that each has joined."""

    def is_member(self, member: Member) -> bool:
        return member in self._members

    def enter(self, member: Member) -> None:
        self._members[member] = self.generation
        self.rebalance(None)

    def leave(self, member: Member) -> None:
        """Take a member out, at its own wish or because it was silent for too long."""
        if self._members.pop(member, None) is None:
            return
        self.holder = [None if holder is member else holder for holder in self.holder]
        self.rebalance(None)

    def rebalance(self, chance: Random | None) -> None:
        """Deal partitions out anew: as few as possible move, or any where chance is given."""
        self.generation += 1
        members = list(self._members)
        if not members:
            self.target = [None] * self.partitions
            return
        if chance is not None:
            self.target = [chance.choice(members) for _ in range(self.partitions)]
            return
        load = dict.fromkeys(members, 0)
        target: list[Member | None] = [None] * self.partitions
        most = -(-self.partitions // len(members))
        for partition, former in enumerate(self.holder):
            if former in load and load[former] < most:
                target[partition] = former
                load[former] += 1
        for partition in range(self.partitions):
            if target[partition] is None:
                least = min(members, key=lambda member: load[member])
                target[partition] = least
                load[least] += 1
        self.target = target

    def catch_up(self, member: Member) -> None:
        """A member that polls joins the present generation."""
        self._members[member] = self.generation

    def knows(self, member: Member) -> bool:
        """Tell whether a member's generation is the present one."""
        return self._members.get(member) == self.generation

    def to_give_up(self, member: Member) -> list[int]:
        return [p for p in range(self.partitions) if self.holder[p] is member and self.target[p] is not member]

    def give_up(self, partitions: Sequence[int]) -> None:
        """These are free now; the group goes on to another generation."""
        for partition in partitions:
            self.holder[partition] = None
        self.generation += 1

    def take(self, member: Member) -> list[int]:
        """Give a member what is meant for it and free."""
        taken = [p for p in range(self.partitions) if self.target[p] is member and self.holder[p] is None]
        for partition in taken:
            self.holder[partition] = member
            self.terms[partition] += 1
        return taken


class LaneGroup(Group):
    """The workers' group of a lane, with what it committed."""

    def __init__(self, partitions: int) -> None:
        super().__init__(partitions)
        self.committed: dict[int, tuple[int, str]] = dict.fromkeys(range(partitions), (0, ""))
        self.under_way: list[tuple[Member, list[tuple[Mark, int]]]] = []
        """Commits of unknown outcome that have not arrived."""

    def write(self, member: Member, marks: Sequence[Mark]) -> CommitOutcome:
        """Take a commit, if its sender is a member and holds what it speaks of."""
        if not self.is_member(member) or any(self.holder[mark.partition] is not member for mark in marks):
            return CommitOutcome.REFUSED
        for mark in marks:
            self.committed[mark.partition] = (mark.offset, mark.metadata)
        return CommitOutcome.ACCEPTED

    def delay(self, member: Member, marks: Sequence[Mark]) -> None:
        self.under_way.append((member, [(mark, self.terms[mark.partition]) for mark in marks]))

    def land(self, index: int) -> None:
        """A delayed commit arrives; under a membership or an assignment that is over it is refused."""
        member, marks = self.under_way.pop(index)
        if not self.is_member(member):
            return
        if all(self.terms[m.partition] == term and self.holder[m.partition] is member for m, term in marks):
            for mark, _ in marks:
                self.committed[mark.partition] = (mark.offset, mark.metadata)
