"""What a simulator must not do, planted into a world: for `tests/sim/test_twice.py`."""

from __future__ import annotations

import threading
import time

from liftlog_sim.kernel import SECOND
from liftlog_sim.world import World

NAMES = ("orders", "payments", "refunds", "returns", "letters", "parcels", "stamps", "coins")


def nothing(first: object, second: object) -> None:
    """It happens, and that is all."""


def hash_order(world: World) -> None:
    """Somebody draws by a number that `hash()` gave."""

    def go(first: object, second: object) -> None:
        first_name = min(NAMES, key=hash)
        world.chances.draws("planted", first_name).random()
        world.kernel.after(1 + NAMES.index(first_name), nothing)

    world.kernel.at(SECOND, go)


def wall_time(world: World) -> None:
    """Somebody waits for as long as the clock of the machine says."""

    def go(first: object, second: object) -> None:
        world.kernel.after(1 + time.time_ns() % 1_000_003, nothing)

    world.kernel.at(SECOND, go)


def set_order(world: World) -> None:
    """Somebody goes through a set, one after the other."""

    def go(first: object, second: object) -> None:
        for name in set(NAMES):
            world.kernel.after(len(name) * 1000, nothing)

    world.kernel.at(SECOND, go)


def thread(world: World) -> None:
    """Somebody lets another thread do something, and does not wait for it."""

    def go(first: object, second: object) -> None:
        threading.Thread(target=lambda: world.kernel.note(1), name="planted", daemon=True).start()

    world.kernel.at(SECOND, go)
