"""The contract of the view of dead letters, held against the fake and against the real thing."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace

import pytest

from tests.contract.test_views import NOON, Views, new_id, views
from tocsin.domain.errors import NotFound
from tocsin.domain.fleet import DeadLetter
from tocsin.domain.instants import DAY
from tocsin.domain.letters import KEPT_DAYS, LetterId
from tocsin.ports.views import FiledLetter, LetterSeen

__all__ = ["views"]


def seen(tenant_id: str | None, at: int, shard: int = 1, offset: int = 0, **fields: object) -> LetterSeen:
    letter = DeadLetter(
        "execution", "503 – ünavailable", at, "reports", shard, 9, b"\x00bytes", tenant_id, "job", "run", 2
    )
    return LetterSeen(replace(letter, **fields), LetterId(at, shard, offset), offset + 1)  # type: ignore[arg-type]


def listed(
    views: Views, tenant_id: str, before: LetterId, limit: int = 100, days: int = KEPT_DAYS
) -> list[FiledLetter]:
    return asyncio.run(views.reader.list_letters(tenant_id, before, before.at - days * DAY, limit))


def read(views: Views, tenant_id: str, letter_id: LetterId) -> FiledLetter:
    return asyncio.run(views.reader.read_letter(tenant_id, letter_id))


def test_a_letter_is_listed_without_its_bytes_and_read_with_them(views: Views) -> None:
    tenant_id = new_id("t")
    one = seen(tenant_id, NOON)
    views.writer.write([], [], [], [one, one])
    views.writer.write([], [], [], [one])
    (filed,) = listed(views, tenant_id, LetterId(NOON + 1, 0, 0))
    assert filed == FiledLetter(one.letter_id, replace(one.letter, value=b""), 6)
    assert read(views, tenant_id, one.letter_id) == FiledLetter(one.letter_id, one.letter, 6)


def test_what_is_known_only_in_part_is_filed_too(views: Views) -> None:
    tenant_id = new_id("t")
    bare = seen(tenant_id, NOON, kind="record", value=b"", job_id=None, execution_id=None, redrives=0)
    views.writer.write([], [], [], [bare])
    assert read(views, tenant_id, bare.letter_id) == FiledLetter(bare.letter_id, bare.letter, 0)


def test_the_newest_come_first_and_a_page_goes_on_where_the_one_before_ended(views: Views) -> None:
    tenant_id = new_id("t")
    places = [
        *((NOON - 40 * DAY, 3, 1), (NOON - 2 * DAY, 0, 0), (NOON - 1, 9, 9)),
        *((NOON, 1, 4), (NOON, 1, 7), (NOON, 2, 0)),
    ]
    views.writer.write([], [], [], [seen(tenant_id, *place) for place in places])
    wanted = [LetterId(*place) for place in reversed(places)]
    top = LetterId(NOON + DAY, 0, 0)
    assert [one.letter_id for one in listed(views, tenant_id, top)] == wanted
    assert [one.letter_id for one in listed(views, tenant_id, top, limit=4)] == wanted[:4]
    for before, after in itertools.pairwise(wanted):
        assert listed(views, tenant_id, before, limit=1)[0].letter_id == after
    assert listed(views, tenant_id, wanted[-1]) == []
    assert [one.letter_id for one in listed(views, tenant_id, top, days=3)] == wanted[:5]


def test_a_crowded_day_is_one_list_and_filing_all_of_it_again_changes_nothing(views: Views) -> None:
    """As when the projector reads its topic from the beginning: same ids, same timestamps, in another order."""
    tenant_id = new_id("t")
    places = [LetterId(NOON - n // 3, n % 2, 2 * n) for n in range(150)] + [LetterId(NOON - 2 * DAY, 1, 0)]
    crowd = [seen(tenant_id, *place) for place in places]
    views.writer.write([], [], [], crowd)
    wanted = sorted(places, reverse=True)
    for limit in (7, 100, 500):
        found: list[FiledLetter] = []
        while page := listed(views, tenant_id, found[-1].letter_id if found else LetterId(NOON + 1, 0, 0), limit):
            found += page
        assert [one.letter_id for one in found] == wanted
        views.writer.write([], [], [], crowd[::-1])
    assert {read(views, tenant_id, place).size for place in places[::10]} == {6}


def test_a_letter_is_read_by_its_tenant_only(views: Views) -> None:
    mine, other = new_id("t"), new_id("t")
    one = seen(mine, NOON)
    views.writer.write([], [], [], [one])
    assert listed(views, other, LetterId(NOON + 1, 0, 0)) == []
    for tenant_id, letter_id in ((other, one.letter_id), (mine, one.letter_id._replace(offset=1))):
        with pytest.raises(NotFound, match="dead letter"):
            read(views, tenant_id, letter_id)


def test_a_letter_that_names_no_tenant_is_the_one_of_its_job_s_id_or_else_the_default_one(views: Views) -> None:
    tenant_id = new_id("t")
    by_job = seen(None, NOON, job_id=f"{tenant_id}@nightly")
    nobody = seen("no tenant's name", NOON + 1, job_id="?", offset=int(new_id()[4:19], 16))
    views.writer.write([], [], [], [by_job, nobody])
    assert read(views, tenant_id, by_job.letter_id).letter == replace(by_job.letter, tenant_id=tenant_id)
    assert read(views, "default", nobody.letter_id).letter == replace(nobody.letter, tenant_id="default")
