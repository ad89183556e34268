"""``tocsin demo``: a development system, the story, its view, and the verdict."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

from tocsin.dev.audience import Terminal
from tocsin.dev.demo.closing import show_all
from tocsin.dev.demo.mailbox import KafkaMailbox
from tocsin.dev.demo.story import Story
from tocsin.dev.demo.view import LiveView
from tocsin.dev.errors import DevError
from tocsin.dev.run import example, run_system
from tocsin.dev.signals import StopSignals
from tocsin.dev.system import DevOptions, DevSystem

EXIT_GOOD = 0
EXIT_BAD = 1
EXIT_BROKEN_OFF = 130


class Demo:
    """The demonstration's part in the loop that keeps the system running."""

    def __init__(self, terminal: Terminal, *, burst: int, keep: bool) -> None:
        self._terminal = terminal
        self._burst = burst
        self._keep = keep
        self._began_s = time.monotonic()
        self._story: Story | None = None
        self._view: LiveView | None = None
        self._system: DevSystem | None = None
        self.verdict: int | None = None

    def begin(self, system: DevSystem) -> None:
        """The system is ready."""
        self._system = system
        self._terminal.headline(f"tocsin is ready at {system.gateway_url} (after {self._elapsed()})")
        mailbox = KafkaMailbox(system.kafka, f"demo-{uuid.uuid4().hex[:12]}")
        urls = system.gateway_url, system.metrics_urls["trigger"]
        self._story = Story(*urls, mailbox, lambda: system.kill_role("worker"), self._burst)
        self._view = LiveView(self._terminal.console, self._story)
        self._story.start()

    def done(self) -> bool:
        """Called several times a second: show how things stand; tell whether the system may end."""
        if self._story is None or self._view is None:
            return False
        if not self._story.over:
            self._view.draw()
            return False
        if self.verdict is None:
            self._view.close()
            self.verdict = self._judge(self._story)
        return not self._keep

    def end(self) -> None:
        """The system is about to end, perhaps before we are done."""
        if self._story is not None:
            self._story.break_off()
        if self._view is not None:
            self._view.close()

    def _judge(self, story: Story) -> int:
        if story.failure is not None:
            raise DevError(
                f"the demonstration broke off: {type(story.failure).__name__}: {story.failure}",
                remedy="see the logs in the data directory",
            ) from story.failure
        if story.summary is None:
            return EXIT_BAD
        show_all(self._terminal, story, story.summary)
        if story.good:
            self._terminal.headline(f"all good, {self._elapsed()} after the start")
        else:
            self._terminal.said("not everything went as promised; the logs are in the data directory", bad=True)
        if self._keep and self._system is not None:
            self._show_what_to_try(self._system, story)
        return EXIT_GOOD if story.good else EXIT_BAD

    def _show_what_to_try(self, system: DevSystem, story: Story) -> None:
        self._terminal.said("")
        self._terminal.said("It goes on until Ctrl-C. Create a job of your own, and see the call arrive here:")
        self._terminal.plain(example(system))
        self._terminal.said("Read a job, its runs, a page of jobs, and the description of all that there is:")
        job_id = next(iter(story.created), "job_…")
        for path in (f"jobs/{job_id}", f"jobs/{job_id}/runs", "jobs?limit=5"):
            self._terminal.plain(f"  curl -s '{system.gateway_url}/v1/{path}'")
        self._terminal.plain(f"  curl -s {system.gateway_url}/openapi.json")

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._began_s:.0f} s"


def run_demo(
    data_dir: Path, terminal: Terminal, *, burst: int, keep: bool, port: int | None = None, verbose: bool = False
) -> int:
    """Run the demonstration.

    Args:
        data_dir: for the system's data, which are dropped first, and its logs.
        terminal: where it is shown.
        burst: how many jobs are due in one second.
        keep: go on after the summary, until asked to stop.
        port: of the gateway, as in ``DevOptions``.
        verbose: show all that the roles log.

    Returns:
        The exit code: 0 where all went as promised, 1 where anything was early, lost, failed or repeated without
        saying so, 130 where it was broken off.

    Raises:
        DevClusterError, TocsinError: the system could not start; nothing is left running.
    """
    demo = Demo(terminal, burst=burst, keep=keep)
    # The echo receiver serves those who stay; the story has a target of its own, which counts.
    options = DevOptions(data_dir, fresh=True, port=port, echo=keep, verbose=verbose)
    run_system(options, terminal, StopSignals(), on_ready=demo.begin, done=demo.done, on_end=demo.end)
    terminal.said(f"stopped; data and logs are kept in {data_dir} until the next demonstration")
    return EXIT_BROKEN_OFF if demo.verdict is None else demo.verdict
