# Sourced by the other scripts: creates .venv with the package, and installs Java if it is missing.
# Usage: . scripts/env.sh EXTRAS [lowest]   (EXTRAS: "" or "[test]"; lowest: in .venv-lowest, with the lowest versions of
# the dependencies that pyproject.toml allows, instead of those in requirements.lock)

set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv="$root/.venv${2:+-$2}"
java_help="install a JRE of Java 17 or newer (Debian and Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17), then run this again"

say() { printf '%s\n' "$*" >&2; }
die() { say "$*"; exit 2; }

suits() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; }

find_python() {
    local name
    for name in python3.11 python3.12 python3.13 python3; do
        if command -v "$name" >/dev/null && suits "$name"; then
            printf '%s' "$name"
            return
        fi
    done
    if may_apt && apt_install python3 python3-venv && suits python3; then
        printf 'python3'
        return
    fi
    die "Python 3.11, 3.12 or 3.13 is needed; install one of them, then run this again"
}

may_apt() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

apt_install() {
    say "Installing $* by apt-get"
    { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$@"; } >&2
}

has_java() {
    local program=java major
    [ -n "${JAVA_HOME:-}" ] && program="$JAVA_HOME/bin/java"
    command -v "$program" >/dev/null || return 1
    major=$("$program" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
    [ "${major:-0}" -ge 17 ]
}

install_java() {
    has_java && return
    may_apt || die "Spark needs Java: $java_help"
    apt_install openjdk-17-jre-headless || apt_install default-jre-headless || die "Spark needs Java: $java_help"
    has_java || die "Spark needs Java: $java_help"
}

has_pip() { "$venv/bin/python" -m pip --version >/dev/null 2>&1; }

lowest_versions() {
    "$1" - "$root/pyproject.toml" <<'EOF'
import re, sys, tomllib
project = tomllib.load(open(sys.argv[1], "rb"))["project"]
for needed in project["dependencies"] + project["optional-dependencies"]["record"]:
    print("{}=={}".format(*re.match(r"([\w-]+).*?>=([\d.]+)", needed).groups()))
EOF
}

make_venv() {
    local python stamp wanted constraints="$root/requirements.lock"
    python=$(find_python)
    # An installation for this pyproject.toml and these extras is not repeated.
    wanted="$1 $(cat "$root/pyproject.toml" "$root/requirements.lock" | cksum)"
    stamp="$venv/.installed${1//[^a-z]/}"
    if [ -x "$venv/bin/logjudge" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then return; fi
    if ! "$python" -c 'import ensurepip' 2>/dev/null; then
        may_apt || die "$python has no ensurepip; install the package python3-venv, then run this again"
        apt_install python3-venv
    fi
    # An interrupted creation leaves a Python without pip; ensurepip, too, can fail once and succeed the next time.
    has_pip || "$python" -m venv "$venv" ||
        { say "$python could not create $venv; trying once more"; "$python" -m venv "$venv"; }
    if [ "$2" = lowest ]; then
        constraints="$venv/lowest.txt"
        lowest_versions "$python" >"$constraints"
    fi
    say "Installing logjudge$1 into $venv (some minutes the first time: Spark is 450 MB)"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        --constraint "$constraints" --editable "$root$1" >&2
    # pip compiles what it installs, but not an editable package. With PYTHONDONTWRITEBYTECODE each start would.
    (cd "$root" && "$venv/bin/python" -m compileall -q analysis cli histories models plots)
    printf '%s' "$wanted" >"$stamp"
}

install_java
make_venv "${1:-}" "${2:-}"
# Workers of Spark must run this Python, whatever PATH or the environment contains.
export PYSPARK_PYTHON="$venv/bin/python"
unset SPARK_HOME PYTHONPATH
