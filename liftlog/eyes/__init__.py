"""What an operator sees of a node: metrics, health and readiness, on a port of their own.

    core, storage, ports  --state and counters-->  readings.py  --slices-->  page.py  -->  GET /metrics
    steps, groups, answers  --durations-->  onlooker.py            health.py  -->  GET /healthz, /readyz

The node does not know that it is looked at. `names.py` is the one list of what is told, and
docs/operating/metrics.md its page; `http.py` is the server, with its bounds.
"""
