"""HTTP sessions for calls to places that users name: guarded, and doing nothing behind their caller's back.

No retries, no cookies, no proxies of the environment; every connection passes the rules of addresses.
"""

from __future__ import annotations

import socket
import ssl
from functools import cache
from typing import Any, Final

import aiohttp

from tocsin.adapters.targets.addresses import AddressRules
from tocsin.adapters.targets.answers import BlockedAddressError
from tocsin.adapters.targets.lookups import SharedLookups

INFORMATIONAL_MAX: Final = 16
"""Interim answers (1xx) of one request that are passed over; commonly there is none, or one."""


class OneAnswer(aiohttp.ClientResponse):
    """A response that is soon there. The client itself passes over interim answers without end and without a pause, so
    a server that sends nothing else would keep the loop from all other requests, and from all time limits."""

    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        protocol, read, left = connection.protocol, connection.protocol.read, 1 + INFORMATIONAL_MAX

        async def read_next() -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                message = f"sends more than {INFORMATIONAL_MAX} interim answers (1xx) and none that ends the request"
                raise aiohttp.ClientResponseError(self.request_info, self.history, message=message)
            return await read()

        protocol.read = read_next
        try:
            return await super().start(connection)
        finally:
            del protocol.read


@cache
def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """Return what certificates are checked with; made once, since reading those of the system takes its time."""
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    return context


async def open_session(
    tls: ssl.SSLContext, rules: AddressRules, keep_alive_s: float | None, lookups: SharedLookups
) -> aiohttp.ClientSession:
    """Open a session on the loop at hand.

    Args:
        tls: see ``tls_context``.
        rules: which addresses may be reached.
        keep_alive_s: how long an idle connection is kept; None: none is.
        lookups: finds the addresses of names; to be closed after the session.
    """

    def make_socket(info: Any) -> socket.socket:
        """Make the socket for one address. Every connection passes here, also that to a literal address."""
        family, kind, protocol, _, address = info
        if not rules.permit(address[0]):
            raise BlockedAddressError
        return socket.socket(family, kind, protocol)

    reuse: dict[str, Any] = {"force_close": True} if keep_alive_s is None else {"keepalive_timeout": keep_alive_s}
    # How many run at once is the caller's bound. The client's own cache would let one wait for another's look-up.
    connector = aiohttp.TCPConnector(
        limit=0, ssl=tls, socket_factory=make_socket, resolver=lookups, use_dns_cache=False, **reuse
    )
    session = aiohttp.ClientSession(
        connector=connector,
        response_class=OneAnswer,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        # What is not asked for and comes compressed all the same is passed over, not unpacked.
        auto_decompress=False,
        trust_env=False,
    )
    # aiohttp sends GET, PUT and the like again when a kept connection breaks. It has no public switch for that.
    session._retry_connection = False
    return session
