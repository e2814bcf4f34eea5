"""Every format: what events it becomes, what a broken file is told, and the folder of histories by others."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from liftlog_jepsen.events import BadHistory, Event, Operation, pair
from liftlog_jepsen.formats import (
    FORMATS,
    Options,
    detect,
    find_format,
    override,
    read_bytes,
    read_history,
    write_edn,
)
from liftlog_jepsen.formats.edn import Keyword

ROOT = Path(__file__).resolve().parents[2]
HISTORIES = Path(os.environ.get("LIFTLOG_HISTORIES", ROOT.parent / "shared" / "histories"))


def events(name: str, text: str, options: Options | None = None) -> list[Event]:
    return read_bytes(text.encode(), "h", FORMATS[name], options)


def operations(name: str, text: str, options: Options | None = None) -> list[Operation]:
    return pair(events(name, text, options), "h")


def short(found: list[Operation]) -> list[tuple[object, ...]]:
    return [(one.process, one.f, one.argument, one.result, one.outcome) for one in found]


EDN = """; a comment
{:index 0, :time 5, :process 0, :type :invoke, :f :read, :value nil}
{:process 1, :type :invoke, :f :cas, :value [1 2], :client "c"}
{:process :nemesis, :type :info, :f :start, :value "cut"}
{:process 0, :type :ok, :f :read, :value 3, :error nil}
{:process 1, :type :info, :f :cas, :value [1 2], :error :timeout}
"""


def test_edn_lines() -> None:
    found = events("edn-lines", EDN)
    assert found[0] == Event(0, "invoke", "read", None, time=5, number=0)
    assert found[1] == Event(1, "invoke", "cas", [1, 2], extra=(("client", "c"),))
    assert found[2].process == "nemesis"
    assert short(pair(found, "h")) == [(0, "read", None, 3, "ok"), (1, "cas", [1, 2], [1, 2], "info")]
    assert pair(found, "h")[1].error == "timeout"


@pytest.mark.parametrize("name", ["edn-lines", "edn-vector"])
@pytest.mark.parametrize("brackets", ["[]", "()"])
def test_a_vector_or_a_list_of_maps_is_the_same_history(name: str, brackets: str) -> None:
    assert events(name, f"{brackets[0]}{EDN}{brackets[1]}") == events("edn-lines", EDN)


ODD = """{:process 1, :type :invoke, :value [[:append 4 2]]}
{:process 1, :type :ok, :value [[:append 4 2]], :time 1.5, :index nil}
#jepsen.history.Op{:process 2, :type :invoke, :f :get, :key "k", :value nil, :time -1}
{:type :fail, :process 2, :f :get, :key nil, :error [:a "b"], :node #inst "2024", :s #{[1] 2}}
{:process 3, :type :invoke, :f f, :odd/name (1 2)}
{:process nil, :type :invoke, :f :w, :value 12N}
{:process nil, :type :ok, :f :w, :value 12N}
"""


def test_the_way_back_to_edn_loses_nothing() -> None:
    for text in (EDN, ODD):
        found = events("edn-lines", text)
        written = write_edn(found)
        assert events("edn-lines", written) == found
        assert write_edn(events("edn-lines", written)) == written
        assert events("edn-vector", write_edn(found, vector=True)) == found
    lines = written.splitlines()
    assert lines[0] == "{:type :invoke, :process 1, :value [[:append 4 2]]}"
    assert lines[1] == "{:type :ok, :process 1, :value [[:append 4 2]], :time 1.5, :index nil}"
    assert lines[2].startswith("#jepsen.history.Op{:type :invoke")
    assert lines[3].startswith("{:type :fail, :process 2, :f :get, :error [:a")
    assert ":value" not in lines[4] and ":f f" in lines[4]
    assert ":process nil" in lines[5] and "12N" in lines[5]


def test_an_export_is_data_that_reads_alike_from_every_format() -> None:
    text = '[{"process":1,"type":"invoke","f":"read"},{"process":1,"type":"ok","f":"read","value":{"0":5}}]'
    found = events("json", text)
    written = write_edn(found)
    assert events("edn-lines", written) == found
    assert written.splitlines()[1] == "{:type :ok, :process 1, :f :read, :value {0 5}}"


def test_events_without_process_find_their_own() -> None:
    text = """{:type :invoke :f :read :value nil} {:type :invoke :f :write :value 1}
    {:type :invoke :f :write :value 2} {:type :ok :f :write :value 2} {:type :ok :f :read :value #{1}}"""
    found = operations("edn-lines", text)
    assert short(found) == [
        (0, "read", None, frozenset([1]), "ok"),
        (1, "write", 1, None, "info"),
        (2, "write", 2, 2, "ok"),
    ]
    assert ":process" not in write_edn(events("edn-lines", text))


def test_an_answer_without_process_finds_what_it_answers() -> None:
    """Transactions say in their answer what they read; what is alone with its function needs no likeness."""
    text = """{:type :invoke :f :txn :value [[:r x nil] [:w y 1]]}
    {:type :invoke :f :txn :value [[:r x nil] [:w y 2]]}
    {:type :invoke :f :add :value 7}
    {:type :ok :f :txn :value [[:r x 5] [:w y 2]]} {:type :fail :f :txn :value [[:r x nil] [:w y 1]]}
    {:type :ok :f :add :value true}"""
    assert [(at, f, outcome) for at, f, _, _, outcome in short(operations("edn-lines", text))] == [
        (0, "txn", "fail"),
        (1, "txn", "ok"),
        (2, "add", "ok"),
    ]


def test_two_open_reads_without_process_are_refused() -> None:
    text = "{:type :invoke :f :read}\n{:type :invoke :f :read}\n{:type :ok :f :read :value 1}\n"
    with pytest.raises(BadHistory, match=r"h line 3: expected one open read .* found 2; name the process"):
        events("edn-lines", text)


JSON = """{"type":"invoke","f":"read","process":1,"time":3,"index":0}
{"type":"info","f":"start","process":"nemesis","value":{"n1":""},"index":1}
{"type":"ok","f":"read","process":1,"value":{"0":100,"x":1,"01":2},"index":2}
"""


def test_json() -> None:
    found = events("json", JSON)
    assert found == events("json", "[" + ",\n".join(JSON.splitlines()) + "]")
    assert found[0] == Event(1, "invoke", "read", None, time=3, number=0, extra=((" without", ("value",)),))
    assert found[2].value == {0: 100, "x": 1, "01": 2}
    assert type(found[1].process) is type(found[1].f) is Keyword
    txn = events("json", '[{"process":0,"type":"invoke","value":[["append",253,1],["r",1,null]]}]')
    assert txn[0].f == "txn"
    assert write_edn(txn) == "{:type :invoke, :process 0, :value [[:append 253 1] [:r 1 nil]]}\n"


LOG = "0\t:invoke\t:read\tnil\n:nemesis\t:info\t:start\tcut off [the\n0\t:fail\t:read\t:timed-out\n"
LOGGED = """12:00 INFO [main] jepsen.core - Worker 0 starting
INFO  jepsen.util - 3	:invoke	:cas	[1 2]
INFO  jepsen.util - 2 :invoke :write 4
INFO  jepsen.util - 3	:fail	:cas	[1 2]
INFO  jepsen.util - 2	:info	:write	4	"broken pipe"
java.lang.Exception: none
"""


def test_jepsen_log() -> None:
    assert short(operations("jepsen-log", LOG)) == [(0, "read", None, None, "fail")]
    assert operations("jepsen-log", LOG)[0].error == Keyword("timed-out")
    found = operations("jepsen-log", LOGGED)
    assert short(found) == [(3, "cas", [1, 2], [1, 2], "fail"), (2, "write", 4, 4, "info")]
    assert found[1].error == "broken pipe"


KV = """{:process 0, :type :invoke, :f :append, :key "0", :value "x"}
{:process 0, :type :ok, :f :append, :key "0", :value "x"}
"""


def test_kv() -> None:
    (one,) = operations("kv-edn", KV)
    assert (one.key, one.f, one.argument) == ("0", "append", "x")
    with pytest.raises(BadHistory, match="expected a :key in each event"):
        events("kv-edn", KV.replace(':key "0", ', ""))


LIMO = """# a comment
# @object atomic-stack
[1] call push(3)
    [T2] call pop
[1] return
    [T2] return 3

[1] call pop(?<1,0>)
[3] call push 4
[1] return
[T2] call pop()
[T2] return empty
[T4] call deq
[T4] return
"""


def test_limo() -> None:
    found = operations("limo-txt", LIMO)
    assert [(one.f, one.argument, one.result, one.outcome) for one in found] == [
        ("push", 3, 3, "ok"),
        ("pop", None, 3, "ok"),
        ("pop", None, "?<1,0>", "ok"),
        ("push", 4, None, "info"),
        ("pop", None, None, "ok"),
        ("deq", None, None, "ok"),
    ]
    assert found[0].end is not None and found[1].end is not None
    assert found[1].start < found[0].end < found[1].end
    assert found[0].process == found[2].process == 1
    assert len({one.process for one in found}) == 4


def test_limo_removes_from_sets_what_is_asked() -> None:
    text = "# @object atomic-set\n[1] call remove(3)\n[1] return true\n"
    (one,) = operations("limo-txt", text)
    assert (one.argument, one.result) == (3, "true")


@pytest.mark.parametrize(
    ("line", "f", "argument", "result"),
    [
        ("push 7 1 2", "push", 7, 7),
        ("pop -1 1 2", "pop", None, None),
        ("deq 4 1 2", "deq", None, 4),
        ("contains_false 3 1 2", "contains", 3, False),
        ("5 enq 2 1 2", "enq", 2, 2),
        ("5 1 2 PUSH 3", "push", 3, 3),
        ("5 1 2 PEEK -1", "peek", None, None),
        ("5 1 2 INSERT 2 1", "insert", 2, True),
        ("5 1 2 REMOVE 2 0", "remove", 2, False),
        ("5 1 2 DECR 0", "decr", None, False),
        ("5 1 2 READ_MODIFY_WRITE 0 2", "rmw", [0, 2], [0, 2]),
    ],
)
def test_interval_forms(line: str, f: str, argument: object, result: object) -> None:
    (one,) = operations("interval-txt", f"# stack\n{line}\n")
    assert (one.f, one.argument, one.result) == (f, argument, result)
    assert type(one.result) is type(result)
    assert (one.time, one.end_time) == (1, 2)


def test_a_register_may_hold_the_number_that_means_empty_elsewhere() -> None:
    (one,) = operations("interval-txt", "# register\nread -1 1 2\n")
    assert one.result == -1


TOUCHING = "0 1 2 PUSH 1\n0 2 3 PUSH 2\n0 2 2 POP 1\n0 1 9 POP 2\n"


def test_touching_intervals_follow_each_other_or_overlap() -> None:
    apart = operations("interval-txt", TOUCHING)
    first, instant, second = apart[0], apart[2], apart[3]
    assert (first.result, instant.f, second.argument) == (1, "pop", 2)
    assert first.end is not None and instant.end is not None
    assert first.end < instant.start < instant.end < second.start
    assert first.process == second.process == 0
    closed = operations("interval-txt", TOUCHING, Options(intervals="closed"))
    ends = {(one.f, one.argument, one.result): one for one in closed}
    assert ends["push", 2, 2].start < (ends["push", 1, 1].end or 0)
    assert len({one.process for one in closed}) == 4


def test_porcupine_operations_and_events() -> None:
    rows = [
        {
            "ClientId": 1,
            "Input": {"Op": "Put", "key": "x", "value": 1},
            "Call": 1,
            "Output": None,
            "Return": 5,
        },
        {"ClientId": 1, "Input": {"op": "get", "key": "x"}, "Call": 5, "Output": {"value": 1}, "Return": 6},
    ]
    found = operations("porcupine-json", json.dumps(rows))
    assert [(one.f, one.key, one.argument, one.result) for one in found] == [
        ("put", "x", 1, None),
        ("get", "x", None, 1),
    ]
    assert found[1].start < (found[0].end or 0), "equal times overlap"
    kinds = [(0, 7, 1), (0, 8, 2), (1, 7, None)]
    lines = (json.dumps({"ClientId": 4, "Kind": kind, "Value": value, "Id": id}) for kind, id, value in kinds)
    found = operations("porcupine-json", "\n".join(lines))
    assert [(one.f, one.argument, one.outcome) for one in found] == [("op", 1, "ok"), ("op", 2, "info")]


S2 = "\n".join(
    json.dumps({"event": event, "client_id": client, "op_id": op})
    for client, op, event in (
        (1, 0, {"Start": {"Append": {"num_records": 2, "last_record_xxh3": 9}}}),
        (2, 1, {"Start": "Read"}),
        (1, 2, {"Start": "CheckTail"}),
        (2, 1, {"Finish": {"ReadSuccess": {"tail": 0, "xxh3": 0}}}),
        (1, 2, {"Finish": "CheckTailFailure"}),
        (1, 0, {"Finish": "AppendIndefiniteFailure"}),
    )
)


def test_s2() -> None:
    found = operations("s2-jsonl", S2)
    assert [(one.f, one.outcome) for one in found] == [
        ("append", "info"),
        ("read", "ok"),
        ("check-tail", "fail"),
    ]
    assert found[0].argument == {"num_records": 2, "last_record_xxh3": 9}
    assert found[1].result == {"tail": 0, "xxh3": 0}
    assert found[0].process != found[2].process, "a client with two open operations is two processes"


BROKEN = [
    (
        "edn-lines",
        "{:process 1, :type :okay, :f :r}",
        "h line 1: expected a :type of :invoke, :ok, :fail or :info, found :okay",
    ),
    (
        "edn-lines",
        EDN + '{:process 1, :type "ok"}',
        'h line 7: expected a :type of :invoke, :ok, :fail or :info, found "ok"',
    ),
    ("edn-lines", EDN + "{:process 1.5, :type :ok}", "h line 7: expected a :process that is a number"),
    (
        "edn-lines",
        EDN + "{:process 1, :type :ok, :f 3}",
        "h line 7: expected a function such as :f :read, found 3",
    ),
    ("edn-vector", f"[{EDN} 7]", "h line 7: expected a map {:type …, :process …}, found 7"),
    (
        "edn-lines",
        EDN + "{:process 1\n :type :ok]",
        "h line 8, column 11: expected } for the { of line 7, found ]",
    ),
    ("edn-lines", '{"type" :ok}', 'h line 1: expected keywords as the names of an event, found "type"'),
    ("edn-lines", " ; nothing", "h: expected a history of the format edn-lines, found no operations"),
    ("json", '[{"type":"ok",\n "f" "x"}]', "h line 2, column 6: expected JSON"),
    ("json", JSON + '{"type":', "h line 4, column 9: expected JSON, found the end"),
    (
        "json",
        '[{"type":"ok","process":1},\n\n5]',
        'h line 3: expected an object {"type": …, "process": …}, found 5',
    ),
    ("json", JSON + '{"f":"x"}', "h line 4: expected a :type of :invoke, :ok, :fail or :info, found none"),
    (
        "jepsen-log",
        LOG + "0\t:invok\t:read",
        "h line 4: expected PROCESS :TYPE :FUNCTION VALUE, found 0 :invok :read",
    ),
    (
        "jepsen-log",
        LOGGED + "INFO jepsen.util - 0 :ok",
        "h line 7: expected PROCESS :TYPE :FUNCTION VALUE, found 0 :ok",
    ),
    ("jepsen-log", "0\t:ok\t:read\t[1", "h line 1: expected a value in EDN, found [1"),
    ("jepsen-log", "0\t:ok\t:read\t1 2 3", "h line 1: expected one value, and perhaps an error, found 1 2 3"),
    (
        "limo-txt",
        "[1] call push(3)\n[1] call pop",
        "h line 2: expected the return of thread 1 before its next call",
    ),
    ("limo-txt", "[1] call pop\n[2] return 1", "h line 2: expected a call of thread 2 before its return"),
    ("limo-txt", "[1] cal pop", "h line 1: expected [THREAD] call METHOD(ARGUMENT) or [THREAD] return VALUE"),
    (
        "interval-txt",
        "push 1",
        "h line 1: expected METHOD VALUE BEGIN END, or PROCESS BEGIN END METHOD VALUE",
    ),
    ("interval-txt", "# x\npush 1 5 2", "h line 2: expected an end that is not before the begin"),
    (
        "interval-txt",
        "0 1 2 PUSH 1 7",
        "h line 1: expected at most one value, or a value and 0 or 1, found 1 7",
    ),
    ("porcupine-json", '{"ClientId":1}', "h line 1: expected ClientId, Input, Call, Output and Return, or"),
    ("porcupine-json", "[{]", "h: expected a JSON array of operations"),
    ("porcupine-json", "[" * 100_000, "h: expected a JSON array of operations"),
    ("json", "[" * 100_000, "h line 1: expected JSON"),
    ("json", JSON + "9" * 5000, "h line 4: expected JSON"),
    ("porcupine-json", '{"Kind":1,"Id":1,"Value":1}', "h line 1: expected the Id of a call"),
    ("s2-jsonl", S2 + "\n{}", 'h line 7: expected {"event": {"Start" or "Finish": …}'),
    ("s2-jsonl", S2.splitlines()[3], "h line 1: expected the end of an operation that was started"),
    (
        "s2-jsonl",
        S2.replace("ReadSuccess", "AppendSuccess"),
        "h line 4: expected the end of an operation that was",
    ),
]


@pytest.mark.parametrize(
    ("name", "text", "words"), BROKEN, ids=[f"{number}" for number in range(len(BROKEN))]
)
def test_what_is_broken_is_named_with_its_line(name: str, text: str, words: str) -> None:
    with pytest.raises(BadHistory) as caught:
        events(name, text)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(BadHistory, match="h line 2: expected text in UTF-8, found the byte 0xff"):
        read_bytes(b"{}\n\xff", "h", FORMATS["edn-lines"])


def test_windows_ends_of_lines_and_a_byte_order_mark() -> None:
    text = "\ufeff" + LIMO.replace("\n", "\r\n")
    assert events("limo-txt", text) == events("limo-txt", LIMO)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (EDN, "edn-lines"),
        (ODD.split("\n", 2)[2].replace(":get", ":read"), "edn-lines"),
        (f"; x\n\n({EDN})", "edn-vector"),
        (JSON, "json"),
        (f"[ {JSON.splitlines()[2]}]", "json"),
        (KV, "kv-edn"),
        (LOG, "jepsen-log"),
        (LOGGED, "jepsen-log"),
        (LIMO, "limo-txt"),
        ("# stack\npush 1 2 3\n", "interval-txt"),
        ("# stack\r\n0 2 3 PUSH 1\r\n", "interval-txt"),
        ("0 push 1 2 3", "interval-txt"),
        ('[{"ClientId": 0, "Input": {}, "Call": 1}]', "porcupine-json"),
        (S2, "s2-jsonl"),
    ],
)
def test_detection(tmp_path: Path, text: str, name: str) -> None:
    path = tmp_path / "history"
    path.write_bytes(text.encode())
    assert detect(path) == name


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello\n",
        "{}",
        "[1 2 3]",
        "a,b,c\n1,2,3\n",
        "# only\n",
        "\x00\x01",
        "[" + ";[" * 200,
        "[" + "; " * 200,
    ],
    ids=range(9),
)
def test_what_is_unclear_is_not_guessed(tmp_path: Path, text: str) -> None:
    path = tmp_path / "history"
    path.write_text(text)
    with pytest.raises(BadHistory, match="cannot tell its format; give --format, one of edn-lines"):
        read_history(path)


