"""Packs liftlog_jepsen into one zip for Spark's workers: ``spark-submit --py-files build/jepsen.zip``.

Entries are sorted and carry a fixed time, so that the same sources give the same bytes.
"""

import sys
import zipfile
from pathlib import Path

ALONGSIDE = ("liftlog/__init__.py", "liftlog/types.py", "liftlog/version.py")
"""What it needs of the rest of the project on a worker."""


def main() -> int:
    target = Path(sys.argv[1])
    root = Path(__file__).resolve().parent.parent
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        parts = [(root / "jepsen", path) for path in sorted((root / "jepsen" / "liftlog_jepsen").rglob("*"))]
        for above, path in (*parts, *((root, root / name) for name in ALONGSIDE)):
            if path.is_file() and "__pycache__" not in path.parts:
                entry = zipfile.ZipInfo(path.relative_to(above).as_posix(), date_time=(1980, 1, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, path.read_bytes())
    print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
