"""The jar cache against a pretended repository: what is fetched when, and what is refused."""

import hashlib
import http.server
import threading
from pathlib import Path

import pytest
from jgo.maven import MavenContext

from tocsin.devcluster import DevClusterError, maven
from tocsin.devcluster.jars import JarCache
from tocsin.devcluster.progress import SayOnly

COORDINATE = "org.example:thing:1.0"
JAR = "org/example/thing/1.0/thing-1.0.jar"
POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>org.example</groupId><artifactId>thing</artifactId><version>1.0</version></project>"""


class Repository:
    """A Maven repository on loopback that counts what is asked of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.asked: list[str] = []
        outer = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *arguments):
                super().__init__(*arguments, directory=str(root))

            def do_GET(self):
                outer.asked.append(self.path.lstrip("/"))
                super().do_GET()

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def publish(self, path: str, content: bytes, sha1: str | None = None) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        file.with_name(f"{file.name}.sha1").write_text((sha1 or hashlib.sha1(content).hexdigest()) + "  name\n")


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(maven, "RETRIES", 0)
    repository = Repository(tmp_path / "remote")
    repository.publish(JAR, b"jar content")
    repository.publish(JAR.replace(".jar", ".pom"), POM.encode())

    def context(local, on_file):
        resolver = maven.VerifyingResolver(on_file)
        return MavenContext(resolver=resolver, repo_cache=local, remote_repos={"central": repository.url})

    monkeypatch.setattr(maven, "context", context)
    yield repository
    repository.server.shutdown()
    repository.server.server_close()


@pytest.fixture
def said():
    return []


@pytest.fixture
def cache(tmp_path, said):
    return JarCache(tmp_path / "cache", SayOnly(said.append))


def test_a_second_look_needs_no_network(repository, cache):
    first = cache.class_path([COORDINATE])
    assert [path.read_bytes() for path in first] == [b"jar content"]
    repository.asked.clear()
    assert cache.class_path([COORDINATE]) == first
    assert repository.asked == []


def test_a_damaged_jar_is_fetched_again_and_alone(repository, cache, said):
    (jar,) = cache.class_path([COORDINATE])
    jar.write_bytes(b"jar c0ntent")  # same length
    repository.asked.clear()
    (again,) = cache.class_path([COORDINATE])
    assert again.read_bytes() == b"jar content"
    assert repository.asked == [JAR, f"{JAR}.sha1"]
    assert "thing-1.0.jar is damaged in the jar cache, downloading it again" in said


def test_a_damaged_jar_is_noticed_without_a_manifest_too(repository, cache, tmp_path):
    (jar,) = cache.class_path([COORDINATE])
    jar.write_bytes(b"jar c0ntent")
    for manifest in (tmp_path / "cache" / "manifests").iterdir():
        manifest.write_text("not json")
    (again,) = cache.class_path([COORDINATE])
    assert again.read_bytes() == b"jar content"


def test_what_differs_from_its_published_checksum_is_refused_and_not_kept(repository, cache, tmp_path):
    repository.publish(JAR, b"evil content", sha1="0" * 40)
    with pytest.raises(DevClusterError, match=rf"{COORDINATE}.*is published"):
        cache.class_path([COORDINATE])
    assert not list((tmp_path / "cache").rglob("*.jar"))
    assert not list((tmp_path / "cache").rglob(".part-*"))


def test_without_a_network_the_coordinate_and_the_remedy_are_named(repository, cache):
    repository.server.shutdown()
    repository.server.server_close()
    with pytest.raises(DevClusterError, match=COORDINATE) as raised:
        cache.class_path([COORDINATE])
    assert "network" in raised.value.remedy


def test_an_artifact_that_nobody_has_is_named(repository, cache):
    with pytest.raises(DevClusterError, match=r"org\.example:absent:1\.0"):
        cache.class_path(["org.example:absent:1.0"])


def test_two_at_once_fetch_each_file_once(repository, tmp_path):
    found = []

    def look():
        found.append(JarCache(tmp_path / "cache", SayOnly(lambda _: None)).class_path([COORDINATE]))

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1
    assert repository.asked.count(JAR) == 1