def test_our_own_form_is_sent_to_its_own_check(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text('{"record":"history","version":1,"name":"example"}\n')
    with pytest.raises(BadHistory, match="check it without --format"):
        detect(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadHistory, match=r"cannot read .*none: No such file"):
        read_history(tmp_path / "none")
    with pytest.raises(BadHistory, match="cannot read"):
        read_history(tmp_path, "json")


def test_options_come_with_the_format_and_can_be_changed() -> None:
    assert FORMATS["jepsen-log"].options == Options(None, "observed", "observed")
    assert FORMATS["interval-txt"].options.intervals == "half-open"
    assert FORMATS["edn-vector"].options == Options(0, "any", "dropped")
    assert FORMATS["kv-edn"].options.initial == ""
    changed = override(FORMATS["kv-edn"].options, initial="{:x 0}", fail_cas="observed")
    assert changed == Options({"x": 0}, "observed", "observed")
    assert override(changed, initial="nil", consistency_model="serializable").initial is None
    with pytest.raises(BadHistory, match="--nil-read never: give one of observed, any"):
        override(changed, nil_read="never")
    with pytest.raises(BadHistory, match="--initial "):
        override(changed, initial="[")
    with pytest.raises(BadHistory, match="--format fressian: there is no such format; there are edn-lines"):
        find_format("fressian")


def _index() -> Iterator[tuple[str, str, int]]:
    """File, format and number of operations of every history that the index of the folder lists."""
    for line in (HISTORIES / "INDEX.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) >= 9 and cells[4].isdecimal():
            yield cells[0], cells[2], int(cells[4])


@pytest.mark.skipif(
    not (HISTORIES / "INDEX.md").is_file(),
    reason=f"there are no histories by others in {HISTORIES}; set LIFTLOG_HISTORIES to their folder",
)
def test_every_history_by_others_is_read_detected_and_exported() -> None:
    rows = list(_index())
    listed = {name for name, _, _ in rows}
    assert listed == {
        str(path.relative_to(HISTORIES))
        for path in HISTORIES.rglob("*")
        if path.is_file() and path.name != "INDEX.md"
    }
    alike = {"edn-vector": "edn-lines"}
    wrong = []
    for name, format, count in rows:
        found = read_history(HISTORIES / name, format)
        exported = read_bytes(write_edn(found).encode(), name, FORMATS["edn-lines"])
        detected = detect(HISTORIES / name)
        if len(pair(found, name)) != count:
            wrong.append(f"{name}: {len(pair(found, name))} operations, not {count}")
        if exported != found:
            wrong.append(f"{name}: the export differs")
        if alike.get(detected, detected) != alike.get(format, format):
            wrong.append(f"{name}: taken for {detected}")
    assert wrong == []
