"""Linearizability: every model, the search and the fast algorithms against a judge that tries every order."""

from __future__ import annotations

import json
import pickle
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog_jepsen.events import FAIL, INFO, OK, BadHistory, Operation
from liftlog_jepsen.formats import FORMATS, Options
from liftlog_jepsen.judgement import Budget, Judgement
from liftlog_jepsen.objects import MODELS, Model, check_object, check_part, load_model, split
from liftlog_jepsen.objects.loading import build
from liftlog_jepsen.objects.log_model import chain_hash
from liftlog_jepsen.objects.model import Contradiction, calls_of
from liftlog_jepsen.objects.search import search
from tests.jepsen.object_histories import ASKS, STRICT, explainable, history

SEEDS = st.integers(0, 2**32)
LONGEST = 9


def compare(name: str, seed: int) -> tuple[bool, str]:
    """One history, judged in every way; the true verdict, and what the fast algorithm said."""
    model, _, options = ASKS[name]
    source = random.Random(seed)
    operations = history(source, name, source.randrange(3, LONGEST + 1))
    calls = calls_of(model, operations, options)
    expected = explainable(model, calls, options)
    assert search(model, calls, options, Budget()).valid is expected
    assert check_object(model, operations, options).valid is expected
    fast = model.fast(calls, options)
    if isinstance(fast, Contradiction):
        assert not expected, fast.words
        assert fast.words and fast.calls
        assert not explainable(model, fast.calls, options), "what is named must be a contradiction by itself"
        return expected, "invalid"
    assert fast is None or (fast is True and expected)
    return expected, "unclear" if fast is None else "valid"


@pytest.mark.parametrize("name", ASKS)
@settings(max_examples=60, deadline=None)
@given(seed=SEEDS)
def test_search_and_fast_algorithms_agree_with_every_order_tried(name: str, seed: int) -> None:
    compare(name, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKS)
def test_hundreds_of_histories_of_both_verdicts(name: str) -> None:
    seen = Counter(compare(name, seed) for seed in range(2000))
    valid = sum(count for (expected, _), count in seen.items() if expected)
    assert 0.08 < 1 - valid / seen.total() < 0.9, seen
    if name not in ("mutex", "semaphore", "multi-register", "set"):
        assert seen[True, "valid"] > 100 and seen[False, "invalid"] > 15, seen


def done(
    number: int, f: str, argument: Any, result: Any, start: int, end: int | None, **more: Any
) -> Operation:
    """An operation by a process of its own; `end` None = it never returned."""
    outcome = more.pop("outcome", INFO if end is None else OK)
    return Operation(number, number, f, argument, result, outcome, start, end, **more)


def judge(name: str, *operations: Operation, options: Options = STRICT) -> Judgement:
    return check_object(MODELS[name], operations, options)


def test_a_read_of_an_old_value_is_explained_with_all_that_it_contradicts() -> None:
    found = judge(
        "register",
        done(0, "write", 1, 1, 0, 1),
        done(1, "write", 2, 2, 2, 3),
        done(2, "read", None, 1, 4, 5),
    )
    assert found.valid is False and found.totals == {"nonlinearizable": 1}
    (problem,) = found.problems
    assert set(problem.operations) == {0, 1, 2}
    assert "write 1 by process 0 had ended before write 2 by process 1 began" in problem.words
    linearization = problem.detail["linearization"]
    assert linearization["linearized"] == [0, 1] and linearization["state"] == "the register holds 2"
    (stuck,) = linearization["stuck"]
    assert stuck["operation"] == 2 and "cannot come next: the register holds 2" in stuck["words"]


def test_the_search_tells_where_it_got_stuck() -> None:
    found = judge(
        "register",
        done(0, "write", 1, 1, 0, 1),
        done(1, "write", 1, 1, 2, 3),
        done(2, "write", 9, None, 4, None),
        done(3, "read", None, 7, 5, 6),
    )
    (problem,) = found.problems
    assert problem.operations[0] == 3
    assert "no order explains read 7 by process 3" in problem.words
    stuck = {each["operation"]: each["words"] for each in problem.detail["linearization"]["stuck"]}
    assert set(stuck) <= {2, 3} and "cannot come next" in stuck[3]
    json.dumps(problem.detail)


