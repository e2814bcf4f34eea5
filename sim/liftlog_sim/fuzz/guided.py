"""The parsers of `fuzz/parsers.py` under atheris, which is led by the branches that an input reaches.

    python -m liftlog_sim.fuzz.guided TARGET [-runs=N] [other options of libFuzzer]

It begins with good inputs of the target. libFuzzer ends the process when it has found something, with the
input in a file beside. atheris is the extra `liftlog[fuzz]`: nothing else needs it.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path

from liftlog_sim.chance.draws import Draws

SEEDS = 100
RUNS = "-runs=100000"


def main(arguments: list[str]) -> int:
    """Runs until libFuzzer ends the process. 2 = wrong use."""
    try:
        import atheris
    except ImportError:
        print("this needs atheris; install it with: pip install 'liftlog[fuzz]'", file=sys.stderr)
        return 2
    # The first import of these modules: they come with counters in every branch.
    with atheris.instrument_imports(include=["liftlog"]):
        fuzzing = importlib.import_module("liftlog_sim.fuzz.parsers")
    names = [target.name for target in fuzzing.TARGETS]
    if not arguments or arguments[0] not in names:
        print(f"name a target: {', '.join(names)}", file=sys.stderr)
        return 2
    target = fuzzing.target_named(arguments[0])

    def one_input(data: bytes) -> None:
        _, error = fuzzing.tried(target, data)
        if error:
            raise RuntimeError(error)

    with tempfile.TemporaryDirectory() as corpus:
        for number in range(SEEDS):
            (Path(corpus) / str(number)).write_bytes(target.good(Draws(number)))
        options = arguments[1:] or [RUNS]
        atheris.Setup(["guided", *options, corpus], one_input)
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
