"""The systemd units and their example of an environment file."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import typer.main

from tests.unit.deploy.variables import assert_names_a_setting, assert_read
from tocsin.bootstrap.worker import RETURN_WAIT_S
from tocsin.cli.app import app
from tocsin.config import Settings

UNITS = Path(__file__).parents[3] / "deploy" / "systemd"
ROLES = ("gateway", "trigger", "worker", "projector", "reconciler", "notifier")
WORDS = {"reconciler": ["reconcile", "--watch"]}
"""Of roles whose command is not their name."""
PROGRAM = "/opt/tocsin/bin/tocsin"


class _Values(dict[str, object]):
    """Keeps all values of a key that stands more than once."""

    def __setitem__(self, key: str, value: object) -> None:
        if isinstance(value, list) and isinstance(self.get(key), list):
            value = [*self[key], *value]  # type: ignore[misc]
        super().__setitem__(key, value)


def unit(role: str) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=False, dict_type=_Values, comment_prefixes=("#",))  # type: ignore[arg-type]
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    assert parser.read(UNITS / f"tocsin-{role}@.service"), f"{role} has no unit"
    return parser


def variables(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if line and not line.startswith("#"))


@pytest.mark.parametrize("role", ROLES)
def test_a_unit_runs_its_role_under_a_lasting_name_and_starts_it_again(role: str) -> None:
    service = unit(role)["Service"]
    words = WORDS.get(role, [role])
    program, *rest = shlex.split(service["ExecStart"])
    command, options = rest[0], rest[len(words) :]
    assert (program, rest[: len(words)], options[0]) == (PROGRAM, words, "--name")
    assert "%i" in options[1]
    known = typer.main.get_command(app).commands[command]  # type: ignore[attr-defined]
    assert options[0] in {name for parameter in known.params for name in parameter.opts}
    assert service["Restart"] == "always"
    assert unit(role)["Unit"]["StartLimitIntervalSec"] == "0"


@pytest.mark.parametrize("role", ROLES)
def test_a_unit_reads_the_common_settings_and_then_its_own(role: str) -> None:
    assert unit(role)["Service"]["EnvironmentFile"].split() == [
        "/etc/tocsin/tocsin.env",
        f"-/etc/tocsin/{role}-%i.env",
    ]


def test_stopping_is_given_longer_than_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = assert_read(variables((UNITS / "tocsin.env").read_text("utf-8")), monkeypatch)
    given = {role: int(unit(role)["Service"]["TimeoutStopSec"]) for role in ROLES}
    for worker in (settings.worker, Settings.model_fields["worker"].default):
        assert given["worker"] > worker.stop_grace_s + 2 * RETURN_WAIT_S
    assert given["gateway"] > settings.gateway.stop_grace_s


def test_the_example_names_settings_that_exist_even_where_they_are_commented_out() -> None:
    names = re.findall(r"^#?([A-Z_]+)=", (UNITS / "tocsin.env").read_text("utf-8"), re.MULTILINE)
    assert len(names) > 10
    for name in names:
        assert_names_a_setting(name)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed here")
@pytest.mark.parametrize("role", ROLES)
def test_systemd_takes_the_unit(role: str, tmp_path: Path) -> None:
    name = f"tocsin-{role}@.service"
    # It also checks that the program can be run, which is not installed there on a developer's machine.
    text = (UNITS / name).read_text("utf-8").replace(PROGRAM, shutil.which("true") or "/bin/true")
    (tmp_path / name).write_text(text, "utf-8")
    instance = tmp_path / name.replace("@", "@1")
    instance.symlink_to(name)
    command = ["systemd-analyze", "verify", "--man=no", str(instance)]
    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (said.returncode, [line for line in said.stderr.splitlines() if "tocsin-" in line]) == (0, [])
