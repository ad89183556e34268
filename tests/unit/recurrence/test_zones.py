"""Zones by name, and what is read from their files, against Python's own reader."""

from __future__ import annotations

import itertools
import random
import struct
import zoneinfo
from bisect import bisect_right
from importlib import resources
from pathlib import Path

import pytest
import tzdata

from tests.unit.recurrence.zone_files import DAY_S, ODD_ZONES, offset_s, transitions, zone_file
from tocsin.domain.errors import Corrupt
from tocsin.domain.instants import EARLIEST, LATEST, SECOND
from tocsin.domain.recurrence import TZDATA_VERSION, CronError, compile_cron, known_zone, require_zone, zone_names
from tocsin.domain.recurrence.posix_rule import rule_transitions
from tocsin.domain.recurrence.tzif import read_transitions
from tocsin.domain.recurrence.zones import zone_timeline

NAMES = sorted(zone_names())


def offset_at(name: str, at_s: int) -> int:
    timeline = zone_timeline(name)
    return timeline.offsets[bisect_right(timeline.starts, at_s) - 1]


@pytest.mark.parametrize("name", ["Europe/Kiev", "Europe/Kyiv", "UTC", "US/Pacific", "America/Argentina/Buenos_Aires"])
def test_names_old_and_new_are_known(name: str) -> None:
    assert known_zone(name)
    assert require_zone(name) == name
    assert compile_cron("0 0 * * *", name).timezone == name


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("utc", "UTC"),
        ("America", ""),
        ("Europe/Kyiv ", "Europe/Kyiv"),
        (" Europe/Kyiv", "Europe/Kyiv"),
        ("Europe/Kyiv\n", "Europe/Kyiv"),
        ("europe/berlin", "Europe/Berlin"),
        ("Eurpoe/Berlin", "Europe/Berlin"),
        ("Kolkata", "Asia/Kolkata"),
        ("new york", "America/New_York"),
        ("a" * 300, "Europe/Berlin"),
        ("../etc/passwd", ""),
        ("/etc/localtime", ""),
        ("Europe/../UTC", ""),
        ("Europe\\Berlin", "Europe/Berlin"),
        ("UTC\0", ""),
        ("\0", ""),
        ("", ""),
        ("UTC+2", ""),
        ("Ｕtc", ""),
        ("\ud800", ""),
        ("posixrules", ""),
        ("zone.tab", ""),
        (None, ""),
        (5, ""),
        (["UTC"], ""),
    ],
    ids=repr,
)
def test_other_names_are_refused_with_what_was_perhaps_meant(name: object, meant: str) -> None:
    assert not known_zone(name)
    with pytest.raises(CronError) as refused:
        compile_cron("0 0 * * *", name)  # type: ignore[arg-type]
    assert refused.value.field == "timezone"
    assert meant in refused.value.remedy
    assert refused.value.fault("schedule.").field == "schedule.timezone"


def test_the_version_is_that_of_the_package() -> None:
    assert TZDATA_VERSION == tzdata.IANA_VERSION


def test_the_zone_files_of_the_system_are_not_asked(tmp_path: Path) -> None:
    stale = tmp_path / "Pacific" / "Auckland"
    stale.parent.mkdir()
    stale.write_bytes(resources.files(tzdata).joinpath("zoneinfo", "UTC").read_bytes())
    zoneinfo.reset_tzpath(to=[str(tmp_path)])
    try:
        zone_timeline.cache_clear()
        noon = compile_cron("0 12 * * *", "Pacific/Auckland").next_after(0)
        fooled = offset_s(zoneinfo.ZoneInfo.no_cache("Pacific/Auckland"), 0)
    finally:
        zoneinfo.reset_tzpath()
    assert fooled == 0, "the system's files were to be wrong here"
    assert noon == 24 * 3600 * SECOND


