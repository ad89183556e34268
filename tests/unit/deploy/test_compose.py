"""The compose file and the image: what they name exists in tocsin, and they ask of the servers what it needs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from tests.unit.deploy.variables import assert_names_a_setting, assert_read
from tocsin.bootstrap.worker import RETURN_WAIT_S
from tocsin.cli.app import app
from tocsin.devcluster.kafka import SETTINGS
from tocsin.devcluster.versions import CASSANDRA_COORDINATES, KAFKA_COORDINATES

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
ROLES = ("gateway", "trigger", "worker", "projector")
OURS = ("init", *ROLES, "reconciler", "notifier")


def commands_of(service: dict[str, Any]) -> list[list[str]]:
    """Return the words of each tocsin command that a service runs."""
    if "entrypoint" not in service:
        return [service["command"]]
    assert service["entrypoint"][:1] == ["/bin/sh"]
    lines = [shlex.split(line) for line in service["command"][0].split("&&")]
    assert all(line[0] == "tocsin" for line in lines)
    return [line[1:] for line in lines]


def assert_is_command(words: list[str]) -> None:
    command: Any = typer.main.get_command(app)
    for word in words:
        assert hasattr(command, "commands"), f"{words}: {word!r} is one word too many"
        assert word in command.commands, f"{words}: there is no command {word!r}"
        command = command.commands[word]
    assert not hasattr(command, "commands"), f"{words} is only the beginning of a command"


def test_every_part_has_a_service() -> None:
    assert set(SERVICES) == {"kafka", "cassandra", *OURS}


@pytest.mark.parametrize("name", OURS)
def test_commands_exist(name: str) -> None:
    commands = commands_of(SERVICES[name])
    for words in commands:
        assert_is_command([word for word in words if not word.startswith("--")])
    others = {"init": [["schema", "migrate"], ["topics", "apply"]], "reconciler": [["reconcile", "--watch"]]}
    assert commands == others.get(name, [[name]])


def test_the_check_of_commands_finds_a_wrong_one() -> None:
    for words in (["topics"], ["topics", "make"], ["gateway", "more"]):
        with pytest.raises(AssertionError, match=r"word too many|no command|only the beginning"):
            assert_is_command(words)


@pytest.mark.parametrize("name", OURS)
def test_variables_are_settings_and_name_the_servers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = assert_read(SERVICES[name]["environment"], monkeypatch)
    assert settings.kafka.bootstrap_servers.partition(":")[0] in SERVICES
    assert set(settings.cassandra.contact_points) <= set(SERVICES)


def test_the_check_of_variables_finds_a_wrong_one() -> None:
    for name in ("TOCSIN_KAFKA__BOOTSTRAP", "TOCSIN_KAFAK__BOOTSTRAP_SERVERS", "TOCSIN_NAME__X", "TOCSIN_KAFKA__"):
        with pytest.raises(AssertionError):
            assert_names_a_setting(name)


@pytest.mark.parametrize("name", [*ROLES, "reconciler", "notifier"])
def test_roles_wait_for_tables_and_topics_and_come_back(name: str) -> None:
    assert SERVICES[name]["depends_on"]["init"] == {"condition": "service_completed_successfully"}
    assert SERVICES[name]["restart"] == "unless-stopped"


def test_init_waits_for_the_servers_and_they_can_tell() -> None:
    waits = SERVICES["init"]["depends_on"]
    assert waits == {name: {"condition": "service_healthy"} for name in ("kafka", "cassandra")}
    assert all("healthcheck" in SERVICES[name] for name in waits)


def test_the_worker_is_given_longer_to_stop_than_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = assert_read(SERVICES["worker"]["environment"], monkeypatch)
    granted = int(SERVICES["worker"]["stop_grace_period"].removesuffix("s"))
    assert granted > settings.worker.stop_grace_s + 2 * RETURN_WAIT_S


def test_the_gateway_is_given_longer_to_stop_than_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = assert_read(SERVICES["gateway"]["environment"], monkeypatch)
    assert int(SERVICES["gateway"]["stop_grace_period"].removesuffix("s")) > settings.gateway.stop_grace_s


def test_the_unauthenticated_door_is_published_on_loopback_only() -> None:
    assert all(port.startswith("127.0.0.1:") for service in SERVICES.values() for port in service.get("ports", []))


def test_the_broker_is_set_as_the_one_that_the_tests_run_on() -> None:
    given = {
        name.removeprefix("KAFKA_").lower().replace("_", "."): value
        for name, value in SERVICES["kafka"]["environment"].items()
    }
    needed = (
        "auto.create.topics.enable",
        "transaction.max.timeout.ms",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "offsets.retention.minutes",
        "group.consumer.min.session.timeout.ms",
        "group.consumer.session.timeout.ms",
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.heartbeat.interval.ms",
    )
    assert {name: given[name] for name in needed} == {name: str(SETTINGS[name]).lower() for name in needed}


def test_the_servers_are_the_versions_that_the_tests_run_on() -> None:
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{KAFKA_COORDINATES[0].rpartition(':')[2]}"
    assert SERVICES["cassandra"]["image"] == f"cassandra:{CASSANDRA_COORDINATES[0].rpartition(':')[2]}"


def test_data_outlive_their_containers() -> None:
    for name in ("kafka", "cassandra"):
        volume = SERVICES[name]["volumes"][0].partition(":")[0]
        assert volume in COMPOSE["volumes"]


def test_the_image_is_built_from_what_exists_and_is_not_left_out() -> None:
    dockerfile = (DEPLOY / "Dockerfile").read_text("utf-8")
    let_in = {line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().split() if line.startswith("!")}
    copied = {word for line in re.findall(r"^COPY (.+) \S+$", dockerfile, re.MULTILINE) for word in line.split()}
    assert copied >= {"src", "schemas", "topics", "pyproject.toml", "README.md"}
    assert copied == let_in
    assert all((ROOT / name).exists() for name in copied)
    assert 'ENTRYPOINT ["tocsin"]' in dockerfile
    build = SERVICES["gateway"]["build"]
    assert (DEPLOY / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).is_file()
