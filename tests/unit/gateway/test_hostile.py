"""Whatever is sent, the answer is a problem that says what is wrong, and never a failure of the gateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.requests import ClientDisconnect

from tests.unit.gateway.house import MINIMAL, House, problem_of, visit

JSON = {"Content-Type": "application/json"}
TARGET = json.dumps(MINIMAL["target"])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"nope",
        b'{"delay_s": NaN, "target": ' + TARGET.encode() + b"}",
        b'{"delay_s": Infinity}',
        b'{"delay_s": 1e400}',
        b'{"delay_s": ' + b"1" * 5_000 + b', "target": ' + TARGET.encode() + b"}",
        b'{"delay_s": 1, "target": ' + TARGET.encode() + b', "metadata": ' + b"9" * 5_000 + b"}",
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 100_000,
        b"\xef\xbb\xbf{}",
        b'{"name": "\xff"}',
        b'{"name": "\\ud800"}',
        b'{"metadata": {"\\udfff": 1}}',
        '{"name": "é"}'.encode("utf-16"),
        b'{"name": "a\x00b"}',
        b"{'name': 'x'}",
        b'{"name": "x",}',
        b'{"name": "x"} {}',
        b"\x00" * 100,
        b"\xc3\x01" + b"\x00" * 20,
    ],
    ids=range(23),
)
def test_a_body_that_is_no_json_is_refused(body: bytes) -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        problem = problem_of(await client.post("/v1/jobs", content=body, headers=JSON), 422)
        assert "is not JSON" in problem["faults"][0]["problem"]
        assert len(str(problem)) < 2_000

    visit(house, scene)
    assert not house.bus.commands


def test_of_a_name_given_twice_the_last_value_counts() -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        body = f'{{"delay_s": -1, "delay_s": 7, "target": {TARGET}}}'
        response = await client.post("/v1/jobs", content=body, headers=JSON)
        assert response.json()["schedule"] == {"delay_s": 7}

    visit(House(), scene)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Content-Type": ""},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "multipart/form-data; boundary=x"},
        {"Content-Type": "application/jsonp"},
        {"Content-Type": "application/json; charset=latin-1"},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
        {"Content-Type": "x" * 5_000},
    ],
    ids=range(9),
)
def test_a_body_that_is_not_said_to_be_json_is_refused(headers: dict[str, str]) -> None:
    """It also keeps pages in a browser from creating jobs: they may not send this type to another site unasked."""

    async def scene(client: httpx.AsyncClient) -> None:
        problem_of(await client.post("/v1/jobs", content=json.dumps(MINIMAL), headers=headers), 415)

    visit(House(), scene)


@pytest.mark.parametrize(
    "kind",
    ["application/json", "APPLICATION/JSON", 'application/json; charset="UTF-8"', "application/json;charset=utf-8"],
)
def test_ways_to_say_json_that_are_taken(kind: str) -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        response = await client.post("/v1/jobs", content=json.dumps(MINIMAL), headers={"Content-Type": kind})
        assert response.status_code == 201

    visit(House(), scene)


def test_a_large_body_is_refused_whether_announced_or_streamed() -> None:
    house = House(body_bytes_max=1_000)

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 400

    async def scene(client: httpx.AsyncClient) -> None:
        fitting = json.dumps(MINIMAL).ljust(1_000)
        assert (await client.post("/v1/jobs", content=fitting, headers=JSON)).status_code == 201
        problem_of(await client.post("/v1/jobs", content=fitting + " ", headers=JSON), 413)
        problem_of(await client.post("/v1/jobs", content=endless(), headers=JSON), 413)
        for length in ("9" * 30, "-1", "x", "٣", "1e3"):
            headers = {**JSON, "Content-Length": length.encode()}
            problem_of(await client.post("/v1/jobs", content=b"{}", headers=headers), 413)  # type: ignore[arg-type]

    visit(house, scene)


def test_a_body_that_does_not_come_is_given_up() -> None:
    house = House(body_wait_s=0.05)

    async def stuck() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(3_600)

    async def scene(client: httpx.AsyncClient) -> None:
        problem_of(await client.post("/v1/jobs", content=stuck(), headers=JSON), 408)

    visit(house, scene)


@pytest.mark.parametrize("ends", ["never", "cut off"])
def test_a_body_that_is_announced_as_too_large_and_does_not_come_is_too_large(ends: str) -> None:
    """Not too slow: trying again with more patience would not help."""
    house = House(body_wait_s=0.05, body_bytes_max=1_000)

    async def stuck() -> AsyncIterator[bytes]:
        yield b"{"
        if ends == "never":
            await asyncio.sleep(3_600)
        raise ClientDisconnect

    async def scene(client: httpx.AsyncClient) -> None:
        headers = {**JSON, "Content-Length": "1001"}
        answer = await client.post("/v1/jobs", content=stuck(), headers=headers)
        problem_of(answer, 413)
        assert answer.headers["connection"] == "close"

    visit(house, scene)


def test_who_asks_first_is_refused_at_once() -> None:
    house = House(body_wait_s=3_600, body_bytes_max=1_000)

    async def unasked() -> AsyncIterator[bytes]:
        raise AssertionError("the body was asked for")
        yield b""

    async def scene(client: httpx.AsyncClient) -> None:
        headers = {**JSON, "Content-Length": "1001", "Expect": "100-continue"}
        problem_of(await client.post("/v1/jobs", content=unasked(), headers=headers), 413)

    visit(house, scene)


@pytest.mark.parametrize(
    ("field", "number"),
    [
        ("metadata", 2**64),
        ("metadata", -(2**63) - 1),
        ("target.body", 10**30),
        ("delay_s", 2**70),
        ("metadata", 10**300),
    ],
)
def test_an_integer_beyond_64_bits_is_refused_by_name_and_never_rounded(field: str, number: int) -> None:
    house = House()
    job: dict[str, Any] = json.loads(json.dumps(MINIMAL))
    place, name = (job["target"], "body") if field == "target.body" else (job, field)
    place[name] = number if name == "delay_s" else {"deep": [number]}

    async def scene(client: httpx.AsyncClient) -> None:
        problem = problem_of(await client.post("/v1/jobs", content=json.dumps(job), headers=JSON), 422)
        assert [fault["field"] for fault in problem["faults"]] == [field]

    visit(house, scene)
    assert not house.bus.commands


def test_the_longest_integers_and_doubles_of_any_size_are_kept() -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        for value in (2**64 - 1, -(2**63), 1e300, 12345678901234567890.5, {"id": "1" * 50}):
            response = await client.post("/v1/jobs", json={**MINIMAL, "metadata": value})
            assert (response.status_code, response.json()["metadata"]) == (201, value)

    visit(House(), scene)


SECRET = "hunter2"


@pytest.mark.parametrize(
    "more",
    [
        {"target": {**MINIMAL["target"], "headers": {"Authorization": f"Bearer {SECRET}\n"}}},
        {"target": {**MINIMAL["target"], "headers": {"X-Key": SECRET + "\x00"}}},
        {"target": {**MINIMAL["target"], "headers": {f"Authorization: {SECRET}": "x"}}},
        {"target": {**MINIMAL["target"], "headers": {"X-Key": [SECRET]}}},
        {"target": {**MINIMAL["target"], "headers": f"X-Key: {SECRET}"}},
        {"target": {**MINIMAL["target"], "headers": [SECRET]}},
        {"target": {**MINIMAL["target"], "header": {"X-Key": SECRET}}},
        {"target": {**MINIMAL["target"], "password": [SECRET]}},
        {"target": {"type": "http", "url": f"https://me:{SECRET}@a.example/"}},
        {"target": {"type": "http", "url": f"https://me:{SECRET}@a.example:99999/"}},
        {"target": {"type": "http", "uri": f"https://me:{SECRET}@a.example/"}},
        {"target": f"https://me:{SECRET}@a.example/"},
        {"target": [{"url": f"https://me:{SECRET}@a.example/"}]},
        {"headers": {"X-Key": SECRET}},
        {"headers": SECRET},
        {"job": {"target": {"headers": {"X-Key": SECRET}}}},
        {"job": {"auth": {"api_key": SECRET, "token": SECRET}}},
    ],
    ids=range(17),
)
def test_what_may_be_a_secret_is_not_repeated_in_faults(more: dict[str, Any]) -> None:
    """They are logged, and outcomes with their faults stand on a topic."""

    async def scene(client: httpx.AsyncClient) -> None:
        answer = await client.post("/v1/jobs", json={**MINIMAL, **more})
        assert problem_of(answer, 422)["faults"]
        assert SECRET not in answer.text

    visit(House(), scene)


def test_a_page_whose_name_leads_to_loopback_is_turned_away() -> None:
    """What a page in a browser may do by a name of its own that suddenly means 127.0.0.1."""

    async def scene(client: httpx.AsyncClient) -> None:
        for host in (
            "localhost",
            "LOCALHOST:8080",
            "127.0.0.1:8080",
            "127.8.8.8",
            "[::1]:80",
            "localhost.",
            "in.house",
        ):
            assert (await client.get("/healthz", headers={"Host": host})).status_code == 200, host
        for host in (
            "evil.example",
            "evil.example:8080",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "",
            "[::2]",
            "a@localhost",
        ):
            answer = await client.post("/v1/jobs", json=MINIMAL, headers={"Host": host})
            assert problem_of(answer, 421)["faults"][0]["field"] == "Host"

    house = House(hosts=("loopback", "in.house"))
    visit(house, scene)
    assert not house.bus.commands


def test_every_refusal_says_what_is_wrong_and_what_would_help() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        body, gone = {"json": MINIMAL}, "job_" + "0" * 32
        job = (await client.post("/v1/jobs", json={**MINIMAL, "job_id": "mine"})).json()
        house.owner.running.add(job["job_id"])
        for status, field, method, path, more in (
            (404, "job_id", "GET", f"/v1/jobs/{gone}", {}),
            (404, "job_id", "DELETE", f"/v1/jobs/{gone}", {}),
            (404, "execution_id", "GET", "/v1/runs/x", {}),
            (404, "command_id", "GET", "/v1/commands/x", {}),
            (404, "path", "GET", "/nowhere", {}),
            (405, "method", "DELETE", "/v1/jobs", {}),
            (409, "job_id", "POST", "/v1/jobs", {"json": {**MINIMAL, "job_id": "mine", "delay_s": 7}}),
            (409, "job_id", "POST", "/v1/jobs/mine:trigger", {}),
            (412, "If-Match", "DELETE", "/v1/jobs/mine", {"headers": {"If-Match": '"1"'}}),
            (415, "Content-Type", "POST", "/v1/jobs", {"content": b"{}"}),
            (415, "Content-Encoding", "POST", "/v1/jobs", {**body, "headers": {"Content-Encoding": "gzip"}}),
            (404, "execution_id", "GET", f"/v1/runs/{gone}.1.5/logs", {}),
            (501, "path", "GET", "/v1/tenants/x", {}),
            (501, "If-Unmodified-Since", "DELETE", "/v1/jobs/mine", {"headers": {"If-Unmodified-Since": "x"}}),
        ):
            [fault] = problem_of(await client.request(method, path, **more), status)["faults"]
            assert fault["field"] == field, (method, path)

    visit(house, scene)


HOSTILE_IDS = [
    "x" * 65,
    "job_" + "0" * 32 + "\n",
    "x\n",
    "default@",
    "@x",
    "default@a@x",
    "default@default@x",
    "a" * 20_000,
    "../etc/passwd",
    "\x00",
    "job_\x00" + "0" * 31,
    "☃",
    "' OR 1=1 --",
    "a|b",
    "a~b",
    "tenant@id",
    "other@x",
    "x.1.5",
    "other@x.1.5",
    "default@x.1.t5",
    "default@x.1.t05.cmd",
    "default@x.1.t5." + "c" * 101,
    "default@x.1.t5.a/b",
    "%",
    "%2e%2e",
    ":pause",
    "job_" + "0" * 32 + ".1." + "9" * 40,
    "job_" + "0" * 32 + ".1.-5",
    "job_" + "0" * 32 + ".01.5",
    "job_" + "0" * 32 + "." + "9" * 30 + ".5",
    "\x00.1.5",
    "job_" + "0" * 32 + ".1." + "٣",
]


@pytest.mark.parametrize("hostile", HOSTILE_IDS, ids=range(len(HOSTILE_IDS)))
def test_ids_that_cannot_be_are_not_found_and_reach_no_store(hostile: str) -> None:
    house = House()
    house.views.failing = True  # asking it would be answered with 503

    async def scene(client: httpx.AsyncClient) -> None:
        name = quote(hostile, safe="")
        for method, path in (
            ("GET", f"/v1/jobs/{name}"),
            ("DELETE", f"/v1/jobs/{name}"),
            ("PUT", f"/v1/jobs/{name}"),
            ("POST", f"/v1/jobs/{name}:pause"),
            ("POST", f"/v1/jobs/{name}:resume"),
            ("POST", f"/v1/jobs/{name}:trigger"),
            ("GET", f"/v1/jobs/{name}/runs"),
            ("GET", f"/v1/runs/{name}"),
            ("GET", f"/v1/commands/{name}"),
        ):
            response = await client.request(method, f"http://gateway{path}")
            problem_of(response, 404)
            assert len(response.content) < 1_000

    visit(house, scene)
    assert not house.bus.commands


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1",
        "/v1/",
        "/v1/jobs/",
        "/v2/jobs",
        "/v1/jobs/a/b",
        "//v1/jobs",
        "/%00",
        "/%ff%fe",
        "/docs",
        "/redoc",
        "/v1/jobs%3Flimit=5",
        "/" + "x" * 10_000,
    ],
)
def test_unknown_paths_are_404(path: str) -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        for method in ("GET", "POST", "HEAD", "DELETE"):
            response = await client.request(method, httpx.URL("http://gateway" + path))
            assert response.status_code == 404
            if method != "HEAD":
                problem_of(response, 404)

    visit(House(), scene)


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PUT", "/v1/jobs", "GET, HEAD, POST"),
        ("DELETE", "/v1/jobs", "GET, HEAD, POST"),
        ("OPTIONS", "/v1/jobs", "GET, HEAD, POST"),
        ("POST", "/v1/jobs/job_1", "DELETE, GET, HEAD, PUT"),
        ("POST", "/v1/jobs/job_1:explode", "DELETE, GET, HEAD, PUT"),
        ("POST", "/healthz", "GET, HEAD"),
        ("TRACE", "/v1/commands/x", "GET, HEAD"),
        ("BREW", "/readyz", "GET, HEAD"),
        ("X" * 200, "/metrics", "GET, HEAD"),
    ],
)
def test_methods_that_are_not_served_are_405_and_name_those_that_are(method: str, path: str, allow: str) -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        response = await client.request(method, path)
        problem_of(response, 405)
        assert response.headers["allow"] == allow

    visit(House(), scene)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PATCH", "/v1/jobs/job_1"),
        ("POST", "/v1/jobs/job_1:backfill"),
        ("GET", "/v1/tenants/x"),
    ],
)
def test_what_comes_later_is_refused_by_name(method: str, path: str) -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        assert "not supported yet" in problem_of(await client.request(method, path), 501)["detail"]

    visit(House(), scene)


def test_head_is_get_without_a_body() -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        await client.post("/v1/jobs", json=MINIMAL)
        for path in ("/healthz", "/v1/jobs", "/openapi.json"):
            full, head = await client.get(path), await client.head(path)
            assert head.status_code == 200
            assert head.content == b""
            assert head.headers["content-length"] == full.headers["content-length"]

    visit(House(), scene)


def test_an_error_that_should_not_happen_is_500_without_a_stack() -> None:
    house = House()

    async def broken(_job_id: str) -> bytes | None:
        raise RuntimeError("secret detail")

    async def scene(client: httpx.AsyncClient) -> None:
        house.app.state.parts.views.read_job = broken
        response = await client.get("/v1/jobs/job_" + "0" * 32)
        problem_of(response, 500)
        assert "secret" not in response.text
        metrics = (await client.get("/metrics")).text
        assert 'method="GET",route="/v1/jobs/{job_id}",status="500"' in metrics

    visit(house, scene)


def test_labels_of_metrics_cannot_be_made_by_callers() -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        for n in range(20):
            await client.request(f"METHOD{n}", f"/path{n}")
            await client.get(f"/v1/jobs/x{n}")
        lines = (await client.get("/metrics")).text.splitlines()
        counted = [line for line in lines if line.startswith("tocsin_request_seconds_count")]
        assert len(counted) == 2, counted

    visit(House(), scene)


# Keys that mean something, so that generated bodies get past the first rule.
keys = st.sampled_from(
    [
        "name",
        "schedule",
        "run_at",
        "delay_s",
        "target",
        "labels",
        "metadata",
        "type",
        "url",
        "headers",
        "body",
        "timeout_s",
        "cron",
    ]
) | st.text(max_size=8)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["http", "https://a/", "2026-10-11T02:00:00Z"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=6),
    max_leaves=20,
)
jobs = st.fixed_dictionaries(
    {
        "delay_s": st.just(1) | values,
        "target": st.fixed_dictionaries(
            {"type": st.just("http"), "url": st.just("https://a/")},
            optional={"headers": values, "body": values, "method": values},
        ),
    },
    optional={"name": values, "labels": values, "metadata": values, "x": values},
)
bodies = st.one_of(
    jobs.map(lambda value: json.dumps(value).encode("utf-8", "replace")),
    values.map(lambda value: json.dumps(value, ensure_ascii=True).encode()),
    st.binary(max_size=60),
)
segments = st.text(st.characters(), max_size=20).map(lambda text: quote(text.encode("utf-8", "replace"), safe=""))
requests = st.tuples(
    st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE"]),
    st.builds(
        lambda base, more, query: base + more + query,
        st.sampled_from(["/v1/jobs", "/v1/jobs/", "/v1/runs/", "/v1/commands/", "/v1/jobs/x/runs", "/"]),
        segments,
        st.just("") | segments.map(lambda s: f"?limit={s}") | segments.map(lambda s: f"?{s}"),
    ),
    bodies,
)


@given(st.lists(bodies, min_size=1, max_size=5))
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_no_body_makes_the_gateway_fail(sent: list[bytes]) -> None:
    assert_answered(("POST", "/v1/jobs", body) for body in sent)


@given(st.lists(requests, min_size=1, max_size=5))
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_no_request_makes_the_gateway_fail(sent: list[tuple[str, str, bytes]]) -> None:
    assert_answered(sent)


def assert_answered(sent: Iterable[tuple[str, str, bytes]]) -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        for method, path, body in sent:
            response = await client.request(method, "http://gateway" + path, content=body, headers=JSON)
            assert response.status_code in (200, 201, 404, 405, 413, 415, 422, 501), response.text
            if response.status_code >= 400 and method != "HEAD":
                problem: dict[str, Any] = problem_of(response, response.status_code)
                assert len(str(problem)) < 100_000

    visit(House(), scene)
