"""The import rules of docs/ARCHITECTURE.md and the rules that keep core and storage deterministic.

Everything is read from the syntax trees, nothing is imported. The second half of the file checks the checker:
each rule must fire on a doctored source.
"""

from __future__ import annotations

import ast
import gc
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# The import name of each room of the product, and where it lies.
PACKAGES = {
    "liftlog": ROOT / "liftlog",
    "liftlog_sim": ROOT / "sim" / "liftlog_sim",
    "liftlog_spec": ROOT / "spec" / "liftlog_spec",
    "liftlog_jepsen": ROOT / "jepsen" / "liftlog_jepsen",
}

MODULE_LINES_MAX = 650
FUNCTION_LINES_MAX = 80

# A module or function that is longer, each with the reason why cutting it would make it harder to read.
LONG_MODULES: dict[str, str] = {}
LONG_FUNCTIONS: dict[str, str] = {}

# What a module may import of the project besides its own room: the longest matching prefix on the left.
# `liftlog`, `liftlog_jepsen` and `liftlog_spec` alone are what lies beside their rooms; on the right, all of
# them.
ALLOWED: dict[str, tuple[str, ...]] = {
    "liftlog": ("liftlog.version",),
    "liftlog.types": (),
    "liftlog.bounds": (),
    "liftlog.addresses": (),
    "liftlog.nodeconfig": ("liftlog.types",),
    "liftlog.mutants": (),
    "liftlog.version": (),
    "liftlog.messages": ("liftlog.types", "liftlog.offsets"),
    "liftlog.ports": ("liftlog.types", "liftlog.messages"),
    "liftlog.codec": ("liftlog.types",),
    "liftlog.format": ("liftlog.types", "liftlog.codec"),
    "liftlog.batchparts": ("liftlog.types", "liftlog.format"),
    "liftlog.picking": ("liftlog.types", "liftlog.format", "liftlog.mutants", "liftlog.subjects"),
    "liftlog.epochs": ("liftlog.types",),
    "liftlog.offsets": ("liftlog.types",),
    "liftlog.sizes": (),
    "liftlog.rooms": (),
    "liftlog.eventlog": (),
    "liftlog.scratch": (),
    "liftlog.terminal": (),
    "liftlog.exposure": (),
    "liftlog.nats_login": ("liftlog.types", "liftlog.exposure"),
    "liftlog.diskkey": ("liftlog.types", "liftlog.exposure"),
    "liftlog.parcel": ("liftlog.codec", "liftlog.format"),
    "liftlog.options": ("liftlog.types", "liftlog.bounds", "liftlog.messages", "liftlog.parcel"),
    "liftlog.subjects": ("liftlog.types",),
    "liftlog.groups": ("liftlog.types", "liftlog.mutants"),
    "liftlog.core": (
        "liftlog.types",
        "liftlog.bounds",
        "liftlog.nodeconfig",
        "liftlog.mutants",
        "liftlog.messages",
        "liftlog.codec",
        "liftlog.format",
        "liftlog.batchparts",
        "liftlog.epochs",
        "liftlog.offsets",
        "liftlog.sizes",
        "liftlog.parcel",
        "liftlog.options",
        "liftlog.subjects",
        "liftlog.picking",
    ),
    "liftlog.storage": (
        "liftlog.types",
        "liftlog.mutants",
        "liftlog.messages",
        "liftlog.ports",
        "liftlog.format",
        "liftlog.batchparts",
        "liftlog.epochs",
        "liftlog.offsets",
        "liftlog.sizes",
        "liftlog.subjects",
        "liftlog.picking",
    ),
    "liftlog.security": ("liftlog.types", "liftlog.exposure", "liftlog.api.handshake"),
    "liftlog.rights": (
        "liftlog.types",
        "liftlog.namedtables",
        "liftlog.messages",
        "liftlog.subjects",
        "liftlog.groups",
        "liftlog.security",
    ),
    "liftlog.driver": ("liftlog.types", "liftlog.messages", "liftlog.ports"),
    "liftlog.api": ("liftlog.types", "liftlog.messages", "liftlog.format"),
    "liftlog.tls": ("liftlog.types", "liftlog.exposure"),
    "liftlog.protocolranges": ("liftlog.types", "liftlog.nodeconfig"),
    "liftlog.namedtables": ("liftlog.types",),
    "liftlog.otherclusters": (
        "liftlog.types",
        "liftlog.namedtables",
        "liftlog.addresses",
        "liftlog.security",
        "liftlog.tls",
        "liftlog.api.handshake",
    ),
    "liftlog.config": (
        "liftlog.types",
        "liftlog.nodeconfig",
        "liftlog.eventlog",
        "liftlog.nats_login",
        "liftlog.protocolranges",
        "liftlog.security",
        "liftlog.tls",
        "liftlog.addresses",
        "liftlog.otherclusters",
        "liftlog.api",
    ),
    "liftlog.real": (
        "liftlog.types",
        "liftlog.messages",
        "liftlog.ports",
        "liftlog.eventlog",
        "liftlog.nats_login",
        "liftlog.options",
        "liftlog.security",
        "liftlog.tls",
        "liftlog.rights",
        "liftlog.driver",
        "liftlog.api",
        "liftlog.config",
    ),
    "liftlog.client": (
        "liftlog.types",
        "liftlog.bounds",
        "liftlog.messages",
        "liftlog.format",
        "liftlog.parcel",
        "liftlog.core.metadata.subjects",
        "liftlog.subjects",
        "liftlog.groups",
        "liftlog.nats_login",
        "liftlog.security",
        "liftlog.tls",
        "liftlog.api",
        "liftlog.config",
        "liftlog.picking",
    ),
    "liftlog.jetstream": (
        "liftlog.types",
        "liftlog.mutants",
        "liftlog.version",
        "liftlog.messages",
        "liftlog.subjects",
        "liftlog.eventlog",
        "liftlog.config",
        "liftlog.nats_login",
        "liftlog.client",
    ),
    "liftlog.links": (
        "liftlog.types",
        "liftlog.messages",
        "liftlog.api",
        "liftlog.client",
        "liftlog.otherclusters",
    ),
    "liftlog.moving": (
        "liftlog.types",
        "liftlog.messages",
        "liftlog.parcel",
        "liftlog.options",
        "liftlog.subjects",
        "liftlog.nats_login",
        "liftlog.client",
        "liftlog.jetstream",
    ),
    "liftlog.queue": (
        "liftlog.types",
        "liftlog.mutants",
        "liftlog.ports",
        "liftlog.format",
        "liftlog.codec",
        "liftlog.storage",
        "liftlog.real.disk",
    ),
    "liftlog.local": ("liftlog.types", "liftlog.messages", "liftlog.real", "liftlog.client"),
    "liftlog.eyes": (
        "liftlog.types",
        "liftlog.version",
        "liftlog.messages",
        "liftlog.core",
        "liftlog.config",
        "liftlog.real",
    ),
    "liftlog.trace": ("liftlog.types", "liftlog.messages", "liftlog.format", "liftlog.core"),
    "liftlog.watching": ("liftlog.types", "liftlog.messages", "liftlog.eventlog", "liftlog.core"),
    "liftlog.testing": ("liftlog.types", "liftlog.ports"),
    "liftlog.cli": ("liftlog.types", "liftlog.version"),
    "liftlog.__main__": ("liftlog.cli",),
    "liftlog.bench": ("liftlog",),
    "liftlog.demo": ("liftlog",),
    "liftlog.commands": ("liftlog",),
    "liftlog_jepsen.formats": ("liftlog_jepsen.events",),
    "liftlog_jepsen": ("liftlog.types", "liftlog_jepsen.commands", "liftlog_jepsen.formats"),
    "liftlog_jepsen.objects": ("liftlog_jepsen.events", "liftlog_jepsen.formats", "liftlog_jepsen.judgement"),
    "liftlog_jepsen.transactions": (
        "liftlog.types",
        "liftlog_jepsen.events",
        "liftlog_jepsen.formats",
        "liftlog_jepsen.judgement",
    ),
    "liftlog_jepsen.tallies": (
        "liftlog.types",
        "liftlog_jepsen.events",
        "liftlog_jepsen.formats",
        "liftlog_jepsen.judgement",
    ),
    "liftlog_jepsen.log": ("liftlog_jepsen.events", "liftlog_jepsen.history"),
    "liftlog_jepsen.promises": ("liftlog_jepsen.judgement", "liftlog_jepsen.result"),
    "liftlog_jepsen.foreign": (
        "liftlog.types",
        "liftlog_jepsen.events",
        "liftlog_jepsen.formats",
        "liftlog_jepsen.judgement",
        "liftlog_jepsen.models",
    ),
    "liftlog_jepsen.graph": (
        "liftlog_jepsen.events",
        "liftlog_jepsen.foreign",
        "liftlog_jepsen.formats",
        "liftlog_jepsen.judgement",
        "liftlog_jepsen.transactions",
    ),
    "liftlog_jepsen.online": ("liftlog.types", "liftlog_jepsen.history", "liftlog_jepsen.jsonl"),
    "liftlog_jepsen.generate": (
        "liftlog.types",
        "liftlog_jepsen.events",
        "liftlog_jepsen.formats",
        "liftlog_jepsen.history",
        "liftlog_jepsen.parquet",
    ),
    "liftlog_jepsen.bench": ("liftlog.types", "liftlog_jepsen.generate", "liftlog_jepsen.result"),
    "liftlog_jepsen.report": (
        "liftlog.types",
        "liftlog_jepsen.events",
        "liftlog_jepsen.formats",
        "liftlog_jepsen.history",
        "liftlog_jepsen.judgement",
        "liftlog_jepsen.result",
        "liftlog_jepsen.tallies",
    ),
    "liftlog_jepsen.spark": (
        "liftlog.types",
        "liftlog_jepsen.bench",
        "liftlog_jepsen.foreign",
        "liftlog_jepsen.formats",
        "liftlog_jepsen.generate",
        "liftlog_jepsen.graph",
        "liftlog_jepsen.history",
        "liftlog_jepsen.judgement",
        "liftlog_jepsen.log",
        "liftlog_jepsen.models",
        "liftlog_jepsen.online",
        "liftlog_jepsen.parquet",
        "liftlog_jepsen.promises",
        "liftlog_jepsen.result",
        "liftlog_jepsen.transactions",
    ),
    "liftlog_jepsen.commands": ("liftlog.types", "liftlog.terminal", "liftlog_jepsen"),
    "liftlog_sim": (
        "liftlog",
        "liftlog_jepsen.history",
        "liftlog_jepsen.jsonl",
        "liftlog_jepsen.logs",
        "liftlog_jepsen.parquet",
        "liftlog_jepsen.replicas",
        "liftlog_spec.cover.scenario",
        "liftlog_spec.lang.types",
        "liftlog_spec.models",
        "liftlog_spec.refine",
    ),
    "liftlog_spec.lang": (),
    "liftlog_spec.models": ("liftlog_spec.lang",),
    "liftlog_spec.run": ("liftlog_spec.lang",),
    "liftlog_spec.explore": ("liftlog_spec.lang", "liftlog_spec.run"),
    "liftlog_spec.proofs": ("liftlog_spec.lang", "liftlog_spec.models"),
    "liftlog_spec.prover": ("liftlog_spec.lang", "liftlog_spec.proofs"),
    "liftlog_spec.mappings": (
        "liftlog.types",
        "liftlog.terminal",
        "liftlog_spec.checking",
        "liftlog_spec.lang",
        "liftlog_spec.models",
        "liftlog_spec.proofs",
        "liftlog_spec.run",
    ),
    "liftlog_spec.cover": (
        "liftlog.types",
        "liftlog.terminal",
        "liftlog_spec.checking",
        "liftlog_spec.explore",
        "liftlog_spec.lang",
        "liftlog_spec.registry",
        "liftlog_spec.run",
    ),
    "liftlog_spec.tla": (
        "liftlog.types",
        "liftlog_spec.checking",
        "liftlog_spec.explore",
        "liftlog_spec.lang",
        "liftlog_spec.registry",
    ),
    "liftlog_spec.refine": (
        "liftlog.types",
        "liftlog.terminal",
        "liftlog.messages",
        "liftlog.trace",
        "liftlog_jepsen.spark.session",
        "liftlog_spec.checking",
        "liftlog_spec.lang",
        "liftlog_spec.models",
        "liftlog_spec.run",
    ),
    "liftlog_spec": ("liftlog.types", "liftlog.terminal", "liftlog_spec"),
}

