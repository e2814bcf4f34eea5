"""States and steps of a compiled model by the names that a person, or a driver of the core, knows them by."""

from __future__ import annotations

from typing import Any, NamedTuple

from liftlog_spec.run.compiled import CompiledModel, State


class Taken(NamedTuple):
    """A step that is possible in some state, and the state that it leads to."""

    number: int
    action: str
    given: tuple[Any, ...]
    """Parameters as states hold them."""
    after: State


class Shown:
    """A state whose variables are attributes, shown as plain values: `shown.now["leader"]`."""

    def __init__(self, reader: StateNames, state: State) -> None:
        self._reader = reader
        self._state = state

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._reader.positions:
            raise AttributeError(f"the model has no variable {name}")
        position = self._reader.positions[name]
        value = self._reader.types[position].show(self._state[position])
        self.__dict__[name] = value
        return value


class StateNames:
    """Names for one compiled model."""

    def __init__(self, compiled: CompiledModel) -> None:
        self.compiled = compiled
        self.positions = {name: place for place, name in enumerate(compiled.variables)}
        self.types = list(compiled.model.types.values())
        self._chosen = [
            [step[1] for step in action.steps if step[0] == "choose"] for action in compiled.model.actions
        ]

    def shown(self, state: State) -> Shown:
        return Shown(self, state)

    def steps(self, state: State) -> list[Taken]:
        """Every step that the model allows, in its order."""
        actions = self.compiled.actions
        return [
            Taken(number, actions[number], given, after)
            for number, given, after in self.compiled.successors(state)
        ]

    def parameters(self, step: Taken) -> dict[str, Any]:
        """Name of the parameter -> its value as it is shown."""
        variables = self._chosen[step.number]
        return {
            variable.data[1]: variable.type.show(value)
            for variable, value in zip(variables, step.given, strict=True)
        }

    def changes(self, before: State, after: State) -> dict[str, Any]:
        """What differs, by variable; of functions and records only the places that differ."""
        found: dict[str, Any] = {}
        for name, kind, old, new in zip(self.compiled.variables, self.types, before, after, strict=True):
            if old == new:
                continue
            was, now = kind.show(old), kind.show(new)
            if isinstance(was, dict) and isinstance(now, dict):
                now = {key: value for key, value in now.items() if was[key] != value}
            found[name] = now
        return found
