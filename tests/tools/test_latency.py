"""`liftlog bench latency`: what it compares, draws and refuses, and that its floors are floors."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liftlog import cli
from liftlog.bench import latency, latency_command
from liftlog.bench.floor import Floor
from liftlog.bench.histogram import Histogram, summary_ms
from liftlog.bench.latency import (
    FIVE,
    LatencyRound,
    LatencySummary,
    measure_latency,
    ratios,
    run_open_loop,
)
from liftlog.bench.openloop import OpenLoad
from liftlog.bench.percentile_plot import LETTER_WIDTH, Panel, nines_text, percentile_picture
from liftlog.bench.responder import Duty, Responder
from liftlog.scratch import Scratch
from liftlog.types import LiftlogError

from .test_bench import ROOT, left_behind

SVG = "{http://www.w3.org/2000/svg}"


def a_round(p50_ms: float, trouble: str = "", lost: bool = False) -> LatencyRound:
    latency_ms = {"p50": p50_ms, "p99": 2 * p50_ms, "max": 3 * p50_ms}
    return LatencyRound(acked=100, latency_ms=latency_ms, trouble=trouble, lost=lost)


# -- the comparison -----------------------------------------------------------------------------------------


def test_medians_are_shown_and_ratios_are_taken_within_a_round() -> None:
    ours = LatencySummary([a_round(value) for value in (1.0, 20.0, 3.0)])
    floor = LatencySummary([a_round(value) for value in (0.5, 10.0, 1.0)])
    assert (ours.latency_ms("p50"), ours.latency_ms("max")) == (3.0, 60.0)
    found = ratios({"liftlog-1": ours, "responder": floor}, ("responder", "absent"), ("p50",))
    assert found == {"liftlog-1": {"responder": {"p50": 2.0}}, "responder": {}}


def test_a_saturated_round_counts_as_slower_than_any_other() -> None:
    floor = LatencySummary([a_round(1.0), a_round(2.0), a_round(4.0)])
    ours = LatencySummary([a_round(3.0), a_round(0.1, "saturated at 7/s"), a_round(4.0)])
    assert ours.valid and (ours.latency_ms("p50"), ours.latency_ms("max")) == (4.0, 12.0)
    found = ratios({"ours": ours, "floor": floor}, ("floor", "ours"), ("p50",))
    assert found == {"ours": {"floor": {"p50": 2.0}}, "floor": {"ours": {"p50": pytest.approx(2 / 3)}}}


def test_half_the_rounds_saturated_or_one_message_lost_is_no_result() -> None:
    floor = LatencySummary([a_round(1.0), a_round(1.0), a_round(1.0)])
    half = LatencySummary([a_round(1.0), a_round(1.0, "saturated at 7/s")])
    lost = LatencySummary([a_round(1.0), a_round(1.0), a_round(1.0, "refused", lost=True)])
    for summary in (half, lost):
        assert not summary.valid and summary.to_json()["troubles"] == summary.troubles
        assert summary.to_json()["latency_ms"] is None is summary.to_json()["all_rounds_latency_ms"]
        found = ratios({"ours": summary, "floor": floor}, ("floor", "ours"), ("p50",))
        assert found == {"ours": {}, "floor": {}}
    assert lost.lost and not half.lost


def test_jetstream_is_compared_with_where_it_has_as_many_replicas() -> None:
    floors = ("responder", "responder-sync")
    assert latency_command.references_of("liftlog-3") == (*floors, "jetstream-default-3")
    assert latency_command.references_of("request-reply") == floors


def test_the_five_are_those_of_the_document() -> None:
    assert [str(one) for one in FIVE] == [
        "256 B at 3,000/s",
        "1 KB at 3,000/s",
        "5 KB at 2,000/s",
        "1 KB at 20,000/s over 25 connections",
        "1 MB at 100/s",
    ]


# -- the picture --------------------------------------------------------------------------------------------


@given(
    st.dictionaries(
        st.sampled_from(["liftlog-1", "liftlog-3", "jetstream-default-3", "request-reply", "a<b&c"]),
        st.lists(st.integers(0, 10**11), max_size=50),
    ),
    st.integers(1, 5),
)
def test_the_picture_is_well_formed_and_nothing_is_cut(curves: dict[str, list[int]], count: int) -> None:
    panel = Panel("1 KB at 20,000/s over 25 connections, <ms>", {n: Histogram(v) for n, v in curves.items()})
    root = ElementTree.fromstring(percentile_picture([panel] * count))
    _, _, width, height = (float(value) for value in root.attrib["viewBox"].split())
    groups = root.findall(f"{SVG}g")
    assert len(groups) == count
    for index, group in enumerate(groups):
        down = float(group.attrib["transform"].split()[1].rstrip(")"))
        for text in group.iter(f"{SVG}text"):
            long = len(text.text or "") * LETTER_WIDTH * (1.15 if text.attrib["class"] == "h" else 1)
            before = {"middle": long / 2, "end": long}.get(text.attrib.get("text-anchor", ""), 0)
            left = float(text.attrib["x"]) - before
            assert left >= 0 and left + long <= width
            assert index * height / count <= down + float(text.attrib["y"]) - 12
            assert down + float(text.attrib["y"]) + 4 <= (index + 1) * height / count
        drawn = [line.attrib["points"] for line in group.iter(f"{SVG}polyline")]
        assert len(drawn) == sum(bool(values) for values in curves.values())
        for points in drawn:
            xy = [tuple(map(float, point.split(","))) for point in points.split()]
            assert all(0 <= x <= width and 0 <= y <= height for x, y in xy)
            assert xy == sorted(xy, key=lambda point: (point[0], -point[1]))  # further right is never lower


def test_the_axis_names_nines() -> None:
    assert [nines_text(nines) for nines in (0, 1, 2, 3, 6)] == ["0 %", "90 %", "99 %", "99.9 %", "99.9999 %"]


def test_a_line_passes_through_its_percentiles() -> None:
    values = [1_000_000] * 90 + [10_000_000] * 9 + [100_000_000]
    root = ElementTree.fromstring(percentile_picture([Panel("t", {"liftlog-1": Histogram(values)})]))
    (line,) = root.iter(f"{SVG}polyline")
    xy = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
    labels = {text.text: text for text in root.iter(f"{SVG}text")}
    above = {ms: float(labels[ms].attrib["y"]) - 4 for ms in ("1", "10", "100")}
    at_90 = float(labels["90 %"].attrib["x"])
    assert all(y == pytest.approx(above["1"], abs=0.2) for x, y in xy if x < at_90 - 3)
    assert all(y == pytest.approx(above["10"], abs=0.2) for x, y in xy if at_90 + 3 < x < 680)


# -- the floors ---------------------------------------------------------------------------------------------


def test_a_group_is_on_disk_before_any_of_it_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "group"
    synced: list[bool] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        duty = Duty(listener.getsockname()[1], "s", "sync", "bench", str(path))
        responder = Responder(duty)
        peer, _ = listener.accept()

        def sync(_file: int) -> None:
            written = path.read_bytes()[:200]
            silent = not select.select([peer], [], [], 0)[0]
            synced.append(silent and written.count(b"payload") == 3)

        monkeypatch.setattr(os, "fdatasync", sync)
        thread = threading.Thread(target=responder.serve)
        thread.start()
        with peer, peer.makefile("rb") as answers:
            assert [answers.readline()[:7] for _ in range(3)] == [b"CONNECT", b"SUB s 1", b"PING\r\n"]
            message = b"MSG s 1 inbox.%d 8\r\npayload%d\r\n"
            # The third comes in two pieces: it belongs to the group that completes it.
            peer.sendall(b"".join(message % (number, number) for number in range(3)))
            told = [answers.readline() for _ in range(6)]
            assert told[::2] == [b"PUB inbox.%d 26\r\n" % number for number in range(3)]
            assert [json.loads(line)["seq"] for line in told[1::2]] == [1, 2, 3]
            peer.sendall(b"PING\r\n")
            assert answers.readline() == b"PONG\r\n"
            peer.shutdown(socket.SHUT_WR)
            thread.join()
    assert synced[0] is True


@pytest.mark.real
def test_floors_answer_every_message_and_one_of_them_writes_it(tmp_path: Path) -> None:
    load = OpenLoad(0, "s", "bench", rate=500, size=64, seconds=0.5)
    with Scratch("bench", tmp_path) as scratch:
        for kind in ("answer", "sync", "echo"):
            floor = Floor(scratch, kind, "s", "bench")
            floor.start()
            for connections in (1, 7):
                own = replace(load, port=floor.port, echo=floor.echo, connections=connections)
                result = run_open_loop(own, floor.name)
                assert result.get("error", "") == "" and result["acked"] == 250
            if kind == "sync":
                written = (floor.folder / "group").read_bytes()
                assert all(b"\r\n%012dxxx" % number in written for number in range(250))
            else:
                assert not (floor.folder / "group").exists()
        # Nobody subscribes: that is no result, and says why.
        unheard = replace(load, port=floor.port, subject="nobody")
        assert "503" in run_open_loop(unheard, "nobody")["error"]
    assert left_behind(tmp_path) == []


# -- the command --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (["--size", "19"], "--size 19 is out of range"),
        (["--rate", "0"], "--rate 0 is out of range"),
        (["--connections", "0"], "--connections 0 is out of range"),
        (["--rounds", "0"], "--rounds 0 is out of range"),
        (["--seconds", "0.1"], "--seconds 0.1 is out of range"),
        (["--rate", "100000", "--seconds", "60"], "choose fewer --seconds"),
        (["--five", "--size", "30"], "leave out --size"),
        (["--replicas", "2"], "--replicas"),
        (["--dir", "/no/such/folder"], "--dir /no/such/folder"),
        (["--svg", "/no/such/folder/a.svg"], "--svg /no/such/folder/a.svg"),
        (["--json", "/no/such/folder/a.json"], "--json /no/such/folder/a.json"),
        (["--json", "/tmp"], "--json /tmp cannot be written"),
        (["--rate", "nan"], "--rate nan is out of range"),
        (["--size", "1000000", "--seconds", "600", "--rounds", "100"], "GB free"),
    ],
)
def test_a_wrong_option_is_one_line(line: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "latency", *line]) == 2
    error = capsys.readouterr().err
    assert named in error and error.count("\n") == 1


class Pretended:
    """A contender that is not there: what its runs give is said by the test."""

    echo, port = False, 0
    pids: tuple[int, ...] = ()

    def __init__(self, name: str) -> None:
        self.name = name

    def start(self) -> None:
        pass

    def stored(self) -> int:
        return 7


def a_run(acked: int, saturated: str = "") -> dict[str, object]:
    numbers = {"acked_per_s": 1.0, "longest_gap_ms": 0.0, "generator_cpu_us_per_message": 1.0}
    dicts = {"latency_ms": {}, "late_ms": {}, "latency_histogram_ns": Histogram().to_json()}
    return {"acked": acked, "saturated": saturated, "realtime": True} | numbers | dicts


def test_who_holds_less_than_he_acknowledged_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "run_open_loop", lambda load, name: a_run(5))
    with pytest.raises(LiftlogError, match="forgetful acked 10 messages and holds 0: it lost some"):
        measure_latency([Pretended("forgetful")], OpenLoad(0, "s"), 1, lambda text: None)


def test_who_is_saturated_from_the_start_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = {"slow": ["so", "so", "-", "-"], "cold": ["so", "", "", "so"], "tired": ["", "so", "so", ""]}
    monkeypatch.setattr(
        latency, "run_open_loop", lambda load, name: a_run(0, saturated=runs[name].pop(0))
    )
    monkeypatch.setattr(latency, "_until_idle", lambda contender: None)
    found = measure_latency([Pretended(name) for name in runs], OpenLoad(0, "s"), 3, lambda text: None)
    assert {name: len(one.rounds) for name, one in found.items()} == {"slow": 1, "cold": 3, "tired": 3}
    assert {name: one.valid for name, one in found.items()} == {"slow": False, "cold": True, "tired": False}


@pytest.mark.real
@pytest.mark.slow
def test_every_system_is_measured_and_everything_is_removed(tmp_path: Path) -> None:
    picture = tmp_path / "picture.svg"
    folder = tmp_path / "logs"
    folder.mkdir()
    quick = ["--rate", "200", "--seconds", "1", "--rounds", "1", "--connections", "2", "--dir", str(folder)]
    line = ["bench", "latency", "--replicas", "1", "3", "--vs", "jetstream", "--svg", str(picture), "--json"]
    command = [sys.executable, "-m", "liftlog", *line, *quick, "--breakdown"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    (configuration,) = json.loads(done.stdout)["configurations"]
    systems = configuration["systems"]
    others = [f"{name}-{r}" for r in (1, 3) for name in ("liftlog", "jetstream-default", "jetstream-always")]
    assert list(systems) == ["request-reply", "responder", "responder-sync", *others]
    ours = {name: system for name, system in systems.items() if "jetstream" not in name}
    assert not [one for system in ours.values() for one in system["rounds"] if one["lost"]]
    # On a machine that is busy enough anybody is saturated; then there is less to look at.
    whole = [name for name, system in systems.items() if system["valid"]]
    for name in whole:
        (only,) = systems[name]["rounds"]
        values = list(only["latency_ms"].values())
        assert only["acked"] == 200 and values == sorted(values) and values[0] > 0
        # What is told is what the histogram says.
        assert summary_ms(Histogram.from_json(systems[name]["histogram_ns"])) == only["latency_ms"]
        assert only["server_cpu_us_per_message"] >= 0 and only["generator_cpu_us_per_message"] > 0
    compared = configuration["ratios"]["liftlog-3"]
    assert ("responder" in compared) == ({"responder", "liftlog-3"} <= set(whole))
    assert all(ratio > 0 for ratios_to in compared.values() for ratio in ratios_to.values())
    followed = {name: view["nodes"] for name, view in configuration["breakdown"].items()}
    assert list(followed) == ["liftlog-1", "liftlog-3"]
    assert [sorted(nodes) for nodes in followed.values()] == [["1"], ["1", "2", "3"]]
    assert followed["liftlog-1"]["1"]["leader"]["stages"][-1]["groups"] > 0
    drawn = {text.text for text in ElementTree.parse(picture).iter(f"{SVG}text")}
    assert set(whole) <= drawn
    assert left_behind(folder) == []
