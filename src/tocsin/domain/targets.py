"""What a job calls when it fires: values and their validation. Calling them is the adapters' business."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, Final
from urllib.parse import urlsplit

from tocsin.domain.fields import HIDDEN, JSON_DEPTH_MAX, FieldReader, as_json, has_surrogate
from tocsin.domain.placeholders import PLACEHOLDERS, PLACEHOLDERS_MAX, placeholder_problem
from tocsin.domain.pools import lane_of_pool, parse_pool
from tocsin.domain.programs import CommandTarget, ContainerTarget, parse_command, parse_container
from tocsin.domain.time_limits import TIMEOUT_S_DEFAULT as TIMEOUT_S_DEFAULT
from tocsin.domain.time_limits import TIMEOUT_S_MAX as TIMEOUT_S_MAX
from tocsin.domain.time_limits import parse_timeout

URL_CHARS_MAX: Final = 2048
URLS_KEPT: Final = 1_024
"""Of how many URLs is kept what was found out about them."""
HEADERS_MAX: Final = 64
HEADER_CHARS_MAX: Final = 8192
HEADERS_BYTES_MAX: Final = 64 * 1024
"""All names and values together. With the other bounds it keeps every record of a job far below what a log takes."""
BODY_BYTES_MAX: Final = 256 * 1024
METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")

_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
MESSAGE_KEY_CHARS_MAX: Final = 1024
KIND_REMEDY: Final = 'give "http", "message", "command", "container" or "handler"'
HANDLER_NAME: Final = re.compile(r"[A-Za-z0-9._:/-]{1,128}")
HANDLER_NAME_REMEDY: Final = "give the name of a handler: 1 to 128 letters, digits and any of . _ : / -"
DEFAULT_LANE: Final = "default"
MESSAGE_LANE: Final = "message"
_URL: Final = re.compile(r"[\x21-\x7e]+")
_HOST: Final = re.compile(
    r"(?:[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)*[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.?"
)
_BRACKETED: Final = re.compile(r"\[[0-9A-Fa-f:.]+\](?::[0-9]*)?")
HOST_CHARS_MAX: Final = 253
_OWN_HEADERS: Final = ("idempotency-key", "host", "content-length", "transfer-encoding", "connection", "traceparent")
_OWN_PREFIXES: Final = ("tocsin-", "webhook-")


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """One HTTP request.

    Attributes:
        url: absolute, ``http`` or ``https``.
        method: upper case.
        headers: the caller's own headers; tocsin adds its own and never lets them be overridden.
        body: sent as UTF-8, or None.
        timeout_s: limit of one attempt, from connecting to the last byte of the answer.
        template: the body holds placeholders, see ``domain.placeholders``; else it is sent byte for byte.
        callback: an answer of 202 is no end: the target calls back, within ``timeout_s`` from then on.
    """

    url: str
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    timeout_s: float = TIMEOUT_S_DEFAULT
    template: bool = False
    callback: bool = False

    type: ClassVar[str] = "http"


@dataclass(frozen=True, slots=True)
class MessageTarget:
    """One record on a Kafka topic, delivered exactly once for readers that read committed.

    Attributes:
        topic: must exist, and must not be one of tocsin's own.
        key: None for a record without one.
        headers: the caller's own; tocsin adds its own.
        value: sent as UTF-8; None is a tombstone, and then needs a key.
    """

    topic: str
    key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    value: str | None = None

    type: ClassVar[str] = "message"


@dataclass(frozen=True, slots=True)
class HandlerTarget:
    """A Python function that a service's own worker process registered under a name.

    Attributes:
        name: of the handler.
        pool: whose workers run it.
        payload: what it is called with, as JSON text; None for null.
        timeout_s: limit of one attempt.
    """

    name: str
    pool: str
    payload: str | None = None
    timeout_s: float = TIMEOUT_S_DEFAULT

    type: ClassVar[str] = "handler"


Target = HttpTarget | MessageTarget | HandlerTarget | CommandTarget | ContainerTarget


def pool_of(target: Target) -> str | None:
    """Return the pool that a target names; None: it needs none."""
    return None if isinstance(target, HttpTarget | MessageTarget) else target.pool


def lane_of(target: Target) -> str:
    """Return the lane in which executions with this target travel."""
    pool = pool_of(target)
    if pool is not None:
        return lane_of_pool(pool)
    return MESSAGE_LANE if isinstance(target, MessageTarget) else DEFAULT_LANE


def parse_target(job: FieldReader) -> Target | None:
    """Read a job's target; None where faults were recorded."""
    reader = job.child("target", required=True, remedy='give an object such as {"type": "http", "url": "https://…"}')
    if reader is None:
        return None
    kind = reader.text("type", chars_max=32, required=True, remedy=KIND_REMEDY)
    if kind == HttpTarget.type:
        return _parse_http(reader)
    if kind == MessageTarget.type:
        return _parse_message(reader)
    if kind == HandlerTarget.type:
        return _parse_handler(reader)
    if kind == CommandTarget.type:
        return parse_command(reader)
    if kind == ContainerTarget.type:
        return parse_container(reader)
    if kind is not None:
        reader.fault("type", kind, "is not a kind of target", KIND_REMEDY)
    return None


