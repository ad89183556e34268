"""The REST door from outside: finding a gateway, asking it, and what its answers mean to a person at a terminal."""

from __future__ import annotations

import http.client
import ipaddress
import json
import os
import shlex
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import typer

from tocsin.cli.exits import CONFLICT, NOT_FOUND, PENDING, REFUSED, UNREACHABLE, Failure
from tocsin.cli.shown import plain

DEFAULT_URL: Final = "http://127.0.0.1:8080"
DEV_DIR_VARIABLE: Final = "TOCSIN_DEV_DIR"
DEV_DIR: Final = ".tocsin"
WAIT_S: Final = 30.0
"""How long one answer may take; a gateway itself gives up sooner."""
ANSWER_BYTES_MAX: Final = 64_000_000
LARGE_BYTES: Final = 500_000

_EXITS: Final = {404: NOT_FOUND, 409: CONFLICT, 412: CONFLICT, 503: UNREACHABLE}
NO_GATEWAY_REMEDY: Final = "name the gateway with --gateway or TOCSIN_URL"
_WHOLE: Final = (404, 409, 412, 501)
"""Problems whose detail says all that their one fault says."""
_ANOTHER_TENANT: Final = "--tenant asks for those of another tenant"
_NOT_KNOWN_REMEDIES: Final = {
    "job_id": f"`tocsin jobs list` shows the jobs that there are; {_ANOTHER_TENANT}",
    "execution_id": f"`tocsin runs list JOB` shows the executions of a job; {_ANOTHER_TENANT}",
    "dead_letter_id": f"`tocsin dlq list` shows the dead letters of the last 90 days; {_ANOTHER_TENANT}",
}
"""By the field that names what is asked for."""
_NAMED_BY: Final = {"jobs": "job_id", "runs": "execution_id", "dead-letters": "dead_letter_id"}
"""The same by the path: an id that no path can hold is not looked for."""
_REMEDIES: Final = {
    503: "nothing was done; try again, and see what the gateway's /readyz says is missing",
}


