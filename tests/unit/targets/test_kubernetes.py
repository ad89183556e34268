"""Container targets on Kubernetes: what is asked of the cluster, and what is made of its answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("kubernetes", reason="the extra tocsin[kubernetes] is not installed")

from kubernetes.aio import client

from tests.unit.targets.fake_cluster import FakeCluster
from tests.unit.targets.programs import HEAD, ID, Bench, WallClock, attempt, end_of, wait_for_end, wait_until
from tocsin.adapters.targets import kubernetes_jobs
from tocsin.adapters.targets.container import container_name
from tocsin.adapters.targets.kubernetes_jobs import KubernetesRunner
from tocsin.adapters.targets.kubernetes_manifest import KubernetesPlace, job_of
from tocsin.domain.executions import ReportKind
from tocsin.domain.programs import ContainerTarget
from tocsin.domain.retries import is_retryable
from tocsin.ports.targets import AttemptEnd

TARGET = ContainerTarget("reports:7", "batch", ("--day", "x"), {"A": "b"}, {"cpus": "0.5", "memory": "64Mi"}, 90.5)
PLACE = KubernetesPlace("batch", "reports")
NAME = container_name(HEAD)


def manifest(target: ContainerTarget = TARGET, **head: Any) -> dict[str, Any]:
    job = job_of(attempt(target, head=HEAD._replace(**head)), target, PLACE, "w1")
    made: dict[str, Any] = client.ApiClient.sanitize_for_serialization(_Serialiser(), job)
    return made


class _Serialiser(client.ApiClient):
    """Writes the client's models as the client does; opens nothing."""

    def __init__(self) -> None:
        self.configuration = client.Configuration()


def test_a_job_runs_one_pod_once_within_its_limits_and_tells_whose_it_is() -> None:
    job = manifest()
    assert (job["apiVersion"], job["kind"], job["metadata"]["name"]) == ("batch/v1", "Job", NAME)
    assert job["metadata"]["annotations"] == {"tocsin-execution-id": ID}
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    assert (spec["backoffLimit"], spec["activeDeadlineSeconds"], spec["ttlSecondsAfterFinished"]) == (0, 91, 3_600)
    assert spec["template"]["metadata"]["labels"] == job["metadata"]["labels"]
    assert (pod["restartPolicy"], pod["serviceAccountName"], pod["automountServiceAccountToken"]) == (
        "Never",
        "reports",
        False,
    )
    [container] = pod["containers"]
    assert (container["image"], container["args"]) == ("reports:7", ["--day", "x"])
    assert "command" not in container, "the image's entry point stays, as with the command lines"
    assert container["resources"] == {"limits": {"cpu": "0.5", "memory": "67108864"}}
    assert container["securityContext"] == {"allowPrivilegeEscalation": False}
    env = {one["name"]: one["value"] for one in container["env"]}
    assert (env["A"], env["TOCSIN_EXECUTION_ID"], env["TOCSIN_TOKEN"], env["TOCSIN_ATTEMPT"]) == ("b", ID, "41", "2")


