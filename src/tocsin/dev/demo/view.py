"""What people see while it happens, and the summary. Reads the story, changes nothing in it."""

from __future__ import annotations

import time
from typing import Final

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tocsin.dev.audience import Terminal
from tocsin.dev.demo.story import Story
from tocsin.dev.demo.tally import Summary, described, histogram
from tocsin.domain.instants import SECOND, format_rfc3339

DRAW_EVERY_S: Final = 0.25
LINE_EVERY_S: Final = 2.0
REFUSALS_SHOWN: Final = 3


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
            str(len(story.target.arrivals)),
            str(story.succeeded),
            described(lateness_so_far(story)),
        )
        return table

    def _calls(self) -> Text:
        text = Text()
        for job_id, arrived_at in list(self._story.target.last_calls):
            job = self._story.created.get(job_id)
            late = f"{(arrived_at - job.due_at) / 1_000:>8.0f} ms after its time" if job else ""
            text.append(f"  {format_rfc3339(arrived_at)}  {job_id}{late}\n", "dim")
        return text


def lateness_so_far(story: Story) -> list[float]:
    """Return the lateness of all calls up to now, in ms, sorted."""
    jobs = dict(story.created)
    firsts = [(jobs.get(job_id), calls[0]) for job_id, calls in list(story.target.arrivals.items())]
    return sorted((first - job.due_at) / 1_000 for job, first in firsts if job is not None)


def standing(story: Story) -> str:
    """Return how things stand in one line."""
    counts = f"created {len(story.created)} of {story.wanted}, fired {story.fired}, called {len(story.target.arrivals)}"
    burst = next((job.due_at for job in list(story.created.values()) if job.burst), None)
    due = f", {story.burst:,} due at {format_rfc3339(burst // SECOND * SECOND)}" if burst else ""
    return f"{story.phase}: {counts}, succeeded {story.succeeded}{due}"


def show_summary(terminal: Terminal, story: Story, summary: Summary) -> None:
    """Print the figures, each with where it comes from."""
    undecided = f" ({summary.undecided} of them answered 202)" if summary.undecided else ""
    rows = [
        ("created", summary.created, f"jobs that the gateway took{undecided}"),
        ("fired", summary.fired, "with a run in GET /v1/jobs/{id}/runs, which was asked for every job"),
        ("succeeded", summary.succeeded, "of these runs"),
        ("received", summary.received, f"seen by the target, in {summary.calls} calls"),
        ("repeated", summary.repeated, "called the target more than once"),
        ("early", max(summary.early, story.early), "before their time, by the target's clock or the trigger's count"),
        ("lost", summary.lost, "never reached the target"),
        ("failed", summary.failed, "ended without success"),
    ]
    terminal.said("")
    for name, count, meaning in rows:
        terminal.said(f"{name:>10} {count:>6}  {meaning}")
    if summary.refused:
        terminal.said(f"{summary.refused} creates were not taken:", bad=True)
        for refusal in story.refusals[:REFUSALS_SHOWN]:
            terminal.said(f"  {refusal}", bad=True)
    if summary.created_late:
        terminal.said(f"{summary.created_late} jobs were created after their time and are left out of what follows")
    terminal.said("")
    terminal.said("Lateness: from the due time to the call's arrival at the target, which shares this machine.")
    measured = [("all jobs", described(summary.lateness_ms))]
    measured.append((f"{story.burst:,} in a second", described(summary.burst_lateness_ms)))
    if story.commit_p50_s is not None and story.commit_p99_s is not None:
        bounds = f"p50 up to {story.commit_p50_s * 1_000:g} ms, p99 up to {story.commit_p99_s * 1_000:g} ms"
        measured.append(("trigger's commit", f"{bounds} (from its metrics)"))
    for what, figures in measured:
        terminal.said(f"  {what:<18} {figures}")
    terminal.said(f"The {story.burst:,} that were due in one second:")
    for line in histogram(summary.burst_lateness_ms):
        terminal.said(line)
