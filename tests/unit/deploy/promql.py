"""So much of PromQL as the alert rules use, evaluated over recorded series; where promtool is at hand it must agree.

Series are samples a minute. ``increase`` and ``rate`` extrapolate as Prometheus does (promql/functions.go).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
Value = Vector | float
LOOKBACK_S: Final = 300
STEP_S: Final = 60

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>[0-9.]+(?![0-9smhd]))|(?P<name>[a-zA-Z_:][\w:]*)|(?P<text>\"[^\"]*\")|(?P<range>\[[0-9]+[smh]\])"
    r"|(?P<sign>=~|!=|==|>=|<=|[-+*/><(){},=]))"
)
_LEVELS: Final = (("or",), ("and", "unless"), ("==", "!=", ">", "<", ">=", "<="), ("+", "-"), ("*", "/"))
_MATH: Final[dict[str, Callable[[float, float], float]]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b if b else math.nan if not a else math.copysign(math.inf, a),
}
_TESTS: Final[dict[str, Callable[[float, float], bool]]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
}


@dataclass(frozen=True)
class Series:
    """All samples of all series, by name, then labels: one list each, a value a minute, None where there is none."""

    samples: Mapping[str, Mapping[Labels, Sequence[float | None]]]

    def window(self, name: str, accepts: Callable[[Mapping[str, str]], bool], since_s: float, upto_s: float) -> Any:
        """Yield the labels and the (second, value) pairs of each series that matches, both ends included."""
        first = max(0, math.ceil(since_s / STEP_S))
        for labels, values in self.samples.get(name, {}).items():
            if accepts(dict(labels)):
                span = enumerate(values[first : int(upto_s // STEP_S) + 1], first)
                yield labels, [(n * STEP_S, value) for n, value in span if value is not None]


def evaluate(expression: str, series: Series, at_s: float) -> Vector:
    """Return what an expression gives at a moment.

    Raises:
        SyntaxError: it is not of the part of PromQL that is known here.
    """
    reader = _Reader(expression, series, at_s)
    value = reader.binary(0)
    if reader.left:
        raise SyntaxError(f"{expression!r}: what is {reader.left[0][1]!r}?")
    assert isinstance(value, dict), "an alert's expression gives a vector"
    return value


def names_in(expression: str) -> set[str]:
    """Return the names of the metrics in an expression."""
    return set(re.findall(r"\btocsin_\w+", expression))


def history(expression: str, for_s: float, series: Series, minutes: int) -> list[list[Labels]]:
    """Return the labels under which a rule's alert fires, minute by minute from 0 on."""
    since: dict[Labels, float] = {}
    firing = []
    for second in range(0, minutes * STEP_S, STEP_S):
        since = {labels: since.get(labels, second) for labels in evaluate(expression, series, second)}
        firing.append([labels for labels, begun in since.items() if second - begun >= for_s])
    return firing


class _Reader:
    def __init__(self, text: str, series: Series, at_s: float) -> None:
        self._series, self._at_s = series, at_s
        self.left: list[tuple[str, str]] = []
        place = 0
        while text[place:].strip():
            match = _TOKEN.match(text, place)
            if match is None:
                raise SyntaxError(f"{text!r}: what is {text[place:]!r}?")
            assert match.lastgroup
            self.left.append((match.lastgroup, match[match.lastgroup]))
            place = match.end()

    def binary(self, level: int) -> Value:
        if level == len(_LEVELS):
            return self._primary()
        value = self.binary(level + 1)
        while self.left and self.left[0][1] in _LEVELS[level]:
            sign = self.left.pop(0)[1]
            value = _combined(sign, value, self.binary(level + 1))
        return value

    def _primary(self) -> Value:
        kind, text = self.left.pop(0)
        if kind == "number":
            return float(text)
        if text == "(":
            value = self.binary(0)
            self._expect(")")
            return value
        if kind != "name":
            raise SyntaxError(f"what is {text!r}?")
        if text in ("sum", "max", "min", "count"):
            return self._aggregate(text)
        if text in ("rate", "increase"):
            self._expect("(")
            value = self._over_range(text)
            self._expect(")")
            return value
        if text == "absent":
            self._expect("(")
            inner = self.binary(0)
            self._expect(")")
            return {} if inner else {frozenset(): 1.0}
        if text == "histogram_quantile":
            self._expect("(")
            wanted = self.binary(0)
            self._expect(",")
            buckets = self.binary(0)
            self._expect(")")
            assert isinstance(wanted, float) and isinstance(buckets, dict)
            return _quantiles(wanted, buckets)
        return self._instant(text)

    def _expect(self, sign: str) -> None:
        if not self.left or self.left.pop(0)[1] != sign:
            raise SyntaxError(f"{sign!r} is missing")

    def _matchers(self) -> Callable[[Mapping[str, str]], bool]:
        tests: list[tuple[str, str, str]] = []
        if self.left and self.left[0][1] == "{":
            self.left.pop(0)
            while self.left[0][1] != "}":
                name, sign, text = (self.left.pop(0)[1] for _ in range(3))
                tests.append((name, sign, text.strip('"')))
                if self.left[0][1] == ",":
                    self.left.pop(0)
            self.left.pop(0)

        def accepts(labels: Mapping[str, str]) -> bool:
            def holds(name: str, sign: str, text: str) -> bool:
                found = labels.get(name, "")
                if sign == "=~":
                    return re.fullmatch(text, found) is not None
                return (found == text) == (sign == "=")

            return all(holds(*test) for test in tests)

        return accepts

    def _instant(self, name: str) -> Vector:
        accepts = self._matchers()
        found = self._series.window(name, accepts, self._at_s - LOOKBACK_S, self._at_s)
        return {labels: pairs[-1][1] for labels, pairs in found if pairs}

    def _over_range(self, function: str) -> Vector:
        name = self.left.pop(0)[1]
        accepts = self._matchers()
        kind, text = self.left.pop(0)
        if kind != "range":
            raise SyntaxError(f"{function} needs a range such as [5m]")
        range_s = int(text[1:-2]) * {"s": 1, "m": 60, "h": 3600}[text[-2]]
        result = {}
        for labels, pairs in self._series.window(name, accepts, self._at_s - range_s, self._at_s):
            grown = _grown(pairs, self._at_s - range_s, self._at_s)
            if grown is not None:
                result[labels] = grown / range_s if function == "rate" else grown
        return result

    def _aggregate(self, function: str) -> Vector:
        by: tuple[str, ...] = ()
        if self.left[0][1] == "by":
            self.left.pop(0)
            self._expect("(")
            names = []
            while self.left[0][1] != ")":
                names.append(self.left.pop(0)[1])
                if self.left[0][1] == ",":
                    self.left.pop(0)
            self._expect(")")
            by = tuple(names)
        self._expect("(")
        inner = self.binary(0)
        self._expect(")")
        assert isinstance(inner, dict)
        groups: dict[Labels, list[float]] = {}
        for labels, value in inner.items():
            groups.setdefault(frozenset(pair for pair in labels if pair[0] in by), []).append(value)
        reduce: Callable[[list[float]], float] = {"sum": math.fsum, "max": max, "min": min, "count": len}[function]
        return {labels: float(reduce(values)) for labels, values in groups.items()}


