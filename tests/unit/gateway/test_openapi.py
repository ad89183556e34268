"""The OpenAPI document: the committed copy is current, and it says what the routes do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest

from tests.unit.gateway.house import MINIMAL, House, visit
from tocsin.domain import catch_up, definitions, policies, programs, schedules, targets
from tocsin.domain.errors import InvalidInput
from tocsin.roles.gateway import later, models, target_models
from tocsin.roles.gateway.app import routed_app
from tocsin.roles.gateway.openapi import openapi_document, written

COMMITTED = Path(__file__).parents[3] / "docs" / "openapi.json"


def document() -> dict[str, Any]:
    return openapi_document(routed_app())


def test_the_committed_document_is_the_generated_one() -> None:
    assert COMMITTED.read_text(encoding="utf-8") == written(document()), (
        "write it anew: python -m tocsin.roles.gateway.openapi docs/openapi.json"
    )


def test_it_is_openapi_3_1_and_every_reference_leads_somewhere() -> None:
    found = document()
    assert found["openapi"].startswith("3.1")
    schemas = found["components"]["schemas"]
    for reference in references(found):
        assert reference.removeprefix("#/components/schemas/") in schemas


def references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [r for value in node.values() for r in references(value)]
    if isinstance(node, list):
        return [r for item in node for r in references(item)]
    return []


def test_it_lists_what_is_served_and_nothing_that_comes_later() -> None:
    paths = document()["paths"]
    served = {(method.upper(), path) for path, operations in paths.items() for method in operations}
    assert served == {
        ("POST", "/v1/jobs"),
        ("GET", "/v1/jobs"),
        ("GET", "/v1/jobs/{job_id}"),
        ("PUT", "/v1/jobs/{job_id}"),
        ("DELETE", "/v1/jobs/{job_id}"),
        ("POST", "/v1/jobs/{job_id}:pause"),
        ("POST", "/v1/jobs/{job_id}:resume"),
        ("POST", "/v1/jobs/{job_id}:trigger"),
        ("GET", "/v1/jobs/{job_id}/runs"),
        ("GET", "/v1/runs/{execution_id}"),
        ("GET", "/v1/runs/{execution_id}/logs"),
        ("POST", "/v1/runs/{execution_id}:retry"),
        ("POST", "/v1/runs/{execution_id}:cancel"),
        ("POST", "/v1/runs/{execution_id}:complete"),
        ("POST", "/v1/runs/{execution_id}:fail"),
        ("GET", "/v1/dead-letters"),
        ("GET", "/v1/dead-letters/{letter_id}"),
        ("POST", "/v1/dead-letters:redrive"),
        ("POST", "/v1/tenants/{tenant_id}:resume-retries"),
        ("GET", "/v1/commands/{command_id}"),
        ("GET", "/v1/schedules:preview"),
        ("GET", "/healthz"),
        ("GET", "/readyz"),
        ("GET", "/metrics"),
    }
    assert not served & {(method, path) for method, path, _ in later.ROUTES}


def test_every_text_number_and_map_of_a_request_has_an_upper_bound() -> None:
    schemas = document()["components"]["schemas"]
    unbounded = []
    kinds = ("HttpTargetModel", "MessageTargetModel", "CommandTargetModel", "ContainerTargetModel", "ResourcesModel")
    for model in ("JobRequest", "ScheduleModel", "RetryModel", "PauseRequest", *kinds):
        for name, field in schemas[model]["properties"].items():
            for choice in field.get("anyOf", [field]):
                words = {"string": ("maxLength", "pattern", "enum", "const"), "object": ("maxProperties",)}
                words |= dict.fromkeys(("number", "integer"), ("maximum",))
                wanted = words.get(choice.get("type", ""), ())
                content = name in ("body", "value") and choice.get("type") == "object"  # bounded in bytes
                if wanted and not set(wanted) & set(choice) and not content:
                    unbounded.append(f"{model}.{name}")
    assert unbounded == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("delay_s",), schedules.DELAY_S_MAX),
        (("retry", "max_attempts"), policies.ATTEMPTS_MAX),
        (("retry", "base_s"), policies.RETRY_S_MAX),
        (("target", "timeout_s"), targets.TIMEOUT_S_MAX),
    ],
)
def test_documented_bounds_are_those_of_the_validation(path: tuple[str, ...], value: float) -> None:
    schemas = document()["components"]["schemas"]
    model = {"retry": "RetryModel", "target": "HttpTargetModel"}.get(path[0], "JobRequest")
    field = schemas[model]["properties"][path[-1]]
    [bound] = [choice["maximum"] for choice in field.get("anyOf", [field]) if "maximum" in choice]
    assert bound == value

    def job(number: float) -> dict[str, Any]:
        made: dict[str, Any] = json.loads(json.dumps(MINIMAL))
        inner = made.setdefault(path[0], {}) if len(path) > 1 else made
        inner[path[-1]] = number
        if path[-1] == "base_s":
            inner["max_s"] = value
        return made

    assert definitions.parse(job(value))
    with pytest.raises(InvalidInput):
        definitions.parse(job(value + 1))


def test_every_error_is_documented_as_a_problem() -> None:
    for path, operations in document()["paths"].items():
        for operation in operations.values():
            for status, response in operation["responses"].items():
                if status >= "400":
                    assert list(response["content"]) == ["application/problem+json"], (path, status)


def test_the_documented_job_has_the_fields_of_the_validation() -> None:
    assert set(models.JobRequest.model_fields) == {"job_id", *definitions.KNOWN}
    for model, target in (
        (target_models.HttpTargetModel, targets.HttpTarget),
        (target_models.MessageTargetModel, targets.MessageTarget),
        (target_models.HandlerTargetModel, targets.HandlerTarget),
        (target_models.CommandTargetModel, programs.CommandTarget),
        (target_models.ContainerTargetModel, programs.ContainerTarget),
    ):
        assert set(model.model_fields) == {"type", *target.__slots__}
        assert get_args(model.model_fields["type"].annotation) == (target.type,)
    assert target_models.HttpTargetModel.model_fields["timeout_s"].default == targets.TIMEOUT_S_DEFAULT
    for name, field in models.RetryModel.model_fields.items():
        assert field.default == getattr(policies.RetryPolicy(), name)
    companions = {name for names in schedules.COMPANIONS.values() for name in names}
    assert set(models.ScheduleModel.model_fields) == {*schedules.KINDS, *companions}
    fields = models.JobRequest.model_fields
    assert get_args(fields["concurrency"].annotation) == tuple(map(str, policies.Overlap))
    default = catch_up.CatchUpPolicy()
    assert fields["misfire_after_s"].default == default.misfire_after_s
    assert fields["max_catch_up"].default == default.max_catch_up
    assert get_args(fields["catch_up"].annotation) == tuple(map(str, catch_up.CatchUp))
    assert get_args(get_args(fields["on_resume"].annotation)[0]) == tuple(map(str, catch_up.OnResume))


def test_answers_have_the_documented_fields() -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        response = await client.post("/v1/jobs", json={**MINIMAL, "labels": {"a": "b"}, "metadata": 1})
        assert set(response.json()) == set(models.JobModel.model_fields)
        assert (await client.get("/openapi.json")).json() == json.loads(written(document()))
        refused = await client.post("/v1/jobs", json={})
        assert set(refused.json()) == set(models.ProblemModel.model_fields)
        path = f"/v1/jobs/{response.json()['job_id']}"
        paused = await client.post(f"{path}:pause", json={"reason": "x"})
        assert set(paused.json()) == set(models.JobModel.model_fields)
        triggered = await client.post(f"{path}:trigger")
        assert set(triggered.json()) == set(models.TriggeredModel.model_fields)

    visit(House(), scene)
