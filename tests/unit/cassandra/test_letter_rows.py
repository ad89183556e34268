"""Dead letters over the partitions of their day: spread evenly, and read back as one list."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Sequence

import pytest

from tocsin.adapters.cassandra.letter_pages import AT_ONCE_MAX, Partition, newest
from tocsin.adapters.cassandra.letter_rows import PARTS, letter_writes, part_of
from tocsin.domain.fleet import DeadLetter
from tocsin.domain.instants import DAY, SECOND
from tocsin.domain.letters import LetterId, day_of
from tocsin.ports.views import FiledLetter, LetterSeen

NOON = 20_000 * DAY + DAY // 2
LETTER = DeadLetter("execution", "503", NOON, "reports", 3, 7, b"", "acme", "acme@nightly", "run")


def filed(letter_id: LetterId) -> FiledLetter:
    return FiledLetter(letter_id, LETTER, 0)


class Store:
    """Letters in their partitions, and how they were asked for."""

    def __init__(self, letter_ids: Sequence[LetterId]) -> None:
        self.partitions: dict[Partition, list[LetterId]] = defaultdict(list)
        self.asked: Counter[Partition] = Counter()
        self.rows = 0
        self.at_once = self.at_once_max = 0
        for one in sorted(letter_ids, reverse=True):
            self.partitions[day_of(one.at), part_of(one)].append(one)

    def page(self, before: LetterId, limit: int) -> list[LetterId]:
        parts = sorted(self.partitions, key=lambda place: (-place[0], place[1]))
        return [one.letter_id for one in asyncio.run(newest(parts, before, limit, self._read))]

    async def _read(self, partition: Partition, before: LetterId, rows: int) -> list[FiledLetter]:
        self.asked[partition] += 1
        self.at_once += 1
        self.at_once_max = max(self.at_once_max, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        found = [one for one in self.partitions[partition] if one < before][:rows]
        self.rows += len(found)
        return list(map(filed, found))


def test_where_a_letter_lies_never_changes() -> None:
    assert [part_of(LetterId(NOON + n, 3, 2 * n)) for n in range(6)] == [10, 6, 3, 15, 8, 7]
    assert PARTS == 16


def test_the_letters_of_one_shard_are_spread_over_all_parts() -> None:
    """One job that fails every second for a day, as offsets of transactions go."""
    counts = Counter(part_of(LetterId(NOON + n * SECOND, 5, 2 * n)) for n in range(20_000))
    assert len(counts) == PARTS
    assert max(counts.values()) < 1.25 * 20_000 / PARTS


@pytest.mark.parametrize("seed", range(40))
def test_pages_go_on_where_the_one_before_ended_whatever_lies_where(seed: int) -> None:
    chance = random.Random(seed)
    days = chance.choice([1, 3, 40])
    count = chance.choice([0, 1, 30, 400])
    ids = {
        LetterId(NOON - chance.randrange(days) * DAY - chance.randrange(3) * SECOND, chance.randrange(4), n)
        for n in range(count)
    }
    wanted = sorted(ids, reverse=True)
    limit = chance.choice([1, 7, 100, 501])
    store = Store(wanted)
    before, found = LetterId(NOON + DAY, 0, 0), []
    while page := store.page(before, limit):
        found += page
        before = page[-1]
        assert len(page) == limit or len(found) == count
    assert found == wanted
    assert store.at_once_max <= AT_ONCE_MAX


def test_letters_that_all_lie_in_one_part_are_found_all_the_same() -> None:
    """An even spread is what a page hopes for, not what it needs."""
    crowd = [one for n in range(4_000) if part_of(one := LetterId(NOON, 1, n)) == 2]
    others = [LetterId(NOON - SECOND, 1, n) for n in range(200)]
    store = Store(crowd + others)
    assert store.page(LetterId(NOON + 1, 0, 0), 200) == sorted(crowd, reverse=True)[:200]


def test_a_page_of_a_crowded_day_reads_little_more_than_it_shows() -> None:
    store = Store([LetterId(NOON + n, 1, 2 * n) for n in range(20_000)])
    assert len(store.page(LetterId(NOON + DAY, 0, 0), 500)) == 500
    assert store.rows <= 3 * 500
    assert sum(store.asked.values()) <= 2 * PARTS


def test_which_parts_hold_letters_is_written_once_for_each_with_the_latest_timestamp() -> None:
    letters = [LetterSeen(LETTER, LetterId(NOON + n % 8, 1, n % 8), 100 + n) for n in range(24)]
    writes = letter_writes(letters)
    assert [write.query for write in writes[:24]] == ["upsert_dead_letter"] * 24
    latest: dict[tuple[str, int, int], int] = {}
    for seen in letters:
        latest["acme", 20_000, part_of(seen.letter_id)] = seen.written_at
    assert {write.values[:3]: write.values[3] for write in writes[24:]} == latest
    assert len(writes) == 24 + len(latest)