def test_conventions_of_nil_and_of_failed_compare_and_sets() -> None:
    wrote = done(0, "write", 1, 1, 0, 1)
    nil = done(1, "read", None, None, 2, 3)
    assert judge("register", wrote, nil).valid is False
    assert judge("register", wrote, nil, options=STRICT._replace(nil_read="any")).valid is True
    failed = done(1, "cas", [1, 2], [1, 2], 2, 3, outcome=FAIL)
    assert judge("cas-register", wrote, failed).valid is False
    assert judge("cas-register", wrote, failed, options=STRICT._replace(fail_cas="dropped")).valid is True
    assert judge("register", nil, options=STRICT._replace(initial=0)).valid is False
    assert judge("rmw", done(0, "rmw", [0, 2], [0, 2], 0, 1)).valid is True, "starts as 0"


def test_changes_that_read_from_each_other_in_a_circle() -> None:
    circle = [done(0, "cas", [1, 2], [1, 2], 0, 2), done(1, "cas", [2, 1], [2, 1], 1, 3)]
    found = judge("cas-register", *circle)
    assert found.valid is False and "in a circle" in found.problems[0].words
    rooted = done(2, "write", 3, 3, 4, 6)
    again = done(3, "cas", [3, 4], [3, 4], 5, 7)
    assert judge("cas-register", *circle, rooted, again).valid is False
    assert judge("cas-register", rooted, again).valid is True
    twice = done(4, "cas", [3, 5], [3, 5], 8, 9)
    both = judge("cas-register", rooted, again, twice)
    assert both.valid is False and "both read 3 and replaced it" in both.problems[0].words


def test_true_is_not_one() -> None:
    assert (
        judge("register", done(0, "write", True, True, 0, 1), done(1, "read", None, 1, 2, 3)).valid is False
    )


def test_what_failed_did_not_happen_and_what_is_unknown_may_have() -> None:
    read = done(1, "read", None, 1, 2, 3)
    assert judge("register", done(0, "write", 1, 1, 0, 1, outcome=FAIL), read).valid is False
    unknown = done(0, "write", 1, 1, 0, None)
    assert judge("register", unknown, read).valid is True
    assert judge("register", unknown, done(1, "read", None, None, 2, 3)).valid is True


def test_keys_are_checked_on_their_own() -> None:
    operations = [
        done(0, "put", "a", "a", 0, 1, key="x"),
        done(1, "put", "b", "b", 2, 3, key="y"),
        done(2, "get", None, "a", 4, 5, key="x"),
        done(3, "get", None, "a", 6, 7, key="y"),
    ]
    assert [(key, [one.number for one in part]) for key, part in split(MODELS["kv"], operations, STRICT)] == [
        ('"x"', [0, 2]),
        ('"y"', [1, 3]),
    ]
    found = judge("kv", *operations)
    assert found.valid is False and [problem.key for problem in found.problems] == ['"y"']


def test_a_set_without_whole_reads_is_many_objects() -> None:
    operations = [done(0, "add", 1, True, 0, 1), done(1, "add", 2, True, 2, 3)]
    assert [key for key, _ in split(MODELS["set"], operations, STRICT)] == ["1", "2"]
    whole = [*operations, done(2, "read", None, [2, 1], 4, 5)]
    assert [key for key, _ in split(MODELS["set"], whole, STRICT)] == [None]
    assert judge("set", *whole).valid is True


def test_registers_that_share_transactions_are_one_object() -> None:
    txn = [[["write", "x", 1], ["write", "y", 1]], [["write", "z", 1]], [["read", "y", 1]]]
    operations = [done(n, "txn", value, value, 2 * n, 2 * n + 1) for n, value in enumerate(txn)]
    assert [
        [one.number for one in part] for _, part in split(MODELS["multi-register"], operations, STRICT)
    ] == [
        [0, 2],
        [1],
    ]


def test_a_mutex_of_thousands_of_calls_needs_neither_depth_nor_time() -> None:
    operations = [
        done(n, "release" if n % 2 else "acquire", None, None, 2 * n, 2 * n + 1) for n in range(4000)
    ]
    assert judge("mutex", *operations).valid is True
    assert judge("mutex", *operations, done(4000, "release", None, None, 8000, 8001)).valid is False


def test_alike_calls_are_not_told_apart() -> None:
    """Forty open acquires and releases, which no search could try one by one."""
    operations = [done(n, "acquire", None, None, n, 100 + n) for n in range(40)]
    operations += [done(40 + n, "release", None, None, 40 + n, 200 + n) for n in range(39)]
    found = check_part(MODELS["mutex"], operations, STRICT, Budget(None, 20_000))
    assert found.valid is True
    more = [*operations, done(79, "acquire", None, None, 90, 300), done(80, "acquire", None, None, 91, 301)]
    assert check_part(MODELS["mutex"], more, STRICT, Budget(None, 20_000)).valid is False