def test_a_cluster_expands_nothing_in_arguments_and_variables() -> None:
    """A shell's own process number is written ``$$``, of which a cluster would leave one dollar."""
    target = ContainerTarget("reports:7", "batch", ("sh", "-c", "echo $(TOCSIN_TOKEN) $$"), {"A": "$(B)", "B": "s$"})
    [container] = manifest(target)["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["sh", "-c", "echo $$(TOCSIN_TOKEN) $$$$"]
    assert {one["name"]: one["value"] for one in container["env"]}.items() >= {"A": "$$(B)", "B": "s$$"}.items()


def test_names_and_labels_are_those_that_the_cluster_takes_and_one_for_each_dispatch() -> None:
    jobs = [manifest(), manifest(token=42), manifest(attempt=3), manifest(execution_id="a@" + "x" * 150 + "~.1.2")]
    assert len({job["metadata"]["name"] for job in jobs}) == 4
    for job in jobs:
        for text in (job["metadata"]["name"], *job["metadata"]["labels"].values()):
            assert len(text) <= 63
            assert text.replace("-", "").isalnum()
    assert manifest() == manifest()
    bare = manifest(ContainerTarget("reports:7", "batch"))["spec"]["template"]["spec"]["containers"][0]
    assert not {"args", "command", "resources"} & set(bare)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    monkeypatch.setattr(kubernetes_jobs, "SLACK_S", 0.2)
    made = FakeCluster()
    yield made
    made.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.logs.close(5)


@pytest.fixture
def runner(cluster: FakeCluster, bench: Bench) -> Iterator[KubernetesRunner]:
    async def connect() -> client.ApiClient:
        return client.ApiClient(client.Configuration(host=cluster.url))

    made = KubernetesRunner(WallClock(), bench.logs, connect, PLACE, "w1", poll_s=0.02)
    yield made
    made.close()


def ended(cluster: FakeCluster, runner: KubernetesRunner, *condition: Any, **terminated: Any) -> AttemptEnd:
    runner.start([attempt(TARGET)])
    wait_until(lambda: NAME in cluster.jobs, "the Job")
    cluster.end(NAME, *condition, **terminated)
    return wait_for_end(runner)


def test_a_job_that_completes_is_a_success_whose_output_is_kept_and_it_is_removed(
    cluster: FakeCluster, runner: KubernetesRunner, bench: Bench
) -> None:
    cluster.output[NAME] = "first\nlast\n"
    end = ended(cluster, runner, "Complete", exitCode=0)
    assert (end.kind, end.error, end.result) == (ReportKind.SUCCEEDED, None, "first\nlast")
    assert bench.text() == "first\nlast\n"
    assert (cluster.created, cluster.deleted, cluster.jobs) == ([NAME], [NAME], {})


@pytest.mark.parametrize(
    ("reason", "terminated", "kind", "error_class", "status", "retried"),
    [
        ("BackoffLimitExceeded", {"exitCode": 3, "reason": "Error"}, "FAILED", "exit", 3, True),
        ("BackoffLimitExceeded", {"exitCode": 75}, "FAILED", "temporary", 75, True),
        ("BackoffLimitExceeded", {"exitCode": 127}, "FAILED", "not_executable", 127, False),
        ("BackoffLimitExceeded", {"exitCode": 137, "reason": "OOMKilled"}, "FAILED", "signal", 137, True),
        ("BackoffLimitExceeded", {}, "FAILED", "container", None, True),
        ("DeadlineExceeded", {}, "TIMED_OUT", "timeout", None, True),
    ],
)
def test_what_the_end_of_a_job_means(
    cluster: FakeCluster,
    runner: KubernetesRunner,
    reason: str,
    terminated: dict[str, Any],
    kind: str,
    error_class: str,
    status: int | None,
    retried: bool,
) -> None:
    end = ended(cluster, runner, "Failed", reason, **terminated)
    assert end.error is not None
    assert (end.kind, end.error.error_class, end.error.status) == (kind, error_class, status)
    assert is_retryable(end.kind, end.error) is retried
    assert cluster.jobs == {}


def test_a_job_that_was_made_without_an_answer_is_made_once(cluster: FakeCluster, runner: KubernetesRunner) -> None:
    cluster.lose = 1
    assert ended(cluster, runner, "Complete").kind is ReportKind.SUCCEEDED
    assert cluster.created == [NAME]


@pytest.mark.parametrize(("status", "error_class"), [(403, "not_allowed"), (422, "not_executable"), (500, "container")])
def test_what_the_cluster_refuses_fails(
    cluster: FakeCluster, runner: KubernetesRunner, status: int, error_class: str
) -> None:
    cluster.refuse = status
    end = end_of(runner, attempt(TARGET))
    assert end.error is not None
    assert (end.kind, end.error.error_class) == (ReportKind.FAILED, error_class)
    assert str(status) in end.error.message


def test_a_cancel_and_a_cluster_that_keeps_no_limit_remove_the_job(
    cluster: FakeCluster, runner: KubernetesRunner
) -> None:
    runner.start([attempt(TARGET)])
    wait_until(lambda: NAME in cluster.jobs, "the Job")
    runner.cancel(["ref"])
    assert wait_for_end(runner).kind is ReportKind.CANCELLED
    assert cluster.jobs == {}
    assert end_of(runner, attempt(replace(TARGET, timeout_s=0.1))).kind is ReportKind.TIMED_OUT
    assert cluster.jobs == {}


def test_jobs_of_earlier_dispatches_are_removed_first_and_no_others(
    cluster: FakeCluster, runner: KubernetesRunner
) -> None:
    for head in (
        HEAD._replace(token=40),
        HEAD._replace(attempt=1, token=7),
        HEAD._replace(execution_id="x.1.2", token=1),
    ):
        name = container_name(head)
        labels = job_of(attempt(TARGET, head=head), TARGET, PLACE, "lost").metadata.labels
        cluster.jobs[name] = {"metadata": {"name": name, "labels": labels}, "status": {}}
    end = ended(cluster, runner, "Complete")
    assert end.kind is ReportKind.SUCCEEDED
    assert len(cluster.deleted) == 3
    assert list(cluster.jobs) == [container_name(HEAD._replace(execution_id="x.1.2", token=1))]


def test_a_job_that_somebody_removes_may_be_attempted_again(cluster: FakeCluster, runner: KubernetesRunner) -> None:
    runner.start([attempt(TARGET)])
    wait_until(lambda: NAME in cluster.jobs, "the Job")
    del cluster.jobs[NAME]
    end = wait_for_end(runner)
    assert end.error is not None
    assert (end.kind, end.error.error_class) == (ReportKind.FAILED, "container")


def test_a_cluster_that_cannot_be_asked_for_a_while_loses_no_end(
    cluster: FakeCluster, runner: KubernetesRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_jobs, "PAGE_JOBS", 2)
    heads = [HEAD._replace(token=token, execution_id=f"job{token}.1.2") for token in range(5)]
    runner.start([attempt(TARGET, ref=head.execution_id, head=head) for head in heads])
    wait_until(lambda: len(cluster.jobs) == 5, "the Jobs")
    cluster.blind = True
    for head in heads:
        cluster.end(container_name(head))
    asked = len(cluster.queries)
    wait_until(lambda: len(cluster.queries) > asked + 3, "looks in vain")
    cluster.blind = False
    ends: list[AttemptEnd] = []
    wait_until(lambda: bool(ends.extend(runner.ended())) or len(ends) == 5, "all ends")
    assert {end.kind for end in ends} == {ReportKind.SUCCEEDED}
    assert any("continue" in query for query in cluster.queries), "they were more than one page"


def test_what_the_cluster_cannot_limit_is_refused(runner: KubernetesRunner, cluster: FakeCluster) -> None:
    end = end_of(runner, attempt(replace(TARGET, resources={"pids": "9"})))
    assert end.error is not None
    assert (end.error.error_class, cluster.created) == ("not_allowed", [])


Connect = Callable[[], Any]
