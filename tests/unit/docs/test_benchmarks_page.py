"""The page of results is what its command makes of the result files."""

from __future__ import annotations

from benchmarks.page import PAGE, page, written


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == written(), "results have changed: run `make bench-page`"


def test_a_goal_that_does_not_hold_says_so_and_long_figures_are_cut() -> None:
    result = {
        "command": "python -m x",
        "commit": "0123456789abcdef0123+changes",
        "machine": {"cores": 2, "load_at_the_end": 7.5},
        "figures": {"n": 10_000, "few": {"rates": [1, 2]}, **{f"f{n}": n for n in range(200)}},
        "goals": [
            {"name": "rate", "goal": ">= 5", "measured": 4, "holds": False},
            {"name": "early", "goal": "0", "measured": 0, "holds": True},
        ],
    }
    text = page({"x": result}, ["x.svg", "x-part.svg", "y.svg"])
    assert "| [x](#x) | rate | >= 5 | 4 | **no** |" in text
    assert "| [x](#x) | early | 0 | 0 | yes |" in text
    assert "| `few rates` | 1, 2 |" in text
    assert "| `n` | 10,000 |" in text
    assert "load at the beginning not noted, at the end 7.5" in text
    assert "`0123456789ab+changes`" in text
    assert "122 more are in" in text
    assert "results/x.svg" in text
    assert "results/x-part.svg" in text
    assert "y.svg" not in text
