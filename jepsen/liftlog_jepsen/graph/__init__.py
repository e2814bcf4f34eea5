"""Exact strong components of dependency graphs that fit no memory, without iteration: docs/cycles.md.

Pure numpy and Python, no Spark: these modules travel to Spark's workers by value
(`liftlog_jepsen.spark.cycles`).
"""
