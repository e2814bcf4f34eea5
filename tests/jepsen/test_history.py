"""Histories: what the writer records, and that no form of a history loses or hides anything."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog.types import LiftlogError
from liftlog_jepsen.history import (
    FINAL_POLL,
    MOP_FUNCTIONS,
    OUTCOMES,
    Fault,
    History,
    HistoryWriter,
    Mop,
    Op,
)
from liftlog_jepsen.jsonl import JsonlStream, read_jsonl, write_jsonl
from liftlog_jepsen.parquet import SCHEMAS, read_info, read_parquet, write_parquet
from liftlog_jepsen.store import find_history, new_run, read_history


def clock() -> Callable[[], int]:
    return iter(range(0, 10**9, 10)).__next__


def sample() -> History:
    writer = HistoryWriter("sample", clock_ns=clock(), meta={"seed": "7"})
    writer.client(1, "publisher")
    ids = writer.invoke_sends(1, "s/0", ["a", "b", "c", "d"])
    writer.ok_sends(ids[:2], [0, 1], 4)
    writer.info(ids[2], "timed out")
    poll = writer.invoke(2, FINAL_POLL, "s/0")
    writer.ok_poll(poll, "s/0", 0, ["a", "b"])
    empty = writer.invoke(2, "poll", "s/1")
    writer.ok_poll(empty, "s/1", 0, [])
    writer.fail(writer.invoke(3, "send", "s/1", 17), "too large")
    writer.fault("kill", "node 2", 5, 25)
    writer.fault("cut", "node 1", 30)
    return writer.close()


def contents(history: History) -> tuple[str, dict[str, str], bool, list[Op], list[Fault]]:
    faults = sorted(history.faults, key=lambda fault: (fault.t_start_ns, fault.kind, fault.target))
    return history.name, history.meta, history.complete, sorted(history.ops()), faults


# -- what the writer records ---------------------------------------------------------------------------------


def test_every_operation_has_its_invocation_and_its_completion_in_one_order() -> None:
    ops = list(sample().ops())
    assert [(op.f, op.outcome) for op in ops] == [
        ("send", "ok"),
        ("send", "ok"),
        ("send", "info"),
        ("send", "info"),
        (FINAL_POLL, "ok"),
        ("poll", "ok"),
        ("send", "fail"),
    ]
    positions = [op.idx_inv for op in ops] + [op.idx_ret for op in ops if op.idx_ret is not None]
    assert sorted(positions) == list(range(len(positions)))
    assert [(op.idx_inv, op.idx_ret) for op in ops[:4]] == [(0, 4), (1, 5), (2, 6), (3, None)]
    assert ops[0].mops == (Mop("send", "s/0", 0, "a", 4),)
    assert ops[0].client == "publisher"
    assert ops[4].mops == (Mop("poll", "s/0", 0, "a"), Mop("poll", "s/0", 1, "b"))
    assert ops[2].error == "timed out"


def test_a_poll_that_found_nothing_still_names_its_log() -> None:
    assert list(sample().ops())[5].mops == (Mop("poll", "s/1", None, None),)


def test_batches_and_single_calls_record_the_same() -> None:
    single, batch = HistoryWriter("h", clock_ns=lambda: 5), HistoryWriter("h", clock_ns=lambda: 5)
    ids = [single.invoke(1, "send", "k", value) for value in "abc"]
    for op_id in ids:
        single.ok(op_id, offset=op_id + 10, epoch=2)
    batch.ok_sends(batch.invoke_sends(1, "k", "abc"), [10, 11, 12], 2)
    assert contents(single.close()) == contents(batch.close())


def test_operations_that_were_recorded_afterwards_are_ordered_by_time_with_ties_concurrent() -> None:
    writer = HistoryWriter("h")
    writer.record_sends(1, "k", ["a", "b"], [10, 20], [20, 40], [0, 1])
    writer.record_poll(2, "k", 0, ["a", "b"], 40, 50)
    writer.record(3, "replica", [Mop("hw", "k", 1, None, 1)], 25, 30)
    first, second, poll, told = writer.close().ops()
    assert first.idx_ret is not None and second.idx_ret is not None
    assert first.idx_inv < second.idx_inv < first.idx_ret, "at equal times an invocation comes first"
    assert first.idx_ret < poll.idx_inv < second.idx_ret
    assert first.idx_ret < told.idx_inv < poll.idx_inv and told.mops == (Mop("hw", "k", 1, None, 1),)


def test_completing_an_operation_twice_is_refused() -> None:
    writer = HistoryWriter("h")
    op_id = writer.invoke(1, "send", "k", "a")
    writer.ok(op_id, offset=0)
    for complete in (writer.ok, writer.fail, writer.info):
        with pytest.raises(LiftlogError, match="operation 0 is not open"):
            complete(op_id)
    with pytest.raises(LiftlogError, match="operation 9 is not open"):
        writer.ok(9)


def test_recording_after_the_close_is_refused() -> None:
    writer = HistoryWriter("h")
    writer.close()
    with pytest.raises(LiftlogError, match="is closed"):
        writer.invoke(1, "send", "k", "a")


def test_a_send_without_a_value_is_refused() -> None:
    with pytest.raises(LiftlogError, match="needs a value"):
        HistoryWriter("h").invoke(1, "send", "k")


def test_batches_of_unequal_length_are_refused() -> None:
    writer = HistoryWriter("h")
    with pytest.raises(ValueError, match="one length"):
        writer.record_sends(1, "k", ["a", "b"], [1, 2], [3, 4], [0])
    with pytest.raises(ValueError, match="one offset per value"):
        writer.record_poll(1, "k", [0], ["a", "b"], 1, 2)


# -- round trips ---------------------------------------------------------------------------------------------

numbers = st.integers(0, 2**62)
epochs = st.none() | numbers
leaders = st.none() | st.integers(0, 2**62)
values = st.one_of(st.integers(-(2**63), 2**63 - 1), st.text(max_size=8))
names = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=6)


@st.composite
def operations(draw: st.DrawFn, op_id: int, positions: list[int]) -> Op:
    outcome = draw(st.sampled_from(OUTCOMES))
    idx_inv = positions.pop()
    idx_ret = None if outcome == "info" and draw(st.booleans()) else idx_inv + draw(st.integers(1, 9)) * 100
    t_inv_ns = draw(st.integers(-(2**61), 2**61))
    t_ret_ns = None if idx_ret is None else t_inv_ns + draw(st.integers(0, 2**60))
    mops = draw(
        st.lists(
            st.builds(
                Mop,
                st.sampled_from([f for f in MOP_FUNCTIONS if f != "send"]),
                names,
                st.none() | numbers,
                st.none() | values,
                st.none() | numbers,
                st.none(),
            )
            | st.builds(Mop, st.just("send"), names, epochs, values, epochs, leaders),
            max_size=4,
        )
    )
    process, client, error = draw(st.integers(-5, 5)), draw(st.none() | names), draw(st.none() | st.text())
    return Op(
        op_id, idx_inv, idx_ret, process, client, draw(names), outcome, t_inv_ns, t_ret_ns, error, tuple(mops)
    )


@st.composite
def histories(draw: st.DrawFn) -> History:
    history = History(draw(names), draw(st.dictionaries(st.text(), st.text(), max_size=3)))
    ids = draw(st.lists(numbers, unique=True, max_size=6))
    positions = draw(st.permutations(range(len(ids))))
    for op_id in ids:
        history.append(draw(operations(op_id, positions)))
    moments = st.integers(-(2**61), 2**61)
    history.faults = draw(
        st.lists(st.builds(Fault, st.text(), st.text(), moments, st.none() | moments), max_size=3)
    )
    history.complete = draw(st.booleans())
    return history


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(history=histories())
def test_jsonl_and_parquet_hold_the_same_history(history: History) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        lines, columns, again = (Path(temporary) / name for name in ("h.jsonl", "h", "again.jsonl"))
        write_jsonl(history, lines)
        from_lines = read_jsonl(lines)
        assert contents(from_lines) == contents(history)
        write_parquet(from_lines, columns)
        from_columns = read_parquet(columns)
        assert contents(from_columns) == contents(history)
        write_jsonl(from_columns, again)
        assert sorted(again.read_bytes().splitlines()) == sorted(lines.read_bytes().splitlines())


def test_a_folder_may_hold_several_histories(tmp_path: Path) -> None:
    first, second = sample(), sample()
    second.name = "second"
    second.complete = False
    write_parquet([first, second], tmp_path / "both")
    assert contents(read_parquet(tmp_path / "both", "second")) == contents(second)
    assert [one.complete for one in read_info(tmp_path / "both").histories] == [True, False]
    with pytest.raises(LiftlogError, match=r"holds 2 histories \(sample, second\)"):
        read_parquet(tmp_path / "both")


def test_a_history_is_never_overwritten(tmp_path: Path) -> None:
    write_jsonl(sample(), tmp_path / "h.jsonl")
    write_parquet(sample(), tmp_path / "h")
    with pytest.raises(LiftlogError, match="exists already"):
        write_jsonl(sample(), tmp_path / "h.jsonl")
    with pytest.raises(LiftlogError, match="exists already"):
        write_parquet(sample(), tmp_path / "h")


# -- a recorder that dies ------------------------------------------------------------------------------------


def stream_of(path: Path) -> HistoryWriter:
    writer = HistoryWriter("h", clock_ns=clock(), stream=JsonlStream(path))
    for number in range(5):
        writer.ok(writer.invoke(1, "send", "k", f"v{number}"), offset=number)
    return writer


def test_what_a_stream_has_flushed_is_readable_and_marked_incomplete(tmp_path: Path) -> None:
    writer = stream_of(tmp_path / "h.jsonl")
    writer.invoke(1, "send", "k", "in flight")
    writer.flush()
    history = read_jsonl(tmp_path / "h.jsonl")
    assert (len(history), history.complete) == (5, False)


def test_a_stream_that_was_closed_is_complete_and_equal_to_what_was_recorded(tmp_path: Path) -> None:
    writer = stream_of(tmp_path / "h.jsonl")
    writer.record_poll(2, "k", 0, ["v0"], 5, 500)
    writer.record(3, "replica", [Mop("truncate", "k", 1, "v1", 2)], 6, 7)
    writer.invoke(1, "send", "k", "in flight")
    recorded = writer.close()
    assert contents(read_jsonl(tmp_path / "h.jsonl")) == contents(recorded)


def test_a_torn_last_line_is_reported_and_can_be_dropped(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    write_jsonl(sample(), path)
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for length in range(1, len(lines[-1])):
        path.write_bytes(whole[: -len(lines[-1])] + lines[-1][:length])
        with pytest.raises(LiftlogError, match=rf"h\.jsonl:{len(lines)}: expected a whole line"):
            read_jsonl(path)
        history = read_jsonl(path, salvage=True)
        assert (len(history), history.complete) == (7, False)


# -- broken files --------------------------------------------------------------------------------------------

OP = '{"record":"op","op":9,"process":1,"f":"send","outcome":"ok","idx":[90,91],"t_ns":[1,2],"mops":[]}'
BROKEN_LINES = {
    "not JSON": ("{oops", "expected one JSON object"),
    "not UTF-8": (b"\xff\xfe", "expected one JSON object"),
    "an empty line": ("", "expected one JSON object"),
    "not an object": ("[1]", "expected `object`, got `array`"),
    "an unknown record": (OP.replace('"op"', '"oops"', 1), "oops"),
    "an unknown field": (OP.replace('"mops"', '"mobs"'), "unknown field `mobs`"),
    "a missing field": (OP.replace('"process":1,', ""), "missing required field `process`"),
    "an unknown outcome": (OP.replace('"ok"', '"maybe"'), r"'maybe' - at `\$.outcome`"),
    "an unknown micro-operation": (OP.replace("[]", '[["steal","k"]]'), "steal"),
    "text for a number": (OP.replace("90", '"90"'), r"expected `int .*`\$.idx\[0\]`"),
    "a number too large": (OP.replace(":9,", ":99999999999999999999,"), r"\$.op"),
    "a negative offset": (OP.replace("[]", '[["poll","k",-1,"v"]]'), r">= 0 - at `\$.mops\[0\]\[2\]`"),
    "a send without value": (OP.replace("[]", '[["send","k",1]]'), "expected a value in every send"),
    "an operation that ends before it begins": (OP.replace("91", "89"), r"idx\[1\] above idx\[0\]"),
    "a time that runs backwards": (OP.replace("[1,2]", "[2,1]"), r"t_ns\[1\] not before t_ns\[0\]"),
    "an ok without completion": (OP.replace("91", "null").replace("1,2", "1,null"), "expected a completion"),
    "an operation that was there": (OP.replace(":9,", ":0,"), "each operation once, but operation 0"),
    "a second header": ('{"record":"history","version":1,"name":"x"}', "one header"),
}


@pytest.mark.parametrize("case", BROKEN_LINES)
def test_a_broken_line_is_named_with_what_was_expected(case: str, tmp_path: Path) -> None:
    line, expected = BROKEN_LINES[case]
    path = tmp_path / "h.jsonl"
    write_jsonl(sample(), path)
    lines = path.read_bytes().splitlines()
    lines.insert(3, line if isinstance(line, bytes) else line.encode())
    path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(LiftlogError, match=expected) as caught:
        read_jsonl(path)
    assert str(caught.value).startswith(f"broken history {path}:4: expected ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda lines: lines[1:], ":1: expected a header"),
        (lambda lines: [], ":1: expected a header .*, but the file is empty"),
        (lambda lines: lines[:2] + lines[3:], "lines are missing or were added"),
        (lambda lines: [*lines, lines[1]], ":12: expected nothing after the end line"),
        (
            lambda lines: [lines[0].replace(b"1", b"2", 1), *lines[1:]],
            ":1: expected history version 1, got 2",
        ),
    ],
)
def test_lines_that_are_missing_or_too_many_are_noticed(
    change: Callable[[list[bytes]], list[bytes]], expected: str, tmp_path: Path
) -> None:
    path = tmp_path / "h.jsonl"
    write_jsonl(sample(), path)
    path.write_bytes(b"".join(line + b"\n" for line in change(path.read_bytes().splitlines())))
    with pytest.raises(LiftlogError, match=expected):
        read_jsonl(path)


def test_a_damaged_parquet_folder_is_named_with_what_was_expected(tmp_path: Path) -> None:
    folder = tmp_path / "h"
    write_parquet(sample(), folder)
    (folder / "mops.parquet").write_bytes(b"PAR1 this is not a table PAR1")
    with pytest.raises(LiftlogError, match=r"mops\.parquet: expected a Parquet file, but"):
        read_info(folder)
    (folder / "mops.parquet").unlink()
    with pytest.raises(LiftlogError, match=r"mops\.parquet: expected this file, but it is missing"):
        read_info(folder)
    (folder / "ops.parquet").rename(folder / "mops.parquet")
    (folder / "faults.parquet").rename(folder / "ops.parquet")
    with pytest.raises(LiftlogError, match=r"ops\.parquet: expected a column op_id of type int64"):
        read_info(folder)


# -- the store -----------------------------------------------------------------------------------------------


def test_a_run_folder_is_found_by_its_time_and_as_the_latest(tmp_path: Path) -> None:
    first, second = new_run(tmp_path, "demo"), new_run(tmp_path, "demo")
    assert first != second
    write_parquet(sample(), second / "history")
    assert find_history(second) == second / "history"
    assert find_history(tmp_path / "demo").resolve() == (second / "history").resolve()
    assert (tmp_path / "demo" / "latest").resolve() == second.resolve()
    write_jsonl(sample(), first / "history.jsonl")
    assert contents(read_history(first)) == contents(read_history(tmp_path / "demo" / "latest"))


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "latest", ".hidden"])
def test_a_run_name_that_is_no_folder_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(LiftlogError, match="is not a folder name"):
        new_run(tmp_path, name)


def test_a_path_without_a_history_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(LiftlogError, match=r"no history at .*nowhere"):
        find_history(tmp_path / "nowhere")
    with pytest.raises(LiftlogError, match=r"no history in folder .*expected ops\.parquet"):
        find_history(tmp_path)


# -- the documentation ---------------------------------------------------------------------------------------

DOCUMENT = (Path(__file__).parents[2] / "docs" / "history-format.md").read_text(encoding="utf-8")


def test_the_documented_example_is_a_valid_history(tmp_path: Path) -> None:
    example = DOCUMENT.split("```json\n")[1].split("```")[0]
    (tmp_path / "h.jsonl").write_text(example, encoding="utf-8")
    history = read_jsonl(tmp_path / "h.jsonl")
    write_jsonl(history, tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_text(encoding="utf-8") == example


def test_every_column_of_the_schema_is_documented_with_its_type() -> None:
    for table, schema in SCHEMAS.items():
        section = DOCUMENT.split(f"### {table}.parquet")[1].split("###")[0]
        documented = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `")]
        columns = [(name.strip(" `"), kind.strip()) for name, kind in documented]
        kinds = {field.name: str(getattr(field.type, "value_type", field.type)) for field in schema}
        assert columns == list(kinds.items())


def test_the_documented_recording_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = DOCUMENT.split("```python\n")[1].split("```")[0]
    exec(compile(code, "docs/history-format.md", "exec"), {})
    streamed = read_jsonl(tmp_path / "store/example/latest/history.jsonl")
    stored = read_parquet(tmp_path / "store/example/latest/history")
    assert contents(streamed) == contents(stored)
    assert len(stored) == 5


def test_what_a_send_expected_and_was_told_is_kept(tmp_path: Path) -> None:
    writer = HistoryWriter("h", stream=JsonlStream(tmp_path / "h.jsonl"))
    writer.ok(writer.invoke(1, "send", "k", "a", expected=0), offset=0, epoch=1)
    writer.refused(writer.invoke(1, "send", "k", "b", expected=0), 1, "wrong last sequence: 1")
    with pytest.raises(LiftlogError, match="poll expects offset 3; only a send with its key can"):
        writer.invoke(1, "poll", "k", expected=3)
    poll = writer.invoke(2, "poll", "k")
    with pytest.raises(LiftlogError, match="operation 2 is no send; only a send is refused an offset"):
        writer.refused(poll, 1)
    writer.ok_poll(poll, "k", 0, ["a"])
    history = writer.close()
    first, second = list(history.ops())[:2]
    assert [mop.f for mop in first.mops] == ["send", "expected"] and first.mops[0].offset == 0
    assert [(mop.f, mop.offset) for mop in second.mops] == [("send", None), ("expected", 0), ("refused", 1)]
    assert (second.outcome, second.error) == ("info", "wrong last sequence: 1") and second.idx_ret is not None
    write_parquet(history, tmp_path / "h")
    assert contents(read_jsonl(tmp_path / "h.jsonl")) == contents(read_parquet(tmp_path / "h"))
