"""Which refusals are about one request's values, and which about all requests."""

from __future__ import annotations

import struct

import pytest
from cassandra import InvalidRequest, OperationTimedOut, Unauthorized
from cassandra.cluster import NoHostAvailable

from tocsin.adapters.cassandra.driver_errors import refuses_values, translated
from tocsin.domain.errors import Refused


def invalid(message: str) -> InvalidRequest:
    return InvalidRequest(f'Error from server: code=2200 [Invalid query] message="{message}"')


@pytest.mark.parametrize(
    "error",
    [
        invalid("Key length of 70000 is longer than maximum of 65535"),
        invalid("Key may not be empty"),
        invalid("Batch too large"),
        invalid("Rejected an oversized mutation (9/8) for keyspace: t. Top keys are: jobs.this does not exist"),
        UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"),
        struct.error("int too large to convert"),
    ],
)
def test_values_that_are_refused_concern_one_request(error: Exception) -> None:
    assert refuses_values(error)
    assert isinstance(translated(error), Refused)


@pytest.mark.parametrize(
    "error",
    [
        invalid("table jobs does not exist"),
        invalid("Keyspace 'tocsin' does not exist"),
        invalid("unconfigured table jobs"),
        invalid("Undefined column name plan in table tocsin.schedule_index"),
        invalid("Guardrail disk_usage violated: Write request failed because disk usage exceeds failure threshold"),
        Unauthorized("no permission"),
        NoHostAvailable("none", {}),
        OperationTimedOut(),
        ValueError("anything"),
    ],
)
def test_what_is_about_the_schema_or_the_servers_concerns_all(error: Exception) -> None:
    assert not refuses_values(error)
