"""A whole model as a TLA+ module and the configuration with which TLC checks it.

TLC then finds the same distinct states as `liftlog spec check` does without symmetry: variables are the same,
every value of ours has one value there, and `Next` is the disjunction of the actions. The module's name
carries the variant, since settings are decided when a model is read.
"""

from __future__ import annotations

import re

from liftlog_spec.lang.model import Action, Definition, Model, Property
from liftlog_spec.lang.terms import Term, make
from liftlog_spec.lang.types import SpecError
from liftlog_spec.tla.printer import HELPERS, Printer

WIDTH = 110
TAKEN = frozenset(
    (
        *("Init", "MaxOf", "MinOf", "Next", "None", "TypeOK", "vars"),
        *("Append", "Head", "Len", "SelectSeq", "Seq", "Sequences", "SubSeq", "Tail"),
        *("BOOLEAN", "Cardinality", "FiniteSets", "Int", "Integers", "IsFiniteSet", "Nat", "STRING"),
    )
)
"""Names that a module has already."""


def module_name(model: Model) -> str:
    """CamelCase of the model and its settings: Kafka with variant kip-320 is KafkaKip320."""
    words = [word for value in model.settings.values() for word in value.split("-")]
    return model.name + "".join(word[:1].upper() + word[1:] for word in words)


def module_text(model: Model) -> str:
    """The .tla file."""
    name = module_name(model)
    _refuse_taken_names(model)
    head = f" MODULE {name} "
    lines = [head.center(78, "-"), ""]
    lines += _comment(_first_paragraph(type(model).__doc__ or ""))
    lines += ["EXTENDS Integers, Sequences, FiniteSets", ""]
    lines += ["CONSTANTS", "    " + ", ".join(["None", *_sorts(model), *_constants(model)]), ""]
    lines += ["VARIABLES", "    " + ", ".join(model.vars), ""]
    lines += [f"vars == <<{', '.join(model.vars)}>>", "", HELPERS]
    lines += ["TypeOK =="]
    printer = Printer(names_of(model))
    lines += [f"    /\\ {printer.holds(kind, var)}" for var, kind in model.types.items()] + [""]
    for definition in model.definitions:
        lines += _definition(model, definition)
    lines += _initial(model)
    for action in model.actions:
        lines += _action(model, action)
    lines += _next(model)
    for found in [*model.invariants, *model.constraints]:
        lines += _property(model, found)
    lines += ["=" * 78, ""]
    return "\n".join(lines)


def _refuse_taken_names(model: Model) -> None:
    """Raises SpecError: TLA+ would refuse the module for reasons of its own."""
    names = [*model.vars, *(each.name for each in model.definitions), *(each.name for each in model.actions)]
    for name in [*names, *(each.name for each in (*model.invariants, *model.constraints))]:
        if name in TAKEN:
            raise SpecError(f"{model.name}: {name} is a name of TLA+; choose another")


def config_text(model: Model) -> str:
    """The .cfg file: the constants' values, what to check."""
    lines = ["CONSTANTS", "    None = None"]
    for sort in model.sorts:
        kind = sort.bind(model.bindings)
        elements = ", ".join(f"{sort.name.lower()}{number + 1}" for number in range(kind.size))
        lines.append(f"    {sort.name} = {{{elements}}}")
    lines += [f"    {name} = {value}" for name, value in model.bindings.items() if name in _constants(model)]
    lines += [
        "",
        "\\* Run TLC with -deadlock: a state without a successor is no error.",
        "INIT Init",
        "NEXT Next",
    ]
    lines += ["", "INVARIANTS", "    TypeOK"]
    lines += [f"    {found.name}" for found in model.invariants]
    if model.constraints:
        lines += ["", "CONSTRAINTS", *(f"    {found.name}" for found in model.constraints)]
    return "\n".join(lines) + "\n"


def _first_paragraph(text: str) -> str:
    return " ".join(text.strip().split("\n\n")[0].split())


def _comment(text: str) -> list[str]:
    """`text` as TLA+ line comments of bounded width."""
    lines: list[str] = []
    line = ""
    for word in text.split():
        if line and len(line) + len(word) + 4 > WIDTH:
            lines.append(f"\\* {line}")
            line = ""
        line = f"{line} {word}" if line else word
    return [*lines, f"\\* {line}"] if line else lines


def _sorts(model: Model) -> list[str]:
    return [sort.name for sort in model.sorts]


def _constants(model: Model) -> list[str]:
    """All but those that only say how many elements a sort has, unless a term mentions them as well."""
    counts = {sort.count.name for sort in model.sorts if not isinstance(sort.count, int)}
    used: set[str] = set()
    for term in _all_terms(model):
        _mentioned(term, used)
    for kind in model.types.values():
        used.update(re.findall(r"\w+", Printer().holds(kind, "")))
    return [name for name in model.bindings if name in used or name not in counts]


