"""Programs that tests build, where Go is there, and run to their end."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
GO = shutil.which("go") or shutil.which("/usr/local/go/bin/go")


def go(module: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command of Go in a module's folder: with this Go, and the packages that the module names."""
    assert GO is not None
    return subprocess.run(
        [GO, *words],
        cwd=module,
        env=os.environ | {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -buildvcs=false"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def build_with_go(module: Path, output: str, *packages: str) -> None:
    """Build packages that a module has or names; skips the test where there is no Go, or no way to fetch what
    it needs. `output`: a file, or, with a slash at its end, a folder.
    """
    if GO is None:
        pytest.skip("there is no go here; install Go 1.26")
    fetched = go(module, "mod", "download")
    if fetched.returncode:
        where, why = module.relative_to(ROOT), fetched.stderr.strip()[-300:]
        pytest.skip(f"the modules of {where} cannot be fetched: {why}")
    built = go(module, "build", "-o", output, *packages)
    assert built.returncode == 0, built.stderr


async def finished(*command: str, environment: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a program with nothing on stdin; killed if the test ends before it.
    `environment` None: ours.
    """
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=environment
    )
    try:
        out, error = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return process.returncode, out.decode(), error.decode()