BESIDE = {
    "liftlog": "the package",
    "liftlog_jepsen": "files beside the rooms",
    "liftlog_spec": "files beside the rooms",
}

# The only star import: a language, taken whole by what is written in it.
STARS = {"liftlog_spec.models": "liftlog_spec.lang", "liftlog_spec.proofs": "liftlog_spec.lang"}

# Libraries that only a few places may import: (place, or a prefix that ends in a star).
ONLY_IN: dict[str, tuple[str, ...]] = {
    "pyspark": ("liftlog_jepsen.spark*", "liftlog_spec.refine.spark"),
    "z3": ("liftlog_spec.prover*", "liftlog_jepsen.transactions.order_choices"),
    "trio": (
        *("liftlog.driver*", "liftlog.real*", "liftlog.eyes*", "liftlog.bench.stall", "liftlog_sim.*"),
        *("liftlog.client.bridge", "liftlog.client.on_trio"),
        "liftlog.jetstream.beside",
        "liftlog.links.beside",
    ),
    "prometheus_client": ("liftlog.eyes.page",),
    "h11": ("liftlog.eyes.http",),
    "zstandard": ("liftlog.codec",),
    "lz4": ("liftlog.codec",),
    "cryptography": ("liftlog.storage.sealing", "liftlog.api.tags"),
    "nkeys": ("liftlog.nats_login",),
    "numpy": (
        *("liftlog.subjects.index*", "liftlog.bench.subjects", "liftlog_jepsen.generate*"),
        *("liftlog_jepsen.graph*", "liftlog_jepsen.log*", "liftlog_jepsen.promises*"),
        *("liftlog_jepsen.report*", "liftlog_jepsen.spark*", "liftlog_jepsen.validation"),
    ),
}

# Modules that import each other in a circle, through functions and TYPE_CHECKING as well: there are none.
KNOWN_CIRCLES: tuple[tuple[str, ...], ...] = ()

# Who looks at a node without its knowing, and so changes nothing of it.
WATCHERS = ("liftlog.trace", "liftlog.watching", "liftlog.eyes")

# How many arguments a call of the project's own may have without a name.
POSITIONAL_MAX = 6
# Calls with more: where one is made for each record that is read, and names would cost as much as it does.
NAMELESS_CALLS = (("liftlog.format", "Record"), ("liftlog.format", "Header"))

