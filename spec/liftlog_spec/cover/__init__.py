"""Scenarios from a model's state graph that drive the real core through all actions, and all pairs of them.

`reading.py` shows states and steps by name. `limits.py` says what a core may do that a model leaves open.
`walk.py` walks the graph, `paths.py` chooses few paths, `scenario.py` is the file format, `make.py` puts it
together, `plans.py` names the bounds whose scenarios are kept in `liftlog_sim/cover/`.
`liftlog_sim/cover/plays.py` plays them.
"""
