#!/usr/bin/env bash
# Measures what papers/README.md says of response times, on a quiet machine, in about 35 minutes.
#
# Prints the tables for that page and draws its pictures; every round of every run goes to build/latency-*.json.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build

measure() {
    local name="$1"
    shift
    .venv/bin/liftlog bench latency --vs jetstream --markdown --json "build/$name.json" "$@"
}
measure latency --replicas 1 3 --svg papers/latency.svg
measure latency-128 --replicas 3 --size 128 --rate 20000
measure latency-five --five --replicas 1 3 --seconds 5 --rounds 3 --svg papers/latency-five.svg
