"""`liftlog sim scenario --explain`: what a scenario sets up, what happens when, what it expects, and why."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from liftlog_sim.catalogue.history import ORIGINS
from liftlog_sim.directed.form import FaultPart, PublishPart, RequestPart, Scenario
from liftlog_sim.profiles.mutants import mutant_named

WIDTH = 100
FAULTS: dict[str, str] = {
    "kill": "the process of {who} is killed, and starts again after {time}",
    "power": "{who} loses power, and starts again after {time}",
    "kill_all": "all processes are killed, and start again within {time}",
    "power_all": "all nodes lose power, and start again within {time}",
    "stop": "{who} is asked to stop, and starts again {time} after it has",
    "stop_all": "all nodes are asked to stop, and start again within {time}",
    "isolate": "{who} is cut from its peers, not from NATS, for {time}",
    "cut_bus": "{who} is cut from NATS, not from its peers, for {time}",
    "cut_both": "{who} is cut from peers and NATS for {time}",
    "deny": "NATS lets {who} subscribe to nothing for {time}",
    "pause": "the process of {who} is stopped for {time}, and goes on",
    "slow_disk": "the disk of {who} is many times slower for {time}",
    "full_disk": "the disk of {who} is full for {time}",
    "sync_failure": "the next sync of {who} fails",
    "wipe": "{who} gets an empty disk",
    "lost_promises": "{who} dies, and what it has of the metadata group decays meanwhile",
    "total_loss": "most disks are destroyed, and the cluster is recovered from those that are left",
    "lost_folder": "{who} dies, and finds a log's folder gone when it starts again",
    "kill_then_power": "the process of {who} is killed, and soon after its power goes",
    "stop_then_power": "{who} is asked to stop, and soon after its power goes",
    "partition": "links between nodes are cut for {time}",
}
"""In words; any other kind is told by its name."""


def told(scenario: Scenario) -> list[str]:
    """For people, some lines."""
    lines = [f"{scenario.name}: {scenario.title}", ""]
    if scenario.pitfall:
        lines += [*_paragraph("The mistake it guards against", scenario.pitfall), ""]
    if scenario.story:
        lines += [*_paragraph("What it sets up", scenario.story), ""]
    lines += ["Who is there", *_indented(_cast(scenario)), "", "What happens"]
    lines += _indented(f"{at_ms / 1000:7.3f} s  {text}" for at_ms, text in sorted(_events(scenario)))
    healed = f"{scenario.duration_ms / 1000:7.3f} s  everything is healed, and everybody starts again"
    lines += [
        *_indented((healed,)),
        "",
        "What is expected",
        *_indented(_expected(scenario)),
    ]
    if scenario.why:
        lines += ["", *_paragraph("Why", scenario.why)]
    if scenario.fails_with:
        lines += ["", "What makes it fail"]
        for fails in scenario.fails_with:
            mutant = mutant_named(fails.mutant)
            by = f", by {fails.invariant}" if fails.invariant else ", by what is expected of the end"
            lines += _indented((f"{fails.mutant} ({mutant.rule}{by}): {mutant.breaks}",))
            origin = ORIGINS.get(fails.mutant)
            if origin is not None:
                lines += _indented((f"  met in {origin.source}; lesson: {origin.lesson}",))
    return lines


def _paragraph(title: str, text: str) -> list[str]:
    return [title, *_indented((" ".join(text.split()),))]


def _indented(texts: Iterator[str] | tuple[str, ...]) -> list[str]:
    return [f"  {line}" for text in texts for line in wrap(text, WIDTH, subsequent_indent="  ") or [""]]


def _cast(scenario: Scenario) -> Iterator[str]:
    yield f"{scenario.nodes} nodes, with a tick of {scenario.tick_ms} ms and constant latencies"
    read = scenario.read
    yield f"a reader that asks every {read.every_ms} ms, {read.ask_latest:.0%} of it for the latest offset"
    for stream in scenario.stream:
        minimum = f", at least {stream.min_insync} in sync" if stream.min_insync else ""
        yield f"stream {stream.name}: {stream.partitions} partition(s), {stream.replicas} replicas{minimum}"


def _events(scenario: Scenario) -> Iterator[tuple[int, str]]:
    for publish in scenario.publish:
        yield publish.from_ms, _load(publish, scenario)
    for fault in scenario.fault:
        yield fault.at_ms, _strike(fault)
    for request in scenario.request:
        yield request.at_ms, _asked(request)


def _load(publish: PublishPart, scenario: Scenario) -> str:
    until_ms = publish.until_ms or scenario.duration_ms
    acks = "" if publish.reply else ", without a reply subject"
    return (
        f"a publisher begins: {publish.count} messages to {publish.stream}/{publish.partition} every "
        f"{publish.every_ms} ms, until {until_ms / 1000:g} s{acks}"
    )


def _strike(fault: FaultPart) -> str:
    who = f"node {fault.node}" if isinstance(fault.node, int) else f"the {fault.node}"
    who = "any node" if fault.node == "any" else who
    text = FAULTS.get(fault.kind, f"fault {fault.kind} strikes {{who}}, for {{time}}")
    links = ": " + ", ".join(f"{sender} to {to}" for sender, to in fault.links) if fault.links else ""
    return text.format(who=who, time=f"{fault.for_ms / 1000:g} s") + links


def _asked(request: RequestPart) -> str:
    asked = f"a client asks node {request.node}"
    match request.kind:
        case "move":
            nodes = ", ".join(map(str, request.to))
            return f"{asked} to move the copies of {request.stream}/0 to the nodes {nodes}"
        case "retire":
            return f"{asked} for the retirement of node {request.who}"
    return f"{asked} to {request.kind} the stream {request.stream}"


def _expected(scenario: Scenario) -> Iterator[str]:
    expect = scenario.expect
    yield "no invariant is violated, every step is one of the models'; in the end all copies are equal"
    yield f"at least {expect.acked} messages are acknowledged"
    for name, least in expect.at_least.items():
        yield f"{name}: at least {least}"
    if expect.marks:
        yield f"these cases of rules are reached: {', '.join(expect.marks)}"
    if expect.never:
        yield f"these are not: {', '.join(expect.never)}"
    if expect.streams:
        yield f"in the end there are exactly the streams {', '.join(expect.streams)}"
