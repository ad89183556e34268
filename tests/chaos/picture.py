"""Draws lateness over time with the faults marked, as an SVG, without any library."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import log10
from pathlib import Path
from typing import Final

from tests.chaos.history import SECOND, Fault

WIDTH: Final = 1000
HEIGHT: Final = 420
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 120, 44
COLUMNS: Final = 300
"""Time is cut into so many columns; of each the median and the worst are drawn."""
LABEL_CHARS_MAX: Final = 22
"""More does not fit above the drawing; the band's title has all of it."""
FLOOR_MS: Final = 1.0
DECADES: Final = 6
"""From a millisecond to a quarter of an hour."""


def draw(path: Path, title: str, late: Sequence[tuple[int, int]], faults: Sequence[Fault]) -> None:
    """Write the picture.

    Args:
        path: where to.
        title: above it.
        late: when something was due and how late it was, both µs.
        faults: drawn as bands with their names.
    """
    began = min((due for due, _ in late), default=0)
    span = max((due for due, _ in late), default=1) - began or 1
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
        ' font-size="11" fill="#333">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="18" font-size="13" font-weight="bold">{escape(title)}</text>',
        *_bands(faults, began, span),
        *_grid(span),
        *_points(late, began, span),
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 8}" text-anchor="end">time since the start</text>',
        f'<text x="{LEFT}" y="{HEIGHT - 8}">lateness of the first call: <tspan fill="#1f6feb">median</tspan> and'
        ' <tspan fill="#d1570b">worst</tspan> of each moment</text>',
        "</svg>",
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(parts) + "\n", "utf-8")


def _bands(faults: Sequence[Fault], began: int, span: int) -> list[str]:
    parts = []
    for fault in faults:
        x, end = _x(fault.began_at - began, span), _x(fault.ended_at - began, span)
        what = escape(f"{fault.name}: {fault.what}")
        parts.append(
            f'<rect x="{x:.1f}" y="{TOP}" width="{max(1.5, end - x):.1f}" height="{HEIGHT - TOP - BOTTOM}"'
            f' fill="#f4c7c3" fill-opacity="0.6"><title>{what}</title></rect>'
        )
        label = fault.name if len(fault.name) <= LABEL_CHARS_MAX else f"{fault.name[: LABEL_CHARS_MAX - 1]}…"
        parts.append(f'<text transform="translate({x + 4:.1f},{TOP - 4}) rotate(-50)">{escape(label)}</text>')
    return parts


def _grid(span: int) -> list[str]:
    parts = []
    for decade in range(DECADES + 1):
        y, label = _y(10.0**decade * FLOOR_MS), ("1 ms", "10 ms", "0.1 s", "1 s", "10 s", "100 s", "1000 s")[decade]
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    for step in range(6):
        at_s = span / SECOND * step / 5
        x = _x(round(at_s * SECOND), span)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{at_s:,.0f} s</text>')
    return parts


def _points(late: Sequence[tuple[int, int]], began: int, span: int) -> list[str]:
    columns: dict[int, list[int]] = {}
    for due, lateness in late:
        columns.setdefault(min(COLUMNS - 1, (due - began) * COLUMNS // span), []).append(lateness)
    parts = []
    for column, found in sorted(columns.items()):
        x = _x((column * 2 + 1) * span // (2 * COLUMNS), span)
        ordered = sorted(found)
        for value, colour in ((ordered[-1], "#d1570b"), (ordered[len(ordered) // 2], "#1f6feb")):
            parts.append(f'<circle cx="{x:.1f}" cy="{_y(value / 1000):.1f}" r="1.8" fill="{colour}"/>')
    return parts


def _x(since: int, span: int) -> float:
    return LEFT + min(1.0, max(0.0, since / span)) * (WIDTH - LEFT - RIGHT)


def _y(milliseconds: float) -> float:
    share = log10(max(milliseconds, FLOOR_MS) / FLOOR_MS) / DECADES
    return HEIGHT - BOTTOM - min(1.0, share) * (HEIGHT - TOP - BOTTOM)
