#!/usr/bin/env bash
# Measures what papers/README.md says of response times, in about 25 minutes in which nothing else should run.
#
# Prints the tables for that page and draws its pictures; every round of every run goes to build/latency*.json.
# What is given here is added to each run, such as --rounds 2.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build

measure() {
    local name="$1"
    shift
    .venv/bin/liftlog bench latency --vs jetstream --markdown --json "build/$name.json" "$@"
}
measure latency --replicas 1 3 --svg papers/latency.svg "$@"
measure latency-128 --replicas 3 --size 128 --rate 20000 "$@"
measure latency-five --five --seconds 5 --rounds 3 --svg papers/latency-five.svg "$@"
