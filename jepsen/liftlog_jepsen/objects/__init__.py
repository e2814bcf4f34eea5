"""Linearizability of objects: models, a search, and fast algorithms where values are unique.

`check_object` judges a history; `MODELS` are the models by name, `load_model` reads one of the user's.
docs/linearizability.md says what each model means and how fast it is.
"""

from __future__ import annotations

from liftlog_jepsen.objects.check import ANOMALY, MODELS, check_object, check_part, split
from liftlog_jepsen.objects.loading import load_model
from liftlog_jepsen.objects.model import Model

__all__ = ["ANOMALY", "MODELS", "Model", "check_object", "check_part", "load_model", "split"]
