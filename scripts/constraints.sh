#!/usr/bin/env bash
# Rewrites constraints.txt from the versions that are installed in .venv now, with the hashes of all their files.
#
# Run it after an update that passed `make test`:
#   .venv/bin/python -m pip install -U -e '.[nats,nkeys,compression,encryption,spec,spark,fuzz,dev]' && make test && scripts/constraints.sh
#
# The hashes are those that the package index tells, for every platform: uv, which is installed into a folder
# of its own for this, asks for them. What is not what it was then will not be installed (scripts/setup.sh).
set -euo pipefail
cd "$(dirname "$0")/.."

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
.venv/bin/python -m venv "$tools/venv"
"$tools/venv/bin/python" -m pip install --quiet --disable-pip-version-check uv
.venv/bin/python scripts/constraints.py needed > "$tools/needed.txt"
"$tools/venv/bin/uv" pip compile --quiet --no-deps --no-annotate --no-header --generate-hashes \
    --output-file "$tools/hashed.txt" "$tools/needed.txt"
.venv/bin/python scripts/constraints.py write "$tools/hashed.txt" > constraints.new
mv constraints.new constraints.txt
