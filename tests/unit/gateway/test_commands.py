"""What is known of commands, for how long, and to whom."""

from __future__ import annotations

import httpx
import pytest

from tests.unit.gateway.house import MINIMAL, NOON, House, problem_of, visit
from tests.unit.gateway.owner import CODEC
from tocsin.domain.commands import CommandOutcome
from tocsin.domain.errors import Fault


def command_id(made_at_ms: int, number: int = 0) -> str:
    return f"cmd_{made_at_ms:012x}7{number:019x}"


def outcome(name: str, **fields: object) -> bytes:
    values = {
        "kind": "create",
        "job_id": "job_x",
        "tenant_id": "default",
        "accepted": True,
        "detail": "created",
        "decided_at": NOON,
    }
    return CODEC.encode_outcome(CommandOutcome(name, **{**values, **fields}))  # type: ignore[arg-type]


NOON_MS = NOON // 1000


@pytest.mark.parametrize(
    "name",
    [
        "x",
        "cmd_",
        "cmd_" + "g" * 32,
        "job_" + "0" * 32,
        "cmd_" + "0" * 32,
        "cmd_" + "f" * 32,
        "cmd_" + "0" * 33,
        "x" * 5_000,
        "%00",
        "%ff",
        command_id(NOON_MS - 3_600_000),
        command_id(NOON_MS + 60_001),
    ],
)
def test_what_cannot_be_a_command_of_the_last_hour_is_not_found(name: str) -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        assert "command" in problem_of(await client.get(f"/v1/commands/{name}"), 404)["detail"]

    visit(House(), scene)


@pytest.mark.parametrize("made_at_ms", [NOON_MS, NOON_MS - 3_599_999, NOON_MS + 60_000])
def test_what_is_not_known_yet_is_pending(made_at_ms: int) -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        status = (await client.get(f"/v1/commands/{command_id(made_at_ms)}")).json()
        assert status["status"] == "pending"
        assert status["kind"] is None

    visit(House(), scene)


def test_a_rejection_tells_its_faults() -> None:
    house = House()
    name = command_id(NOON_MS)

    async def scene(client: httpx.AsyncClient) -> None:
        fault = Fault("run_at", "'x'", "is wrong", "make it right")
        house.bus.publish(name, outcome(name, accepted=False, detail="invalid", faults=(fault,)))
        status = (await client.get(f"/v1/commands/{name}")).json()
        assert status == {
            "command_id": name,
            "status": "rejected",
            "kind": "create",
            "job_id": "job_x",
            "detail": "invalid",
            "faults": [{"field": "run_at", "value": "'x'", "problem": "is wrong", "remedy": "make it right"}],
            "version": None,
            "execution_id": None,
        }

    visit(house, scene)


def test_a_command_of_another_tenant_is_not_found() -> None:
    house = House()
    name = command_id(NOON_MS)

    async def scene(client: httpx.AsyncClient) -> None:
        house.bus.publish(name, outcome(name, tenant_id="other"))
        problem_of(await client.get(f"/v1/commands/{name}"), 404)
        assert (await client.get(f"/v1/commands/{name}", headers={"Tocsin-Tenant": "other"})).status_code == 200

    visit(house, scene)


def test_every_gateway_knows_the_outcomes_of_all_and_of_before_its_start() -> None:
    first, second = House(), House()

    async def scene(client: httpx.AsyncClient) -> None:
        await client.post("/v1/jobs", json=MINIMAL)

    visit(first, scene)
    ((name, _, value),) = first.bus.commands
    second.bus.publish(name, CODEC.encode_outcome(first.outcome_of(CODEC.decode_command(value))))

    async def elsewhere(client: httpx.AsyncClient) -> None:
        assert (await client.get(f"/v1/commands/{name}")).json()["status"] == "accepted"

    visit(second, elsewhere)


def test_what_had_to_be_dropped_is_not_called_pending() -> None:
    house = House(outcomes_kept_max=2)

    async def scene(client: httpx.AsyncClient) -> None:
        names = [command_id(NOON_MS + n, n) for n in range(4)]
        for name in names:
            house.bus.publish(name, outcome(name))
        problem_of(await client.get(f"/v1/commands/{names[0]}"), 404)
        problem_of(await client.get(f"/v1/commands/{names[1]}"), 404)
        for name in names[2:]:
            assert (await client.get(f"/v1/commands/{name}")).json()["status"] == "accepted"
        assert (await client.get(f"/v1/commands/{command_id(NOON_MS + 9)}")).json()["status"] == "pending"

    visit(house, scene)
