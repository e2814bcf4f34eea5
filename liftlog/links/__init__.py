"""A node's way to other clusters, whose streams mirrors here copy (R28, ADR 0098).

    link      one other cluster, as a client: who is it, who leads there, what does he say
    beside    all of them, on an event loop in a thread of its own beside the node's
"""
