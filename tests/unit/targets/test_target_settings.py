"""What operators say of targets in the environment: read as documented, and refused with its name where it is wrong."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tocsin.cli.settings_errors import told
from tocsin.config import Settings

SECRET = "whsec_" + "A" * 32


def test_networks_secrets_and_certificates_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOCSIN_WORKER__TARGET_ALLOW", "10.1.0.0/16, fd00:1::/32")
    monkeypatch.setenv("TOCSIN_WORKER__TARGET_DENY", "10.1.9.9")
    monkeypatch.setenv("TOCSIN_WORKER__CA_FILE", "/etc/tocsin/ca.pem")
    monkeypatch.setenv("TOCSIN_WORKER__SIGNING_SECRETS", f'{{"acme": ["{SECRET}", "{SECRET}"], "*": ["{SECRET}"]}}')
    monkeypatch.setenv("TOCSIN_CALLBACK_SECRETS", f"{'n' * 32},{'o' * 32}")
    settings = Settings()
    worker = settings.worker
    assert worker.target_allow == ("10.1.0.0/16", "fd00:1::/32")
    assert worker.target_deny == ("10.1.9.9",)
    assert worker.ca_file == "/etc/tocsin/ca.pem"
    assert [secret.get_secret_value() for secret in worker.signing_secrets["acme"]] == [SECRET, SECRET]
    assert [secret.get_secret_value() for secret in settings.callback_secrets] == ["n" * 32, "o" * 32]
    assert SECRET not in repr(settings)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("TOCSIN_WORKER__TARGET_ALLOW", "10.1.0.1/16"),
        ("TOCSIN_WORKER__TARGET_DENY", "metadata.internal"),
        ("TOCSIN_WORKER__SIGNING_SECRETS", '{"acme": ["hunter2hunter2hunter2hunter2hunter2"]}'),
        ("TOCSIN_WORKER__SIGNING_SECRETS", '{"acme": ["whsec_hunter2!"]}'),
        ("TOCSIN_WORKER__SIGNING_SECRETS", '{"acme": ["whsec_hunter2A"]}'),
        ("TOCSIN_WORKER__SIGNING_SECRETS", '{"acme": []}'),
        ("TOCSIN_WORKER__SIGNING_SECRETS", f'{{"acme": ["{SECRET}", "{SECRET}", "{SECRET}"]}}'),
        ("TOCSIN_CALLBACK_SECRETS", "hunter2"),
        ("TOCSIN_CALLBACK_SECRETS", ",".join(["hunter2" * 5] * 3)),
    ],
)
def test_what_is_wrong_is_named_and_no_secret_is_shown(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValidationError) as caught:
        Settings()
    lines = told(caught.value)
    assert all(line.startswith(variable) for line in lines)
    assert "hunter2" not in " ".join(lines)