def _parse_http(reader: FieldReader) -> HttpTarget | None:
    before = len(reader.faults)
    url = _parse_url(reader)
    method = reader.text("method", chars_max=16) or "POST"
    if method.upper() not in METHODS:
        reader.fault("method", method, "is not a method that tocsin sends", f"give one of {', '.join(METHODS)}")
    headers = _parse_headers(reader)
    body = _parse_content(reader, "body", headers)
    timeout_s = parse_timeout(reader)
    template = reader.flag("template") is True
    if template:
        _check_template(reader, body)
    callback = reader.flag("callback") is True
    reader.finish(("type", "url", "method", "headers", "body", "timeout_s", "template", "callback"), {})
    if len(reader.faults) > before or url is None:
        return None
    return HttpTarget(url, method.upper(), headers, body, timeout_s, template, callback)


def _check_template(reader: FieldReader, body: str | None) -> None:
    """Record what would not be replaced: a name that is not known would reach the target as it stands."""
    problem = None if body is None else placeholder_problem(body)
    if body is None and reader.get("body") is None:
        reader.fault("template", True, "has no body to fill", "give a body, or leave template out")
    elif problem is not None:
        known = ", ".join("{{" + name + "}}" for name in PLACEHOLDERS)
        remedy = f"give at most {PLACEHOLDERS_MAX} of {known}; without template a body is sent as it is"
        reader.fault("body", problem[0], problem[1], remedy)


def _parse_message(reader: FieldReader) -> MessageTarget | None:
    before = len(reader.faults)
    remedy = "give the name of a topic: letters, digits, dots, hyphens and underscores, at most 249"
    topic = reader.text("topic", chars_max=249, required=True, remedy=remedy)
    if topic is not None and (_TOPIC.fullmatch(topic) is None or topic in (".", "..")):
        reader.fault("topic", topic, "is not a topic's name", remedy)
    elif topic is not None and topic.startswith("__"):
        reader.fault("topic", topic, "belongs to Kafka itself", "name a topic of your own")
    key = reader.text("key", chars_max=MESSAGE_KEY_CHARS_MAX)
    headers = _parse_headers(reader)
    value = _parse_content(reader, "value", {"content-type": "whatever it is"})
    if value is None and key is None and len(reader.faults) == before:
        reader.fault("value", None, "is missing", "give a text, an object or a list; a tombstone needs a key")
    reader.finish(("type", "topic", "key", "headers", "value"), {})
    if len(reader.faults) > before or topic is None:
        return None
    return MessageTarget(topic, key, headers, value)


def _parse_handler(reader: FieldReader) -> HandlerTarget | None:
    before = len(reader.faults)
    name = reader.text("name", chars_max=128, required=True, remedy=HANDLER_NAME_REMEDY)
    if name is not None and HANDLER_NAME.fullmatch(name) is None:
        reader.fault("name", name, "is not a handler's name", HANDLER_NAME_REMEDY)
    pool = parse_pool(reader)
    payload = _parse_payload(reader)
    timeout_s = parse_timeout(reader)
    reader.finish(("type", "name", "pool", "payload", "timeout_s"), {})
    if len(reader.faults) > before or name is None or pool is None:
        return None
    return HandlerTarget(name, pool, payload, timeout_s)


def _parse_payload(reader: FieldReader) -> str | None:
    """Read any JSON, to be kept as text; a text is a JSON value like the others."""
    given = reader.get("payload")
    if given is None:
        return None
    text = as_json(given)
    if text is None or has_surrogate(text):
        remedy = f"nest at most {JSON_DEPTH_MAX} levels deep, with integers of at most 64 bits, in well-formed Unicode"
        reader.fault("payload", HIDDEN, "is not JSON that every reader takes", remedy)
    elif len(text.encode()) > BODY_BYTES_MAX:
        reader.fault("payload", f"{len(text)} characters", "is too large", f"give at most {BODY_BYTES_MAX} bytes")
    else:
        return text
    return None


def _parse_url(reader: FieldReader) -> str | None:
    remedy = "give an absolute http or https URL such as https://settle.internal/run"
    url = reader.text("url", chars_max=URL_CHARS_MAX, required=True, remedy=remedy)
    if url is None:
        return None
    wrong = _wrong_with_url(url)
    if wrong is None:
        return url
    shown_url, problem, other_remedy = wrong
    reader.fault("url", shown_url, problem, other_remedy or remedy)
    return None


