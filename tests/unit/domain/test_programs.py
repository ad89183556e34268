"""Commands and containers: read whatever encoding they came in, kept as they were, and refused field by field."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.adapters.avro.codec import AvroCodec
from tocsin.domain import programs
from tocsin.domain.commands import Command
from tocsin.domain.definitions import parse, to_mapping
from tocsin.domain.errors import Fault, InvalidInput
from tocsin.domain.executions import AttemptHead
from tocsin.domain.ids import execution_id
from tocsin.domain.programs import CommandTarget, ContainerTarget, memory_bytes_of
from tocsin.domain.targets import lane_of

CODEC = AvroCodec()
COMMAND = {"type": "command", "argv": ["/usr/bin/rsync", "-a"], "pool": "batch"}
CONTAINER = {"type": "container", "image": "registry.internal:5000/reports:7@sha256:ab", "pool": "batch"}


def target(base: dict[str, Any], **fields: Any) -> Any:
    return parse({"delay_s": 1, "target": {**base, **fields}}).target


def fault(base: dict[str, Any], **fields: Any) -> Fault:
    with pytest.raises(InvalidInput) as caught:
        target(base, **fields)
    (only,) = caught.value.faults
    return only


@pytest.mark.parametrize(
    "given",
    [
        COMMAND,
        {
            **COMMAND,
            "argv": ["a", "", "line\nbreak", "ünï 🔔"],
            "env": {"A": "1\n2", "_b": ""},
            "cwd": "/srv",
            "timeout_s": 5,
        },
        CONTAINER,
        {
            **CONTAINER,
            "argv": ["run", ""],
            "env": {"A": "="},
            "resources": {"cpus": "0.5", "memory": "1Gi", "pids": "9"},
        },
    ],
)
def test_programs_come_back_as_they_were_by_every_door(given: dict[str, Any]) -> None:
    definition = parse({"delay_s": 1, "target": given})
    mapping = to_mapping(definition)
    assert {**given, "timeout_s": given.get("timeout_s", 30.0)} == mapping["target"]
    assert parse(mapping) == definition
    command = Command("create", "c", "job_1", "default", 0, mapping)
    sent = CODEC.decode_command(CODEC.encode_command(command)).definition
    assert sent is not None and parse(sent) == definition
    head = AttemptHead(1, 2, 0, execution_id("default@j", 1, 5), "default@j", "default", 1, 5, 5)
    execution = CODEC.decode_execution(CODEC.encode_execution(head, definition.target))
    assert execution.target == definition.target
    assert lane_of(execution.target) == "pool.batch"


@pytest.mark.parametrize(
    "image",
    ["alpine", "a/b_c/d.e:7", "localhost:5000/a/b:v1.2-x", "registry.internal/reports@sha256:" + "0" * 64, "A_B:_x"],
)
def test_images_are_names(image: str) -> None:
    assert target(CONTAINER, image=image).image == image


@pytest.mark.parametrize(
    "image",
    ["dir:/etc", "oci-archive:/tmp/x.tar", "docker-archive:../x", "docker://alpine", "a//b", "a/../b", "a:b:c", "a/"],
)
def test_an_image_is_not_read_from_the_workers_own_disk(image: str) -> None:
    """podman takes names of transports and paths too; which files it reads there is not for tenants to say."""
    assert fault(CONTAINER, image=image).field == "target.image"


def test_numbers_are_limits_too() -> None:
    found = target(CONTAINER, resources={"cpus": 2, "memory": 8 * 2**20, "pids": 100})
    assert found.resources == {"cpus": "2", "memory": "8388608", "pids": "100"}
    assert target(CONTAINER, resources={"cpus": 0.25}).resources == {"cpus": "0.25"}
    assert [memory_bytes_of(text) for text in ("7", "7Ki", "7Mi", "7Gi")] == [7, 7 * 2**10, 7 * 2**20, 7 * 2**30]


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        *(({"argv": argv}, "argv") for argv in (None, [], "ls -l", {"a": 1}, ["x"] * 1_025, ["x" * 65_536])),
        *(
            ({"argv": argv}, f"argv[{len(argv) - 1}]")
            for argv in ([""], ["a", 5], ["a", None], ["a", "\0"], ["a", "\ud800"])
        ),
        *(({"pool": pool}, "pool") for pool in (None, "", "a b", "a.b", "x" * 65, 5)),
        *(({"cwd": cwd}, "cwd") for cwd in ("srv", "", "./a", "~", 5, "/a\0", "/" + "a" * 1_024)),
        *(
            ({"env": env}, "env")
            for env in ("A=1", ["A"], {"": "x"}, {"A=B": "x"}, {"1A": "x"}, {"A-B": "x"}, {"A\n": "x"})
        ),
        *(({"env": {"A": value}}, "env.A") for value in (5, None, True, "\0", "\udfff", "x" * 65_536)),
        *(({"env": {key: "x"}}, f"env.{key}") for key in ("TOCSIN_TOKEN", "tocsin_x")),
        ({"env": {f"V{n}": "" for n in range(257)}}, "env"),
        *(({"timeout_s": timeout}, "timeout_s") for timeout in (0, -1, 86_401, "5", True)),
        *(({key: "x"}, key) for key in ("url", "image", "shell", "resources", "user")),
    ],
)
def test_what_is_no_command_is_refused_by_its_field(fields: dict[str, Any], name: str) -> None:
    assert fault(COMMAND, **fields).field == f"target.{name}"


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        *(({"image": image}, "image") for image in (None, "", "-v", "--privileged", "a b", "a;b", "a\n", "x" * 256, 5)),
        *(({"argv": argv}, "argv") for argv in ("ls", {"a": 1})),
        ({"argv": ["a", 5]}, "argv[1]"),
        *(({"resources": limits}, "resources") for limits in ("1", [1])),
        *(
            ({"resources": {"cpus": n}}, "resources.cpus")
            for n in (0, 0.001, -1, 1_025, "1e3", "", "two", True, [1], "٣", 10**5_000)
        ),
        *(
            ({"resources": {"memory": n}}, "resources.memory")
            for n in (0, "4095Ki", "1g", "1Ti", "-1Mi", "20000Gi", 0.5, True)
        ),
        *(({"resources": {"pids": n}}, "resources.pids") for n in (0, -1, 1.5, "0", 4_194_305, float("nan"), True)),
        ({"resources": {"gpus": 1}}, "resources.gpus"),
        *(({key: "/x"}, key) for key in ("cwd", "url", "privileged", "volumes")),
    ],
)
def test_what_is_no_container_is_refused_by_its_field(fields: dict[str, Any], name: str) -> None:
    assert fault(CONTAINER, **fields).field == f"target.{name}"


def test_what_may_be_a_secret_is_not_repeated() -> None:
    for fields in (
        {"argv": ["mysql", "-phunter2", 5]},
        {"argv": ["hunter2\0"]},
        {"env": {"A": "hunter2\0"}},
        {"env": {"TOCSIN_X": "hunter2"}},
        {"env": {"A=hunter2": "x"}},
    ):
        assert "hunter2" not in str(fault(COMMAND, **fields))


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=4), st.lists(st.text(max_size=8), max_size=4))
def test_whatever_is_given_is_taken_as_it_is_or_refused(env: dict[str, str], argv: list[str]) -> None:
    try:
        found = target(COMMAND, env=env, argv=argv)
    except InvalidInput:
        return
    assert isinstance(found, CommandTarget)
    assert (dict(found.env), list(found.argv)) == (env, argv)
    assert isinstance(target(CONTAINER, env=env, argv=argv), ContainerTarget)


def test_the_largest_program_is_far_below_what_a_record_may_hold() -> None:
    value = "x" * (programs.ENV_BYTES_MAX - 10)
    largest = target(COMMAND, argv=["x" * (programs.ARGV_BYTES_MAX - 1)], env={"A": value})
    head = AttemptHead(1, 2, 0, execution_id("default@j", 1, 5), "default@j", "default", 1, 5, 5)
    assert len(CODEC.encode_execution(head, largest)) < 140_000
