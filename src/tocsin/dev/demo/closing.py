"""What people see at the end: each figure with where it comes from. Reads the story, changes nothing in it."""

from __future__ import annotations

from typing import Final

from tocsin.dev.audience import Terminal
from tocsin.dev.demo.figures import described, histogram
from tocsin.dev.demo.mailbox import Record
from tocsin.dev.demo.occurrences import Kind
from tocsin.dev.demo.plan import CRON_EVERY_S, INTERVAL_S, SLOW_CALL_S
from tocsin.dev.demo.story import Killed, Story
from tocsin.dev.demo.tally import AfterKill, Summary

REFUSALS_SHOWN: Final = 3


def show_all(terminal: Terminal, story: Story, summary: Summary) -> None:
    """Print what was measured and what became of the killed worker's work."""
    _show_counts(terminal, story, summary)
    _show_lateness(terminal, story, summary)
    if story.mailbox.first is not None:
        _show_record(terminal, story.mailbox.first, summary)
    if story.killed is not None and story.after_kill is not None:
        _show_kill(terminal, story.killed, story.after_kill)
    elif story.created:
        terminal.said("No worker was killed, for the calls that it should have been busy with did not come.", bad=True)
    terminal.said("")


def _show_counts(terminal: Terminal, story: Story, summary: Summary) -> None:
    undecided = f" ({summary.undecided} of them answered 202)" if summary.undecided else ""
    early = max(summary.early, story.early)
    rows = [
        ("created", summary.created, f"jobs that the gateway took{undecided}"),
        ("due", summary.due, f"occurrences, {summary.recurring} of them of the cron job and the interval"),
        ("fired", summary.fired, "with a run in GET /v1/jobs/{id}/runs, which was asked for every job"),
        ("succeeded", summary.succeeded, "of these runs"),
        ("received", summary.received, f"by the target or on the topic, in {summary.calls} calls and records"),
        ("repeated", summary.repeated, "called the target more than once"),
        ("unmarked", summary.unmarked, "repeated calls without Tocsin-Redelivered: true"),
        ("early", early, "before their time, by the target's clock or the trigger's count"),
        ("lost", summary.lost, "never reached the target or the topic"),
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


def _show_lateness(terminal: Terminal, story: Story, summary: Summary) -> None:
    names = {
        Kind.SPREAD: "one by one",
        Kind.BURST: f"{story.burst:,} in a second",
        Kind.CRON: f"cron, every {CRON_EVERY_S} s",
        Kind.INTERVAL: f"interval of {INTERVAL_S} s",
        Kind.MESSAGE: "messages",
        Kind.SLOW: "slow calls",
    }
    measured = [(name, described(summary.lateness_ms.get(kind, ()))) for kind, name in names.items()]
    if story.commit_p50_s is not None and story.commit_p99_s is not None:
        bounds = f"p50 up to {story.commit_p50_s * 1_000:g} ms, p99 up to {story.commit_p99_s * 1_000:g} ms"
        measured.append(("trigger's commit", f"{bounds} (of all, from its metrics)"))
    terminal.said("")
    terminal.said("Lateness: from the due time to the first arrival at the target, which shares this machine;")
    terminal.said("all but the first two also had to wait for a worker while there was none.")
    for what, figures in measured:
        terminal.said(f"  {what:<18} {figures}")
    burst = summary.lateness_ms.get(Kind.BURST, ())
    terminal.said(f"The {story.burst:,} that were due in one second:")
    for line in histogram(burst):
        terminal.said(line)


def _show_record(terminal: Terminal, record: Record, summary: Summary) -> None:
    again = summary.messages_repeated
    terminal.said("")
    terminal.said("The first delayed message, as a plain consumer that reads committed records got it:")
    terminal.plain(f"  {record.topic}, partition {record.partition}, offset {record.offset}")
    terminal.plain(f"  key {record.key}, value {record.value}")
    for name, text in record.headers.items():
        terminal.plain(f"  {name}: {text}")
    if again:
        terminal.said(f"{again} messages came again, and none should have", bad=True)
    else:
        terminal.said("  each message came exactly once")


def _show_kill(terminal: Terminal, killed: Killed, after: AfterKill) -> None:
    terminal.said("")
    terminal.said(f"The worker (pid {killed.pid}) was killed (SIGKILL) amid calls of {SLOW_CALL_S:g} s. Of these,")
    for count, what in (
        (after.ended, "had been answered before"),
        (after.under_way, "were under way"),
        (after.to_come, "had not begun, and ran afterwards"),
        (after.again, f"of those begun were called again, {after.marked} of them marked Tocsin-Redelivered: true"),
    ):
        terminal.said(f"{count:>8} {what}")
    for seconds, what in (
        (after.first_call_s, "the first call of the worker that was started instead"),
        (after.first_again_s, "the first call that was made again"),
        (after.all_done_s, "all of them had been answered"),
    ):
        terminal.said(f"  {'never' if seconds is None else f'{seconds:.1f} s':>8} after the kill: {what}")
