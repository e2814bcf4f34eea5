"""Models from a file of the user: `path/to/file.py:Name`."""

from __future__ import annotations

import functools
import types
from pathlib import Path

from liftlog_jepsen.events import BadHistory
from liftlog_jepsen.objects.model import Model

EXPECTED = "expected FILE.py:NAME, the name of a model in a Python file"


def load_model(place: str) -> Model:
    """The model at `path/to/file.py:Name`, a subclass of Model or an instance of one.

    The file is run. Its text goes along when the model is sent to other processes, so that these need no
    file.

    Raises BadHistory if there is no such file or model, if the file cannot be run, or if the model lacks a
    function.
    """
    path, colon, name = place.rpartition(":")
    if not colon or not path.endswith(".py") or not name.isidentifier():
        raise BadHistory(f"--model {place}: {EXPECTED}")
    try:
        text = Path(path).read_text()
    except OSError as error:
        raise BadHistory(f"--model {place}: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadHistory(f"--model {place}: expected Python in UTF-8 in {path}") from None
    return build(path, text, name)


@functools.lru_cache(maxsize=64)
def build(path: str, text: str, name: str) -> Model:
    """The model of this name in a file with this text. Raises BadHistory."""
    place = f"--model {path}:{name}"
    module = types.ModuleType(f"model_{Path(path).stem}")
    module.__file__ = path
    try:
        exec(compile(text, path, "exec"), module.__dict__)
    except SyntaxError as error:
        raise BadHistory(f"{place}: line {error.lineno}: {error.msg}") from None
    except Exception as error:
        raise BadHistory(f"{place}: running {path} failed: {type(error).__name__}: {error}") from error
    chosen = getattr(module, name, None)
    if chosen is None:
        models = [
            each
            for each, value in vars(module).items()
            if isinstance(value, type) and issubclass(value, Model) and value is not Model
        ]
        raise BadHistory(
            f"{place}: there is no {name} in {path}; its models are {', '.join(models) or 'none'}"
        )
    kind = chosen if isinstance(chosen, type) else type(chosen)
    if not issubclass(kind, Model):
        raise BadHistory(
            f"{place}: {name} is no model; write `class {name}(Model)`, from liftlog_jepsen.objects"
        )
    missing = [each for each in ("initial", "step") if getattr(kind, each) is getattr(Model, each)]
    if missing:
        raise BadHistory(f"{place}: {name} has no function {missing[0]}")
    kind.made_by = (build, (path, text, name))
    kind.name = kind.name or name
    try:
        model = kind()
    except TypeError as error:
        raise BadHistory(f"{place}: cannot make a {name}: {error}; a model takes no arguments") from None
    return model
