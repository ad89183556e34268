"""The simulation's short form, the cases that it found, and that it would find others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.simulation.minimise import minimise
from tests.simulation.mutants import MUTANTS, UNSEEN, unreached
from tests.simulation.plan import plan_of
from tests.simulation.runner import run, run_seeds, silence
from tocsin.engine.rederivation import Rederivation

SEEDS = int(os.environ.get("SIM_SEEDS", "60"))
PARTS = 6
ROOT = Path(__file__).parents[2]
OWN_COMMANDS = "a job that was due and waited for a parked command of its owner's own"
HELD_PAST = "a row of former zone data that was held until its new time had passed as well"
FOUND = {
    220: OWN_COMMANDS,
    417: OWN_COMMANDS,
    1613: OWN_COMMANDS,
    2524: OWN_COMMANDS,
    2497: "what passes while an entry is held, by a cursor that went on without a turn",
    3352: "reports of a lease that its owner had given up, which no event says",
    3490: "a job that waits for the end of its parking",
    3614: "a process that slept, and its beats that were never sent",
    9256: "a backlog that one owner began, run by another whose clock is behind",
    8302: "what was marked in a lost partition, and took a worker's room for ever",
    5395: "a choice by name whose occurrence had run, and zone data that changed before the name was dropped",
    6887: "a row that could not be moved in time, and was still to come as the faults were over",
    4640: "a row filed late past a time of its own job, which then followed it in its own past",
    6414: "an edit in a pause, to times that a late run had stood for",
    2631: HELD_PAST,
    903: HELD_PAST,
    5257: "an edit of a paused job to a time at which it has run",
}
"""Seeds that found something once, by what it was about."""


@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_is_lost_repeated_or_early_and_all_comes_to_rest(part: int) -> None:
    results = run_seeds(range(part, SEEDS, PARTS))
    assert [f"seed {result.seed}: {result.fault}" for result in results if result.fault] == []
    assert sum(result.executions for result in results) >= 10 * len(results)


@pytest.mark.parametrize("seed", FOUND, ids=[text.replace(" ", "-") for text in FOUND.values()])
def test_what_was_found_once_stays_mended(seed: int) -> None:
    assert run_seeds([seed])[0].fault is None


def test_a_seed_gives_the_same_story_twice() -> None:
    stories: list[list[str]] = [[], []]
    with silence():
        for story in stories:
            run(plan_of(3), story=story)
    assert len(stories[0]) > 50
    assert stories[0] == stories[1]


def test_every_mutant_names_a_rule_once_and_what_no_mutant_shows_has_its_test() -> None:
    assert not set(MUTANTS) & set(UNSEEN)
    for test in UNSEEN.values():
        path, name = test.split("::")
        assert f"def {name}(" in (ROOT / path).read_text(), test
    assert all(name.split()[0][0] in "TW" and name.split()[0][1:].isdigit() for name in [*MUTANTS, *UNSEEN])


def test_what_mutants_replace_is_there_and_called() -> None:
    assert unreached(range(40)) == []


def test_a_mutant_of_what_is_gone_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MUTANTS, "T7 of old", lambda: [(Rederivation, "as_it_was", None)])
    with pytest.raises(AttributeError, match=r"Rederivation\.as_it_was, which is not there"):
        run_seeds([0], "T7 of old")


def test_a_broken_rule_is_found_and_its_plan_made_short() -> None:
    name = "T12 what is committed for a minute that is being read stays out"
    result = next(one for one in run_seeds(range(60), name, stop=True) if one.fault is not None)
    from tests.simulation.mutants import mutation

    with silence(), mutation(name):
        plan = minimise(plan_of(result.seed), result.where, runs_max=80, seconds_max=600)
        assert run(plan).where == result.where
    assert len(plan.actions) < 60
    with silence():
        assert run(plan).fault is None
