"""Keys of callbacks: good for one dispatch, and checked with the former secret too while it is replaced."""

from __future__ import annotations

import pytest

from tocsin.domain.callback_keys import CallbackKeys

OLD, NEW = "o" * 32, "n" * 32
DISPATCH = ("acme@j.7.5000000", 2, 41)


def test_a_key_fits_its_dispatch_only() -> None:
    keys = CallbackKeys([NEW])
    key = keys.key(*DISPATCH)
    assert len(key) == 64
    assert keys.fits(key, *DISPATCH)
    for other in [("acme@j.7.5000001", 2, 41), ("acme@j.7.5000000", 3, 41), ("acme@j.7.5000000", 2, 42)]:
        assert not keys.fits(key, *other)


@pytest.mark.parametrize("given", ["", "0" * 64, "é" * 64])
def test_nothing_else_fits(given: str) -> None:
    assert not CallbackKeys([NEW]).fits(given, *DISPATCH)


def test_while_a_secret_is_replaced_both_fit_and_the_newest_makes() -> None:
    both = CallbackKeys([NEW, OLD])
    assert both.key(*DISPATCH) == CallbackKeys([NEW]).key(*DISPATCH)
    assert both.fits(CallbackKeys([OLD]).key(*DISPATCH), *DISPATCH)
    assert not CallbackKeys([NEW]).fits(CallbackKeys([OLD]).key(*DISPATCH), *DISPATCH)


def test_without_a_secret_nothing_fits() -> None:
    assert not CallbackKeys()
    assert not CallbackKeys().fits(CallbackKeys([NEW]).key(*DISPATCH), *DISPATCH)