# Who composes parts that know nothing of each other, nor of it: what crosses goes through the state below.
ROLES: dict[str, tuple[str, ...]] = {
    "liftlog.core.node": (
        "liftlog.core.controller",
        "liftlog.core.leaving",
        "liftlog.core.proposals",
        "liftlog.core.session",
    ),
    "liftlog.core.raft.raft": (
        "liftlog.core.raft.birth",
        "liftlog.core.raft.follower",
        "liftlog.core.raft.gate",
        "liftlog.core.raft.leader",
        "liftlog.core.raft.votes",
    ),
    "liftlog.core.replica.replica": (
        "liftlog.core.replica.follower",
        "liftlog.core.replica.lifecycle",
        "liftlog.core.replica.questions",
        "liftlog.core.replica.reader",
        "liftlog.core.replica.repair",
        "liftlog.core.replica.serving",
        "liftlog.core.replica.upkeep",
    ),
    "liftlog.core.replica.roles": (
        "liftlog.core.replica.isr",
        "liftlog.core.replica.leader",
        "liftlog.core.replica.copying.mirroring",
        "liftlog.core.replica.purge",
        "liftlog.core.replica.copying.recounting",
        "liftlog.core.replica.serving",
    ),
}

# Folders of the core that stand on their own: what of the rest of it they may import.
FLOORS: dict[str, tuple[str, ...]] = {
    "liftlog.core.metadata": ("liftlog.core.guards",),
    "liftlog.core.raft": ("liftlog.core.guards", "liftlog.core.hints"),
    "liftlog.core.consumers": (),
    "liftlog.core.replica": ("liftlog.core.consumers", "liftlog.core.context", "liftlog.core.metadata"),
    # And the rooms of the replica, lowest first.
    "liftlog.core.replica.state": (
        "liftlog.core.consumers",
        "liftlog.core.context",
        "liftlog.core.metadata",
    ),
    "liftlog.core.replica.removal": ("liftlog.core.consumers", "liftlog.core.replica.state"),
    "liftlog.core.replica.publishing": (
        *("liftlog.core.context", "liftlog.core.metadata"),
        *("liftlog.core.replica.state", "liftlog.core.replica.removal"),
    ),
    "liftlog.core.replica.delivering": (
        *("liftlog.core.consumers", "liftlog.core.metadata"),
        *("liftlog.core.replica.state", "liftlog.core.replica.removal"),
    ),
    "liftlog.core.replica.copying": (
        *("liftlog.core.metadata", "liftlog.core.replica.state"),
        *("liftlog.core.replica.removal", "liftlog.core.replica.publishing"),
    ),
}

# The rooms of the simulator, lowest first, and what each is for: it may import of those before it only. What
# lies beside them may import all.
SIM_LAYERS: dict[str, str] = {
    "kernel": "the heap of things to do, ordered by simulated time",
    "chance": "numbers by name, and plans that state them",
    "devices": "what a node runs on: clock, network, NATS, disk, storage thread, machine",
    "truth": "what is known of a run for sure, and what must always hold of it",
    "workload": "clients, and what they did",
    "faults": "what goes wrong, when and to whom; the atlas of damage; strangers and broken peers",
    "watching": "invariants that watch every step",
    "world": "all of this around one heap",
    "study": "what a researcher adds from outside: own faults, clients, invariants",
    "profiles": "which worlds there are: what a seed draws; the planted bugs",
    "refine": "every step of a running world, held against the models",
    "runs": "one run: its gears, its phases, its verdict, its trace",
    "audit": "what a sweep has reached, and what it never did",
    "sweeps": "many seeds: on several processes, twice, and the record of the last whole sweep",
    "bench": "how fast the simulator is, where its time goes, what memory it takes",
    "explain": "failure bundles, stories of what caused them, and shrinking",
    "catalogue": "the planted bugs as a history of the field",
    "directed": "scenarios: small stories with fixed latencies",
    "page": "a run as one page for a browser",
    "cover": "paths through a model's states, played on real nodes",
    "fuzz": "anything, to all that faces a network",
}

# Names that two classes may bear, and why. All others are borne by one class in all folders together, but for
# what a module keeps to itself, with an underscore before its name.
NAMES_THAT_MAY_REPEAT: dict[str, tuple[str, ...]] = {
    "a model, a proof and what they are about": ("Compaction", "Isr", "Raft", "RaftLog"),
    "an object to be checked, and what plays it when histories are made": (
        *("CasRegister", "Counter", "KeyValue", "MultiRegister", "Mutex", "PriorityQueue", "Queue"),
        *("Register", "Semaphore", "Stack"),
    ),
    "the client's, and the simulated one": ("Publisher", "Reader"),
    "what a node has, and what a trace tells of it": ("RaftState",),
    "what happened to a run, and how a history tells it": ("Event", "Fault"),
    "words of a language for models, and of the thing itself": ("Record", "Log", "Set", "Model"),
    "what a library hands to its users, each by its own import": ("Budget", "Options"),
}

# Core and storage see the world through events, effects and ports only.
PURE_ROOMS = (
    "liftlog.core",
    "liftlog.subjects",
    "liftlog.groups",
    "liftlog.storage",
    "liftlog.format",
    "liftlog.batchparts",
    "liftlog.codec",
    "liftlog.epochs",
    "liftlog.offsets",
    "liftlog.options",
    "liftlog.sizes",
    "liftlog.types",
    "liftlog.messages",
    "liftlog.trace.parting",
    "liftlog.trace.raft_lines",
    "liftlog.trace.raft_recorder",
    "liftlog.trace.replica_lines",
    "liftlog.trace.replica_recorder",
)
PURE_STDLIB = {"__future__", "abc", "array", "bisect", "collections", "contextlib", "dataclasses"} | {
    "enum", "errno", "functools", "hashlib", "heapq", "itertools", "json", "math", "operator", "re", "string",
    "struct", "types", "typing",
}  # fmt: skip
PURE_LIBRARIES = frozenset(("msgspec", "google_crc32c", "zstandard", "lz4", "cryptography", "numpy"))

# Calls whose result does not depend on the order in which they walk their argument.
ORDER_FREE = frozenset(("sorted", "set", "frozenset", "len", "any", "all", "sum", "min", "max"))
# Calls that hand their argument's order on.
ORDER_KEEPING = frozenset(
    ("list", "tuple", "iter", "enumerate", "zip", "map", "filter", "reversed", "dict", "deque", "chain")
)
SET_METHODS = frozenset(("union", "intersection", "difference", "symmetric_difference", "copy"))


# --- reading sources --------------------------------------------------------------------------------------


def project_sources() -> dict[str, Path]:
    """Every module of the product, with its file."""
    found = {}
    for package, folder in PACKAGES.items():
        for path in sorted(folder.rglob("*.py")):
            parts = (package, *path.relative_to(folder).with_suffix("").parts)
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def project_modules() -> dict[str, ast.Module]:
    """Their syntax trees: a million nodes, none of them garbage; to find that out would take the longest."""
    gc.disable()
    try:
        return {module: ast.parse(path.read_text(), str(path)) for module, path in project_sources().items()}
    finally:
        gc.enable()


