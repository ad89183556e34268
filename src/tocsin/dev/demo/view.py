"""What people see while it happens. Reads the story, changes nothing in it."""

from __future__ import annotations

import time
from typing import Final

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tocsin.dev.demo.figures import described
from tocsin.dev.demo.occurrences import Kind
from tocsin.dev.demo.story import Story
from tocsin.domain.instants import SECOND, format_rfc3339

DRAW_EVERY_S: Final = 0.25
LINE_EVERY_S: Final = 2.0


class LiveView:
    """Redraws a few lines in place on a terminal; elsewhere it prints a line now and then."""

    def __init__(self, console: Console, story: Story) -> None:
        self._story = story
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        self._due_s = 0.0
        self._last_line = ""
        if self._live is not None:
            self._live.start()

    def draw(self) -> None:
        """Show how things stand; does nothing if that was done a moment ago."""
        now_s = time.monotonic()
        if now_s < self._due_s:
            return
        if self._live is not None:
            self._due_s = now_s + DRAW_EVERY_S
            self._live.update(Group(self._counts(), self._calls()), refresh=True)
            return
        self._due_s = now_s + LINE_EVERY_S
        line = standing(self._story)
        if line != self._last_line and self._story.wanted:
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)
            self._last_line = line

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._live is not None:
            self._live.stop()

    def _counts(self) -> Table:
        story = self._story
        table = Table("created", "fired", "called", "succeeded", "lateness at the target so far", title=story.phase)
        table.add_row(
            f"{len(story.created)} of {story.wanted}",
            str(story.fired),
            str(called(story)),
            str(story.succeeded),
            described(lateness_so_far(story)),
        )
        return table

    def _calls(self) -> Text:
        text = Text()
        for (job_id, due_at), call in list(self._story.target.last_calls):
            job = self._story.created.get(job_id)
            what = f"{job.kind:<8}" if job else ""
            late = f"{(call.arrived_at - due_at) / 1_000:>8.0f} ms after its time"
            again = "  redelivered" if call.redelivered else ""
            text.append(f"  {format_rfc3339(call.arrived_at)}  {what} {job_id}{late}{again}\n", "dim")
        return text


def called(story: Story) -> int:
    """Return how many occurrences have arrived somewhere up to now."""
    return len(story.target.calls) + len(story.mailbox.arrivals)


def lateness_so_far(story: Story) -> list[float]:
    """Return the lateness of all first calls up to now, in ms, sorted."""
    arrived = list(story.target.calls.items())
    return sorted((calls[0].arrived_at - due_at) / 1_000 for (_, due_at), calls in arrived)


def standing(story: Story) -> str:
    """Return how things stand in one line."""
    counts = f"created {len(story.created)} of {story.wanted}, fired {story.fired}, called {called(story)}"
    burst = next((job.due_at for job in story.of_kind(Kind.BURST)), None)
    due = f", {story.burst:,} due at {format_rfc3339(burst // SECOND * SECOND)}" if burst else ""
    return f"{story.phase}: {counts}, succeeded {story.succeeded}{due}"
