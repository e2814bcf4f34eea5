"""The table of docs/jetstream.md is what the tests of this folder prove; every test proves a line of it."""

from __future__ import annotations

import ast
import runpy

from tests.jetstream.results import ROOT, Results, split
from tests.jetstream.strict import strange, strange_answer

SCRIPT = runpy.run_path(str(ROOT / "scripts" / "jetstream_page.py"))


def test_the_page_is_of_these_tests() -> None:
    page: str = SCRIPT["page"]()
    assert page == SCRIPT["PAGE"].read_text(), "run .venv/bin/python scripts/jetstream_page.py"


def test_every_test_proves_a_line() -> None:
    for path in (ROOT / "tests" / "jetstream").glob("test_*.py"):
        for test in ast.parse(path.read_text()).body:
            if isinstance(test, ast.AsyncFunctionDef) and test.name.startswith("test_"):
                marks = {ast.unparse(one).partition("(")[0] for one in test.decorator_list}
                assert marks & {"proves", "proves_each"}, f"{path.name}: {test.name} proves nothing: mark it"


def test_the_results_know_every_test_and_no_other() -> None:
    known = {test for test, _ in SCRIPT["proofs"]()}
    assert known == set(Results.read().tests), 'run pytest tests/jetstream -m "real or nightly" --rewrite'
    assert len(known) >= 200


def test_every_test_is_right_about_nats_server() -> None:
    results = Results.read()
    assert [test for test in results.tests if results.of(test, "nats-server") != "+"] == []


def test_a_name_is_split_into_the_test_and_the_server() -> None:
    assert split("tests/jetstream/test_pull.py::test_x[liftlog-3]") == ("test_pull.py::test_x", "liftlog-3")
    assert split("a/test_x.py::test_x[liftlog-a few]") == ("test_x.py::test_x[a few]", "liftlog")
    assert split("a/test_x.py::test_x[nats-server-a[0]]") == ("test_x.py::test_x[a[0]]", "nats-server")
    assert split("a/test_table.py::test_x") is None


def test_what_clients_do_not_know_is_found() -> None:
    assert strange_answer({"stream": "S", "seq": 1}) == []
    assert strange_answer({"stream": "S", "seq": 1, "offset": 0}) == ["publish.offset is unknown"]
    assert strange_answer({"stream": "S"}) == ["publish.seq is missing"]
    assert strange_answer({"type": "io.nats.jetstream.api.v1.dance_response"}) == [
        "type io.nats.jetstream.api.v1.dance_response is unknown"
    ]
    error = {"code": 404, "err_code": 10059, "description": "stream not found"}
    told = {"type": "io.nats.jetstream.api.v1.stream_info_response", "error": error}
    assert strange_answer(told) == []
    told["error"] = error | {"hint": "make it"}
    assert strange_answer(told) == ["stream_info.error.hint is unknown"]
    assert strange({"a": [{"b": 1}]}, {"a": [{"c!": None}]}) == [".a[0].b is unknown", ".a[0].c is missing"]
