"""What a worker may run by its settings: nothing that was not allowed, and told at the start what is missing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.targets.programs import Bench, WallClock, attempt, end_of
from tocsin.adapters.targets.command import CommandRunner
from tocsin.adapters.targets.container import ContainerRunner
from tocsin.adapters.targets.refusing import RefusingRunner
from tocsin.bootstrap.programs import program_runners
from tocsin.config import WorkerSettings
from tocsin.domain.errors import Refused
from tocsin.domain.programs import CommandTarget, ContainerTarget
from tocsin.ports.targets import TargetRunner

Make = Callable[..., dict[str, TargetRunner]]


@pytest.fixture
def make() -> Iterator[Make]:
    bench, made = Bench(), []

    def runners(**settings: Any) -> dict[str, TargetRunner]:
        found = program_runners(WorkerSettings(**settings), WallClock(), bench.logs)
        made.extend(found.values())
        return found

    yield runners
    for runner in made:
        runner.close()
    bench.logs.close(5)


def test_by_itself_a_worker_runs_no_programs_and_says_what_would_allow_it(make: Make) -> None:
    runners = make()
    for target, flag in (
        (CommandTarget(("true",), "batch"), "--allow-command"),
        (ContainerTarget("reports:7", "batch"), "--allow-container"),
    ):
        assert isinstance(runners[target.type], RefusingRunner)
        error = end_of(runners[target.type], attempt(target)).error
        assert error is not None
        assert (error.error_class, flag in error.message) == ("not_allowed", True)


def test_each_permission_is_for_itself(make: Make) -> None:
    runners = make(allow_command=True)
    assert isinstance(runners["command"], CommandRunner)
    assert isinstance(runners["container"], RefusingRunner)
    runners = make(allow_container=True, container_cli="sh -c 'a b'")
    assert isinstance(runners["command"], RefusingRunner)
    assert isinstance(runners["container"], ContainerRunner)
    assert runners["container"]._cli.command == ("sh", "-c", "a b")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"allow_command": True, "scratch_dir": "/no/such/place"}, "TOCSIN_WORKER__SCRATCH_DIR"),
        ({"allow_container": True, "container_cli": "no-such-program"}, "TOCSIN_WORKER__CONTAINER_CLI"),
    ],
)
def test_what_is_missing_is_told_at_the_start(make: Make, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused, match=said):
        make(**settings)


def test_containers_are_jobs_of_the_cluster_that_a_kubeconfig_names(make: Make, tmp_path: Path) -> None:
    pytest.importorskip("kubernetes", reason="the extra tocsin[kubernetes] is not installed")
    from tocsin.adapters.targets.kubernetes_jobs import KubernetesRunner

    settings = {"allow_container": True, "container_runtime": "kubernetes", "kubernetes_namespace": "batch"}
    with pytest.raises(Refused, match="TOCSIN_WORKER__KUBERNETES_CONFIG"):
        make(**settings, kubernetes_config=str(tmp_path / "missing"))
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    (tmp_path / "config").write_text(json.dumps(config))
    runner = make(**settings, kubernetes_config=str(tmp_path / "config"))["container"]
    assert isinstance(runner, KubernetesRunner)
    assert (runner._api.configuration.host, runner._place.namespace) == ("http://127.0.0.1:1", "batch")
    error = end_of(runner, attempt(ContainerTarget("reports:7", "batch"))).error
    assert error is not None
    assert error.error_class == "container"