def inside(module: str, room: str) -> bool:
    return module == room or module.startswith(room + ".")


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Every statement, at whatever depth, in no particular order: a tenth of what a tree is made of."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        for child in ast.iter_child_nodes(waiting.pop()):
            if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
                waiting.append(child)
                yield child


def imports_of(module: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, full name) of everything imported anywhere in the module, `from` names included."""
    for node in statements(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = module.split(".")[: -node.level] if node.level else []
                base = ".".join([*parent, base] if base else parent)
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"


# --- import rules -----------------------------------------------------------------------------------------


def import_violations(module: str, tree: ast.Module) -> list[str]:
    return [
        f"{module}:{line}: {problem}"
        for line, target in imports_of(module, tree)
        for problem in _problems_of_import(module, target)
    ]


def room_of(module: str) -> str:
    """The room a module is in; empty for what is not of the project."""
    return max((room for room in ALLOWED if inside(module, room)), key=len, default="")


def _problems_of_import(module: str, target: str) -> Iterator[str]:
    top = target.partition(".")[0]
    room = room_of(module)
    places = ONLY_IN.get(top)
    if target.endswith(".*") and STARS.get(room) != target.removesuffix(".*"):
        yield f"everything of {target.removesuffix('.*')} is imported: name what is used"
    if places is not None and not any(_in_place(module, place) for place in places):
        yield f"{top} may be imported only in {', '.join(places)}"
    if inside(module, "liftlog") and top in ("liftlog_sim", "liftlog_spec", "liftlog_jepsen"):
        yield f"liftlog must not import {target}; use liftlog.rooms.room_module"
    elif inside(module, "liftlog_jepsen") and top in ("liftlog_sim", "liftlog_spec"):
        yield f"liftlog_jepsen travels to Spark workers alone; it must not import {target}"
    elif top in PACKAGES:
        allowed = any(inside(target, other) for other in ALLOWED[room])
        if target not in PACKAGES and room_of(target) != room and not allowed:
            yield f"{room} must not import {target}"
    elif any(inside(module, pure) for pure in PURE_ROOMS):
        known = top in PURE_STDLIB if top in sys.stdlib_module_names else top in PURE_LIBRARIES
        if not known:
            yield f"{module} is pure: {target} is not among the modules it may import"


def _in_place(module: str, place: str) -> bool:
    return module.startswith(place[:-1]) if place.endswith("*") else module == place


# --- circles ----------------------------------------------------------------------------------------------

Imports = dict[str, dict[str, int]]
"""Of each module: which other modules of the project it imports, and in which line first."""


def project_imports(modules: dict[str, ast.Module]) -> Imports:
    def module_of(target: str) -> str:
        while target and target not in modules:
            target = target.rpartition(".")[0]
        return target

    graph: Imports = {}
    for module, tree in modules.items():
        known = graph[module] = {}
        for line, target in sorted(imports_of(module, tree)):
            imported = module_of(target)
            if imported not in ("", module):
                known.setdefault(imported, line)
    return graph


def layer_violations(graph: Imports, package: str, layers: Iterable[str]) -> list[str]:
    """Modules that import of a layer above their own."""
    heights = {f"{package}.{layer}": number for number, layer in enumerate(layers)}

    def height(module: str) -> int:
        return heights.get(".".join(module.split(".")[:2]), len(heights))

    return [
        f"{module}:{line} imports {target}, which lies above it"
        for module, targets in graph.items()
        for target, line in targets.items()
        if inside(module, package) and target != package and inside(target, package)
        if height(module) < height(target)
    ]


def circles(graph: Imports) -> list[tuple[str, ...]]:
    """The largest sets of modules in which each is reached from each other one, sorted."""
    reached: dict[str, set[str]] = {}
    for module in graph:
        seen: set[str] = set()
        waiting = [module]
        while waiting:
            new = graph[waiting.pop()].keys() - seen
            seen |= new
            waiting += new
        reached[module] = seen
    found = {
        tuple(sorted(other for other in reached[module] if module in reached[other]))
        for module in graph
        if module in reached[module]
    }
    return sorted(found)


def role_violations(graph: Imports, roles: dict[str, tuple[str, ...]]) -> list[str]:
    """Roles that import each other or who composes them."""
    return [
        f"{role}:{line} imports {target}, which stands beside or above it"
        for composer, parts in roles.items()
        for role in parts
        for target, line in graph[role].items()
        if target == composer or target in parts
    ]


def floor_violations(graph: Imports, room: str, floors: dict[str, tuple[str, ...]]) -> list[str]:
    """Imports of a room's module that stands on a floor of its own, from what is above or beside that."""
    return [
        f"{module}:{line} imports {target}, which {floor} does not stand on"
        for floor, allowed in floors.items()
        for module in graph
        if inside(module, floor)
        for target, line in graph[module].items()
        if inside(target, room) and not any(inside(target, each) for each in (floor, *allowed))
    ]


def circle_violations(graph: Imports, known: Iterable[tuple[str, ...]]) -> list[str]:
    """What is wrong with the circles of a graph, given those that are known."""
    present = circles(graph)
    problems: list[str] = []
    for circle in present:
        former = next((each for each in known if set(circle) <= set(each)), None)
        if former is None:
            edges = [
                f"{module}:{line} imports {target}"
                for module in circle
                for target, line in graph[module].items()
                if target in circle
            ]
            problems.append(f"{len(circle)} modules import each other: {'; '.join(edges)}")
    for former in known:
        left = [circle for circle in present if set(circle) <= set(former)]
        if left != [former]:
            shown = " and ".join(map(str, left)) or "nothing"
            problems.append(f"KNOWN_CIRCLES lists {former}, of which {shown} is left: write that down")
    return problems


# --- who writes what --------------------------------------------------------------------------------------


def _written_fields(tree: ast.AST) -> Iterator[ast.Attribute]:
    """Fields that are assigned or deleted, whole or in part."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            target: ast.expr = node
            while isinstance(target, ast.Subscript):
                target = target.value
            if isinstance(target, ast.Attribute):
                yield target


def foreign_writes(module: str, tree: ast.Module) -> list[str]:
    """Where a module assigns, or deletes, what is another object's: through any name but `self`."""

    return [
        f"{module}:{field.lineno} writes {ast.unparse(field)}, which is another's"
        for field in _written_fields(tree)
        if not (isinstance(field.value, ast.Name) and field.value.id == "self")
    ]


def _own_fields(tree: ast.AST) -> set[str]:
    """Names of the fields of `self` that a class assigns."""
    return {
        field.attr
        for field in _written_fields(tree)
        if isinstance(field.value, ast.Name) and field.value.id == "self"
    }


