"""Starts Spark for the checks, and says clearly what is missing when it cannot start.

Spark needs a Java 17 runtime (or later) and the Python packages pyspark, pyarrow and pandas. The memory of
the driver must be known before its Java virtual machine starts, so it is an argument here and cannot be
changed later. Callers that have a session of their own pass it to `liftlog_jepsen.spark.check` and never come
here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import liftlog
import liftlog_jepsen
from liftlog.types import LiftlogError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MAJOR_MIN = 17
INSTALL_JAVA = "install one with `apt-get install openjdk-17-jre-headless` or point JAVA_HOME at one"
DEFAULT_MASTER = "local[2]"
DEFAULT_DRIVER_MEMORY = "4g"
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options for a Java process that lives for seconds: most of its work would otherwise be compiling itself."""
SHUFFLE_PARTITIONS = 16
"""Enough for 10 million rows on a few cores; adaptive execution merges what is too small."""

DRIVER_MEMORY_MIN = 512 * 1024**2
MEMORY_INFO = Path("/proc/meminfo")
CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")

_MEMORY_UNITS = {"k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}


def start_session(
    master: str = DEFAULT_MASTER,
    driver_memory: str | None = DEFAULT_DRIVER_MEMORY,
    *,
    progress: bool = False,
    quick: bool = True,
) -> SparkSession:
    """Start a session, or return the one that runs already in this process.

    `driver_memory` None = the default, or less where less is free.
    `progress` shows Spark's own progress bar on stderr. `quick` has a local Java process start fast rather
    than run fast, which pays off below some ten million rows. Raises LiftlogError with the remedy if
    something is missing.
    """
    require_packages()
    memory = DEFAULT_DRIVER_MEMORY if driver_memory is None else driver_memory
    if master.startswith("local"):
        require_java()
        if driver_memory is None:
            memory = fitting_memory(memory_available())
        require_memory(memory)
        # Workers need this environment's numpy and pyarrow, whatever `python3` on the PATH is, and find this
        # project where it lies.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        for package in (liftlog, liftlog_jepsen):
            _add_to_python_path(Path(package.__file__ or "").resolve().parents[1])
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("liftlog jepsen").master(master)
    for name, value in _settings(master, memory, progress, quick).items():
        builder = builder.config(name, value)
    try:
        session: SparkSession = builder.getOrCreate()
    except PySparkException as error:
        text = str(error).splitlines()[0]
        raise LiftlogError(f"Spark did not start on master {master}: {text}") from None
    except Exception as error:  # py4j's errors share no base class with a stable name
        text = _java_cause(error)
        raise LiftlogError(f"Spark did not start on master {master}: {text}") from None
    session.sparkContext.setLogLevel("ERROR")
    return session


def _settings(master: str, driver_memory: str, progress: bool, quick: bool) -> dict[str, str]:
    settings = {
        "spark.driver.memory": driver_memory,
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": str(progress).lower(),
        "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "true",
        # Histories compress about thirty times: without this a million rows would be one task.
        "spark.sql.files.openCostInBytes": "65536",
    }
    if master.startswith("local"):
        # The driver talks only to itself: no name lookup, nothing on the network.
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        if quick:
            settings["spark.driver.extraJavaOptions"] = QUICK_JAVA
    return settings


def require_spark(master: str) -> None:
    """Raise LiftlogError if a package is missing, or Java where Spark runs on this machine."""
    require_packages()
    if master.startswith("local"):
        require_java()


def require_packages() -> None:
    """Raise LiftlogError if a Python package that Spark needs is not installed."""
    for package in ("pyspark", "pyarrow", "pandas"):
        if find_spec(package) is None:
            raise LiftlogError(
                f"the checks need the Python package {package}: run `make venv`, "
                "or `pip install 'liftlog[spark]'`"
            )


def require_java() -> int:
    """Return the major version of the Java that Spark will use. Raises LiftlogError if missing or too old."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    where = f"JAVA_HOME={home}" if home else "PATH"
    if java is None or not os.path.exists(java):
        raise LiftlogError(
            f"the checks need a Java {JAVA_MAJOR_MIN} runtime, none found in {where}: {INSTALL_JAVA}"
        )
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LiftlogError(f"{java} does not run ({error}): {INSTALL_JAVA}") from None
    major = java_major(answer.stderr + answer.stdout)
    if major is None:
        raise LiftlogError(f"{java} -version does not answer like a Java runtime: {INSTALL_JAVA}")
    if major < JAVA_MAJOR_MIN:
        raise LiftlogError(
            f"{java} is Java {major}, the checks need Java {JAVA_MAJOR_MIN} or later: {INSTALL_JAVA}"
        )
    return major


def java_major(text: str) -> int | None:
    """The major version in what `java -version` printed: 17 for "17.0.15", 8 for "1.8.0_402"."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if found is None:
        return None
    major = int(found.group(1))
    return int(found.group(2) or 0) if major == 1 else major


def require_memory(driver_memory: str) -> None:
    """Raise LiftlogError unless `driver_memory` is well formed, enough for Spark and there on this
    machine."""
    found = re.fullmatch(r"(\d+)([kmgt])", driver_memory.lower())
    if found is None:
        raise LiftlogError(f"driver memory {driver_memory!r} is not a size: write it like 4g or 900m")
    wanted = int(found.group(1)) * _MEMORY_UNITS[found.group(2)]
    if wanted < DRIVER_MEMORY_MIN:
        raise LiftlogError(
            f"driver memory {driver_memory} is too small for Spark: give 512m or more, 4g is the default"
        )
    installed = memory_installed()
    if wanted > installed:
        raise LiftlogError(
            f"driver memory {driver_memory} is more than this machine's {installed / 1024**3:.1f} GiB: "
            "lower --driver-memory"
        )
    free = memory_available()
    if wanted > free:
        raise LiftlogError(
            f"driver memory {driver_memory} is more than the {free / 1024**3:.1f} GiB that are free: "
            f"end other programs, or give --driver-memory {fitting_memory(free)}"
        )


def fitting_memory(free: int) -> str:
    """The default for a machine with so many free bytes: 4g, or less to leave a third to Python's workers."""
    mebibytes = max(DRIVER_MEMORY_MIN, free * 2 // 3) // 1024**2
    return DEFAULT_DRIVER_MEMORY if mebibytes >= 4096 else f"{mebibytes}m"


def memory_installed() -> int:
    """Bytes of memory that this machine has, or that its container may use."""
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _read(CONTAINER_LIMIT).strip()
    return min(installed, int(limit)) if limit.isdecimal() else installed


def memory_available() -> int:
    """Bytes of memory that programs can still get, caches included; all that is installed if nobody says."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", _read(MEMORY_INFO), re.MULTILINE)
    installed = memory_installed()
    return min(installed, int(found[1]) * 1024) if found else installed


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""


def _add_to_python_path(folder: Path) -> None:
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if folder.is_dir() and str(folder) not in (*paths, sysconfig.get_path("purelib")):
        os.environ["PYTHONPATH"] = os.pathsep.join([*paths, str(folder)])


def _java_cause(error: Exception) -> str:
    """The last "Caused by" line of a Java stack trace, or the first line of whatever this is."""
    lines = str(error).splitlines() or [type(error).__name__]
    causes = [line for line in lines if line.startswith(("Caused by:", ": "))]
    return (causes[-1] if causes else lines[0]).removeprefix("Caused by:").removeprefix(": ").strip()


def stop_session(session: SparkSession) -> None:
    """Stop Spark and let its Java process go, so that the command ends promptly."""
    session.stop()
    sys.stderr.flush()
