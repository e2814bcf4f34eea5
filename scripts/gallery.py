"""The pictures of docs/gallery: pages of `liftlog sim report` in a headless Chromium.

    .venv/bin/python scripts/gallery.py docs/gallery      # or: make gallery
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), *(str(ROOT / room) for room in ("sim", "spec", "jepsen"))]

from liftlog_sim.page.writing import write_page  # noqa: E402
from tests.jepsen.browser import chromium  # noqa: E402
from tests.sim import page_samples as samples  # noqa: E402

WIDE, NARROW = (1440, 900), (900, 700)
PICTURES = {
    "failure-light": ("truncate_to_hw", WIDE, False, ()),
    "failure-dark": ("truncate_to_hw", WIDE, True, ("d",)),
    "failure-narrow": ("raft_quorum_half", NARROW, False, ()),
    "acked-before-synced": ("ack_at_append", WIDE, False, ("ArrowLeft",)),
    "long-run": ("", WIDE, False, ()),
}
"""Name: planted bug (none = a long run), size, dark, keys."""


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, chromium(Path(scratch) / "profile") as browser:
        for name, (mutant, size, dark, keys) in PICTURES.items():
            page = Path(scratch) / f"{name}.html"
            write_page(samples.chart(mutant) if mutant else samples.huge(), page)
            tab = browser.open(page, *size, dark=dark)
            for key in keys:
                tab.key(key)
            tab.screenshot(folder / f"{name}.png", whole=False)
            tab.close()
            print(f"{folder / name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
