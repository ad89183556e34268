"""Container targets: the command that runs them, and, where podman is, what becomes of real ones."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.targets.programs import HEAD, ID, Bench, WallClock, attempt, end_of, wait_for_end, wait_until
from tocsin.adapters.targets.container import ContainerCli, ContainerRunner, container_name, run_command
from tocsin.domain.executions import ReportKind
from tocsin.domain.programs import ContainerTarget
from tocsin.domain.retries import is_retryable

# What a machine without systemd and nested virtualisation needs, as CI runners mostly are.
CLI = ContainerCli(
    ("podman", "--runtime", "runc", "--cgroup-manager=cgroupfs"),
    "none",
    ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"),
)
PLAIN = ContainerTarget("reports:7", "batch")


def test_a_container_is_named_after_its_dispatch_and_nothing_is_asked_for_that_was_not_said() -> None:
    command = run_command(ContainerCli(), attempt(PLAIN), PLAIN)
    assert command[:2] == ["podman", "run"]
    assert command[-1] == "reports:7"
    assert command[command.index("--name") + 1] == container_name(HEAD)
    assert {"--rm", "no-new-privileges", f"tocsin.execution_id={ID}", "tocsin.token=41"} <= set(command)
    assert not {"--network", "--cpus", "--memory", "--pids-limit", "--privileged", "--volume"} & set(command)
    assert "TOCSIN_ATTEMPT=2" in command
    names = {container_name(HEAD._replace(attempt=a, token=t)) for a in (1, 2) for t in (40, 41)}
    assert len(names) == 4
    assert container_name(HEAD._replace(execution_id=ID + "0")) not in names


def test_limits_options_and_arguments_stand_where_they_are_read() -> None:
    target = ContainerTarget(
        "reports:7", "batch", ("--day", "-x"), {"A": "b c\n"}, {"cpus": "0.5", "memory": "64Mi", "pids": "9"}
    )
    command = run_command(ContainerCli(("docker", "-H", "tcp://d"), "none", ("--read-only",)), attempt(target), target)
    assert command[:4] == ["docker", "-H", "tcp://d", "run"]
    assert command[-4:] == ["--read-only", "reports:7", "--day", "-x"]
    for option, value in (("--network", "none"), ("--cpus", "0.5"), ("--memory", "67108864"), ("--pids-limit", "9")):
        assert command[command.index(option) + 1] == value
    assert command[command.index("A=b c\n") - 1] == "--env"


def podman(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*CLI.command, *words], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An image of one static program, made without any registry."""
    for program in ("podman", "runc", "busybox"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed: apt-get install podman runc busybox-static")
    busybox = str(shutil.which("busybox"))
    archive = tmp_path_factory.mktemp("image") / "image.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(busybox, "bin/busybox")
        for name in ("sh", "sleep", "env", "cat", "true", "id"):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    name = f"localhost/tocsin-test:{uuid.uuid4().hex[:12]}"
    made = podman("import", str(archive), name)
    tried = podman("run", "--rm", "--network", "none", *CLI.run_options, name, "true")
    if made.returncode or tried.returncode:
        pytest.skip(f"podman cannot run containers here: {(made.stderr + tried.stderr).strip()[-300:]}")
    yield name
    podman("rmi", "-f", name)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.logs.close(5)


@pytest.fixture
def runner(bench: Bench, tmp_path: Path) -> Iterator[ContainerRunner]:
    made = ContainerRunner(WallClock(), bench.logs, 2.0, str(tmp_path), CLI)
    yield made
    made.close()


def containers(name: str) -> str:
    listed = podman("ps", "-a", "--filter", f"name={name}", "--format", "{{.Names}}")
    assert listed.returncode == 0, listed.stderr
    return listed.stdout.strip()


Shell = Callable[..., ContainerTarget]


@pytest.fixture
def shell(image: str) -> Shell:
    def made(text: str, **fields: object) -> ContainerTarget:
        target = ContainerTarget(image, "batch", ("/bin/sh", "-c", text), timeout_s=60.0)
        return replace(target, **fields)  # type: ignore[arg-type]

    return made


def test_a_real_container_runs_within_its_limits_and_is_gone_afterwards(
    runner: ContainerRunner, bench: Bench, shell: Shell
) -> None:
    target = shell("env; id -u; cat", env={"COLOUR": "blue"}, resources={"cpus": "0.5", "memory": "64Mi", "pids": "20"})
    end = end_of(runner, attempt(target))
    assert (end.kind, end.error) == (ReportKind.SUCCEEDED, None)
    lines = bench.text().splitlines()
    assert {"COLOUR=blue", f"TOCSIN_EXECUTION_ID={ID}", "TOCSIN_TOKEN=41"} <= set(lines)
    assert containers(container_name(HEAD)) == ""

    runner.start([attempt(shell("sleep 30", resources=target.resources))])
    wait_until(lambda: containers(container_name(HEAD)) != "", "the container to run")
    form = "{{.HostConfig.Memory}} {{.HostConfig.PidsLimit}} {{.HostConfig.NanoCpus}} {{.HostConfig.NetworkMode}}"
    shown = podman("inspect", "--format", form, container_name(HEAD))
    assert shown.stdout.split() == ["67108864", "20", "500000000", "none"]
    runner.cancel(["ref"])
    assert wait_for_end(runner).kind is ReportKind.CANCELLED
    wait_until(lambda: containers(container_name(HEAD)) == "", "the container to be removed")


@pytest.mark.parametrize(
    ("text", "error_class", "status", "retried"),
    [
        ("echo why; exit 7", "exit", 7, True),
        ("no-such-program", "not_executable", 127, False),
        ("exit 75", "temporary", 75, True),
    ],
)
def test_what_the_end_of_a_real_container_means(
    runner: ContainerRunner, shell: Shell, text: str, error_class: str, status: int, retried: bool
) -> None:
    end = end_of(runner, attempt(shell(text)))
    assert end.error is not None
    assert (end.kind, end.error.error_class, end.error.status) == (ReportKind.FAILED, error_class, status)
    assert is_retryable(end.kind, end.error) is retried


def test_an_image_that_is_not_there_may_be_there_later(runner: ContainerRunner, shell: Shell) -> None:
    end = end_of(runner, attempt(shell("true", image="localhost/tocsin-no-such-image:1")))
    assert end.error is not None
    assert (end.error.error_class, end.error.status) == ("container", 125)
    assert "tocsin-no-such-image" in end.error.message
    assert is_retryable(end.kind, end.error)


def test_a_real_container_that_does_not_listen_is_killed_at_its_time_limit(
    runner: ContainerRunner, shell: Shell
) -> None:
    """The first process of a container ignores SIGTERM unless it has a handler."""
    end = end_of(runner, attempt(shell("sleep 1000 & sleep 1000", timeout_s=2.0)))
    assert end.kind is ReportKind.TIMED_OUT
    assert containers(container_name(HEAD)) == ""


KILLED_WORKER = """
import sys, time
from tests.unit.targets.programs import Bench, WallClock, attempt
from tests.unit.targets.test_containers import CLI
from tocsin.adapters.targets.container import ContainerRunner
from tocsin.domain.programs import ContainerTarget
runner = ContainerRunner(WallClock(), Bench().logs, 0.5, sys.argv[1], CLI)
runner.start([attempt(ContainerTarget(sys.argv[2], "batch", ("/bin/sleep", "1000"), timeout_s=600.0))])
time.sleep(600)
"""


def test_when_the_worker_is_killed_its_real_container_is_removed(image: str, tmp_path: Path) -> None:
    worker = subprocess.Popen([sys.executable, "-c", KILLED_WORKER, str(tmp_path), image])
    try:
        wait_until(lambda: containers(container_name(HEAD)) != "", "the container to run")
    finally:
        worker.kill()
        worker.wait()
    wait_until(lambda: containers(container_name(HEAD)) == "", "the container to be removed")
