#!/usr/bin/env bash
# Sees to a headless Chromium for the tests that open the reports in a browser, and prints its path.
#
# As root on Debian or Ubuntu it installs the distribution's package; elsewhere it says in one line what to
# install. Without a browser those tests are skipped; nothing else needs one.
set -euo pipefail

say() { printf 'browser: %s\n' "$*" >&2; }

find_browser() {
    local name
    for name in "${CHROMIUM:-chromium}" chromium-browser google-chrome; do
        command -v "$name" && return 0
    done
    return 1
}

if ! find_browser >/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "installing Chromium: apt-get install chromium"
        apt-get update -qq || true
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null || true
    fi
fi
if ! find_browser; then
    say "no Chromium: tests that open reports in a browser are skipped; install the package chromium, or set CHROMIUM=/path/to/it"
    exit 1
fi
