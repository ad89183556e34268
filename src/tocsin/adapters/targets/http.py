"""HTTP targets: one request an attempt, on an asyncio loop in a thread of its own.

Nothing is done twice or behind the owner's back: no retries, no redirects, no cookies, no proxies of the environment.
"""

from __future__ import annotations

import asyncio
from typing import Final

import aiohttp
from yarl import URL

from tocsin.adapters.targets.addresses import AddressRules
from tocsin.adapters.targets.answers import (
    ANSWER_BYTES_KEPT,
    judge_answer,
    judge_failure,
    readable,
)
from tocsin.adapters.targets.attempt_loop import CANCELLED, AttemptLoop
from tocsin.adapters.targets.daemon_threads import DaemonThreads
from tocsin.adapters.targets.lookups import ASKING, SharedLookups
from tocsin.adapters.targets.requests import request_body, request_headers
from tocsin.adapters.targets.sessions import open_session, tls_context
from tocsin.adapters.targets.signatures import Signer
from tocsin.domain.callback_keys import CallbackKeys
from tocsin.domain.executions import AttemptError, ReportKind
from tocsin.domain.targets import TIMEOUT_S_MAX, HttpTarget
from tocsin.ports.clock import Clock
from tocsin.ports.targets import Attempt, AttemptEnd

KEEP_ALIVE_S: Final = 1.5
"""Idle connections are closed before common servers do it (2 to 5 s): a request into a closing connection fails."""
DNS_THREADS: Final = 32
READ_BYTES: Final = 65_536
OCTETS: Final = "application/octet-stream"
ACCEPTED: Final = 202
"""The status with which a target that calls back says that it will."""
CALLBACKS_OFF: Final = AttemptError(
    "callbacks_off",
    "this worker has no callback secret, so its target could not call back; see TOCSIN_CALLBACK_SECRETS",
)


CONTENT_TYPE_CHARS_MAX: Final = 200
"""Longer ones are not read: that takes seconds where they are made for it, and all other attempts wait meanwhile."""


def _kind_of(response: aiohttp.ClientResponse) -> tuple[str | None, str | None]:
    """Return the media type and the charset that an answer says it has; nothing, where it says nothing."""
    said = response.headers.get("Content-Type")
    if said is None:
        return None, None
    if len(said) > CONTENT_TYPE_CHARS_MAX:
        return OCTETS, None
    return response.content_type, response.charset


class HttpTargetRunner(AttemptLoop):
    """Fulfils ``ports.targets.TargetRunner`` for HTTP targets.

    Args:
        clock: stamps start and end.
        response_bytes_max: what is read of an answer at most; the rest is cut.
        rules: which addresses may be reached.
        signer: signs requests.
        ca_file: certificates, in PEM, that are trusted beside those of the system.
        callbacks: makes the keys of targets that call back.

    Raises:
        OSError: the certificates cannot be read.
    """

    def __init__(
        self,
        clock: Clock,
        response_bytes_max: int,
        rules: AddressRules,
        signer: Signer | None = None,
        ca_file: str | None = None,
        callbacks: CallbackKeys | None = None,
    ) -> None:
        tls = tls_context(ca_file)  # first, since it may fail, and a thread would be left behind
        super().__init__(clock, "http-targets")
        self._response_bytes_max = response_bytes_max
        self._signer = signer or Signer({})
        self._callbacks = callbacks or CallbackKeys()
        self._loop.set_default_executor(DaemonThreads(DNS_THREADS, "dns"))
        self._lookups = SharedLookups(aiohttp.ThreadedResolver(self._loop), DNS_THREADS)
        self._session: aiohttp.ClientSession = self._await(open_session(tls, rules, KEEP_ALIVE_S, self._lookups))

    async def _release(self) -> None:
        await self._session.close()
        await self._lookups.close()

    async def _run(self, attempt: Attempt) -> AttemptEnd:
        """Run one attempt; whatever happens, it has an end."""
        started_at = self._clock.now()
        target = attempt.execution.target
        ASKING.set(attempt.execution.head.tenant_id)
        if not isinstance(target, HttpTarget):
            wrong = AttemptError("invalid_request", f"a target of the type {target.type!r} is not called over HTTP")
            return AttemptEnd(attempt.ref, ReportKind.FAILED, started_at, started_at, wrong)
        error: AttemptError | None
        result: str | None = None
        try:
            if not 0 < target.timeout_s <= TIMEOUT_S_MAX:
                raise ValueError(f"{target.timeout_s!r} is not a timeout")
            with self._limits.of(target.timeout_s) as limit:
                kind, error, result = await self._call(attempt, target)
        except asyncio.CancelledError:
            kind, error = ReportKind.CANCELLED, CANCELLED
        except TimeoutError as exception:
            if limit.expired():
                kind = ReportKind.TIMED_OUT
                error = AttemptError("timeout", f"no whole answer within {target.timeout_s:g} s")
            else:
                kind, error = ReportKind.FAILED, judge_failure(exception)
        except Exception as exception:  # noqa: BLE001 - an attempt without an end would hold its place for ever
            kind, error = ReportKind.FAILED, judge_failure(exception)
        return AttemptEnd(attempt.ref, kind, started_at, self._clock.now(), error, result)

    async def _call(self, attempt: Attempt, target: HttpTarget) -> tuple[ReportKind, AttemptError | None, str | None]:
        body = request_body(attempt, target)
        if target.callback and not self._callbacks:
            return ReportKind.FAILED, CALLBACKS_OFF, None
        now = self._clock.now()
        headers = request_headers(attempt, target, body, self._signer, self._callbacks, now)
        # The URL was checked when the job was made; it is sent as it is, since a signature may cover it.
        url = URL(target.url, encoded=True)
        async with self._session.request(
            target.method, url, headers=headers, data=body, allow_redirects=False
        ) as response:
            kept = await self._read(response)
            said = response.headers
            text = readable(kept, *_kind_of(response), "Content-Encoding" in said)
            judged = judge_answer(
                response.status,
                response.reason,
                said.get("Location"),
                text,
                said.get("Retry-After"),
                self._clock.now(),
            )
        if target.callback and response.status == ACCEPTED:
            return ReportKind.ACCEPTED, None, judged[2]
        return judged

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        """Read an answer up to the limit, so that its connection can be used again, and return its beginning."""
        kept = bytearray()
        left = self._response_bytes_max
        while left > 0:
            piece = await response.content.read(min(left, READ_BYTES))
            if not piece:
                return bytes(kept)
            left -= len(piece)
            if len(kept) < ANSWER_BYTES_KEPT:
                kept += piece[:ANSWER_BYTES_KEPT]
        response.close()  # the rest is never read
        return bytes(kept)
