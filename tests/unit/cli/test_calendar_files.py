"""Calendar files: which dates they name."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Terminal
from tocsin.cli.calendar_files import excluded_dates
from tocsin.cli.exits import Failure
from tocsin.domain.recurrence import EXCLUDED_DATES_MAX

TODAY = date(2026, 10, 10)


def ics(*events: str) -> str:
    body = "".join(f"BEGIN:VEVENT\r\nUID:{n}\r\n{event}\r\nEND:VEVENT\r\n" for n, event in enumerate(events))
    return f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//test//EN\r\n{body}END:VCALENDAR\r\n"


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ("DTSTART;VALUE=DATE:20261225", ["2026-12-25"]),
        ("DTSTART;VALUE=DATE:20261224\r\nDTEND;VALUE=DATE:20261227", ["2026-12-24", "2026-12-25", "2026-12-26"]),
        ("DTSTART;VALUE=DATE:20261224\r\nDURATION:P2D", ["2026-12-24", "2026-12-25"]),
        ("DTSTART:20261224T220000Z\r\nDTEND:20261225T020000Z", ["2026-12-24", "2026-12-25"]),
        ("DTSTART:20261224T220000Z\r\nDTEND:20261225T000000Z", ["2026-12-24"]),
        ("DTSTART;VALUE=DATE:20201225\r\nRRULE:FREQ=YEARLY;COUNT=8", ["2026-12-25", "2027-12-25"]),
        ("DTSTART;VALUE=DATE:20201225\r\nRRULE:FREQ=YEARLY;UNTIL=20271225", ["2026-12-25", "2027-12-25"]),
        (
            "DTSTART;VALUE=DATE:20251127\r\nRRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH;UNTIL=20280101T000000Z",
            ["2026-11-26", "2027-11-25"],
        ),
        (
            "DTSTART;VALUE=DATE:20261225\r\nRRULE:FREQ=YEARLY;COUNT=3\r\nEXDATE;VALUE=DATE:20271225",
            ["2026-12-25", "2028-12-25"],
        ),
        (
            "DTSTART;VALUE=DATE:20261225\r\nRDATE;VALUE=DATE:20261231,20270101",
            ["2026-12-25", "2026-12-31", "2027-01-01"],
        ),
        # What began before today and lasts.
        ("DTSTART;VALUE=DATE:20261008\r\nDTEND;VALUE=DATE:20261012", ["2026-10-10", "2026-10-11"]),
    ],
)
def test_the_dates_that_events_touch(event: str, expected: list[str]) -> None:
    assert excluded_dates(ics(event), TODAY) == expected


def test_what_recurs_for_ever_is_followed_for_ten_years() -> None:
    found = excluded_dates(ics("DTSTART;VALUE=DATE:20201225\r\nRRULE:FREQ=YEARLY"), TODAY)
    assert (found[0], found[-1], len(found)) == ("2026-12-25", "2035-12-25", 10)
    assert len(excluded_dates(ics("DTSTART;VALUE=DATE:20201225\r\nRRULE:FREQ=DAILY"), TODAY)) == EXCLUDED_DATES_MAX


def test_a_list_of_dates_may_have_remarks() -> None:
    assert excluded_dates("# holidays\n2026-12-26 # second\n\n2026-12-25\n2020-01-01\n", TODAY) == [
        "2026-12-25",
        "2026-12-26",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2020-01-01",
        "2026-13-01",
        "Christmas",
        "BEGIN:VCALENDAR\r\nnonsense",
        ics("SUMMARY:no date"),
        ics("DTSTART:x"),
    ],
)
def test_what_names_no_date_is_refused_with_a_remedy(text: str) -> None:
    with pytest.raises(Failure) as refused:
        excluded_dates(text, TODAY)
    assert refused.value.problem.startswith("--calendar: ")
    assert "iCalendar" in refused.value.remedy


def test_a_job_is_created_with_all_that_bounds_it(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "holidays.txt"
    file.write_text("2199-12-25\n")
    terminal.run(
        "jobs", "create", "--url", "https://a.example/", "--cron", "H 2 * * *", "--tz", "UTC", "--start",
        "2026-10-11T00:00:00Z", "--end", "2036-10-11T00:00:00Z", "--spread", "10m", "--calendar", str(file),
        "--on-excluded", "shift", "--validate-only",
    )  # fmt: skip
    assert not terminal.house.bus.commands


def test_bounds_alone_say_nothing(terminal: Terminal) -> None:
    said = terminal.error("jobs", "create", "--url", "https://a.example/", "--end", "2036-10-11T00:00:00Z", exit_code=2)
    assert "say when" in said
