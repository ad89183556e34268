"""Another release of the zone database, put in place of the one that the tests have."""

from __future__ import annotations

import pytest

from tocsin.domain import firing
from tocsin.domain.recurrence import compiling, zone_tables, zones

_FILE = zones.zone_file
_KNOWERS = ("command_desk", "zone_rules", "zone_change")
_CACHES = (
    zones.zone_timeline,
    compiling._compile,
    compiling._plan,
    compiling._with_calendar,
    firing.plan_of,
    firing._plan_of_class,
    zone_tables.present_tables,
    zone_tables.present_text,
    zone_tables.differing,
)


def install(patch: pytest.MonkeyPatch, release: str, **like: str) -> None:
    """Have a release in which some zones are as others are now.

    Args:
        patch: undoes it; call ``forget`` after that.
        release: its name.
        like: the zone that it is like, by the last part of a European zone's name.
    """
    others = {f"Europe/{name}": other for name, other in like.items()}

    def file_of(name: str) -> bytes:
        return _FILE(others.get(name, name))

    patch.setattr(zones, "zone_file", file_of)
    patch.setattr(zone_tables, "zone_file", file_of)
    for module in _KNOWERS:
        patch.setattr(f"tocsin.engine.{module}.TZDATA_VERSION", release)
    forget()


def forget() -> None:
    """Forget what was worked out by any release."""
    for cache in _CACHES:
        cache.cache_clear()
