"""Small SVGs of cumulative curves, of lines and of bars, drawn without any library."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final

WIDTH: Final = 640
HEIGHT: Final = 320
LEFT: Final = 56
RIGHT: Final = 16
TOP: Final = 40
BOTTOM: Final = 44
COLOURS: Final = ("#1f6feb", "#d1570b", "#1a7f37", "#8250df", "#bf3989", "#0a7ea4", "#7d4e00", "#57606a")
BAR_LEFT_MIN: Final = 120
LETTER: Final = 6
POINTS_MAX: Final = 200
TICKS: Final = 5


def write_cumulative(
    path: Path, title: str, x_label: str, curves: Mapping[str, Sequence[float]], *, log_from: float | None = None
) -> None:
    """Draw for each name the share of its values at or below x; ``log_from``: x is logarithmic, and begins there."""
    if log_from is not None:
        begin = log_from
        curves = {name: [math.log10(max(value, begin) / begin) for value in values] for name, values in curves.items()}
    x_max = max((max(values) for values in curves.values() if values), default=1.0) or 1.0
    parts = _beginning(title)
    for step in range(TICKS + 1):
        share = step / TICKS
        x, y = _x(share * x_max, x_max), _y(share)
        tick = share * x_max if log_from is None else log_from * 10 ** (share * x_max)
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>')
        parts.append(f'<text x="{x:.1f}" y="{_y(0) + 16:.1f}" text-anchor="middle">{tick:,.0f}</text>')
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 8}" text-anchor="end">{escape(x_label)}</text>')
    for number, (name, values) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{_points(values, x_max)}"/>')
        # High up on the left, where a cumulative curve seldom is.
        x, y = LEFT + 10, TOP + 14 + 15 * number
        parts.append(f'<text x="{x}" y="{y}" fill="{colour}">{escape(name)}</text>')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*parts, "</svg>"]) + "\n", "utf-8")


def write_lines(
    path: Path, title: str, x_label: str, lines: Mapping[str, Sequence[tuple[float, float]]], ticks: Sequence[float]
) -> None:
    """Draw a line through the medians at each x, over every value as a dot; x is logarithmic, y begins at 0.

    Args:
        path, title, x_label: where, and what it is.
        lines: values by name, as x (above 0) and y.
        ticks: the x that are labelled.
    """
    points = [point for line in lines.values() for point in line]
    least, most = (pick([*ticks, *(x for x, _ in points)]) for pick in (min, max))
    y_max = _round_above(max((y for _, y in points), default=1.0))

    def place(x: float, y: float) -> tuple[float, float]:
        return _x(math.log10(x / least), math.log10(most / least) or 1.0), _y(y / y_max)

    parts = _beginning(title)
    for step in range(TICKS + 1):
        y = y_max * step / TICKS
        _, at = place(least, y)
        parts.append(f'<line x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{y:,.0f}</text>')
    for tick in ticks:
        at, _ = place(tick, 0)
        parts.append(f'<text x="{at:.1f}" y="{_y(0) + 16:.1f}" text-anchor="middle">{_short(tick)}</text>')
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 8}" text-anchor="end">{escape(x_label)}</text>')
    for number, (name, line) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        dots = [place(x, y) for x, y in line]
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}" opacity="0.5"/>' for x, y in dots]
        middle = [place(x, statistics.median(y for at, y in line if at == x)) for x in sorted({x for x, _ in line})]
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in middle)
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{joined}"/>')
        # Low down on the left, where a line of something that holds its own is not.
        parts.append(f'<text x="{LEFT + 10}" y="{_y(0) - 10 - 15 * number}" fill="{colour}">{escape(name)}</text>')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*parts, "</svg>"]) + "\n", "utf-8")


def write_bars(path: Path, title: str, bars: Mapping[str, float]) -> None:
    """Draw a bar for each name, with its value at the end."""
    longest = max(bars.values(), default=1.0) or 1.0
    height = TOP + 30 * len(bars) + 10
    left = max(BAR_LEFT_MIN, 16 + LETTER * max(map(len, bars), default=0))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif"'
        ' font-size="11" fill="#333">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="16" y="20" font-size="13" font-weight="bold">{escape(title)}</text>',
    ]
    for number, (name, value) in enumerate(bars.items()):
        y, width = TOP + 30 * number, value / longest * (WIDTH - left - 120)
        colour = COLOURS[number // 2 % len(COLOURS)]
        parts.append(f'<text x="16" y="{y + 14}">{escape(name)}</text>')
        parts.append(f'<rect x="{left}" y="{y}" width="{width:.1f}" height="20" fill="{colour}"/>')
        parts.append(f'<text x="{left + 6 + width:.1f}" y="{y + 14}">{value:,.0f}</text>')
    parts.append("</svg>")
    path.write_text("\n".join(parts) + "\n", "utf-8")


def _round_above(value: float) -> float:
    """Return a number above a value whose fifths are round."""
    step = 10 ** math.floor(math.log10(max(value, 1e-9)))
    return next(top for top in (step * times for times in (1, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10, 15)) if top > value)


def _short(value: float) -> str:
    """Return a large number in few letters: 500k, 2M."""
    return f"{value / 1e6:g}M" if value >= 1e6 else f"{value / 1e3:g}k" if value >= 1e3 else f"{value:g}"


def _points(values: Sequence[float], x_max: float) -> str:
    ordered = sorted(values)
    count = len(ordered)
    picked = sorted({round(i * (count - 1) / (POINTS_MAX - 1)) for i in range(POINTS_MAX)}) if count else []
    return " ".join(f"{_x(ordered[i], x_max):.1f},{_y((i + 1) / count):.1f}" for i in picked)


def _x(value: float, x_max: float) -> float:
    return LEFT + max(0.0, value) / x_max * (WIDTH - LEFT - RIGHT)


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def _beginning(title: str) -> list[str]:
    """Return what every plot begins with."""
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
        ' font-size="11" fill="#333">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="20" font-size="13" font-weight="bold">{escape(title)}</text>',
    ]
