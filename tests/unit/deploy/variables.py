"""Checks environment variables against the settings that they are meant for."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from pydantic import BaseModel

from tocsin.config import Settings

PREFIX = "TOCSIN_"


def assert_read(variables: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Assert that each variable names a setting and has a value that it takes; return the settings they make."""
    for name, value in variables.items():
        assert name.startswith(PREFIX), f"{name} is no variable of tocsin"
        assert_names_a_setting(name)
        monkeypatch.setenv(name, value)
    return Settings()


def assert_names_a_setting(name: str) -> None:
    model: type[BaseModel] = Settings
    *sections, last = name.removeprefix(PREFIX).lower().split("__")
    for section in sections:
        assert section in model.model_fields, f"{name}: there is no section {section!r}"
        annotation = model.model_fields[section].annotation
        assert isinstance(annotation, type) and issubclass(annotation, BaseModel), f"{name}: {section} is no section"
        model = annotation
    assert last in model.model_fields, f"{name}: there is no setting {last!r}"