def inherited_writes(modules: dict[str, ast.Module]) -> list[str]:
    """Which classes assign fields that a base in another module declares, not calling its transitions."""
    classes = {
        node.name: (module, node)
        for module, tree in modules.items()
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    found = []
    for name, (module, node) in classes.items():
        for base in node.bases:
            where, parent = classes.get(ast.unparse(base), (module, node))
            if where != module:
                shared = sorted(_own_fields(node) & _own_fields(parent))
                found += [f"{module}: {name} writes {field}, which is {parent.name}'s" for field in shared]
    return found


# --- plain calls ------------------------------------------------------------------------------------------


def nameless_calls(modules: dict[str, ast.Module]) -> list[str]:
    """Calls of the project's own functions and classes in which a reader has to count places."""
    own: set[str] = set()
    for tree in modules.values():
        kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        own |= {node.name for node in ast.walk(tree) if isinstance(node, kinds)}
    found = []
    for module, tree in modules.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and len(node.args) > POSITIONAL_MAX:
                name = ast.unparse(node.func).rpartition(".")[2]
                if name in own and (module, name) not in NAMELESS_CALLS:
                    found.append(f"{module}:{node.lineno} {name} with {len(node.args)} arguments: name some")
    return found


# --- determinism of core and storage ----------------------------------------------------------------------


def _is_set_annotation(annotation: ast.expr | None) -> bool:
    if annotation is None:
        return False
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value.startswith(("set[", "frozenset["))
    if isinstance(annotation, ast.Subscript):
        annotation = annotation.value
    name = annotation.attr if isinstance(annotation, ast.Attribute) else getattr(annotation, "id", "")
    return name in ("set", "frozenset", "AbstractSet", "MutableSet")


class SetNames(ast.NodeVisitor):
    """What a stretch of source declares or assigns as a set.

    `names` are the variables of one scope. `shared` are attributes and functions, known by their bare name in
    all pure modules alike: one `isr: set[int]` in a class makes every `.isr` suspect, which is what we want.
    """

    def __init__(self, names: Iterable[str] = (), shared: Iterable[str] = ()) -> None:
        self.names = set(names)
        self.shared = set(shared)
        self.in_class_body = False

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        outer, self.in_class_body = self.in_class_body, True
        self.generic_visit(node)
        self.in_class_body = outer

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if _is_set_annotation(node.returns):
            self.shared.add(node.name)
        outer, self.in_class_body = self.in_class_body, False
        self.generic_visit(node)
        self.in_class_body = outer

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if _is_set_annotation(node.annotation):
            self._add(node.target)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if is_set(node.value, self):
            for target in node.targets:
                self._add(target)
        self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> None:
        if _is_set_annotation(node.annotation):
            self.names.add(node.arg)

    def _add(self, target: ast.expr) -> None:
        if isinstance(target, ast.Attribute):
            self.shared.add(target.attr)
        elif isinstance(target, ast.Name):
            (self.shared if self.in_class_body else self.names).add(target.id)


def is_set(node: ast.expr, known: SetNames) -> bool:
    """Whether an expression is, as far as its text tells, a set."""
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Name(id=name):
            return name in known.names
        case ast.Attribute(attr=name):
            return name in known.shared
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr() | ast.BitXor() | ast.Sub()):
            return is_set(node.left, known) or is_set(node.right, known)
        case ast.IfExp():
            return is_set(node.body, known) or is_set(node.orelse, known)
        case ast.Call(func=ast.Name(id=name)):
            return name in ("set", "frozenset") or name in known.shared
        case ast.Call(func=ast.Attribute(attr=name, value=value)):
            return name in known.shared or (name in SET_METHODS and is_set(value, known))
    return False


class OrderVisitor(ast.NodeVisitor):
    """Finds walks over sets whose order can reach the outside, and uses of hash() and id()."""

    def __init__(self, known: SetNames) -> None:
        self.known = known
        self.found: list[tuple[int, str]] = []
        self.order_free: set[ast.expr] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """A function sees its own variables and those of the scopes around it."""
        outer = self.known
        self.known = SetNames(outer.names, outer.shared)
        self.known.visit(node)
        self.generic_visit(node)
        self.known = outer

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name):
            if node.func.id in ("hash", "id"):
                self.found.append((node.lineno, f"{node.func.id}() differs from run to run"))
            if node.func.id in ORDER_FREE:
                self.order_free.update(node.args)
            elif node.func.id in ORDER_KEEPING:
                self._check_arguments(node.args)
        elif isinstance(node.func, ast.Attribute):
            if node.func.attr == "pop" and not node.args and is_set(node.func.value, self.known):
                self.found.append((node.lineno, "pops an arbitrary element of a set"))
            elif node.func.attr in ("join", "extend", "fromkeys"):
                self._check_arguments(node.args)
        self.generic_visit(node)

    def _check_arguments(self, arguments: list[ast.expr]) -> None:
        for argument in arguments:
            self._check_walk(argument)

    def visit_For(self, node: ast.For) -> None:
        self._check_walk(node.iter)
        self.generic_visit(node)

    def visit_Starred(self, node: ast.Starred) -> None:
        self._check_walk(node.value)
        self.generic_visit(node)

    def _visit_comprehension(self, node: ast.ListComp | ast.DictComp | ast.GeneratorExp) -> None:
        if node not in self.order_free:
            for generator in node.generators:
                self._check_walk(generator.iter)
        self.generic_visit(node)

    visit_ListComp = visit_DictComp = visit_GeneratorExp = _visit_comprehension

    def _check_walk(self, node: ast.expr) -> None:
        if is_set(node, self.known):
            self.found.append((node.lineno, f"walks the set {ast.unparse(node)}; sort it first"))


def order_violations(modules: dict[str, ast.Module]) -> list[str]:
    shared: set[str] = set()
    for tree in modules.values():
        collector = SetNames()
        collector.visit(tree)
        shared |= collector.shared
    found = []
    for module, tree in modules.items():
        known = SetNames(shared=shared)
        for statement in tree.body:
            if isinstance(statement, (ast.Assign, ast.AnnAssign)):
                known.visit(statement)
        visitor = OrderVisitor(known)
        visitor.visit(tree)
        found += [f"{module}:{line}: {problem}" for line, problem in sorted(set(visitor.found))]
    return found


# --- who steps nodes --------------------------------------------------------------------------------------

INTERPRETER = "liftlog.driver.interpreter"
# What carries out effects: to be had from the interpreter only. `NEVER_MS` is a plain number.
EFFECT_PARTS = ("liftlog.driver.outbox", "liftlog.driver.timers")
FREE_NAMES = ("liftlog.driver.timers.NEVER_MS",)
# Names of what is no node and has a step, or a number of steps.
OTHER_STEPS = frozenset(("checker", "compactor", "played", "self"))
# What of the tests runs nodes: bound by the same rule.
HARNESSES = ("tests.core.node_harness", "tests.core.raft_harness")


