"""scripts/setup.sh says in one line what the system lacks, and as root on Debian installs it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

GOOD_PYTHON = """\
if [ "$1" = "-m" ]; then mkdir -p .venv/bin; echo '#!/bin/bash' > .venv/bin/python
echo 'echo "liftlog 0"' > .venv/bin/liftlog; chmod +x .venv/bin/*; fi
"""
GOOD_JAVA = "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2"


class Machine:
    """A folder with scripts/setup.sh and a PATH on which only chosen commands exist."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commands = folder / "bin"
        self.commands.mkdir()
        (folder / "scripts").mkdir()
        shutil.copy(ROOT / "scripts" / "setup.sh", folder / "scripts")
        for name in ("bash", "dirname", "sed", "head", "mkdir", "chmod", "cat"):
            (self.commands / name).symlink_to(shutil.which(name) or "")
        self.add("id", "echo 1000")

    def add(self, name: str, body: str) -> None:
        path = self.commands / name
        path.write_text(f"#!/bin/bash\n{body}\n")
        path.chmod(0o755)

    def set_up(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.commands / "bash"), "scripts/setup.sh"],
            cwd=self.folder,
            env={"PATH": str(self.commands)},
            capture_output=True,
            text=True,
            timeout=60,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("manager", "remedy"),
    [
        ("apt-get", "sudo apt-get install python3-venv"),
        ("dnf", "sudo dnf install python3"),
        ("pacman", "sudo pacman -S python"),
        ("nothing", "your package manager's packages for Python 3.11"),
    ],
)
def test_without_a_usable_python_one_line_says_what_to_install(
    machine: Machine, manager: str, remedy: str
) -> None:
    machine.add("python3", "exit 1")  # too old, or without venv or pip
    machine.add(manager, "exit 1")
    done = machine.set_up()
    assert done.returncode == 1
    assert remedy in done.stderr and done.stderr.count("\n") == 1


def test_root_on_debian_gets_python_and_java_installed(machine: Machine) -> None:
    machine.add("id", "echo 0")
    machine.add("python3", "exit 1")
    target = machine.commands
    machine.add("python3.good", GOOD_PYTHON)
    machine.add("java.good", GOOD_JAVA)
    shutil.copy(shutil.which("cp") or "", target / "cp")
    machine.add(
        "apt-get",
        f'echo "$@" >> {machine.folder}/calls\n'
        f'case "$*" in *python3-venv*) cp {target}/python3.good {target}/python3;;\n'
        f"*openjdk-17*) cp {target}/java.good {target}/java;; esac",
    )
    done = machine.set_up()
    assert done.returncode == 0, done.stderr
    calls = (machine.folder / "calls").read_text()
    assert "python3-venv" in calls and "openjdk-17-jre-headless" in calls
    assert "ready: liftlog 0" in done.stdout


def test_a_missing_java_is_named_and_does_not_stop_the_set_up(machine: Machine) -> None:
    machine.add("python3", GOOD_PYTHON)
    machine.add("apt-get", "exit 1")
    done = machine.set_up()
    assert done.returncode == 0, done.stderr
    assert "no Java 17 runtime" in done.stdout and "openjdk-17-jre-headless" in done.stdout


@pytest.mark.parametrize(("version", "missing"), [("17.0.15", False), ("21.0.1", False), ("11.0.2", True)])
def test_only_a_new_enough_java_counts(machine: Machine, version: str, missing: bool) -> None:
    machine.add("python3", GOOD_PYTHON)
    machine.add("java", f"echo 'openjdk version \"{version}\"' >&2")
    done = machine.set_up()
    assert done.returncode == 0, done.stderr
    assert ("no Java 17 runtime" in done.stdout) is missing
