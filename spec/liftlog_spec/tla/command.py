"""`liftlog spec export` and `liftlog spec tlc`: models as TLA+, and what TLC finds in them."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import msgspec

from liftlog.types import LiftlogError
from liftlog_spec.checking import print_json
from liftlog_spec.lang.types import SpecError
from liftlog_spec.registry import MODELS, build, entry_of, variants_of
from liftlog_spec.tla.files import (
    FOLDER,
    TLC_VARIABLE,
    Comparison,
    compare,
    default_folder,
    differences,
    files_of,
    kept_files,
    write,
)


def add_export(verbs: Any) -> None:
    parser = verbs.add_parser("export", help="write the models as TLA+ modules")
    parser.add_argument("--model", default="", metavar="NAME", help="only this one; needs --folder")
    parser.add_argument(
        "--variant", default="", metavar="NAME", help="a variant of the model, or all; needs --folder"
    )
    parser.add_argument("--folder", type=Path, metavar="F", help=f"default: {default_folder()}")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if a file is not up to date"
    )
    parser.set_defaults(run=_export)


def _export(arguments: argparse.Namespace) -> int:
    try:
        wanted = _wanted(arguments)
    except SpecError as error:
        raise LiftlogError(str(error)) from None
    if not arguments.check:
        for path in write(wanted, arguments.folder or default_folder()):
            print(path)
        return 0
    folder = arguments.folder or FOLDER
    lines = differences(wanted, folder)
    print("\n".join(lines) or f"{folder} is up to date")
    return 1 if lines else 0


def _wanted(arguments: argparse.Namespace) -> dict[str, str]:
    """File name -> content. Raises SpecError for a model or variant that is not there."""
    model, variant = arguments.model, arguments.variant
    if not model and not variant:
        return kept_files()
    if arguments.folder is None:
        raise LiftlogError(
            "--model and --variant need --folder: the default folder keeps one module per model"
        )
    if not model and variant != "all":
        raise LiftlogError("--variant needs --model NAME, or is all")
    wanted: dict[str, str] = {}
    for name in [entry_of(model).name] if model else MODELS:
        for choice in variants_of(name) if variant == "all" else [variant]:
            wanted.update(files_of(build(name, choice, {})))
    return wanted


def add_tlc(verbs: Any) -> None:
    parser = verbs.add_parser(
        "tlc",
        help="explore models with TLC as well, and compare the counts",
        description=f"Needs Java, and {TLC_VARIABLE} in the environment: the path of a tla2tools.jar.",
    )
    parser.add_argument("--model", default="", metavar="NAME", help=f"default: all of {', '.join(MODELS)}")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.set_defaults(run=_tlc)


def _tlc(arguments: argparse.Namespace) -> int:
    jar = os.environ.get(TLC_VARIABLE, "")
    if not jar:
        raise LiftlogError(f"set {TLC_VARIABLE} to the path of a tla2tools.jar")
    if not Path(jar).is_file():
        raise LiftlogError(f"{TLC_VARIABLE} names {jar}, which is no file")
    found = []
    try:
        for name in [entry_of(arguments.model).name] if arguments.model else MODELS:
            found.append(compare(name, jar))
            if not arguments.json:
                print(_line(found[-1]), flush=True)
    except SpecError as error:
        raise LiftlogError(str(error)) from None
    if arguments.json:
        print_json(msgspec.to_builtins(found))
    return 0 if all(each.equal for each in found) else 1


def _line(found: Comparison) -> str:
    bounds = " ".join(f"--{flag} {value}" for flag, value in found.bounds.items())
    said = " and ".join(
        f"{who} {result.distinct_states:,} states, depth {result.depth}"
        + (f", {result.violated} violated" if result.violated else "")
        for who, result in (("here", found.ours), ("TLC", found.theirs))
    )
    return f"{'equal' if found.equal else 'DIFFERENT'}: {found.model} {bounds}: {said}".replace(" :", ":")