def _grown(pairs: Sequence[tuple[float, float]], start_s: float, end_s: float) -> float | None:
    """Return by how much a counter grew in a span, extrapolated to its ends."""
    if len(pairs) < 2:
        return None
    grown = pairs[-1][1] - pairs[0][1]
    for (_, before), (_, after) in pairwise(pairs):
        grown += before if after < before else 0
    sampled_s = pairs[-1][0] - pairs[0][0]
    mean_s = sampled_s / (len(pairs) - 1)
    to_start_s, to_end_s = pairs[0][0] - start_s, end_s - pairs[-1][0]
    if grown > 0 and pairs[0][1] >= 0:
        to_start_s = min(to_start_s, sampled_s * (pairs[0][1] / grown))
    far_s = mean_s * 1.1
    span_s = sampled_s
    for gap_s in (to_start_s, to_end_s):
        span_s += gap_s if gap_s < far_s else mean_s / 2
    return grown * span_s / sampled_s


def _combined(sign: str, left: Value, right: Value) -> Value:
    if isinstance(left, float) and isinstance(right, float):
        return _MATH[sign](left, right)
    if sign in ("or", "and", "unless"):
        assert isinstance(left, dict) and isinstance(right, dict)
        if sign == "or":
            return left | {labels: value for labels, value in right.items() if labels not in left}
        return {labels: value for labels, value in left.items() if (labels in right) == (sign == "and")}
    result: Vector = {}
    for labels in left if isinstance(left, dict) else right if isinstance(right, dict) else ():
        one = left.get(labels) if isinstance(left, dict) else left
        other = right.get(labels) if isinstance(right, dict) else right
        if one is None or other is None:
            continue
        if sign in _TESTS:
            if _TESTS[sign](one, other):
                result[labels] = one if isinstance(left, dict) else other
        else:
            result[labels] = _MATH[sign](one, other)
    return result


def _quantiles(wanted: float, buckets: Vector) -> Vector:
    """Return the quantile of each histogram, by a straight line inside its bucket."""
    histograms: dict[Labels, list[tuple[float, float]]] = {}
    for labels, count in buckets.items():
        bounds = [float(value) for name, value in labels if name == "le"]
        rest = frozenset(pair for pair in labels if pair[0] != "le")
        histograms.setdefault(rest, []).extend((bound, count) for bound in bounds)
    result = {}
    for labels, steps in histograms.items():
        steps.sort()
        rank = wanted * steps[-1][1]
        if not steps[-1][1] or len(steps) < 2:
            result[labels] = math.nan
            continue
        place = next(n for n, (_, count) in enumerate(steps) if count >= rank)
        if place == len(steps) - 1:
            result[labels] = steps[-2][0]
            continue
        low, below = steps[place - 1] if place else (0.0, 0.0)
        high, upto = steps[place]
        result[labels] = low + (high - low) * (rank - below) / (upto - below)
    return result
