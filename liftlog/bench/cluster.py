"""PLACEHOLDER until the dev command exists."""

from liftlog.bench.jetstream import JetStream


def LiftlogCluster(scratch, replicas, subject, stream):
    class S:
        folder = scratch.folder / "x"
        callback = scratch.callback

    s = JetStream(S(), replicas, False, subject, stream)
    s.name = "liftlog"
    return s
