"""Runs seeds: ``python -m tests.simulation --seeds 300``, or one with its story: ``--seed 42``."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import NamedTuple

import structlog

from tests.simulation import zones
from tests.simulation.mutants import mutation
from tests.simulation.plan import Plan, plan_of
from tests.simulation.rest import come_to_rest
from tests.simulation.world import World

CHUNK = 5


class Result(NamedTuple):
    """How a run went. ``fault`` None: nothing is wrong."""

    seed: int
    fault: str | None
    where: str
    turns: int
    takeovers: int
    executions: int
    redelivered: int


@contextmanager
def silence() -> Iterator[None]:
    """Write no logs meanwhile."""
    former = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50), cache_logger_on_first_use=False)
    try:
        yield
    finally:
        structlog.configure(**former)


def run(plan: Plan, *, story: list[str] | None = None) -> Result:
    """Carry a plan out and check everything."""
    zones.install(zones.BASE)
    world = World(plan.seed, plan.start_at, keep_story=story is not None)
    fault, where = None, ""
    try:
        world.run(plan.actions)
        come_to_rest(world)
    except Exception as error:  # noqa: BLE001 - whatever is raised is the finding
        fault = f"{type(error).__name__}: {error}"
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{last.filename.rsplit('/', 1)[-1]}:{last.name}"
    if story is not None:
        story += world.story or []
    ends = world.oracle.ends
    executions = len(ends.ended) + len(ends.active)
    return Result(plan.seed, fault, where, world.oracle.turns, world.oracle.takeovers, executions, ends.redelivered)


def run_seeds(seeds: Sequence[int], mutant: str | None = None, *, stop: bool = False) -> list[Result]:
    """Run seeds one after another; with ``stop``, to the first that fails."""
    results = []
    with silence(), mutation(mutant):
        for seed in seeds:
            results.append(run(plan_of(seed)))
            if stop and results[-1].fault is not None:
                break
    return results


def run_many(seeds: Sequence[int], processes: int, mutant: str | None = None) -> Iterator[Result]:
    """Run seeds side by side; results come as they are there."""
    chunks = [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)]
    with ProcessPoolExecutor(processes) as pool:
        for done in as_completed([pool.submit(run_seeds, chunk, mutant) for chunk in chunks]):
            yield from done.result()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=300, help="how many")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first")
    parser.add_argument("--seed", type=int, help="replay this one, minimised, and print its story")
    parser.add_argument("--whole", action="store_true", help="do not minimise it")
    parser.add_argument("--mutant", help="break this rule first")
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args(arguments)
    if chosen.seed is not None:
        return replay(chosen.seed, chosen.mutant, minimise_it=not chosen.whole)
    return sweep(range(chosen.first, chosen.first + chosen.seeds), chosen.processes, chosen.mutant)


def sweep(seeds: Sequence[int], processes: int, mutant: str | None = None) -> int:
    """Run seeds, print what is wrong, and a summary."""
    began = time.monotonic()
    results: list[Result] = []
    for result in run_many(seeds, processes, mutant):
        results.append(result)
        if result.fault is not None:
            print(f"seed {result.seed}: {result.fault}\n    make sim SEED={result.seed} tells the story", flush=True)
    wrong = [result for result in results if result.fault is not None]
    print(
        f"{len(results)} seeds from {seeds[0]}: {len(wrong)} violations; {sum(r.turns for r in results):,} turns, "
        f"{sum(r.takeovers for r in results):,} takeovers, {sum(r.executions for r in results):,} executions, "
        f"{sum(r.redelivered for r in results):,} redeliveries; {time.monotonic() - began:.0f} s"
    )
    return 1 if wrong else 0


def replay(seed: int, mutant: str | None, *, minimise_it: bool) -> int:
    """Tell what happens under one seed."""
    from tests.simulation.minimise import minimise

    plan = plan_of(seed)
    with silence(), mutation(mutant):
        result = run(plan)
        if result.fault is not None and minimise_it:
            plan = minimise(plan, result.where)
        story: list[str] = []
        result = run(plan, story=story)
    print("\n".join(story))
    print(f"seed {seed}, {len(plan.actions)} actions: {result.fault or 'nothing is wrong'}")
    return 0 if result.fault is None else 1


if __name__ == "__main__":
    sys.exit(main())
