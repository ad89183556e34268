"""Which addresses a tenant's target may reach: the public internet and what the operator lists, and nothing of ours.

An allow-list for IPv6 (global unicast less its special blocks) and a block-list for IPv4, after the IANA registries
of special-purpose addresses (RFC 6890 and its updates).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

_V4_BLOCKED: Final = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this network; Linux connects it to loopback
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT
        "127.0.0.0/8",
        "168.63.129.16/32",  # a cloud's host agent, inside its virtual networks only
        "169.254.0.0/16",  # link-local; instance metadata lives here
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
_V6_ALLOWED: Final = IPv6Network("2000::/3")
_V6_BLOCKED: Final = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, which carries an IPv4 address
        "3fff::/20",  # documentation
    )
)
# Loopback, IPv4-mapped, IPv4-compatible, NAT64, discard, unique local, link-local, site-local and multicast all lie
# outside of 2000::/3.


@lru_cache(maxsize=4_096)
def is_public(address: str) -> bool:
    """Tell whether an address, as a socket takes it, is a public one. What cannot be read is not."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, IPv4Address):
        return not any(ip in network for network in _V4_BLOCKED)
    return _is_public_v6(ip)


def _is_public_v6(ip: IPv6Address) -> bool:
    return ip in _V6_ALLOWED and not any(ip in network for network in _V6_BLOCKED)


_NAT64: Final = IPv6Network("64:ff9b::/96")


class AddressRules:
    """What may be connected to. It is asked with the address of each connection that is about to be made.

    Args:
        allow_private: without it, only public addresses and those in ``allow``.
        allow: networks that may be reached though they are not public.
        deny: networks that may never be reached; they win over all else, also in the guise of IPv6 addresses that carry
            those of IPv4.

    Raises:
        ValueError: a network cannot be read.
    """

    def __init__(self, *, allow_private: bool = False, allow: Iterable[str] = (), deny: Iterable[str] = ()) -> None:
        self._allow_private = allow_private
        self._allow = tuple(ip_network(text) for text in allow)
        self._deny = tuple(ip_network(text) for text in deny)

    def permit(self, address: str) -> bool:
        """Tell whether an address, as a socket takes it, may be reached. What cannot be read may not."""
        try:
            ip = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        faces = (ip, *_carried(ip))
        if any(face in network for face in faces for network in self._deny):
            return False
        return self._allow_private or any(ip in network for network in self._allow) or is_public(address)


def _carried(ip: IPv4Address | IPv6Address) -> tuple[IPv4Address, ...]:
    """Return the IPv4 addresses that an IPv6 address may stand for: mapped, 6to4, and behind NAT64."""
    if isinstance(ip, IPv4Address):
        return ()
    behind = IPv4Address(int(ip) & 0xFFFF_FFFF) if ip in _NAT64 else None
    return tuple(face for face in (ip.ipv4_mapped, ip.sixtofour, behind) if face is not None)
