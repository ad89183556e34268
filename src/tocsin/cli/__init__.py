"""The command line: one thin module a noun, which parses words, calls ``bootstrap`` and shows what came of it."""

from tocsin.cli.app import main

__all__ = ["main"]
