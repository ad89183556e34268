"""The jar cache: class paths by coordinate, fetched once and verified at every start.

A manifest beside the jars remembers what each coordinate resolved to, with SHA-256 sums taken when a download had
matched the repository's published checksum. While it holds, no network is used. How files are fetched is maven.py's.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from xml.etree.ElementTree import ParseError

from tocsin.devcluster import maven
from tocsin.devcluster.errors import DevClusterError
from tocsin.devcluster.files import locked, write_atomically
from tocsin.devcluster.progress import ProgressReporter

CACHE_VARIABLE = "TOCSIN_CACHE_DIR"
FETCHES_AT_ONCE = 6
DAMAGED_NAMED_MAX = 5


@dataclass(frozen=True)
class Jar:
    """One file of a class path; path is relative to the cache."""

    path: str
    sha256: str
    size_bytes: int


def default_cache_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Return where jars are kept between runs."""
    given = environ.get(CACHE_VARIABLE)
    return Path(given) if given else Path.home() / ".cache" / "tocsin"


class JarCache:
    """Class paths under one directory; safe to use from several processes at once."""

    def __init__(self, directory: Path, reporter: ProgressReporter) -> None:
        self._directory = directory.expanduser().absolute()
        self._reporter = reporter

    def class_path(self, coordinates: Sequence[str]) -> tuple[Path, ...]:
        """Return the jars of the coordinates, each resolved alone, first come first; fetch what is missing."""
        try:
            with locked(
                self._directory / "lock",
                on_wait=lambda: self._reporter.say("another process is filling the jar cache, waiting for it"),
            ):
                jars = [jar for coordinate in coordinates for jar in self._jars(coordinate)]
        except OSError as error:
            raise DevClusterError(
                f"the jar cache {self._directory} cannot be used: {error}",
                remedy=f"make it a directory that can be written, or set {CACHE_VARIABLE} to one that can",
            ) from error
        return tuple(dict.fromkeys(self._directory / jar.path for jar in jars))

    def _jars(self, coordinate: str) -> list[Jar]:
        manifest = self._directory / "manifests" / (re.sub(r"[^\w.-]", "_", coordinate) + ".json")
        known = read_manifest(manifest)
        damaged = [jar for jar in known if not matches(self._directory / jar.path, jar)]
        if known and not damaged:
            return known
        for jar in damaged:
            path = self._directory / jar.path
            if path.exists():
                self._reporter.say(f"{path.name} is damaged in the jar cache, downloading it again")
                path.unlink()
        jars = self._fetch(coordinate)
        write_atomically(manifest, json.dumps([asdict(jar) for jar in jars], indent=1))
        return jars

    def _fetch(self, coordinate: str) -> list[Jar]:
        label = coordinate.split(":")[1]
        damaged = maven.drop_damaged(self._directory / "maven")
        for path in damaged[:DAMAGED_NAMED_MAX]:
            self._reporter.say(f"{path.name} is damaged in the jar cache, downloading it again")
        if len(damaged) > DAMAGED_NAMED_MAX:
            self._reporter.say(f"and so are {len(damaged) - DAMAGED_NAMED_MAX} more files")
        try:
            paths = self._fetch_paths(coordinate, label)
        except (OSError, RuntimeError, AssertionError, ParseError, maven.FetchError) as error:
            raise DevClusterError(
                f"{coordinate} (or something it needs) could not be fetched: {error}",
                remedy="check the network, the proxy variables and, if you use a mirror, `central` under [repositories]"
                f" in jgo's configuration file; without a network, copy a filled jar cache to {self._directory}",
            ) from error
        return [describe(path, self._directory) for path in paths]

    def _fetch_paths(self, coordinate: str, label: str) -> list[Path]:
        resolving, fetching = f"resolving {label}", f"fetching {label}"
        try:
            self._reporter.files_started(resolving, None)
            context = maven.context(
                self._directory / "maven", lambda size_bytes: self._reporter.file_received(resolving, size_bytes)
            )
            artifacts = maven.resolve(context, coordinate)
            self._reporter.files_finished(resolving)

            self._reporter.files_started(fetching, len(artifacts))

            def fetch(artifact: maven.Found) -> Path:
                path = artifact.resolve()
                self._reporter.file_received(fetching, path.stat().st_size)
                return path

            with ThreadPoolExecutor(FETCHES_AT_ONCE) as pool:
                return list(pool.map(fetch, artifacts))
        finally:
            self._reporter.files_finished(resolving)
            self._reporter.files_finished(fetching)


def read_manifest(path: Path) -> list[Jar]:
    """Return what a manifest lists; nothing if it is absent or unreadable, which makes it be written anew."""
    try:
        return [Jar(**item) for item in json.loads(path.read_text("utf-8"))]
    except (FileNotFoundError, ValueError, TypeError):
        return []


def describe(path: Path, directory: Path) -> Jar:
    """Return a file's entry for the manifest."""
    return Jar(str(path.relative_to(directory)), sha256_of(path), path.stat().st_size)


def matches(path: Path, jar: Jar) -> bool:
    """Tell whether the file is there and is what the manifest says."""
    try:
        return path.stat().st_size == jar.size_bytes and sha256_of(path) == jar.sha256
    except FileNotFoundError:
        return False


def sha256_of(path: Path) -> str:
    """Return a file's SHA-256 in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
