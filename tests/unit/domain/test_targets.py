"""HTTP targets: what could not be called, or would be dangerous to call, is refused when the job is created."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.adapters.avro.codec import AvroCodec
from tocsin.domain.commands import Command, CommandKind
from tocsin.domain.definitions import parse, to_mapping
from tocsin.domain.errors import Fault, InvalidInput
from tocsin.domain.executions import AttemptHead
from tocsin.domain.placeholders import PLACEHOLDERS_MAX
from tocsin.domain.targets import (
    BODY_BYTES_MAX,
    HEADER_CHARS_MAX,
    HEADERS_BYTES_MAX,
    HEADERS_MAX,
    METHODS,
    HttpTarget,
)

URL = "https://settle.internal/run"


def target(**fields: Any) -> HttpTarget:
    return parse({"delay_s": 1, "target": {"type": "http", "url": URL, **fields}}).target


def faults(**fields: Any) -> list[Fault]:
    with pytest.raises(InvalidInput) as caught:
        target(**fields)
    return list(caught.value.faults)


def test_a_target_has_sensible_defaults() -> None:
    assert target() == HttpTarget(URL, "POST", {}, None, 30.0)


@pytest.mark.parametrize(
    "url",
    [
        "http://a",
        "HTTPS://Example.COM/Path?q=%20#part",
        "http://localhost:8080/",
        "http://10.0.0.1/x",
        "http://[::1]:8080/x",
        "http://my_service.ns.svc.cluster.local./x",
        "http://xn--bcher-kva.example/",
        "http://a.example:65535",
        "http://a.example?x=y",
    ],
)
def test_urls_that_are_taken(url: str) -> None:
    assert target(url=url).url == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "a",
        "/relative",
        "//host/x",
        "ftp://a/x",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "http:",
        "http://",
        "http:///x",
        "http://:80/",
        "http://a:0/",
        "http://a:65536/",
        "http://a:b/",
        "http://a:٣/",
        "http://[::1/",
        "http://[zz]/",
        "http://a b/",
        "http://a/b c",
        "http://bücher.example/",
        "http://a\\b/",
        "http://a/\r\nHost: b",
        "http://a/\x00",
        "http://a/\ud800",
        "http://%00/",
        "http://a..b/",
        "http://-a/",
        "http://a-/",
        "http://a,b/",
        "http://a;b/",
        "http://$(x)/",
        "http://" + "a" * 64 + "/",
        "http://" + "a." * 127 + "aaa/",
        "http://a/" + "x" * 2048,
        " http://a/",
        "http://a/ ",
        5,
        None,
        ["http://a/"],
    ],
)
def test_urls_that_are_refused(url: Any) -> None:
    found = faults(url=url)
    assert [fault.field for fault in found] == ["target.url"]
    assert found[0].remedy


@pytest.mark.parametrize(
    "url",
    ["http://user:hunter2@a/", "http://hunter2@a/", "http://@a/", "http://u:hunter2@a b/", "http://u:hunter2@[x/"],
)
def test_credentials_in_a_url_are_refused_and_not_repeated(url: str) -> None:
    (fault,) = faults(url=url)
    assert "hunter2" not in str(fault)


@pytest.mark.parametrize("method", [*METHODS, *(method.lower() for method in METHODS)])
def test_methods_that_are_taken(method: str) -> None:
    assert target(method=method).method == method.upper()


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "OPTIONS", "GET\r\n", "GET /", "", "ſ", 5, True, ["GET"]])
def test_methods_that_are_refused(method: Any) -> None:
    assert {fault.field for fault in faults(method=method)} == {"target.method"}


def test_headers_are_kept_as_given() -> None:
    headers = {"X-Team": "büro", "Content-Type": "text/plain", "Empty": ""}
    assert target(headers=headers).headers == headers


@pytest.mark.parametrize(
    "value",
    [
        "a\r\nX: b",
        "a\nb",
        "a\rb",
        "a\x00b",
        "a\x7fb",
        "\x85",
        " a",
        "a ",
        "☃",
        "\ud800",
        "a" * (HEADER_CHARS_MAX + 1),
        5,
        None,
        ["a"],
    ],
)
def test_header_values_that_are_refused(value: Any) -> None:
    assert [fault.field for fault in faults(headers={"X-A": value})] == ["target.headers.X-A"]


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\r\nb", "é", "\x00", "a" * 129, "(x)"])
def test_header_names_that_are_refused(name: str) -> None:
    assert [fault.field for fault in faults(headers={name: "x"})] == ["target.headers"]


@pytest.mark.parametrize(
    "name",
    [
        "Idempotency-Key",
        "idempotency-KEY",
        "Host",
        "Content-Length",
        "Transfer-Encoding",
        "Tocsin-Token",
        "webhook-id",
        "TRACEPARENT",
        "Tocsin_Token",
        "WEBHOOK_SIGNATURE",
        "Transfer_Encoding",
    ],
)
def test_headers_that_tocsin_sets_are_refused(name: str) -> None:
    (fault,) = faults(headers={name: "x"})
    assert "set by tocsin" in fault.problem


def test_a_header_given_in_two_cases_is_refused() -> None:
    (fault,) = faults(headers={"X-A": "1", "x-a": "2"})
    assert fault.problem == "is given twice"


def test_headers_are_bounded_in_number_and_in_bytes() -> None:
    assert len(target(headers={f"h{n}": "x" for n in range(HEADERS_MAX)}).headers) == HEADERS_MAX
    assert [f.problem for f in faults(headers={f"h{n}": "x" for n in range(HEADERS_MAX + 1)})] == ["are too many"]
    eighth = HEADERS_BYTES_MAX // 8 - 2
    assert target(headers={f"h{n}": "x" * eighth for n in range(8)})
    assert [f.problem for f in faults(headers={f"h{n}": "x" * eighth for n in range(9)})] == ["is too much"]


@pytest.mark.parametrize("value", ["x", 5, ["a"], True])
def test_headers_that_are_no_object_are_refused(value: Any) -> None:
    assert [fault.field for fault in faults(headers=value)] == ["target.headers"]


def test_a_text_body_is_sent_as_it_is_and_an_object_as_json() -> None:
    assert target(body="été\x00").body == "été\x00"
    assert target(body="").body == ""
    structured = target(body={"b": [1, "é", None]})
    assert structured.body == '{"b":[1,"é",null]}'
    assert structured.headers == {"Content-Type": "application/json"}
    own = target(body=[], headers={"content-type": "application/cloudevents+json"})
    assert own.body == "[]"
    assert own.headers == {"content-type": "application/cloudevents+json"}


@pytest.mark.parametrize(
    "body",
    [5, True, 1.5, "\ud800", ["\udfff"], [float("nan")], "x" * (BODY_BYTES_MAX + 1), "é" * (BODY_BYTES_MAX // 2 + 1)],
    ids=repr,
)
def test_bodies_that_are_refused(body: Any) -> None:
    assert [fault.field for fault in faults(body=body)] == ["target.body"]


def test_a_body_nested_without_end_is_refused() -> None:
    body: list[Any] = []
    for _ in range(100_000):
        body = [body]
    assert [fault.field for fault in faults(body=body)] == ["target.body"]


@pytest.mark.parametrize("timeout_s", [0, -1, 86_400.1, float("nan"), float("inf"), "5", True])
def test_timeouts_that_are_refused(timeout_s: Any) -> None:
    assert [fault.field for fault in faults(timeout_s=timeout_s)] == ["target.timeout_s"]


def test_timeouts_that_are_taken() -> None:
    assert target(timeout_s=86_400).timeout_s == 86_400.0
    assert target(timeout_s=0.001).timeout_s == 0.001


@pytest.mark.parametrize("kind", ["https", "", "HTTP", 5, None, ["http"]])
def test_kinds_of_target_that_are_refused(kind: Any) -> None:
    assert "target.type" in {fault.field for fault in faults(type=kind)}


@given(st.text(max_size=80))
@settings(deadline=None)
def test_whatever_url_is_given_is_taken_as_it_is_or_refused(url: str) -> None:
    try:
        assert target(url=url).url == url
    except InvalidInput as error:
        assert all(fault.field == "target.url" for fault in error.faults)


def test_a_template_is_kept_with_its_body() -> None:
    body = {"at": "{{scheduled_for}}", "id": "{{ execution_id }}", "nested": {"n": {"m": "{{attempt}}"}}}
    made = target(body=body, template=True)
    assert made.template
    assert made.body is not None
    assert "{{scheduled_for}}" in made.body
    assert not target(body=body).template


@pytest.mark.parametrize(
    "body", ["{{nobody}}", "{{attempt", "{{}}", "{{attempt + 1}}", "{{ATTEMPT}}", "{{ {{attempt}} }}", "{% x %} {{x}}"]
)
def test_a_template_with_a_placeholder_that_nobody_fills_is_refused(body: str) -> None:
    (fault,) = faults(body=body, template=True)
    assert fault.field == "target.body"
    assert "{{scheduled_for}}" in fault.remedy
    assert target(body=body).body == body, "without template it is a body as any other"


def test_the_placeholders_of_a_template_are_bounded() -> None:
    assert target(body="{{attempt}}" * PLACEHOLDERS_MAX, template=True)
    (fault,) = faults(body="{{attempt}}" * (PLACEHOLDERS_MAX + 1), template=True)
    assert fault.problem == "are too many"


def test_a_template_needs_a_body() -> None:
    assert [fault.field for fault in faults(template=True)] == ["target.template"]


@pytest.mark.parametrize("template", ["true", 1, [], {}])
def test_a_template_is_true_or_false(template: Any) -> None:
    assert "target.template" in {fault.field for fault in faults(body="x", template=template)}


def test_a_template_survives_every_encoding() -> None:
    codec = AvroCodec()
    definition = parse({"delay_s": 1, "target": {"type": "http", "url": URL, "body": "{{token}}", "template": True}})
    mapping = to_mapping(definition)
    command = Command(CommandKind.CREATE, "c", "j", "acme", definition=mapping)
    assert codec.decode_command(codec.encode_command(command)).definition == mapping
    assert parse(mapping) == definition
    head = AttemptHead(1, 1, 0, "acme@j.7.5000000", "acme@j", "acme", 7, 5_000_000, 5_000_000)
    assert codec.decode_execution(codec.encode_execution(head, definition.target)).target == definition.target
    plain = to_mapping(parse({"delay_s": 1, "target": {"type": "http", "url": URL}}))
    assert "template" not in plain["target"]
