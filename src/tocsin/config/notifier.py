"""Settings of notifiers; a part of those in ``config``."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, field_validator
from pydantic_settings import NoDecode

from tocsin.config.values import SigningSecrets, check_recipient, checked_networks, checked_secrets, listed


class NotifierSettings(BaseModel):
    """Where alerts are posted to, and bounds of posting them."""

    webhooks: dict[str, str] = Field(
        default_factory=dict,
        max_length=10_000,
        description="URLs that alerts are posted to: as JSON, by tenant, * for all other tenants, and @operator for"
        " alerts that are no tenant's",
    )
    signing_secrets: SigningSecrets = Field(
        default_factory=dict, description="with which posts are signed: as worker.signing_secrets, and @operator"
    )
    allow_private: bool = Field(False, description="let webhooks resolve to loopback, private and link-local addresses")
    allow: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="networks, separated by commas, that webhooks may reach all the same"
    )
    deny: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="networks that webhooks may never reach, whatever else is allowed"
    )
    ca_file: str | None = Field(None, description="certificates, in PEM, to trust beside those of the system")
    timeout_s: float = Field(10.0, gt=0, le=60, description="how long one post may take")
    retry_first_s: float = Field(
        1.0, gt=0, description="how long a recipient is left alone after a failure; doubled with each further one"
    )
    retry_max_s: float = Field(300.0, gt=0)
    give_up_after_s: float = Field(3_600.0, gt=0, description="how long an alert is tried before it is dropped")
    queue_max: int = Field(1_000, ge=1, description="alerts of one tenant that wait; beyond, its oldest are dropped")
    waiting_max: int = Field(20_000, ge=1, description="alerts that wait; beyond, the longest queue gives way")
    posts_max: int = Field(64, ge=1, description="posts under way at once")
    recipient_posts_max: int = Field(4, ge=1, description="of these, for one tenant")
    poll_wait_max_s: float = Field(0.1, gt=0)
    group_protocol: str = Field(
        "consumer", pattern="^(consumer|classic)$", description="classic for brokers before 4.0"
    )

    @field_validator("allow", "deny", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return listed(value)

    @field_validator("allow", "deny")
    @classmethod
    def _are_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return checked_networks(value)

    @field_validator("webhooks")
    @classmethod
    def _are_webhooks(cls, value: dict[str, str]) -> dict[str, str]:
        for name, url in value.items():
            check_recipient(name)
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or parts.fragment:
                # The URL may hold a secret, so it is not repeated.
                raise ValueError(f"the webhook of {name!r} is no URL: give http:// or https://, a host and a path")
        return value

    @field_validator("signing_secrets")
    @classmethod
    def _are_secrets(cls, value: SigningSecrets) -> SigningSecrets:
        for name in value:
            check_recipient(name)
        return checked_secrets(value)