@dataclass(frozen=True, slots=True)
class Place:
    """A gateway's URL, and who said so."""

    url: str
    source: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a gateway answered: never a problem, and never an undecided command."""

    status: int
    body: dict[str, Any]


def find_gateway(given: str | None) -> Place:
    """Return the gateway that is meant: the given one, else the running development system's, else the usual one.

    Raises:
        typer.BadParameter: the given one is no URL.
    """
    if given is not None:
        if not _is_gateway_url(given):
            shown = f"{plain(given.rpartition('@')[2])!r}" if "@" not in given else "a text with an @ in it"
            raise typer.BadParameter(
                f"{shown} is not a gateway's URL; give one such as {DEFAULT_URL}", param_hint="--gateway (TOCSIN_URL)"
            )
        return Place(given.rstrip("/"), "as given")
    ready_file = Path(os.environ.get(DEV_DIR_VARIABLE, DEV_DIR)) / "run" / "gateway.json"
    try:
        facts = json.loads(ready_file.read_text("utf-8"))
        os.kill(int(facts["pid"]), 0)
        return Place(str(facts["gateway_url"]), f"of the development system, from {ready_file}")
    except (OSError, ValueError, KeyError, TypeError):
        return Place(DEFAULT_URL, "the default")


def _is_gateway_url(given: str) -> bool:
    """Tell whether a text is an absolute URL of a host and perhaps a path: no credentials, no query, no odd letters."""
    try:
        parts = urlsplit(given)
        host, _ = parts.hostname, parts.port
        given.encode("ascii")
        if host and "[" in parts.netloc:
            ipaddress.IPv6Address(host)
            if not parts.netloc.startswith("[") or parts.netloc.rpartition("]")[2][:1] not in ("", ":"):
                return False
    except ValueError:
        return False
    odd = not given.isprintable() or " " in given or "@" in parts.netloc
    return parts.scheme in ("http", "https") and bool(host) and not (odd or parts.query or parts.fragment)


class _Body(dict[str, Any]):
    """An object of an answer; that it lacks what a gateway's answers have means that it is none."""

    def __missing__(self, name: str) -> Any:
        problem = f"what answers is no tocsin gateway, or one of another version: its answer has no {name!r}"
        raise Failure(UNREACHABLE, problem, NO_GATEWAY_REMEDY)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows nothing: a gateway redirects nobody, and who does may lead a job with its secrets anywhere."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Door:
    """Asks one gateway on behalf of one tenant."""

    def __init__(self, place: Place, tenant: str | None = None, wait_s: float = WAIT_S) -> None:
        self._place = place
        self._tenant = tenant
        self._wait_s = wait_s
        # A proxy cannot mean the same loopback as we do.
        handlers = [urllib.request.ProxyHandler({})] if _is_loopback(urlsplit(place.url).hostname or "") else []
        self._opener = urllib.request.build_opener(_NoRedirects(), *handlers)

    def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
        if_version: int | None = None,
    ) -> Answer:
        """Send a request and return its answer.

        Raises:
            Failure: the gateway is not there, refuses, or has not decided.
        """
        url = self._place.url + path + (f"?{urlencode(query, errors='replace')}" if query else "")
        headers = {"Accept": "application/json"}
        data = None
        if body is not None:
            data = _written(body)
            headers["Content-Type"] = "application/json"
        if self._tenant is not None:
            headers["Tocsin-Tenant"] = self._tenant
        if if_version is not None:
            headers["If-Match"] = f'"{if_version}"'
        status, content = self._exchange(urllib.request.Request(url, data, headers, method=method))
        if 300 <= status < 400:
            raise self._stranger(f"HTTP {status}, a redirect, which is not followed")
        answer = self._parsed(status, content)
        if status == 202:
            raise _pending(self._place, self._tenant, answer)
        if status >= 400:
            raise _refused(status, answer, path)
        return Answer(status, answer)

    def _exchange(self, request: urllib.request.Request) -> tuple[int, bytes]:
        try:
            with self._opener.open(request, timeout=self._wait_s) as response:
                return response.status, response.read(ANSWER_BYTES_MAX)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read(ANSWER_BYTES_MAX)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._lost(request, getattr(error, "reason", None) or error) from error

    def _lost(self, request: urllib.request.Request, reason: object) -> Failure:
        """Return the failure that it is to get no answer."""
        size = len(request.data) if isinstance(request.data, bytes) else 0
        if isinstance(reason, BrokenPipeError | ConnectionResetError) and size > LARGE_BYTES:
            # A gateway refuses what is too large before it has read it all, and that answer can be lost.
            return Failure(REFUSED, f"the gateway broke off; perhaps {size} bytes are too much", "send a smaller job")
        remedy = "start one with `tocsin dev`, or name another with --gateway or TOCSIN_URL"
        if request.get_method() != "GET" and isinstance(reason, TimeoutError):
            remedy = "it may have taken the request: look before you repeat it; --id makes creating again safe"
        where = f"{self._place.url} ({self._place.source})"
        return Failure(UNREACHABLE, f"no gateway answers at {where}: {plain(str(reason))}", remedy)

    def _parsed(self, status: int, content: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(content, object_hook=_Body)
        except (ValueError, RecursionError):
            answer = None
        if isinstance(answer, dict):
            return answer
        raise self._stranger(f"HTTP {status}, no JSON")

    def _stranger(self, why: str) -> Failure:
        where = f"{self._place.url} ({self._place.source})"
        return Failure(UNREACHABLE, f"what answers at {where} is no tocsin gateway: {why}", NO_GATEWAY_REMEDY)


def _written(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise Failure(REFUSED, f"the job cannot be written as JSON: {error}", "nest it less deep") from error


def path_of(*segments: str) -> str:
    """Return a path below ``/v1``; a verb goes in with its colon, as a part of the last segment."""
    return "/v1/" + "/".join(quote(segment, safe=":@~", errors="replace") for segment in segments)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _pending(place: Place, tenant: str | None, answer: Mapping[str, Any]) -> Failure:
    detail = plain(str(answer.get("detail", "the command is not decided yet")))
    as_tenant = "" if tenant is None else f"-H {shlex.quote(f'Tocsin-Tenant: {plain(tenant)}')} "
    return Failure(
        PENDING,
        f"{detail} (job {plain(str(answer.get('job_id')))})",
        f"ask for its outcome: curl {as_tenant}{place.url}{plain(str(answer.get('status_url', '/v1/commands')))}",
    )


def _refused(status: int, problem: Mapping[str, Any], path: str) -> Failure:
    """Return the failure that a problem document is: each fault with what would be right."""
    code = _EXITS.get(status, REFUSED)
    detail = plain(str(problem.get("detail") or f"HTTP {status}"))
    given = problem.get("faults") if status not in _WHOLE else None
    faults = [fault for fault in given if isinstance(fault, dict)] if isinstance(given, list) else []
    lines = [_fault_line(fault) for fault in faults]
    if len(faults) == 1:
        return Failure(code, lines[0], plain(str(faults[0].get("remedy", ""))))
    more = [f"{line}; {plain(str(fault.get('remedy', '')))}" for line, fault in zip(lines, faults, strict=True)]
    remedy = _not_known_remedy(problem, path) if status == 404 else _REMEDIES.get(status, "")
    return Failure(code, f"{len(faults)} faults" if faults else detail, remedy, more)


def _not_known_remedy(problem: Mapping[str, Any], path: str) -> str:
    """Return where to look for the kind of thing that is not known."""
    faults = problem.get("faults")
    fault = faults[0] if isinstance(faults, list) and faults and isinstance(faults[0], dict) else {}
    kind = path.removeprefix("/v1/").partition("/")[0]
    found = _NOT_KNOWN_REMEDIES.get(str(fault.get("field"))) or _NOT_KNOWN_REMEDIES.get(_NAMED_BY.get(kind, ""))
    return found or plain(str(fault.get("remedy") or ""))


def _fault_line(fault: Mapping[str, Any]) -> str:
    name = fault.get("field")
    where = f"{name}: " if name else ""
    return plain(f"{where}{fault.get('problem')} (got {fault.get('value')})")
