"""Reading requests: tenant, ids, query and body. All that comes from outside is bounded before it is looked at."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping
from typing import Any, Final

import orjson
from fastapi import Request
from starlette.requests import ClientDisconnect

from tocsin.domain import ids
from tocsin.domain.definitions import parse_tenant
from tocsin.domain.errors import Fault, InvalidInput, NotFound, Undecodable
from tocsin.domain.fields import FieldReader, shown, with_whole_integers
from tocsin.domain.instants import EARLIEST, LATEST
from tocsin.roles.gateway.parts import GatewayLimits
from tocsin.roles.gateway.problems import Refusal, not_supported_yet

TENANT_HEADER: Final = "Tocsin-Tenant"
PAGE_TOKEN_CHARS_MAX: Final = 512
LIMIT_MAX: Final = 500
LIMIT_DEFAULT: Final = 50
VERSION_MAX: Final = 2**63 - 1
JOB_ID_REMEDY: Final = (
    "give 1 to 64 letters, digits, hyphens and underscores (but not job_ or key_ before 32 hexadecimal digits: such "
    "ids tocsin makes), or leave it out"
)
REFUSED_CONDITIONS: Final = ("If-None-Match", "If-Unmodified-Since")
_ENTITY_TAG: Final = re.compile(r'(?:W/)?("[\x21\x23-\x7e]*")')
_VERSION_TAG: Final = re.compile(r'"([0-9]{1,19})"')
_CLOSE: Final = {"Connection": "close"}
DRAINED_BYTES_MAX: Final = 16_000_000
"""So much of a body that is too large is still read, and thrown away, before the refusal."""


def tenant_of(request: Request) -> str:
    """Return the tenant that a request speaks for."""
    given = request.headers.getlist(TENANT_HEADER)
    try:
        if len(given) > 1:
            raise InvalidInput([Fault("", shown(given), "is given more than once", "give one tenant")])
        return parse_tenant(given[0] if given else None)
    except InvalidInput as error:
        faults = [Fault(TENANT_HEADER, f.value, f.problem, f.remedy) for f in error.faults]
        raise InvalidInput(faults) from None


def job_id_of(tenant_id: str, text: str) -> str:
    """Return a job's whole id from a path, where its tenant may leave its own name out.

    What cannot be an id of the tenant's is not found, and no store is asked.
    """
    job_id = ids.full_job_id(tenant_id, text)
    if job_id is None:
        raise NotFound("job", text)
    return job_id


def execution_of(tenant_id: str, text: str) -> ids.ExecutionName:
    """Return an execution's id from a path, read; what cannot be one of the tenant's is not found."""
    try:
        name = ids.parse_execution_id(text)
    except Undecodable:
        raise NotFound("run", text) from None
    possible = name.created_version <= VERSION_MAX and EARLIEST <= name.scheduled_for <= LATEST
    scheduled = ids.execution_id(*name)
    by_hand = text.startswith(f"{name.job_id}.{name.created_version}.t{name.scheduled_for}.")
    if not possible or ids.full_job_id(tenant_id, name.job_id) != name.job_id or not (text == scheduled or by_hand):
        raise NotFound("run", text)
    return name


def given_job_id(tenant_id: str, given: object) -> str:
    """Return the whole id of a job whose client named it.

    Raises:
        InvalidInput: it is no id, another tenant's, or of the kind that tocsin makes.
    """
    job_id = ids.full_job_id(tenant_id, given) if isinstance(given, str) else None
    if job_id is None or "@" not in job_id:
        raise InvalidInput([Fault("job_id", shown(given), "is not an id that a client may give", JOB_ID_REMEDY)])
    return job_id


def query_of(request: Request, known: Collection[str] = ()) -> dict[str, str]:
    """Return the query; a parameter that is unknown or given twice is a fault."""
    faults = []
    query: dict[str, str] = {}
    for name, value in request.query_params.multi_items()[: LIMIT_MAX + 1]:
        if name not in known:
            remedy = f"known here: {', '.join(sorted(known))}" if known else "leave it out"
            faults.append(Fault(_printable(name), shown(value), "is an unknown parameter", remedy))
        elif name in query:
            faults.append(Fault(name, shown(value), "is given more than once", "give it once"))
        query[name] = value
    if faults:
        raise InvalidInput(faults)
    return query


def limit_of(query: dict[str, str]) -> int:
    """Return how many items a list is to have."""
    text = query.get("limit", str(LIMIT_DEFAULT))
    if text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= LIMIT_MAX:
        return int(text)
    remedy = f"give a whole number from 1 to {LIMIT_MAX}"
    raise InvalidInput([Fault("limit", shown(text), "is not a number of items", remedy)])


def page_token_of(query: dict[str, str]) -> str | None:
    """Return the place at which a list goes on."""
    token = query.get("page_token")
    if token is not None and not 1 <= len(token) <= PAGE_TOKEN_CHARS_MAX:
        remedy = "give the next_page_token of the page before"
        raise InvalidInput([Fault("page_token", shown(token), "is not a page token", remedy)])
    return token


def flag_of(query: dict[str, str], name: str) -> bool:
    """Return a parameter that is true or false; absent, false."""
    text = query.get(name, "false")
    if text not in ("true", "false"):
        raise InvalidInput([Fault(name, shown(text), "is neither true nor false", "give true or false")])
    return text == "true"


def refuse_conditions(request: Request) -> None:
    """Refuse conditions that are not kept: ignoring one would do what the caller did not want."""
    for name in REFUSED_CONDITIONS if request.method != "GET" else ("If-Match", "If-Unmodified-Since"):
        if name in request.headers:
            raise not_supported_yet(f"the header {name}", name, shown(request.headers[name]), "leave it out")


def refuse_if_match(request: Request) -> None:
    """Refuse the version of a job that is yet to be made."""
    if "If-Match" in request.headers:
        remedy = "leave it out; a job_id or an idempotency_key keeps a create from making a second job"
        given = shown(request.headers["If-Match"])
        raise InvalidInput([Fault("If-Match", given, "names the version of a job that is not there yet", remedy)])


def has_it_already(request: Request, etag: str) -> bool:
    """Tell whether If-None-Match says that the caller holds what has this tag (RFC 9110, 13.1.2: compared weakly)."""
    given = ", ".join(request.headers.getlist("If-None-Match"))
    return given.strip() == "*" or etag in _ENTITY_TAG.findall(given)


def if_version_of(request: Request) -> int | None:
    """Return the version that a job must have for a change to take effect; None: whatever it has."""
    refuse_conditions(request)
    given = request.headers.getlist("If-Match")
    if not given or given == ["*"]:
        return None
    match = _VERSION_TAG.fullmatch(given[0].strip()) if len(given) == 1 else None
    if match is None or int(match[1]) > VERSION_MAX:
        remedy = 'give the ETag that came with the job, in its quotes, such as "1099511627777"'
        raise InvalidInput([Fault("If-Match", shown(", ".join(given)), "is not the ETag of a job", remedy)])
    return int(match[1])


async def verb_body(request: Request, limits: GatewayLimits) -> Any:
    """Read the body of a verb, which may be left out.

    A page in a browser may send other sites a POST without a body, unasked; it cannot help to say where it comes from.
    """
    sized = request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers
    if not sized and "origin" not in request.headers:
        return {}
    return await json_body(request, limits)


def verb_fields(body: Any, known: Collection[str], later: Mapping[str, str]) -> FieldReader:
    """Return the fields of a verb's body.

    Raises:
        InvalidInput: it is no object, or holds others than ``known``.
    """
    if not isinstance(body, Mapping):
        remedy = "send a JSON object, or no body"
        raise InvalidInput([Fault("", shown(body), "is not an object", remedy)])
    reader = FieldReader(body, "", [])
    reader.finish(known, later)
    return reader


async def refuse_fields(request: Request, limits: GatewayLimits) -> None:
    """Read the body of a verb that takes no fields.

    Raises:
        InvalidInput: it is no object, or holds any.
    """
    reader = verb_fields(await verb_body(request, limits), (), {})
    if reader.faults:
        raise InvalidInput(reader.faults)


async def json_body(request: Request, limits: GatewayLimits) -> Any:
    """Read a JSON body.

    orjson reads RFC 8259 strictly: no NaN, no infinity, no byte order mark, well-formed UTF-8 and no lone surrogate,
    at most 1,024 levels. Of a name given twice the last value counts. Integers beyond 64 bits stay what they are:
    validation refuses them.
    """
    kind, _, parameters = request.headers.get("content-type", "").partition(";")
    if kind.strip().lower() != "application/json" or "content-encoding" in request.headers:
        given = shown(request.headers.get("content-encoding") or request.headers.get("content-type", "nothing"))
        header = "Content-Encoding" if "content-encoding" in request.headers else "Content-Type"
        fault = Fault(header, given, "is not how a body is taken", "send it as application/json, not compressed")
        raise Refusal(415, f"the body is said to be {given}; send it as application/json, not compressed", [fault])
    charset = parameters.strip().lower().replace('"', "")
    if charset and charset != "charset=utf-8":
        given = shown(parameters.strip())
        fault = Fault("Content-Type", given, "is not how a body is taken", "send it as UTF-8")
        raise Refusal(415, f"the body is said to have {given}; send it as UTF-8", [fault])
    body = await _bounded_body(request, limits)
    try:
        return with_whole_integers(body, orjson.loads(body))
    except orjson.JSONDecodeError as error:
        around = body[max(0, error.pos - 20) : error.pos + 20].decode("utf-8", "replace")
        fault = Fault("", shown(around), f"is not JSON: {error}", "send one JSON object, as UTF-8")
        raise InvalidInput([fault]) from None


async def _bounded_body(request: Request, limits: GatewayLimits) -> bytes:
    # The connection is closed: what still comes on it would be the rest of this body.
    too_large = Refusal(413, f"the body may have at most {limits.body_bytes_max} bytes", headers=_CLOSE)
    announced = request.headers.get("content-length", "0")
    too_much = len(announced) > 18 or not announced.isdigit() or int(announced) > limits.body_bytes_max
    if too_much and request.headers.get("expect", "").lower() == "100-continue":
        raise too_large  # its sender asked first, and sends nothing before it has heard
    body, received = bytearray(), 0
    try:
        async with asyncio.timeout(limits.body_wait_s):
            async for chunk in request.stream():
                received += len(chunk)
                too_much = too_much or received > limits.body_bytes_max
                if received > DRAINED_BYTES_MAX:
                    break
                if not too_much:
                    body += chunk
    except TimeoutError:
        if not too_much:
            raise Refusal(408, f"the body did not arrive within {limits.body_wait_s:g} s", headers=_CLOSE) from None
    except ClientDisconnect:
        if not too_much:
            raise Refusal(408, "the body did not arrive whole") from None
    if too_much:
        # Only now: most clients read no answer before they have sent everything, and would see a broken connection.
        raise too_large
    return bytes(body)


def _printable(name: str) -> str:
    return name[:64] if name.isprintable() else shown(name[:64])
