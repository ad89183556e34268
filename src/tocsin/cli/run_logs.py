"""Shows what attempts print: the text on stdout, and what there is to say of it on stderr."""

from __future__ import annotations

import sys
import time
from typing import Any, Final

import typer

from tocsin.cli.door import Door, path_of
from tocsin.cli.shown import plain
from tocsin.domain.executions import ENDS

PAGE_CHUNKS: Final = 100
FOLLOW_EVERY_S: Final = 1.0
LAST_LOOKS: Final = 5
"""How often output is looked for that has no end, though its attempt has: its worker may have died before it."""
_WHY: Final = {"limit": "more than is kept of an attempt", "store": "the store was too slow"}


class LogReader:
    """Shows the output of one run.

    Args:
        door: of the gateway.
        execution_id: the run's.
        attempt: the only one that is shown; None: the latest, and with ``follow`` those after it.
    """

    def __init__(self, door: Door, execution_id: str, attempt: int | None) -> None:
        self._door = door
        self._execution_id = execution_id
        self._only = attempt
        self._attempt = attempt
        self._after: str | None = None
        self._complete = False
        self._token: int | None = None
        """Of the dispatch that printed what was printed last."""

    def pages(self) -> list[dict[str, Any]]:
        """Return what there is beyond what was returned before, as the gateway gives it."""
        found = []
        while True:
            query = {"limit": str(PAGE_CHUNKS), "after": self._after, "attempt": self._attempt}
            said = {name: str(value) for name, value in query.items() if value is not None}
            page = self._door.ask("GET", path_of("runs", self._execution_id, "logs"), query=said).body
            self._attempt, self._after = page["attempt"], page["next_after"]
            found.append(page)
            if page["chunks"]:
                latest = page["chunks"][-1]
                self._complete = latest["last"] and latest["token"] >= (page["token"] or 0)
            if len(page["chunks"]) < PAGE_CHUNKS:
                return found

    def show(self) -> bool:
        """Print what is new; return whether there was anything."""
        chunks = [chunk for page in self.pages() for chunk in page["chunks"]]
        for chunk in chunks:
            if self._token not in (None, chunk["token"]):
                _say(f"dispatched again, as token {chunk['token']}")
            self._token = chunk["token"]
            if chunk["lost_bytes"]:
                _say(f"{chunk['lost_bytes']} bytes are missing here: {_WHY.get(chunk['lost_why'], 'not kept')}")
            typer.echo(_safe(chunk["text"]), nl=False)
        sys.stdout.flush()
        return bool(chunks)

    def show_once(self) -> None:
        """Print what there is so far, or say that there is nothing."""
        if not self.show():
            _say(f"no output is kept of attempt {self._attempt}")

    def follow(self) -> None:
        """Print what there is and what comes, until the run has ended; or the attempt, where one was named."""
        looks = 0
        while True:
            looks = 0 if self.show() else looks + 1
            run = self._door.ask("GET", path_of("runs", self._execution_id)).body
            later = [one["attempt"] for one in run["attempts"] if one["attempt"] > (self._attempt or 0)]
            mine = next(one for one in run["attempts"] if one["attempt"] == self._attempt)
            over = bool(later) or run["state"] in ENDS or mine["attempt_state"] is not None
            if over and (self._complete or looks >= LAST_LOOKS):
                if self._only is None and later:
                    self._attempt, self._after, self._complete, looks = min(later), None, False, 0
                    self._token = None
                    _say(f"attempt {self._attempt}")
                    continue
                if self._only is not None or run["state"] in ENDS:
                    _say(f"the run is {run['state']}")
                    return
            time.sleep(FOLLOW_EVERY_S)


def _say(text: str) -> None:
    typer.echo(f"-- {plain(text)} --", err=True)


def _safe(text: str) -> str:
    """Return output without what could steer a terminal; lines and tabs stay."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join("\t".join(plain(cell) for cell in line.split("\t")) for line in lines)
