"""Under which names a gateway may be asked: a page in a browser may have its own name lead to this machine's loopback.

Such a page (DNS rebinding) can do to a gateway without authentication whatever a local user can. But its requests carry
the page's name in ``Host``, not ours.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection

from tocsin.domain.errors import Fault
from tocsin.domain.fields import shown
from tocsin.roles.gateway.problems import Refusal

LOOPBACK = "loopback"
"""Stands for every name and address of this machine's loopback."""


def refusal_of(given: str | None, hosts: Collection[str]) -> Refusal | None:
    """Return the refusal of a request by its ``Host`` header, None where it may pass.

    Args:
        given: the header; None where there is none, which no browser leaves out.
        hosts: names that are served, lower case; ``LOOPBACK`` among them stands for all of loopback. None at all: any.
    """
    if not hosts or given is None:
        return None
    name = _name_of(given)
    if name in hosts or (LOOPBACK in hosts and _is_loopback(name)):
        return None
    served = ", ".join(sorted(hosts))
    fault = Fault("Host", shown(given), "is no name of this gateway", "ask it by one; TOCSIN_GATEWAY__HOSTS lists them")
    return Refusal(421, f"this gateway is asked as {shown(given)}, and goes by {served} only", [fault])


def _name_of(given: str) -> str:
    """Return a ``Host`` header's name or address without its port, lower case."""
    if given.startswith("["):
        return given[1:].partition("]")[0].lower()
    return given.partition(":")[0].rstrip(".").lower()


def _is_loopback(name: str) -> bool:
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
