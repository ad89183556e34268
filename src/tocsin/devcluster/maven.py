"""Resolving and fetching from a Maven repository through jgo. The only module that knows jgo.

jgo finds the dependencies; the download is ours, for three reasons: jgo only warns when a file differs from its
published checksum, it writes straight to the final name (so that a broken download is taken for a whole one later),
and it opens a connection for each file. `jgo.build` is not used, for it fetches a second Java to classify jars.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import requests  # comes with jgo, whose proxies and certificates are ours too
from jgo.config import GlobalSettings
from jgo.maven import Artifact, MavenContext, PythonResolver
from urllib3.util import Retry

CHUNK_BYTES = 1 << 16
CONNECT_READ_TIMEOUT_S = (10, 60)
RETRIES = 3
CONNECTIONS_MAX = 8

OnFile = Callable[[int], None]
"""Called with the size of each file that has been fetched and verified."""


Found = Artifact
"""An artifact of a resolved class path, for callers that need not know jgo."""


class FetchError(Exception):
    """A file could not be fetched, or is not what its repository's checksum says."""


class VerifyingResolver(PythonResolver):
    """jgo's resolver with a download that refuses what does not match the published SHA-1."""

    def __init__(self, on_file: OnFile) -> None:
        super().__init__()
        self._on_file = on_file
        self._session = requests.Session()
        retry = Retry(total=RETRIES, backoff_factor=0.5, status_forcelist=(429, 500, 502, 503, 504))
        adapter = requests.adapters.HTTPAdapter(max_retries=retry, pool_maxsize=CONNECTIONS_MAX)
        self._session.mount("https://", adapter)
        self._session.mount("http://", adapter)

    def download(self, artifact: Artifact) -> Path:
        """Fetch one artifact into the local repository, from the first remote that has it."""
        target = path_of(artifact)
        path = f"{artifact.component.path_prefix.as_posix()}/{artifact.filename}"
        for remote in artifact.context.remote_repos.values():
            url = f"{remote.rstrip('/')}/{path}"
            with self._session.get(url, stream=True, timeout=CONNECT_READ_TIMEOUT_S) as response:
                if response.status_code == requests.codes.not_found:
                    continue
                response.raise_for_status()
                self._on_file(self._receive(response, url, target))
                return target
        raise FetchError(f"{artifact} is in none of the repositories {', '.join(artifact.context.remote_repos)}")

    def _receive(self, response: requests.Response, url: str, target: Path) -> int:
        target.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha1()  # what every Maven repository publishes; SHA-256 is published by only some
        size_bytes = 0
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=".part-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                for chunk in response.iter_content(CHUNK_BYTES):
                    file.write(chunk)
                    digest.update(chunk)
                    size_bytes += len(chunk)
            published = self._published_sha1(url)
            if digest.hexdigest() != published:
                raise FetchError(f"{url} has SHA-1 {digest.hexdigest()}, but {published} is published")
            _checksum_file(target).write_text(published, "utf-8")
            Path(temporary).chmod(0o644)
            Path(temporary).replace(target)
        finally:
            Path(temporary).unlink(missing_ok=True)
        return size_bytes

    def _published_sha1(self, url: str) -> str:
        response = self._session.get(f"{url}.sha1", timeout=CONNECT_READ_TIMEOUT_S)
        response.raise_for_status()
        words = response.text.split()  # "HEX" or "HEX  file name"
        if not words:
            raise FetchError(f"{url}.sha1 is empty")
        return words[0].lower()


def context(repository: Path, on_file: OnFile) -> MavenContext:
    """Return jgo's context over our own local repository, with the remotes of jgo's configuration file.

    A `central` entry under `[repositories]` there is a mirror: it stands in for the default.
    """
    remotes = {**MavenContext().remote_repos, **GlobalSettings.load().repositories}
    return MavenContext(resolver=VerifyingResolver(on_file), repo_cache=repository, remote_repos=remotes)


def drop_damaged(repository: Path) -> list[Path]:
    """Remove from the local repository what is not what was published, for jgo takes any file there as it is."""
    damaged = []
    for path in (found for suffix in ("*.pom", "*.jar") for found in repository.rglob(suffix)):
        checksum = _checksum_file(path)
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha1").hexdigest()
        if not checksum.exists() or checksum.read_text("utf-8") != digest:
            path.unlink()
            damaged.append(path)
    return damaged


def path_of(artifact: Artifact) -> Path:
    """Return where the local repository keeps an artifact, there or not."""
    path = artifact.cached_path
    assert path is not None, "the context has a local repository"
    return path


def _checksum_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha1")


def resolve(maven: MavenContext, coordinate: str) -> list[Artifact]:
    """Return the artifact of a coordinate and all that it needs at run time, in jgo's order."""
    dependency = maven.create_dependency(coordinate)
    inputs, transitive = maven.resolver.resolve([dependency])
    needed = [found for found in transitive if found.scope in ("compile", "runtime") and found.type == "jar"]
    return [found.artifact for found in (*inputs, *needed)]
