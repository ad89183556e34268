"""A trigger on a host whose clock is wrong: it fires nothing, says so, and the next right one goes on."""

from __future__ import annotations

import pytest

from tests.chaos.faults import faketime
from tests.e2e.system import System, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.real]


@pytest.mark.parametrize("off_by", ["+2s", "-2s", "+1y", "-1y"])
def test_a_trigger_whose_clock_is_off_leaves_the_shards_to_others(system: System, off_by: str) -> None:
    env = faketime(off_by)
    if env is None:
        pytest.skip("libfaketime is not installed here")
    system.stop("trigger")
    system.start_unready("trigger", "wrong", env=env)
    wait_for("the trigger to say that its clock is off", lambda: "trigger.clock_off" in system.log_of("wrong"))
    job = system.create_job(delay_s=0)
    system.start("trigger")
    wait_for("the job to run", lambda: [c for c in system.target.calls if c.headers["tocsin-job-id"] == job])
    assert system.processes["wrong"].poll() is None, "it stays, and comes back when its clock is right again"
    assert len(system.target.calls) == 1
    system.kill("wrong")
