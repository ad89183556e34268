"""What is worked out before entries are due is what would be worked out when they are."""

from __future__ import annotations

from random import Random

import pytest

from tests.unit.engine.test_plain_fires import CODEC, DUE, entry
from tocsin.domain.entries import Entry
from tocsin.domain.instants import SECOND
from tocsin.engine import readied
from tocsin.engine.readied import ReadyEntries


def ready_entries(fewest: int = 2) -> ReadyEntries:
    return ReadyEntries(CODEC.unsent_lead(), fewest)


def second_of(chance: Random, count: int) -> list[Entry]:
    """Return rows of one second, in firing order."""
    made = {
        one[:4]: one for one in (entry(chance, 7) for _ in range(5 * count)) if one.run_at // SECOND * SECOND == DUE
    }
    return [made[key] for key in sorted(made)][:count]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work out only so many in a step."""
    monkeypatch.setattr(readied, "AT_ONCE", 30)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(10))
def test_whatever_was_readied_before_the_same_is_said_of_what_is_due(seed: int) -> None:
    chance = Random(seed)
    rows = second_of(chance, 100)
    known = sorted(chance.sample(rows, 90))
    ready = ready_entries()
    for _ in range(chance.randrange(6)):
        ready.get_ready(known)
    begin = 0
    while begin < len(rows):
        end = min(len(rows), begin + chance.choice([1, 7, 40]))
        assert ready.of(rows[begin:end]) == ready_entries().of(rows[begin:end])
        begin = chance.choice([end, end, end, max(0, end - 3)])
    assert any(one is None for one in ready.of(rows))
    assert any(one is not None for one in ready.of(rows))


@pytest.mark.usefixtures("small")
def test_a_second_is_worked_out_step_by_step_and_then_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = second_of(Random(1), 100)
    worked: list[int] = []
    real = ReadyEntries._work_out
    monkeypatch.setattr(ReadyEntries, "_work_out", lambda self, some: worked.append(len(some)) or real(self, some))
    ready = ready_entries()
    for _ in range(6):
        ready.get_ready(rows)
    assert worked == [30, 30, 30, 10, 0, 0]
    ready.of(rows[20:95])
    assert worked[6:] == []
    ready.of([*rows[20:40], *rows[41:60]])
    assert worked[6:] == [39], "one that was readied is not among them"


def test_a_second_that_grows_is_begun_anew_only_when_it_has_doubled() -> None:
    rows = second_of(Random(2), 100)
    ready = ready_entries()
    for count in range(2, len(rows) + 1):
        ready.get_ready(rows[:count])
    assert len(ready._entries) == 64


def test_nothing_is_kept_of_what_is_past() -> None:
    rows = second_of(Random(3), 50)
    ready = ready_entries()
    ready.get_ready(rows)
    assert len(ready._readied) == 50
    ready.get_ready([])
    assert not ready._entries
    assert not ready._readied
    later = [one._replace(run_at=one.run_at + SECOND) for one in rows]
    ready.get_ready(rows)
    ready.get_ready(later)
    assert ready._entries == later


@pytest.mark.parametrize(
    "damage",
    [{"job_id": "\ud800"}, {"execution_id": None}, {"execution": None}, {"tenant_id": ["no"]}, {"job_id": 7}],
    ids=str,
)
def test_a_damaged_row_is_not_plain_and_spoils_no_other(damage: dict[str, object]) -> None:
    good = next(one for one in second_of(Random(4), 20) if ready_entries().of([one])[0] is not None)
    damaged = Entry(**(good._asdict() | damage))  # type: ignore[arg-type]
    before, there, after = ready_entries().of([good, damaged, good])
    assert there is None
    assert before == after == ready_entries().of([good])[0]
