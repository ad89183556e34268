"""Page tokens are opaque, come back as they went, and cannot be made up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.adapters.cassandra.page_tokens import page_token, read_page_token
from tocsin.adapters.cassandra.run_rows import PARTS, part_of
from tocsin.domain.errors import InvalidInput


@given(st.text(min_size=1, max_size=100).filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text)))
def test_a_token_comes_back_as_the_part_and_the_job(job_id: str) -> None:
    token = page_token(job_id)
    assert token.isascii()
    assert "=" not in token
    assert read_page_token(token) == (part_of(job_id), job_id)


@given(st.text(max_size=50) | st.binary(max_size=50).map(lambda raw: raw.hex()))
def test_what_is_no_token_is_refused_and_nothing_else_is_raised(text: str) -> None:
    with pytest.raises(InvalidInput):
        read_page_token(text)


@given(st.sampled_from(["job_1", "a@b", "h~x"]), st.data())
def test_a_token_with_another_character_is_refused(job_id: str, data: st.DataObject) -> None:
    token = page_token(job_id)
    at = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.characters(min_codepoint=33, max_codepoint=126).filter(lambda c: c != token[at]))
    changed = token[:at] + other + token[at + 1 :]
    try:
        part, named = read_page_token(changed)
    except InvalidInput:
        return
    # What gets through is a token that a page could have given: of another job, with the part of that job.
    assert named != job_id
    assert part == part_of(named)


def test_parts_never_change() -> None:
    assert PARTS == 16
    assert [part_of(job_id) for job_id in ("a", "job_0", "acme@nightly", "é")] == [3, 13, 3, 14]