def step_violations(module: str, tree: ast.Module) -> list[str]:
    """Whoever steps a node, or keeps its messages or timers, beside the interpreter."""
    if module == INTERPRETER:
        return []
    found = [
        f"{module}:{line}: {target} belongs to {INTERPRETER} alone"
        for line, target in imports_of(module, tree)
        if any(inside(target, part) for part in EFFECT_PARTS) and target not in FREE_NAMES
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "step" and isinstance(node.ctx, ast.Load):
            receiver = node.value.attr if isinstance(node.value, ast.Attribute) else ast.unparse(node.value)
            if receiver not in OTHER_STEPS:
                found.append(f"{module}:{node.lineno}: {ast.unparse(node)}: only {INTERPRETER} steps nodes")
    return found


# --- size -------------------------------------------------------------------------------------------------


def long_functions(module: str, tree: ast.Module) -> Iterator[tuple[str, int]]:
    def walk(node: ast.AST, prefix: str) -> Iterator[tuple[str, int]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = (child.end_lineno or child.lineno) - child.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    yield f"{prefix}.{child.name}", lines
                yield from walk(child, f"{prefix}.{child.name}")
            elif isinstance(child, ast.ClassDef):
                yield from walk(child, f"{prefix}.{child.name}")
            elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
                yield from walk(child, prefix)

    return walk(tree, module)


# --- names ------------------------------------------------------------------------------------------------


def name_violations(modules: dict[str, ast.Module], may: Iterable[str]) -> list[str]:
    """Names of classes that several modules define and may not, and names listed that are borne by one."""
    places: dict[str, list[str]] = {}
    for module, tree in modules.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(module)
    repeated = {name: places[name] for name in sorted(places) if len(places[name]) > 1}
    listed = list(may)
    problems = [
        f"{name} is a class in {', '.join(where)}: one concept, one name"
        for name, where in repeated.items()
        if name not in listed
    ]
    problems += [f"{name} is borne by one class now: take it out" for name in listed if name not in repeated]
    return problems


def report(lines: Iterable[str]) -> None:
    text = "\n".join(lines)
    assert not text, "\n" + text


# --- the project keeps the rules --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def modules() -> dict[str, ast.Module]:
    return project_modules()


@pytest.fixture(scope="module")
def graph(modules: dict[str, ast.Module]) -> Imports:
    return project_imports(modules)


def import_table() -> list[str]:
    """The table of docs/ARCHITECTURE.md, as the rules here have it."""

    def name(room: str) -> str:
        text = f"`{room.removeprefix('liftlog.')}`"
        return text if room not in BESIDE else f"{text}: {BESIDE[room]}"

    def row(room: str, allowed: Iterable[str]) -> str:
        listed = ", ".join(f"all of `{each}`" if each in PACKAGES else name(each) for each in allowed)
        return f"| {name(room)} | {listed or 'nothing'} |"

    rows = ["| room | may import besides itself |", "|---|---|"]
    return [*rows, *(row(room, allowed) for room, allowed in ALLOWED.items())]


def test_the_table_of_imports_is_the_one_that_is_enforced() -> None:
    table = "\n".join(import_table())
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    assert f"\n\n{table}\n\n" in text, f"docs/ARCHITECTURE.md should say:\n{table}"


def test_the_table_has_every_room_and_no_other(modules: dict[str, ast.Module]) -> None:
    rooms = {".".join(module.split(".")[:2]) for module in modules if inside(module, "liftlog")}
    for package in ("liftlog_jepsen", "liftlog_spec"):
        rooms |= {f"{package}.{path.parent.name}" for path in PACKAGES[package].glob("*/*.py")}
    rooms |= {"liftlog_jepsen", "liftlog_sim", "liftlog_spec"}
    report(f"{room} is not in the table" for room in sorted(rooms - ALLOWED.keys()))
    report(f"{room} is in the table, but not there" for room in sorted(ALLOWED.keys() - rooms))


def test_the_rooms_of_the_simulator_lie_in_layers(graph: Imports) -> None:
    report(layer_violations(graph, "liftlog_sim", list(SIM_LAYERS)))
    rooms = {path.parent.name for path in PACKAGES["liftlog_sim"].glob("*/*.py")}
    assert rooms == SIM_LAYERS.keys() - {"kernel", "world"}
    page = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    assert "".join(f"| `{room}` | {what} |\n" for room, what in SIM_LAYERS.items()) in page


def test_nothing_is_allowed_that_nobody_does(modules: dict[str, ast.Module]) -> None:
    used: dict[str, set[str]] = {room: set() for room in ALLOWED}
    for module, tree in modules.items():
        targets = {target for _, target in imports_of(module, tree)}
        used[room_of(module)] |= {
            other for other in ALLOWED[room_of(module)] if any(inside(target, other) for target in targets)
        }
    report(
        f"{room} imports nothing of {other}: drop it from the table"
        for room, allowed in ALLOWED.items()
        for other in allowed
        if other not in used[room]
    )


def test_imports_point_downward_and_libraries_stay_in_their_rooms(modules: dict[str, ast.Module]) -> None:
    report(line for module, tree in modules.items() for line in import_violations(module, tree))


def test_no_modules_import_each_other_but_those_that_are_known(graph: Imports) -> None:
    report(circle_violations(graph, KNOWN_CIRCLES))


def test_roles_know_no_other_role(graph: Imports) -> None:
    report(role_violations(graph, ROLES))
    assert all(role in graph[composer] for composer, parts in ROLES.items() for role in parts)


def test_folders_of_the_core_stand_on_their_own(graph: Imports) -> None:
    assert all(any(inside(module, floor) for module in graph) for floor in FLOORS)
    report(floor_violations(graph, "liftlog.core", FLOORS))


def test_every_field_in_the_core_is_written_by_its_owner_alone(modules: dict[str, ast.Module]) -> None:
    rooms = ("liftlog.core", *WATCHERS)
    found = {m: foreign_writes(m, t) for m, t in modules.items() if any(inside(m, room) for room in rooms)}
    assert {"liftlog.core.node", "liftlog.trace.replica_recorder", "liftlog.watching"} <= found.keys()
    report(line for lines in found.values() for line in lines)
    report(inherited_writes({m: modules[m] for m in found}))


def test_no_call_has_more_nameless_arguments_than_anybody_can_count(modules: dict[str, ast.Module]) -> None:
    report(nameless_calls({m: tree for m, tree in modules.items() if inside(m, "liftlog")}))


def test_a_call_with_many_nameless_arguments_is_found() -> None:
    source = "class A: ...\ndef f(*a): ...\nA(1, 2, 3, 4, 5, 6, 7)\nx.f(1, 2, 3, 4, 5, 6, 7)"
    assert len(nameless_calls({"liftlog.core.a": ast.parse(source)})) == 2
    allowed = "class A: ...\nA(1, 2, 3, 4, 5, 6, b=7)\nstruct.pack(1, 2, 3, 4, 5, 6, 7)"
    assert nameless_calls({"liftlog.core.a": ast.parse(allowed)}) == []


def test_one_concept_has_one_name(modules: dict[str, ast.Module]) -> None:
    may = [name for names in NAMES_THAT_MAY_REPEAT.values() for name in names]
    report(name_violations(modules, may))


def test_core_and_storage_never_depend_on_set_order_or_identity(modules: dict[str, ast.Module]) -> None:
    pure = {m: t for m, t in modules.items() if any(inside(m, room) for room in PURE_ROOMS)}
    assert "liftlog.core" in pure and "liftlog.storage" in pure
    report(order_violations(pure))


def test_one_module_steps_nodes_and_carries_out_what_they_ask(modules: dict[str, ast.Module]) -> None:
    bound = {m: t for m, t in modules.items() if inside(m, "liftlog") or inside(m, "liftlog_sim")}
    for harness in HARNESSES:
        bound[harness] = ast.parse((ROOT / Path(*harness.split(".")).with_suffix(".py")).read_text())
    assert INTERPRETER in bound
    report(line for module, tree in bound.items() for line in step_violations(module, tree))


def test_modules_are_short_enough_to_read() -> None:
    too_long = []
    for module, path in project_sources().items():
        lines = len(path.read_text().splitlines())
        if lines > MODULE_LINES_MAX and module not in LONG_MODULES:
            too_long.append(f"{module} has {lines} lines, more than {MODULE_LINES_MAX}")
    report(too_long)


def test_functions_are_short_enough_to_read(modules: dict[str, ast.Module]) -> None:
    report(
        f"{name} has {lines} lines, more than {FUNCTION_LINES_MAX}"
        for module, tree in modules.items()
        for name, lines in long_functions(module, tree)
        if name not in LONG_FUNCTIONS
    )


def test_every_listed_exception_is_still_needed(modules: dict[str, ast.Module]) -> None:
    long_names = {name for module, tree in modules.items() for name, _ in long_functions(module, tree)}
    report(f"{name} is short now: drop it from LONG_FUNCTIONS" for name in LONG_FUNCTIONS.keys() - long_names)
    report(f"{module} is gone: drop it from LONG_MODULES" for module in LONG_MODULES.keys() - modules.keys())


def test_every_module_opens_with_what_and_why(modules: dict[str, ast.Module]) -> None:
    report(
        f"{module} has no docstring"
        for module, tree in modules.items()
        if tree.body and ast.get_docstring(tree) is None
    )


def test_every_folder_of_modules_is_a_package() -> None:
    """Without `__init__.py` it would be found in the checkout, and missing in the wheel."""
    folders = sorted({path.parent for path in project_sources().values()})
    report(f"{folder} has no __init__.py" for folder in folders if not (folder / "__init__.py").is_file())


def test_there_are_no_packages_under_tests() -> None:
    report(str(path) for path in (ROOT / "tests").rglob("__init__.py"))


# --- the checker catches what it should -------------------------------------------------------------------

BAD_IMPORTS = [
    ("liftlog.cli", "import liftlog_sim.runs.runner", "liftlog must not import liftlog_sim"),
    (
        "liftlog.commands.demo",
        "def f():\n    from liftlog_jepsen import history",
        "liftlog must not import liftlog_jepsen",
    ),
    ("liftlog.core.node", "from liftlog.storage import log", "must not import liftlog.storage.log"),
    ("liftlog.core.node", "from liftlog import ports", "liftlog.core must not import liftlog.ports"),
    ("liftlog.core.node", "from ..storage import log", "must not import liftlog.storage.log"),
    ("liftlog.core.raft.raft", "import random", "is pure: random"),
    ("liftlog.core.raft.raft", "from os import path", "is pure: os.path"),
    ("liftlog.core.raft.raft", "def f():\n    import time", "is pure: time"),
    ("liftlog.storage.log", "import threading", "is pure: threading"),
    ("liftlog.storage.log", "from uuid import uuid4", "is pure: uuid.uuid4"),
    ("liftlog.storage.log", "import pandas", "is pure: pandas"),
    ("liftlog.storage.log", "from liftlog.driver import outbox", "liftlog.storage must not import"),
    ("liftlog.types", "from liftlog.messages import Send", "liftlog.types must not import"),
    ("liftlog.driver.loop", "from liftlog.real import disk", "liftlog.driver must not import"),
    ("liftlog.commands.serve", "import trio", "trio may be imported only in"),
    ("liftlog.storage.log", "def f():\n    import zstandard", "zstandard may be imported only in"),
    ("liftlog.storage.log", "from cryptography import x509", "cryptography may be imported only in"),
    ("liftlog_jepsen.history", "import pyspark", "pyspark may be imported only in"),
    ("liftlog_jepsen.history", "from pyspark.sql import functions", "pyspark may be imported only in"),
    (
        "liftlog_jepsen.runner",
        "from liftlog_sim.world import World",
        "must not import liftlog_sim.world.World",
    ),
    ("liftlog_spec.model", "import z3", "z3 may be imported only in"),
    (
        "liftlog_spec.models.isr",
        "from liftlog_spec.run import compiled",
        "liftlog_spec.models must not import liftlog_spec.run.compiled",
    ),
    (
        "liftlog_spec.run.compiled",
        "from liftlog_spec.lang import *",
        "everything of liftlog_spec.lang is imported",
    ),
    (
        "liftlog_spec.models.isr",
        "from liftlog_spec.models.raft import *",
        "everything of liftlog_spec.models.raft is imported",
    ),
    (
        "liftlog_spec.run.compiled",
        "import liftlog_spec.checking",
        "liftlog_spec.run must not import liftlog_spec.checking",
    ),
    (
        "liftlog_jepsen.log.order",
        "from liftlog_jepsen.spark import run",
        "liftlog_jepsen.log must not import liftlog_jepsen.spark.run",
    ),
    (
        "liftlog_jepsen.events",
        "from liftlog_jepsen.log import order",
        "liftlog_jepsen must not import liftlog_jepsen.log.order",
    ),
    ("liftlog.commands.demo", "from liftlog_spec import lang", "liftlog must not import liftlog_spec.lang"),
    (
        "liftlog_sim.world",
        "from liftlog_jepsen.log import order",
        "liftlog_sim must not import liftlog_jepsen.log.order",
    ),
]


@pytest.mark.parametrize(("module", "source", "expected"), BAD_IMPORTS)
def test_a_forbidden_import_is_found(module: str, source: str, expected: str) -> None:
    found = import_violations(module, ast.parse(source))
    assert len(found) == 1 and expected in found[0]


GOOD_IMPORTS = [
    ("liftlog.core.node", "from liftlog import types\nfrom liftlog.core.node import Node\nimport msgspec"),
    ("liftlog.storage.log", "import struct\nfrom liftlog.format import HEADER_BYTES\nimport google_crc32c"),
    ("liftlog.driver.loop", "import trio, time, random\nfrom liftlog.ports import Clock"),
    ("liftlog_spec.proofs.isr", "from liftlog_spec.lang import *"),
    ("liftlog_jepsen.spark_checks", "from pyspark.sql import DataFrame"),
    (
        "liftlog_sim.runs.trio_gear",
        "import trio\nfrom liftlog.driver.loop import Driver\nimport liftlog.storage.engine",
    ),
]


@pytest.mark.parametrize(("module", "source"), GOOD_IMPORTS)
def test_an_allowed_import_is_not_found(module: str, source: str) -> None:
    assert import_violations(module, ast.parse(source)) == []


def test_an_import_of_a_layer_above_is_found() -> None:
    graph = graph_of({"p.a.low": "", "p.b.high": "import p.a.low", "p": "import p.b.high"})
    assert layer_violations(graph, "p", ["a", "b"]) == []
    assert layer_violations(graph, "p", ["b", "a"]) == ["p.b.high:1 imports p.a.low, which lies above it"]


STEPPING = [
    "from liftlog.driver.outbox import Outbox",
    "from liftlog.driver import timers",
    "from liftlog.driver.timers import NEVER_MS, Timers",
    "def f(node, event):\n    return node.step(event)",
    "class A:\n    def f(self, event):\n        step = self._node.step\n        return step(event)",
    "def f(world, event):\n    world.nodes[1].step(event)",
]


@pytest.mark.parametrize("source", STEPPING)
def test_another_place_that_steps_nodes_is_found(source: str) -> None:
    assert len(step_violations("liftlog_sim.example", ast.parse(source))) == 1
    assert step_violations(INTERPRETER, ast.parse(source)) == []


NOT_STEPPING = [
    "from liftlog.driver.timers import NEVER_MS",
    "from liftlog.driver.interpreter import Interpreter",
    "class A:\n    def step(self, event): ...\n    def f(self):\n        self.step(1)",
]


@pytest.mark.parametrize("source", NOT_STEPPING)
def test_who_uses_the_interpreter_is_not_found(source: str) -> None:
    assert step_violations("liftlog_sim.example", ast.parse(source)) == []


IN_A_CIRCLE = {
    "liftlog_sim.a": "from liftlog_sim.b import B",
    "liftlog_sim.b": "def f():\n    import liftlog_sim.c",
    "liftlog_sim.c": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from liftlog_sim import a",
    "liftlog_sim.d": "from liftlog_sim.a import A",
}


def graph_of(sources: dict[str, str]) -> Imports:
    return project_imports({module: ast.parse(source) for module, source in sources.items()})


def test_a_circle_is_found_through_functions_and_type_checking() -> None:
    (found,) = circle_violations(graph_of(IN_A_CIRCLE), ())
    assert found == (
        "3 modules import each other: liftlog_sim.a:1 imports liftlog_sim.b; "
        "liftlog_sim.b:2 imports liftlog_sim.c; liftlog_sim.c:3 imports liftlog_sim.a"
    )


def test_a_role_that_imports_another_or_its_composer_is_found() -> None:
    roles = {"liftlog_sim.a": ("liftlog_sim.b", "liftlog_sim.c")}
    assert role_violations(graph_of(IN_A_CIRCLE), roles) == [
        "liftlog_sim.b:2 imports liftlog_sim.c, which stands beside or above it",
        "liftlog_sim.c:3 imports liftlog_sim.a, which stands beside or above it",
    ]


def test_an_import_from_above_a_floor_is_found() -> None:
    floors = {"liftlog_sim.b": (), "liftlog_sim.c": ("liftlog_sim.a",)}
    assert floor_violations(graph_of(IN_A_CIRCLE), "liftlog_sim", floors) == [
        "liftlog_sim.b:2 imports liftlog_sim.c, which liftlog_sim.b does not stand on"
    ]


def test_a_known_circle_may_neither_grow_nor_be_smaller_than_it_is_listed() -> None:
    graph, circle = graph_of(IN_A_CIRCLE), ("liftlog_sim.a", "liftlog_sim.b", "liftlog_sim.c")
    assert circle_violations(graph, [circle]) == []
    grown, stale = circle_violations(graph, [circle[:2]])
    assert "3 modules import each other" in grown and "of which nothing is left" in stale
    (shrunk,) = circle_violations(graph, [(*circle, "liftlog_sim.d")])
    assert f"of which {circle} is left" in shrunk


def test_a_name_that_two_classes_bear_is_found_and_so_is_one_that_is_listed_without_need() -> None:
    sources = {
        "liftlog_sim.a": "class One: ...\nclass _Two: ...",
        "liftlog_spec.b": "class One: ...\nclass _Two: ...",
    }
    modules = {module: ast.parse(source) for module, source in sources.items()}
    assert name_violations(modules, ()) == [
        "One is a class in liftlog_sim.a, liftlog_spec.b: one concept, one name"
    ]
    assert name_violations(modules, ("One",)) == []
    assert name_violations(modules, ("One", "Three")) == ["Three is borne by one class now: take it out"]


FOREIGN_WRITES = [
    "def f(a):\n    a.b = 1",
    "def f(a):\n    a.b += 1",
    "def f(a):\n    a.b: int = 1",
    "def f(a):\n    a.b[1] = 1",
    "def f(a):\n    del a.b[1]",
    "def f(a):\n    c, (a.b, d) = 1, (2, 3)",
    "def f(a):\n    for a.b in c: pass",
    "class A:\n    def f(self):\n        self.a.b = 1",
    "class A:\n    def f(self):\n        self.a.b[1][2] = 1",
    "class A:\n    def f(self):\n        self.a[1].b = 1",
]


@pytest.mark.parametrize("source", FOREIGN_WRITES)
def test_a_write_of_what_is_another_s_is_found(source: str) -> None:
    assert len(foreign_writes("liftlog.core.example", ast.parse(source))) == 1


OWN_WRITES = [
    "class A:\n    def f(self):\n        self.a = self.b[1] = self.c[1][2] = 1",
    "class A:\n    def f(self):\n        self.a, b = 1, 2",
    "def f(a):\n    b = a.c\n    b[1] = 1",
]


@pytest.mark.parametrize("source", OWN_WRITES)
def test_a_write_of_one_s_own_is_not_found(source: str) -> None:
    assert foreign_writes("liftlog.core.example", ast.parse(source)) == []


def test_a_write_of_what_a_class_inherits_is_found() -> None:
    sources = {
        "liftlog.core.a": "class A:\n    def f(self): self.b = 1\nclass C(A):\n    def f(self): self.b = 1",
        "liftlog.core.d": "class D(A):\n    def f(self):\n        self.b[1], self.e = 1, 2",
    }
    found = inherited_writes({module: ast.parse(source) for module, source in sources.items()})
    assert found == ["liftlog.core.d: D writes b, which is A's"]


WALKS = [
    "for x in {1, 2}: pass",
    "def f(isr: set[int]):\n    return [x for x in isr]",
    "def f(isr: 'frozenset[int]'):\n    return list(isr)",
    "class A:\n    isr: set[int]\n    def f(self):\n        for x in self.isr: pass",
    "def f(a, b):\n    for x in set(a) - b: pass",
    "def f(a):\n    b = set(a)\n    return {x: 1 for x in b}",
    "def f(a):\n    b = set(a)\n    return next(iter(b))",
    "def f(a):\n    b = set(a)\n    return [0, *b]",
    "def f(a):\n    return b','.join(set(a))",
    "def f(a):\n    a = {1}\n    return a.pop()",
    "def live() -> set[int]: ...\ndef f():\n    for x in live(): pass",
    "def f(a):\n    return (x for x in frozenset(a))",
    "ALL = {1, 2}\ndef f():\n    for x in ALL: pass",
    "def f(a):\n    return hash(a)",
    "def f(a):\n    return sorted(a, key=lambda x: id(x))",
]


@pytest.mark.parametrize("source", WALKS)
def test_a_walk_over_a_set_or_a_use_of_identity_is_found(source: str) -> None:
    assert len(order_violations({"liftlog.core.example": ast.parse(source)})) == 1


ORDERLY = [
    "def f(isr: set[int]):\n    return sorted(isr)",
    "def f(isr: set[int]):\n    return all(x > 1 for x in isr)",
    "def f(isr: set[int]):\n    return {x + 1 for x in isr}, len(isr), 3 in isr",
    "def f(isr: list[int]):\n    return [x for x in isr]",
    "def f(a: dict[int, int]):\n    for x in a: a.pop(x)",
    "def f(isr: set[int]):\n    for x in sorted(isr - {1}): pass",
    "def f(isr: set[int]): ...\ndef g(isr: list[int]):\n    for x in isr: pass",
    "def f(c):\n    voters = set(c.voters)\ndef g(c):\n    for x in c.voters: pass",
]


@pytest.mark.parametrize("source", ORDERLY)
def test_an_order_free_use_of_a_set_is_not_found(source: str) -> None:
    assert order_violations({"liftlog.core.example": ast.parse(source)}) == []


def test_an_attribute_that_is_a_set_in_one_module_is_known_in_the_other() -> None:
    found = order_violations(
        {
            "liftlog.core.a": ast.parse("class A:\n    peers: set[int]"),
            "liftlog.core.b": ast.parse("def f(a):\n    for x in a.peers: pass"),
        }
    )
    assert found == ["liftlog.core.b:2: walks the set a.peers; sort it first"]


def test_a_long_function_is_found_inside_a_class() -> None:
    body = "\n".join(f"        x = {i}" for i in range(FUNCTION_LINES_MAX))
    tree = ast.parse(f"class A:\n    def f(self):\n{body}\n")
    assert list(long_functions("m", tree)) == [("m.A.f", FUNCTION_LINES_MAX + 1)]