def _all_terms(model: Model) -> list[Term]:
    terms = [step[-1] for action in model.actions for step in action.steps]
    terms += [update for action in model.actions for update in action.updates.values()]
    terms += [found.body for found in [*model.invariants, *model.constraints]]
    terms += [definition.body for definition in model.definitions]
    return [*terms, *model.first.values()]


def _mentioned(term: Term, found: set[str]) -> None:
    if term.op == "constant":
        found.add(term.data.text().split(" ")[0])
    for arg in term.args:
        _mentioned(arg, found)


def _definition(model: Model, definition: Definition) -> list[str]:
    printer = Printer(names_of(model))
    names = [printer.bind(*variable.data) for variable in definition.parameters]
    head = f"{definition.name}({', '.join(names)})" if names else definition.name
    return [
        *_comment(_first_paragraph(definition.doc)),
        f"{head} ==",
        f"    {printer.text(definition.body)}",
        "",
    ]


def _property(model: Model, found: Property) -> list[str]:
    comment = _comment(_first_paragraph(found.doc))
    return [*comment, f"{found.name} ==", f"    {Printer(names_of(model)).text(found.body)}", ""]


def _initial(model: Model) -> list[str]:
    """`Init`, with what an initial function chooses and changes put into the variables' first values."""
    printer = Printer(names_of(model))
    lines = ["Init =="]
    values = dict(model.first)
    depth = 1
    for action in model.initials:
        for step in action.steps:
            if step[0] == "choose":
                name = printer.bind(*step[1].data)
                lines.append(
                    "    " * depth + f"\\E {name} \\in {printer.domain(replaced(step[2], values))} :"
                )
                depth += 1
            else:
                lines.append("    " * depth + f"/\\ {printer.text(replaced(step[1], values))}")
        before = dict(values)
        values.update({name: replaced(update, before) for name, update in action.updates.items()})
    return [*lines, *("    " * depth + f"/\\ {name} = {printer.text(v)}" for name, v in values.items()), ""]


def replaced(term: Term, values: dict[str, Term]) -> Term:
    """The term with variables replaced by terms."""
    if term.op == "var":
        return values[term.data]
    if not term.args:
        return term
    return make(term.op, tuple(replaced(arg, values) for arg in term.args), term.type, term.data)


def _action(model: Model, action: Action) -> list[str]:
    printer = Printer(names_of(model))
    names = [printer.bind(*variable.data) for variable in action.parameters]
    head = f"{action.name}({', '.join(names)})" if names else action.name
    lines = [*_comment(_first_paragraph(action.doc)), f"{head} =="]
    depth = 1
    for step in action.steps:
        if step[0] == "guard":
            lines += ["    " * depth + f"/\\ {printer.text(part)}" for part in _conjuncts(step[1])]
        elif not any(step[1] is parameter for parameter in action.parameters):
            name = printer.bind(*step[1].data)
            lines.append("    " * depth + f"/\\ \\E {name} \\in {printer.domain(step[2])} :")
            depth += 1
    for name, update in action.updates.items():
        lines.append("    " * depth + f"/\\ {name}' = {printer.text(update)}")
    same = [name for name in model.vars if name not in action.updates]
    if same:
        lines.append("    " * depth + f"/\\ UNCHANGED <<{', '.join(same)}>>")
    return [*lines, ""]


def _conjuncts(term: Term) -> list[Term]:
    if term.op == "and":
        return [*_conjuncts(term.args[0]), *_conjuncts(term.args[1])]
    return [term]


def _next(model: Model) -> list[str]:
    lines = ["Next =="]
    for action in model.actions:
        bound, call = _call(model, action)
        lines.append(f"    \\/ \\E {bound} : {call}" if bound else f"    \\/ {call}")
    lines += ["", "Spec == Init /\\ [][Next]_vars"]
    for action in model.actions:
        if action.fair:
            lines.append(f"    /\\ {_fair(model, action)}")
    return [*lines, ""]


def _call(model: Model, action: Action) -> tuple[str, str]:
    """("p \\in Node, q \\in Node", "Name(p, q)")."""
    printer = Printer(names_of(model))
    domains = {step[1].data[0]: step[2] for step in action.steps if step[0] == "choose"}
    names = [printer.bind(*variable.data) for variable in action.parameters]
    bound = [
        f"{name} \\in {printer.domain(domains[variable.data[0]])}"
        for name, variable in zip(names, action.parameters, strict=True)
    ]
    return ", ".join(bound), f"{action.name}({', '.join(names)})" if names else action.name


def _fair(model: Model, action: Action) -> str:
    bound, call = _call(model, action)
    return f"\\A {bound} : WF_vars({call})" if bound else f"WF_vars({call})"


def names_of(model: Model) -> frozenset[str]:
    """Names that a bound variable must not take."""
    names = ["vars", "Init", "Next", "Spec", "TypeOK", "None", *model.vars, *model.bindings, *_sorts(model)]
    names += [action.name for action in model.actions]
    names += [found.name for found in [*model.invariants, *model.constraints]]
    names += [definition.name for definition in model.definitions]
    return frozenset(names)