@lru_cache(URLS_KEPT)
def _wrong_with_url(url: str) -> tuple[str, str, str | None] | None:
    """Return how a URL may be shown, what is wrong with it and a remedy of its own; None where nothing is.

    Jobs share their URLs, by and large.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        return _hidden(url), f"is not a URL ({error})", None
    if parts.username is not None or parts.password is not None:
        return HIDDEN, "holds a user name or password", "send credentials in a header instead"
    if _URL.fullmatch(url) is None or "\\" in url:
        problem = "holds a space, a backslash or a character that is not ASCII"
        return _hidden(url), problem, "percent-encode it; write a host name in its xn-- form"
    if parts.scheme not in ("http", "https") or not host:
        return _hidden(url), "is not an absolute http or https URL", None
    if not _is_host(host, parts.netloc):
        return url, "has a host that can be no name and no address", None
    if port == 0:
        return url, "names port 0", None
    return None


def _is_host(host: str, netloc: str) -> bool:
    """Tell whether the host of a URL can be a name or an address; one of version 6 stands in brackets, and alone."""
    if "[" not in netloc and "]" not in netloc:
        return _HOST.fullmatch(host) is not None and len(host) <= HOST_CHARS_MAX
    if _BRACKETED.fullmatch(netloc) is None:
        return False
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True


def _hidden(url: str) -> str:
    """Return a URL that is wrong as it may be shown: what stands before an @ may be a password."""
    return HIDDEN if "@" in url else url


def _parse_headers(reader: FieldReader) -> dict[str, str]:
    inner = reader.child("headers", remedy="give an object of header names and texts")
    if inner is None:
        return {}
    given = reader.get("headers")
    if len(given) > HEADERS_MAX:
        reader.fault("headers", f"{len(given)} headers", "are too many", f"give at most {HEADERS_MAX}")
        return {}
    headers: dict[str, str] = {}
    bytes_left = HEADERS_BYTES_MAX
    for name, value in given.items():
        if not isinstance(name, str) or _HEADER_NAME.fullmatch(name) is None:
            # Of "Authorization: Bearer …" as a name, all behind the colon is hidden.
            began = re.split(r"[:\s]", name, maxsplit=1)[0] if isinstance(name, str) else name
            reader.fault("headers", began, "is not a header name", "use letters, digits and hyphens")
        elif (plain := name.lower().replace("_", "-")) in _OWN_HEADERS or plain.startswith(_OWN_PREFIXES):
            # Gateways of the CGI kind, such as WSGI servers, take an underscore for a hyphen.
            inner.fault(name, HIDDEN, "is set by tocsin itself", "leave the header out")
        elif not isinstance(value, str) or len(value) > HEADER_CHARS_MAX:
            inner.fault(name, HIDDEN, "is not a text", f"give a text of at most {HEADER_CHARS_MAX} characters")
        elif _HEADER_VALUE.fullmatch(value) is None or value != value.strip():
            inner.fault(
                name, HIDDEN, "is not a header value", "leave out line breaks, control characters and outer spaces"
            )
        elif name.lower() in (known.lower() for known in headers):
            inner.fault(name, HIDDEN, "is given twice", "give each header once")
        elif (bytes_left := bytes_left - len(name) - len(value.encode())) < 0:
            inner.fault(name, HIDDEN, "is too much", f"give at most {HEADERS_BYTES_MAX} bytes of headers in all")
        else:
            headers[name] = value
    return headers


def _parse_content(reader: FieldReader, name: str, headers: dict[str, str]) -> str | None:
    """Read what is sent: a text as it is; an object or a list as JSON, which the headers then say."""
    content = reader.get(name)
    if content is None:
        return None
    if isinstance(content, Mapping | list):
        text = as_json(content)
        if text is None:
            remedy = f"nest at most {JSON_DEPTH_MAX} levels deep, with integers of at most 64 bits"
            reader.fault(name, content, "is not JSON that every reader takes", remedy)
            return None
        content = text
        if not any(header.lower() == "content-type" for header in headers):
            headers["Content-Type"] = "application/json"
    if not isinstance(content, str):
        reader.fault(name, content, "is neither a text nor a JSON object or list", "give a text, an object or a list")
    elif has_surrogate(content):
        reader.fault(name, "(text)", "holds half of a surrogate pair", "send well-formed Unicode")
    elif len(content.encode()) > BODY_BYTES_MAX:
        reader.fault(name, f"{len(content)} characters", "is too large", f"give at most {BODY_BYTES_MAX} bytes")
    else:
        return content
    return None
