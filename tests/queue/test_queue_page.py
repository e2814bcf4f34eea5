"""docs/queue.md is true: its example runs, and its tables name every operation, option, code and constant."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from liftlog.queue import BigQueue, ErrorCode, QueueError, QueueOptions, QueueService, ResultCode, codes

PAGE = (Path(__file__).resolve().parents[2] / "docs/queue.md").read_text()


def test_the_example_runs_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "docs/queue.md", "exec"), {})
    assert (tmp_path / "orders").is_dir()


def test_every_public_operation_is_on_the_page() -> None:
    missing = [
        f"{prefix}.{name}"
        for prefix, kind in (("queue", BigQueue), ("service", QueueService))
        for name in vars(kind)
        if not name.startswith("_") and f"{prefix}.{name}" not in PAGE
    ]
    assert not set(missing) - {
        "queue.open",  # named with its class
        "service.topics",
        "service.queue",
        "service.flush",
        "service.close",
        "queue.close",
    }, missing
    assert "BigQueue.open(" in PAGE and "`close`" in PAGE


def test_every_operation_of_the_design_is_mapped() -> None:
    for operation in (
        "enqueue", "dequeue", "isEmpty", "getSize", "removeBefore", "limitBackFileSize", "getBackFileSize",
        "findClosestIndex", "flush", "produce", "asyncProduce", "consume", "findClosestIndexByTime",
        "deleteTopic", "access by index", "peek", "delete",
    ):  # fmt: skip
        assert re.search(rf"^\| `?{operation}\b", PAGE, re.MULTILINE), operation


def test_the_tables_give_every_code_its_number_exception_and_result() -> None:
    rows = dict(re.findall(r"^\| `([A-Z_]+)` \| (\d.*)$", PAGE, re.MULTILINE))
    assert {name: int(row.split(" |")[0]) for name, row in rows.items()} == {
        code.name: code.value for code in (*ResultCode, *ErrorCode)
    }
    errors = {kind.code: kind for kind in vars(codes).values() if is_error(kind)}
    assert set(errors) == set(ErrorCode)
    for code, kind in errors.items():
        _, exception, result, _ = [cell.strip() for cell in rows[code.name].split("|")][:4]
        assert f"`{kind.__name__}`" in exception
        assert result.startswith(kind.result.name), (code, result)


def is_error(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, QueueError) and kind is not QueueError


def test_the_option_table_has_every_option_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (`[^`]*`|[^|]*) \|", PAGE.split("## Options")[1], re.MULTILINE))
    defaults = QueueOptions()
    for name in QueueOptions.__struct_fields__:
        value = getattr(defaults, name)
        shown = rows[name].strip().strip("`")
        if isinstance(value, str):
            assert shown == f'"{value}"', name
        else:
            assert value == (int(shown[:-4]) << 20 if shown.endswith(" MiB") else int(shown)), name


def test_the_constants_are_those_of_the_design() -> None:
    assert (codes.EARLIEST, codes.LATEST, codes.RANDOM_PARTITION) == (-1, -2, -1)
    assert (codes.EARLIEST_INDEX, codes.LATEST_INDEX) == ("earliest", "latest")
