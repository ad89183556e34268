"""Which addresses a target may be on."""

from __future__ import annotations

import pytest

from tocsin.adapters.targets.addresses import AddressRules, is_public


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8",
        "1.1.1.1",
        "93.184.216.34",
        "172.15.255.255",
        "172.32.0.0",
        "100.63.255.255",
        "2606:4700:4700::1111",
        "2a00:1450::1",
    ],
)
def test_public_addresses_are_allowed(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "10.1.2.3",
        "100.64.0.1",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.255.254",
        "168.63.129.16",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.8",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:8.8.8.8",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
        "",
        "localhost",
        "127.1",
    ],
)
def test_everything_else_is_not(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("8.8.8.8", True),
        ("10.1.2.3", True),
        ("10.2.0.1", False),
        ("10.1.9.9", False),
        ("127.0.0.1", False),
        ("1.1.1.1", False),
        ("::ffff:1.1.1.1", False),
        ("not an address", False),
    ],
)
def test_lists_widen_and_narrow_what_may_be_reached(address: str, expected: bool) -> None:
    rules = AddressRules(allow=["10.1.0.0/16"], deny=["10.1.9.0/24", "1.1.1.1"])
    assert rules.permit(address) is expected


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "fe80::1%eth0"],
)
def test_what_is_denied_is_denied_in_every_guise(address: str) -> None:
    rules = AddressRules(allow_private=True, allow=["::/0", "0.0.0.0/0"], deny=["169.254.0.0/16", "fe80::/10"])
    assert not rules.permit(address)


def test_private_addresses_may_be_allowed_as_a_whole() -> None:
    assert AddressRules(allow_private=True).permit("127.0.0.1")
    assert not AddressRules().permit("127.0.0.1")
