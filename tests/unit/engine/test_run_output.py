"""Output between an attempt and the store: nothing is lost that there is room for, and what is lost is counted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tocsin.engine.run_output import TAIL_CHARS_MAX, RunOutput
from tocsin.ports.run_logs import LOST_BY_LIMIT, LOST_BY_STORE, LogChunk

ROOM = 10**9


def texts(chunks: list[LogChunk]) -> list[str]:
    return [chunk.text for chunk in chunks]


def test_a_character_that_is_cut_by_reads_and_chunks_stays_whole() -> None:
    output = RunOutput(5, 1_000, 4)
    data = "ä€🔔ä€🔔".encode()
    taken = []
    for n, byte in enumerate(data):
        output.add(bytes([byte]), n, ROOM)
        taken += output.take(n)
    output.add("ä€🔔".encode(), 99, ROOM)
    output.end()
    taken += output.take(99)
    assert "".join(texts(taken)) == "ä€🔔" * 3
    assert [chunk.seq for chunk in taken] == list(range(len(taken)))
    assert [chunk.last for chunk in taken] == [False] * (len(taken) - 1) + [True]


def test_what_is_above_the_limit_of_an_attempt_is_counted_in_its_last_chunk() -> None:
    output = RunOutput(5, 10, 100)
    assert [output.add(b"0123456", 1, ROOM), output.add(b"789abc", 2, ROOM), output.add(b"def", 3, ROOM)] == [7, 3, 0]
    assert output.take(4) == [LogChunk(5, 0, 1, "0123456789")]
    assert output.take(5) == [], "how much was lost is not known before the end"
    output.add(b"g", 6, ROOM)
    output.end()
    assert output.take(7) == [LogChunk(5, 1, 2, "", 7, LOST_BY_LIMIT, True)]
    assert (output.waiting, output.lost) == (0, 7)


def test_what_finds_no_room_is_counted_where_it_is_missing() -> None:
    output = RunOutput(5, 100, 100)
    output.add(b"one ", 1, ROOM)
    output.add(b"two ", 2, 0)
    output.add(b"three ", 3, 2)
    output.add(b"four", 4, ROOM)
    assert output.waiting == 10
    assert output.take(5) == [
        LogChunk(5, 0, 1, "one "),
        LogChunk(5, 1, 2, "th", 4, LOST_BY_STORE),
        LogChunk(5, 2, 3, "four", 4, LOST_BY_STORE),
    ]


def test_bytes_that_are_no_text_are_shown_as_such_and_an_end_without_output_is_told() -> None:
    output = RunOutput(5, 100, 100)
    output.add(b"\xff\xfe", 1, ROOM)
    output.add(b"\xe2\x82", 2, ROOM)
    output.end()
    assert texts(output.take(3)) == ["\ufffd\ufffd\ufffd"]
    silent = RunOutput(5, 100, 100)
    silent.end()
    assert silent.take(9) == [LogChunk(5, 0, 9, "", last=True)]


def test_the_tail_is_that_of_all_output_also_of_what_is_not_kept() -> None:
    output = RunOutput(5, 10, 100)
    output.add(b"begin\n" * 1_000, 1, ROOM)
    output.add("\x1b[1mdönè\x07\n\n".encode(), 2, ROOM)
    tail = output.end()
    assert tail.endswith("begin\n[1mdönè")
    assert len(tail) <= TAIL_CHARS_MAX


@given(st.lists(st.tuples(st.binary(max_size=40), st.integers(0, 30), st.booleans())), st.integers(0, 60))
def test_whatever_comes_kept_and_lost_add_up_and_no_chunk_is_too_large(
    steps: list[tuple[bytes, int, bool]], bytes_max: int
) -> None:
    output = RunOutput(5, bytes_max, 8)
    chunks: list[LogChunk] = []
    kept = 0
    for n, (data, room, take) in enumerate(steps):
        kept += output.add(data, n, room)
        if take:
            chunks += output.take(n)
    output.end()
    chunks += output.take(len(steps))
    assert kept <= bytes_max
    assert kept + output.lost == sum(len(data) for data, _, _ in steps)
    assert sum(chunk.lost_bytes for chunk in chunks) == output.lost
    assert all(len(chunk.text) <= 12 for chunk in chunks)
    assert [chunk.seq for chunk in chunks] == list(range(len(chunks)))
    assert [chunk.last for chunk in chunks].count(True) == 1
    assert output.waiting == 0
