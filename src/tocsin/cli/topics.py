"""``tocsin topics plan | apply``."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.table import Table

from tocsin.adapters.kafka.topics import TopicChange
from tocsin.bootstrap.cluster import apply_topics, open_store, plan_topics, topic_admin
from tocsin.config import Settings

app = typer.Typer(no_args_is_help=True, help="Declared topics: what differs, and making it so.")
console = Console()


@app.command()
def plan() -> None:
    """Show what the declared topics need; exit 2 where something does."""
    settings = Settings()
    changes = plan_topics(settings, topic_admin(settings))
    _show(changes)
    raise typer.Exit(2 if any(change.action != "none" for change in changes) else 0)


@app.command()
def apply() -> None:
    """Create and alter topics as declared, and record the cluster's facts."""
    settings = Settings()
    with open_store(settings) as connection:
        _show(apply_topics(settings, connection))


def _show(changes: list[TopicChange]) -> None:
    table = Table("topic", "partitions", "action", "what")
    for change in changes:
        what = change.problem or ", ".join(f"{name}: {old} → {new}" for name, (old, new) in change.config.items())
        table.add_row(change.declaration.name, str(change.declaration.partitions), change.action, what)
    console.print(table)
