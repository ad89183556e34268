"""Identities: they parse back to what they were made of, and nothing else parses."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.domain import ids
from tocsin.domain.errors import Undecodable
from tocsin.domain.instants import LATEST

HEX = "01a2287ec9a47624a7ae1cd2430a364a"
hexes = st.integers(0, 2**128 - 1).map(lambda n: f"{n:032x}")


@given(hexes, st.integers(0, 2**62), st.integers(0, LATEST))
@settings(deadline=None)
def test_an_execution_id_says_what_it_was_made_of(uuid_hex: str, version: int, scheduled_for: int) -> None:
    job_id = ids.made_job_id(uuid_hex)
    text = ids.execution_id(job_id, version, scheduled_for)
    assert ids.parse_execution_id(text) == (job_id, version, scheduled_for)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "..",
        ".1.2",
        "job.1",
        "job.1.",
        "job..2",
        "job.-1.2",
        "job.1.-2",
        "job.1.2 ",
        "job.1.2\n",
        "job.1.2\x00",
        "job.\u0661.2",
        "job.1.\u00b2",
        "job.1e3.2",
        "job.1.t" + HEX,
        "job." + "1" * 5_000 + ".2",
        "job.1." + "2" * 5_000,
        "j" * 5_000 + ".1.2",
    ],
)
def test_what_is_no_execution_id_is_refused(text: str) -> None:
    with pytest.raises(Undecodable):
        ids.parse_execution_id(text)


@given(st.text(max_size=300))
@settings(deadline=None)
def test_reading_any_text_as_an_execution_id_fails_in_one_way_only(text: str) -> None:
    try:
        name = ids.parse_execution_id(text)
    except Undecodable:
        return
    assert name.job_id
    assert name.scheduled_for >= 0


def test_ids_that_tocsin_makes_are_told_from_others() -> None:
    assert ids.is_made_job_id(ids.made_job_id(HEX))
    for other in (HEX, "job_", f"job_{HEX}0", f"job_{HEX.upper()}", f"job_{HEX}\n", f"xjob_{HEX}", f"job_{HEX[:-1]}٣"):
        assert not ids.is_made_job_id(other)


def test_a_command_id_tells_when_it_was_made() -> None:
    assert ids.command_made_at_ms(ids.made_command_id(HEX)) == 0x01A2287EC9A4
    for other in (HEX, f"job_{HEX}", f"cmd_{HEX}0", f"cmd_{HEX[:-1]}g", "cmd_", ""):
        assert ids.command_made_at_ms(other) is None


@given(st.integers(0, 2**20), st.integers(0, 2**40 - 3))
@settings(deadline=None)
def test_versions_grow_with_epoch_and_offset(epoch: int, offset: int) -> None:
    version = ids.version_of(epoch, offset)
    assert version < ids.version_of(epoch, offset + 1) < ids.version_of(epoch + 1, 0)
    assert version > 0
