"""The way from `liftlog` to the other rooms of the product: `liftlog_sim`, `liftlog_spec` and
`liftlog_jepsen`.

They stand on `liftlog`, so nothing in it may import them. A few commands start work there all the same; they
come through here when they do, and pay for Spark or z3 then only.
"""

from __future__ import annotations

import importlib
from typing import Any


def room_module(name: str) -> Any:
    """Import `name`, such as ``"liftlog_sim.sweeps.sweep"``.

    The result is untyped: `liftlog` must not depend on those rooms, not even for types.
    """
    return importlib.import_module(name)
