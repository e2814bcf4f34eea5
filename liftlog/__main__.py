"""`python -m liftlog` is the same program as the `liftlog` command."""

import sys

from liftlog.cli import main

if __name__ == "__main__":
    sys.exit(main())
