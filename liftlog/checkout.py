"""The way from the installed package to the folders of its source checkout: `sim`, `spec` and `jepsen`.

Those folders carry generic names and stay out of the wheel (ADR 0006), so nothing in `liftlog` may import
them. A few commands start work there all the same; they come through here, which tells a user of the wheel
what is missing instead of failing on an import.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from liftlog.types import LiftlogError


def checkout_root() -> Path | None:
    """The folder of the source checkout this package runs from, or None when it runs from a wheel."""
    root = Path(__file__).resolve().parent.parent
    # site-packages never holds a pyproject.toml, and a foreign one would not hold our folders.
    if (root / "pyproject.toml").is_file() and (root / "sim" / "__init__.py").is_file():
        return root
    return None


def source_module(name: str) -> Any:
    """Import `name`, such as ``"sim.sweep"``, from the source checkout.

    Raises `LiftlogError` when this is not a checkout. The result is untyped: `liftlog` must not depend on
    those folders, not even for types.
    """
    root = checkout_root()
    if root is None:
        raise LiftlogError(
            f"{name.partition('.')[0]} needs the source checkout, which the wheel does not contain: "
            "clone the repository and run liftlog from there"
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return importlib.import_module(name)