def hard() -> list[Operation]:
    """Writes that all overlap, of values that come twice, and reads in an order that is hard to find."""
    source = random.Random(5)
    writes = [done(n, "write", n // 2, n // 2, n, 200 + n) for n in range(28)]
    reads = [done(28 + n, "read", None, source.randrange(14), 40 + 2 * n, 41 + 2 * n) for n in range(40)]
    return [*writes, *reads]


def test_a_spent_budget_is_unknown_and_says_why() -> None:
    found = check_part(MODELS["register"], hard(), STRICT, Budget(None, 60), "a")
    assert found.valid is None and not found.problems
    assert "a: gave up after 60 configurations" in found.reasons[0]
    timed = check_part(MODELS["register"], hard(), STRICT, Budget(0.0, 10**9))
    assert timed.valid is None and "gave up after 0 seconds" in timed.reasons[0]


def test_a_function_that_the_model_does_not_know() -> None:
    with pytest.raises(
        BadHistory, match="operation 0 is dance, which the model queue does not know; it knows"
    ):
        judge("queue", done(0, "dance", 1, 1, 0, 1))
    with pytest.raises(BadHistory, match=r"expected \[old new\] as the value of cas, found 3"):
        judge("cas-register", done(0, "cas", 3, 3, 0, 1))


def test_functions_have_the_names_of_many_tools() -> None:
    for put, take in (("enq", "deq"), ("add", "remove"), ("Offer", "Poll")):
        wrong = [done(0, put, 1, 1, 0, 1), done(1, put, 2, 2, 2, 3), done(2, take, None, 2, 4, 5)]
        assert judge("queue", *wrong).valid is False
        assert judge("stack", *wrong).valid is True


def test_open_appends_fill_what_somebody_saw() -> None:
    """Of two open appends of one value, only the first can be what was read. Offsets are never skipped."""
    first, second = done(0, "append", 5, None, 0, None), done(2, "append", 5, None, 3, None)
    read = done(1, "read", 0, 5, 1, 2)
    assert judge("log", first, read, second).valid is True
    assert judge("log", read, second).valid is False
    skipped = [done(3, "append", 6, 0, 4, 5), done(4, "append", 7, 2, 6, 7)]
    found = judge("log", *skipped)
    assert found.valid is False and "appended anything at offset 1" in found.problems[0].words
    assert judge("log", first, *skipped).valid is True
    late = done(5, "append", 8, None, 8, None)
    assert judge("log", *skipped, late).valid is False, "it began when offset 2 was already there"
    assert judge("log", skipped[0], done(6, "tail", None, 2, 10, 11)).valid is False
    assert judge("log", skipped[0], late, done(6, "tail", None, 2, 10, 11)).valid is True


def test_of_several_reads_of_an_offset_the_first_to_end_counts() -> None:
    append = done(2, "append", 5, 0, 4, 6)
    long, short = done(0, "read", 0, 5, 0, 9), done(1, "read", 0, 5, 1, 3)
    assert judge("log", long, append).valid is True
    assert judge("log", long, short, append).valid is False


def test_chain_hash_is_that_of_s2() -> None:
    """The vectors of S2's own tests: the stream of foo, bar and baz."""
    assert chain_hash(0, 0xAB6E5F64077E7D8A) == 0x4D2B003EE417C3A5


def s2(events: list[tuple[int, str, Any, str, Any]]) -> bool | None:
    """A history of (client, start, its fields, finish, its fields), one after the other."""
    lines = []
    for number, (client, start, fields, finish, answer) in enumerate(events):
        asked = start if fields is None else {start: fields}
        answered = finish if answer is None else {finish: answer}
        for event in ({"Start": asked}, {"Finish": answered}):
            lines.append(json.dumps({"event": event, "client_id": client, "op_id": number}))
    chosen = FORMATS["s2-jsonl"]
    from liftlog_jepsen.events import pair

    events_read = chosen.read("\n".join(lines), "h", chosen.options)
    return check_object(MODELS["log"], pair(events_read, "h"), chosen.options).valid


def test_streams_of_s2() -> None:
    one = chain_hash(0, 7)
    both = chain_hash(one, 8)
    first = (1, "Append", {"num_records": 1, "record_hashes": [7]}, "AppendSuccess", {"tail": 1})
    maybe = (2, "Append", {"num_records": 1, "record_hashes": [8]}, "AppendIndefiniteFailure", None)
    assert s2([first, (3, "Read", None, "ReadSuccess", {"tail": 1, "stream_hash": one})]) is True
    assert s2([first, (3, "Read", None, "ReadSuccess", {"tail": 1, "stream_hash": both})]) is False
    for tail, stream, expected in ((1, one, True), (2, both, True), (2, one, False), (1, both, False)):
        read = (3, "Read", None, "ReadSuccess", {"tail": tail, "stream_hash": stream})
        assert s2([first, maybe, read]) is expected
    late = {"num_records": 1, "record_hashes": [8], "match_seq_num": 0}
    assert s2([first, (2, "Append", late, "AppendSuccess", {"tail": 2})]) is False
    fence = {"num_records": 1, "record_hashes": [9], "set_fencing_token": "a"}
    fenced = (1, "Append", fence, "AppendSuccess", {"tail": 1})
    for token, expected in (("a", True), ("b", False)):
        batch = {"num_records": 1, "record_hashes": [8], "fencing_token": token}
        assert s2([fenced, (2, "Append", batch, "AppendSuccess", {"tail": 2})]) is expected
    assert s2([first, (2, "CheckTail", None, "CheckTailSuccess", {"tail": 2})]) is False


CUSTOM = """
from liftlog_jepsen.objects import Model


class Dice(Model):
    observers = frozenset({"look"})

    def initial(self, options):
        return 1

    def step(self, state, f, argument, result, outcome):
        if f == "roll":
            return [1, 2, 3]
        return state if state == result else None


class Half(Model):
    def initial(self, options):
        return 0


class Broken(Model):
    def __init__(self, sides):
        self.sides = sides

    def initial(self, options):
        return 0

    def step(self, state, f, argument, result, outcome):
        return state


class Listed(Dice):
    def step(self, state, f, argument, result, outcome):
        return [[argument]]


NUMBER = 3
"""


def test_a_model_of_the_user_travels_by_its_text(tmp_path: Path) -> None:
    path = tmp_path / "dice.py"
    path.write_text(CUSTOM)
    model = load_model(f"{path}:Dice")
    assert isinstance(model, Model) and model.name == "Dice"
    sent = pickle.dumps(model)
    path.unlink()
    build.cache_clear()
    arrived = pickle.loads(sent)
    rolled = done(0, "roll", None, None, 0, 1)
    for seen, expected in ((1, True), (3, True), (4, False)):
        found = check_object(arrived, [rolled, done(1, "look", None, seen, 2, 3)], Options())
        assert found.valid is expected


def test_a_fault_in_a_model_names_the_operation(tmp_path: Path) -> None:
    (tmp_path / "dice.py").write_text(CUSTOM)
    model = load_model(f"{tmp_path}/dice.py:Listed")
    words = "the model Listed failed at operation 0 .*unhashable"
    with pytest.raises(BadHistory, match=words):
        check_object(model, [done(0, "roll", 6, None, 0, 1)], Options())
    with pytest.raises(BadHistory, match='cannot say whether "a" comes before 1: give numbers'):
        judge("priority-queue", *(done(n, "insert", (1, "a")[n], None, 2 * n, 2 * n + 1) for n in range(2)))


@pytest.mark.parametrize("name", MODELS)
def test_models_can_be_sent(name: str) -> None:
    assert type(pickle.loads(pickle.dumps(MODELS[name]))) is type(MODELS[name])
    assert MODELS[name].name == name and MODELS[name].words


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("dice.py", "expected FILE.py:NAME"),
        ("dice.txt:Dice", "expected FILE.py:NAME"),
        ("none.py:Dice", "cannot read none.py: No such file"),
        ("dice.py:Nice", "there is no Nice in dice.py; its models are Dice, Half, Broken, Listed"),
        ("dice.py:NUMBER", "NUMBER is no model"),
        ("dice.py:Half", "Half has no function step"),
        ("dice.py:Broken", "a model takes no arguments"),
        ("syntax.py:Dice", "line 2: "),
        ("raises.py:Dice", "running raises.py failed: ZeroDivisionError"),
    ],
)
def test_a_model_that_cannot_be_loaded(
    place: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("dice.py").write_text(CUSTOM)
    Path("syntax.py").write_text("x = 1\ny = = 2\n")
    Path("raises.py").write_text("1 / 0\n")
    with pytest.raises(BadHistory) as caught:
        load_model(place)
    assert f"--model {place}: " in str(caught.value) and words in str(caught.value)


def test_the_same_history_gives_the_same_answer() -> None:
    for name in ASKS:
        model, _, options = ASKS[name]
        for seed in range(20):
            first = check_object(model, history(random.Random(seed), name, 8), options)
            assert first == check_object(model, history(random.Random(seed), name, 8), options)
