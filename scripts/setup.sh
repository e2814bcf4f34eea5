#!/usr/bin/env bash
# Creates .venv with liftlog and everything its tests and its demo need.
#
# What the system must provide is Python 3.11 or newer with venv and pip, and, for the checks on Spark, a Java 17
# runtime. When one is missing this says in one line what to install; as root on Debian or Ubuntu it installs it.
# A missing Java does not stop the set-up: all but the Spark checks work without it.
set -euo pipefail
cd "$(dirname "$0")/.."

EXTRAS="${LIFTLOG_EXTRAS:-nats,nkeys,compression,encryption,spec,spark,dev}"
DEBIAN_PYTHON="python3-venv"
DEBIAN_JAVA="openjdk-17-jre-headless"

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# The command line that installs Python or Java with the system's own package manager.
install_hint() {
    local sudo=""
    [ "$(id -u)" = 0 ] || sudo="sudo "
    case "$1" in
        python) set -- "$DEBIAN_PYTHON" "python3" "python" "python3 py3-pip" "python311" "python@3.12" ;;
        java) set -- "$DEBIAN_JAVA" "java-17-openjdk-headless" "jre17-openjdk-headless" "openjdk17-jre-headless" \
            "java-17-openjdk-headless" "openjdk@17" ;;
    esac
    if command -v apt-get >/dev/null; then echo "${sudo}apt-get install $1"
    elif command -v dnf >/dev/null; then echo "${sudo}dnf install $2"
    elif command -v pacman >/dev/null; then echo "${sudo}pacman -S $3"
    elif command -v apk >/dev/null; then echo "${sudo}apk add $4"
    elif command -v zypper >/dev/null; then echo "${sudo}zypper install $5"
    elif command -v brew >/dev/null; then echo "brew install $6"
    else echo "your package manager's packages for Python 3.11 (with venv and pip) and a Java 17 runtime"
    fi
}

may_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

APT_READY=""
apt_install() {
    if [ -z "$APT_READY" ]; then
        apt-get update -qq || return 1
        APT_READY=yes
    fi
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# Prints the first Python that is new enough and can create virtual environments with pip.
find_python() {
    local candidate path
    for candidate in "${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11; do
        path=$(command -v "$candidate") || continue
        if "$path" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$path"
            return 0
        fi
    done
    return 1
}

# Succeeds if a Java runtime of version 17 or newer is there, where PySpark looks for it.
java_ready() {
    local java version
    if [ -n "${JAVA_HOME:-}" ]; then java="$JAVA_HOME/bin/java"; else java="java"; fi
    version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1) || return 1
    [ "${version:-0}" -ge 17 ] 2>/dev/null
}

if ! python=$(find_python); then
    if may_install; then
        say "installing Python with venv and pip: apt-get install $DEBIAN_PYTHON"
        apt_install "$DEBIAN_PYTHON" || true
        python=$(find_python) || fail "no Python >= 3.11 with venv and pip; install one, then set PYTHON=/path/to/it"
    else
        fail "no Python >= 3.11 with venv and pip was found; install it with: $(install_hint python)"
    fi
fi

if ! java_ready; then
    if may_install; then
        say "installing a Java runtime for Spark: apt-get install $DEBIAN_JAVA"
        apt_install "$DEBIAN_JAVA" || apt_install default-jre-headless || true
    fi
    java_ready || say "no Java 17 runtime: the Spark checks will not run; install it with: $(install_hint java)"
fi

if ! .venv/bin/python -c 'import pip' 2>/dev/null; then
    say "creating .venv with $("$python" --version)"
    "$python" -m venv --clear .venv
fi
say "installing liftlog[$EXTRAS] into .venv at the versions of constraints.txt (Spark is some 450 MB: minutes)"
export PIP_DISABLE_PIP_VERSION_CHECK=1

# Installs what constraints.txt names for some extras: files with other hashes than it says are refused.
install_locked() {
    .venv/bin/python scripts/locked.py "$1" > .venv/locked.txt
    shift
    .venv/bin/python -m pip install --quiet --no-warn-script-location --require-hashes -r .venv/locked.txt "$@"
}
# The tools that build come first; what comes as source, liftlog too, is then built with them and no others.
install_locked build
install_locked "base,$EXTRAS" --no-build-isolation
.venv/bin/python -m pip install --quiet --no-warn-script-location --no-build-isolation --no-deps -e .
say "ready: $(.venv/bin/liftlog --version) in .venv/bin/liftlog"
