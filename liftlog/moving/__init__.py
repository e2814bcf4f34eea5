"""Moving house: a stream of a running JetStream becomes a stream of liftlog (ADR 0080).

    origin       the JetStream that has it: its answers, and what goes wrong there
    reading      its messages, in order, with the word what is gone between them
    plan         what is to be made of it, or why that cannot be
    outgoing     what a message becomes, and the packets that carry them
    sending      packets on their way, each expected at its offset (L6)
    target       the stream that is being made
    comparing    both, message by message
    positions    where consumers stand
    move         all of this, one after the other

A copy can end at any place, and begins again with what the target has: nothing is kept elsewhere.
"""
