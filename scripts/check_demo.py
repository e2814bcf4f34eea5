"""Verifies the summary that `liftlog demo` left: every part ran, and nothing was lost. Exit code 1 if not.

python scripts/check_demo.py store/demo/latest/summary.json
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SECONDS_MAX = 240


def problems(summary: dict[str, Any]) -> Iterator[str]:
    simulation, planted = summary.get("simulation"), summary.get("planted")
    real, spark = summary.get("real"), summary.get("spark")
    if not simulation or simulation["violations"] != 0 or simulation["checks"] <= 0:
        yield f"the simulation did not pass: {simulation}"
    elif simulation["unreached"]:
        yield f"the simulation never reached {', '.join(simulation['unreached'])}"
    if not planted or not planted["caught"] or not planted["clean_without"] or not planted["replay"]:
        yield f"the planted bug was not caught: {planted}"
    if not real or real["acked"] != real["messages"] or real["messages"] <= 0:
        yield f"not every message was acknowledged: {real}"
    elif real["lost"] != 0 or real["failover_ms"] <= 0:
        yield f"messages were lost, or no fail-over took place: {real}"
    else:
        yield from consumed(real["consumer"], real["processor"])
    if not spark or spark["verdict"] != "valid" or not Path(spark["report"]).is_file():
        yield f"the check on Spark did not pass: {spark}"
    if summary["exit_code"] != 0:
        yield f"the exit code was {summary['exit_code']}"
    if summary["seconds"] > SECONDS_MAX:
        yield f"it took {summary['seconds']:.0f} s, more than {SECONDS_MAX}"


def consumed(consumer: dict[str, Any], processor: dict[str, Any]) -> Iterator[str]:
    if consumer["messages"] <= 0 or consumer["never_acked"] or consumer["acked_again"]:
        yield f"the consumer skipped messages, or gave some again after their ack: {consumer}"
    elif consumer["again"] <= 0 or consumer["failover_ms"] <= 0:
        yield f"no message was given again, or no fail-over took place under the consumer: {consumer}"
    if processor["outputs"] <= 0 or processor["wrong"]:
        yield f"the processor's outputs are not those of its inputs: {processor}"


def main() -> int:
    summary = json.loads(Path(sys.argv[1]).read_text())
    found = list(problems(summary))
    for problem in found:
        print(f"demo: {problem}", file=sys.stderr)
    if not found:
        print(f"demo: verified {sys.argv[1]}: all parts passed in {summary['seconds']:.0f} s")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
