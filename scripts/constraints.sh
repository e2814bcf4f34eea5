#!/usr/bin/env bash
# Rewrites constraints.txt from the versions that are installed in .venv now.
#
# Run it after an update that passed `make test`:
#   .venv/bin/pip install -U -e '.[nats,nkeys,compression,encryption,spec,spark,dev]' && make test && scripts/constraints.sh
set -euo pipefail
cd "$(dirname "$0")/.."

{
    echo "# Exact versions that the tests ran with; \`make venv\` installs these. Kept by scripts/constraints.sh."
    {
        .venv/bin/pip freeze --exclude-editable
        # Build tools of source distributions are not in a freeze, yet the same ones should build tomorrow.
        grep -E '^(setuptools|wheel)==' constraints.txt
    } | LC_ALL=C sort -f -u
} > constraints.new
mv constraints.new constraints.txt
