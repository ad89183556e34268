"""What one attempt prints, between the attempt and the store: cut into chunks, bounded, and counted where it is lost.

Bytes come as the system hands them over, so a character may be cut by any boundary but that of a loss.
"""

from __future__ import annotations

import codecs
import re
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from tocsin.domain.instants import Micros
from tocsin.ports.run_logs import LOST_BY_LIMIT, LOST_BY_STORE, LogChunk

TAIL_CHARS_MAX: Final = 1_000
_TAIL_BYTES: Final = 4 * TAIL_CHARS_MAX
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(slots=True)
class _Piece:
    """Output that follows a loss, or none."""

    at: Micros
    lost_bytes: int = 0
    lost_why: str | None = None
    data: bytearray = field(default_factory=bytearray)


class RunOutput:
    """The output of one dispatch.

    Args:
        token: of the dispatch.
        bytes_max: what is kept of it at most.
        chunk_bytes_max: what goes into one chunk; its text may take three times as much where it is no text at all.
    """

    def __init__(self, token: int, bytes_max: int, chunk_bytes_max: int) -> None:
        self._token = token
        self._left = bytes_max
        self._chunk_bytes_max = chunk_bytes_max
        self._pieces: deque[_Piece] = deque()
        self._tail = bytearray()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._seq = 0
        self._ended = False
        self.waiting = 0
        """Bytes that were kept and not taken."""
        self.lost = 0
        """Bytes that were not kept."""

    @property
    def has_ended(self) -> bool:
        return self._ended

    def add(self, data: bytes, now: Micros, room: int) -> int:
        """Keep what there is room for, and count the rest; return how many bytes were kept.

        Args:
            data: as it was printed.
            now: when, µs.
            room: what may be kept of all attempts together, bytes.
        """
        self._tail += data[-_TAIL_BYTES:]
        del self._tail[:-_TAIL_BYTES]
        kept = max(0, min(len(data), self._left, room))
        if kept:
            if not self._pieces:
                self._pieces.append(_Piece(now))
            self._pieces[-1].data += data[:kept]
            self._left -= kept
            self.waiting += kept
        if kept < len(data):
            self._lose(len(data) - kept, LOST_BY_STORE if self._left else LOST_BY_LIMIT, now)
        return kept

    def _lose(self, count: int, why: str, now: Micros) -> None:
        self.lost += count
        piece = self._pieces[-1] if self._pieces else None
        if piece is None or piece.data or piece.lost_why not in (None, why):
            piece = _Piece(now)
            self._pieces.append(piece)
        piece.lost_bytes += count
        piece.lost_why = why

    def end(self) -> str:
        """No more comes. Return the last of it as people may read it, on at most ``TAIL_CHARS_MAX`` characters."""
        self._ended = True
        text = _CONTROL.sub("", bytes(self._tail).decode("utf-8", "replace"))
        return text.strip()[-TAIL_CHARS_MAX:]

    def take(self, now: Micros) -> list[LogChunk]:
        """Return all that waits as chunks; once it has ended, with the last one. Losses at its end wait for more."""
        chunks: list[LogChunk] = []
        while self._pieces and (self._pieces[0].data or self._ended or len(self._pieces) > 1):
            chunks += self._chunks_of(self._pieces.popleft())
        self.waiting = 0
        if self._ended:
            rest = self._decoder.decode(b"", final=True)
            last = chunks.pop() if chunks else LogChunk(self._token, self._next_seq(), now, "")
            chunks.append(last._replace(text=last.text + rest, last=True))
        return chunks

    def _chunks_of(self, piece: _Piece) -> list[LogChunk]:
        broken = ""
        if piece.lost_bytes:
            # What a loss cut a character off from never comes.
            broken = self._decoder.decode(b"", final=True)
            self._decoder.reset()
        chunks = []
        for at in range(0, max(1, len(piece.data)), self._chunk_bytes_max):
            text = broken + self._decoder.decode(bytes(piece.data[at : at + self._chunk_bytes_max]))
            lost = (piece.lost_bytes, piece.lost_why) if at == 0 else (0, None)
            if text or lost[0]:
                chunks.append(LogChunk(self._token, self._next_seq(), piece.at, text, *lost))
            broken = ""
        return chunks

    def _next_seq(self) -> int:
        self._seq += 1
        return self._seq - 1
