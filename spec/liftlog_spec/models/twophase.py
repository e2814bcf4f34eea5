"""First lesson: two-phase commit, a transaction that all or none of its participants carry out.

Read this with docs/spec-language.md beside you, then run

    liftlog spec check --model twophase

and see 288 states for three participants, no matter what is delivered when. Then break it: with
`--variant impatient` the coordinator commits when *somebody* is prepared instead of everybody, and the
checker prints the shortest way to a transaction that is half done.

The participants and the coordinator talk by messages. A message that was sent once can be read at any later
time, any number of times, or never: that is a network that loses, delays, duplicates and reorders, in one
variable that only grows.
"""

from __future__ import annotations

from liftlog_spec.lang import *


class TwoPhase(Model):
    """Gray and Lamport, "Consensus on Transaction Commit" (2006), section 3."""

    variant = Setting("patient", "impatient")
    Nodes = Constant(3)

    # A sort is a kind of thing of which we know only that its members differ. Any node may be any other.
    Node = Sort(Nodes)
    Word = Enum("prepared", "commit", "abort")
    Message = Record(kind=Word, node=Option(Node))

    # The state: everything that the next step may depend on, and nothing else.
    participant = Var(Fn(Node, Enum("working", "prepared", "committed", "aborted")), init="working")
    coordinator = Var(Enum("open", "committed", "aborted"), init="open")
    heard = Var(Set(Node), init=[])
    sent = Var(Set(Message), init=[])

    def say(s, kind, node=None):
        """A plain function: it is read into the actions that call it."""
        s.sent = with_member(s.sent, {"kind": kind, "node": node})

    @definition
    def Told(s, kind: Word):
        """A definition: a name for something that one says of a state."""
        return member({"kind": kind, "node": None}, s.sent)

    # Actions: `when` says whether the step is possible, assignments what it changes. What stands to the right
    # is always the state before the step.

    @action
    def Prepare(s, node: Node):
        """A participant has done its part and promises to commit if told so."""
        when(s.participant[node] == "working")
        s.participant[node] = "prepared"
        s.say("prepared", node)

    @action
    def GiveUp(s, node: Node):
        """Until it has promised, a participant may abort on its own."""
        when(s.participant[node] == "working")
        s.participant[node] = "aborted"

    @action
    def Hear(s, node: Node):
        """The coordinator reads a promise."""
        when(s.coordinator == "open", member({"kind": "prepared", "node": node}, s.sent))
        s.heard = with_member(s.heard, node)

    @action
    def Commit(s):
        when(s.coordinator == "open")
        if s.variant == "impatient":
            when(size(s.heard) > 0)
        else:
            when(s.heard == elements(s.Node))
        s.coordinator = "committed"
        s.say("commit")

    @action
    def Abort(s):
        """The coordinator may lose patience at any time before it has decided."""
        when(s.coordinator == "open")
        s.coordinator = "aborted"
        s.say("abort")

    @action
    def Obey(s, node: Node):
        when(s.Told("commit"))
        s.participant[node] = "committed"

    @action
    def ObeyAbort(s, node: Node):
        when(s.Told("abort"))
        s.participant[node] = "aborted"

    # Properties: an invariant holds in every state that can be reached; a `sometimes` in at least one.

    @invariant
    def AllOrNothing(s):
        return Forall(
            s.Node,
            s.Node,
            lambda a, b: ~((s.participant[a] == "aborted") & (s.participant[b] == "committed")),
        )

    @sometimes
    def EverybodyCommits(s):
        return Forall(s.Node, lambda node: s.participant[node] == "committed")

    @sometimes
    def SomebodyGivesUp(s):
        return Exists(s.Node, lambda node: s.participant[node] == "aborted")