def test_offsets_agree_with_another_reader_in_all_zones() -> None:
    rng = random.Random(1)
    for name in NAMES:
        zone = zone_file(name)
        edges = [at for at in zone_timeline(name).starts if EARLIEST < at * SECOND <= LATEST]
        asked = [at + delta for at in rng.sample(edges, min(40, len(edges))) for delta in (-1, 0)]
        asked += [rng.randrange(EARLIEST, LATEST // SECOND) for _ in range(40)]
        for at_s in asked:
            assert offset_at(name, at_s) == offset_s(zone, at_s), (name, at_s)


def test_no_transition_is_missed() -> None:
    for name in ODD_ZONES:
        first, last = transitions(name)[0], transitions(name)[-1]
        mine = [at for at in zone_timeline(name).starts if first <= at <= last]
        assert mine == [*transitions(name)], name


def test_all_clocks_do_what_the_policies_presume() -> None:
    """A jump is over before the next begins: so no wall time is shown three times, and a gap has one end."""
    for name in NAMES:
        timeline = zone_timeline(name)
        jumps = [abs(later - offset) for offset, later in itertools.pairwise(timeline.offsets)]
        for jump, start, end in zip(jumps, timeline.starts[1:], timeline.ends[1:], strict=True):
            assert 0 < jump <= DAY_S, name
            assert end - start > 2 * jump, name


def test_rules_of_all_forms() -> None:
    year_2021, hour = 1_609_459_200, 3600
    north = rule_transitions("EST5EDT,M3.2.0,M11.1.0", year_2021, year_2021)
    assert (1_615_705_200, -4 * hour) in north  # 2021-03-14T07:00Z
    assert (1_636_264_800, -5 * hour) in north  # 2021-11-07T06:00Z
    negative = rule_transitions("IST-1GMT0,M10.5.0,M3.5.0/1", year_2021, year_2021)
    assert (1_616_893_200, hour) in negative  # 2021-03-28T01:00Z
    assert rule_transitions("<+0330>-3:30", 5, 9) == [(5, 12_600)]
    julian = rule_transitions("AAA0BBB,J60/0,J365/23", year_2021, year_2021)
    assert (1_614_556_800, hour) in julian  # 2021-03-01: J60 is never 29 February
    assert (1_582_934_400 + DAY_S, hour) in rule_transitions("AAA0BBB,J60/0,J365/23", 1_577_836_800, 1_577_836_800)
    counted = rule_transitions("AAA0BBB,59/0,300", year_2021, year_2021)
    assert (1_614_556_800, hour) in counted


def test_summer_time_that_ends_where_it_begins_goes_on() -> None:
    changes = rule_transitions("XXX3EDT4,0/0,J365/23", 0, 400 * DAY_S)
    assert len({at for at, _ in changes}) == len(changes)
    assert [offset for at, offset in changes if 0 <= at <= 400 * DAY_S] == [-4 * 3600] * 2


@pytest.mark.parametrize("rule", ["EST", "EST5EDT,M3.2.0", "5", "EST5EDT,X3,X4", "E" * 10_000])
def test_a_rule_that_means_nothing_is_corrupt(rule: str) -> None:
    with pytest.raises(Corrupt):
        rule_transitions(rule, 0, 1)


def test_data_for_old_readers_are_passed_over() -> None:
    """The package's files have none, but others' have: 32-bit times before the 64-bit ones."""

    def block(version: bytes, width: str, shift: int) -> bytes:
        counts = struct.pack(">6l", 0, 0, 0, 1, 2, 8)
        times = struct.pack(f">{width}", 1_000_000) + b"\x01"
        types = struct.pack(">lbblbb", 3600 + shift, 0, 0, 7200 + shift, 1, 4)
        return b"TZif" + version + bytes(15) + counts + times + types + b"AAA\0BBB\0"

    data = block(b"2", "l", 60) + block(b"2", "q", 0) + b"\nBBB-2\n"
    assert read_transitions(data, 0, 2_000_000) == [(0, 3600), (1_000_000, 7200)]
    assert read_transitions(data, 1_500_000, 2_000_000) == [(1_500_000, 7200)]
    assert read_transitions(data, 0, 500_000) == [(0, 3600)]


@pytest.mark.parametrize("data", [b"", b"TZif", b"TZif1" + bytes(60), b"x" * 200, b"TZif2" + bytes(39)])
def test_a_file_that_is_none_is_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt):
        read_transitions(data, 0, 1)
