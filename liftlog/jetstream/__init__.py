"""JetStream's door: programs that were written for NATS JetStream use liftlog unchanged (ADR 0075).

    errors       what goes wrong, with JetStream's numbers
    calls        which call a subject is
    answers      how an answer is written
    configs      a stream's configuration, as JetStream says it and as liftlog does
    account, streams, stored     the calls about the account, streams, single messages
    consumerconfigs, consumers, pulls, acks, push     those about consumers
    groups       priority groups: who of those that pull is given messages
    advisories   what is told to whoever listens
    door         subscriptions; each request finds its handler
    beside       the door in a node's process

The door is asyncio over `liftlog.client` and keeps nothing: what it knows beyond a request is a cache.
A JetStream stream is a stream of one partition with `removal`; sequence = offset + 1.
"""
