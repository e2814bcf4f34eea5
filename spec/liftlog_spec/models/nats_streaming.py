"""The NATS Streaming clustering proposal of 2017: its message replication and catch-up, read as they stand.

Publishers send a message with a GUID to all servers at once, by NATS. The leader alone gives it a sequence
number and sends that with the GUID to its followers, in a StoreRequest. Whoever has both stores the message
and replies; when a majority has it, the publisher gets a success. Leaders are elected as in Raft, but what a
candidate must not be behind in, its *history*, is its last sequence number. Who finds out that it missed
something is out of sync: it asks the leader for all that follows its own last sequence number, and then goes
on with StoreRequests. "Ordering and content is guaranteed to be consistent across cluster members", the
proposal says, and each message is delivered at least once. Raft's log matching is not in it: "Do we need last
log term? I don't think so, but need to dig deeper". This model digs.

`repaired` is the proposal with what it takes to keep the promise; the same GUIDs, StoreRequests and replies:

    gap check     a StoreRequest is stored only right behind what the follower has
    history       the term of the last message, then its sequence number, as in Raft
    catch-up      begins where the follower's messages and terms are those of the leader. What differs is cut;
                  what came from this very leader is kept, since it sends before it writes
    out of sync   such a server may stand: its history decides
    delivery      of what a majority has, never before
    failure       means "perhaps", not "no"

`as-written` has none of the first four; the last two belong to other parts of the text, and have variants of
their own. Each other variant is `repaired` less one thing, or with one more:

    no-gap-check                a missed StoreRequest goes unnoticed while later ones are stored
    election-by-sequence        history is the last sequence number alone
    catch-up-by-sequence        a follower whose last number is the leader's is taken for equal
    catching-up-never-leads     "this server will not assume leadership", though it may be all that is left
    cuts-to-leaders-end         catch-up also cuts what the leader has sent and not yet written
    old-term-stored             followers store StoreRequests of a leader that was replaced
    leader-counts-itself-early  the leader counts towards the majority before it has written
    delivers-before-quorum      "after the message is persisted and the StoreRequest message has been sent"
    failure-is-no               "error - absolutely will not be delivered", though the message is kept
    resent                      a publisher that got no success sends again, under the same GUID
    resent-guid-kept            the same, but the GUID is kept with the message, and the leader looks for it

How the text was read, where it leaves a choice. (1) *Who receives what*: a server may get a publisher's
message or StoreRequest at any time or never, so nobody remembers what is held: storing needs both, and a
follower that lacks either may find itself out of sync at any time, which is its timeout. A leader that misses
a publisher's message and "invalidates itself" is an election. (2) A message is taken by one leader, the one
that it meets, except where it is resent. (3) A StoreRequest at or below what the follower has is discarded,
as in catch-up. (4) Messages carry the term, and a follower obeys the leader of its own term only; the text
says this of leaders. (5) A server that starts is not out of sync until it has compared its history with a
leader's. (6) If its history is ahead, it is not behind, and goes on. (7) A leader that fails to write panics
for good ("non-recoverable"), does not count itself, and may or may not have answered before. (8) A failure
after too few replies keeps the message. (9) The queue of live StoreRequests is bounded and drops the oldest,
so any of them may be missing afterwards.

What is abstracted. *Election* is one step of a candidate and one voter, two of three being a majority; votes
and terms are on disk, as the Raft model has them. *Batches* of history are of one message. *Storing* is
durable at once. Client state and subscriptions, for which the proposal has protocols of the same make, are
not here.
"""

from __future__ import annotations

from liftlog_spec.lang import *

MAJORITY = 2
"""Of the three servers."""
RESENT = ("resent", "resent-guid-kept")
BY_SEQUENCE = ("as-written", "catch-up-by-sequence")
"""In these catch-up goes by sequence numbers; in the others it compares terms."""
COMPARE_TERMS = (
    "repaired",
    "no-gap-check",
    "election-by-sequence",
    "catching-up-never-leads",
    "cuts-to-leaders-end",
    "old-term-stored",
    "leader-counts-itself-early",
    "delivers-before-quorum",
    "failure-is-no",
    *RESENT,
)


class NatsStreaming(Model):
    """One channel on three servers, its publishers and its subscribers."""

    variant = Setting(*COMPARE_TERMS, *BY_SEQUENCE)
    Messages = Constant(2)
    Length = Constant(2)
    Terms = Constant(2)
    Restarts = Constant(1)
    Panics = Constant(1)
    Resends = Constant(1)
    """Length: sequence numbers. Restarts: of all servers. Panics: servers that are gone for good."""

    Server = Sort(3)
    Guid = Sort(Messages)
    Term = Range(0, Terms)
    Sequence = Range(1, Length)
    Stored = Record(guid=Guid, term=Term)
    """The term is written in the repaired protocol only; where it is not, nothing goes by it."""
    Request = Record(term=Term, sequence=Sequence, guid=Guid)
    Reply = Record(server=Server, term=Term, sequence=Sequence)
    Place = Record(sequence=Sequence, guid=Guid)

    # Servers. On disk: term and store. `writing`: what a leader has sent and not written yet.
    up = Var(Fn(Server, Bool), init=True)
    term = Var(Fn(Server, Term))
    leads = Var(Fn(Server, Bool), init=False)
    met = Var(Fn(Server, Bool), init=False)
    """Since it started it has compared its history with a leader's."""
    steady = Var(Fn(Server, Bool), init=False)
    """And is not out of sync."""
    store = Var(Fn(Server, Fn(Sequence, Option(Stored))))
    writing = Var(Fn(Server, Option(Guid)))

    # Messages between them: who reads one does so at any time, any number of times, or never.
    requests = Var(Set(Request), init=[])
    replies = Var(Set(Reply), init=[])

    # What publishers and subscribers were told.
    acked = Var(Set(Place), init=[])
    refused = Var(Set(Guid), init=[])
    delivered = Var(Set(Place), init=[])

    # Budgets.
    restarts = Var(Range(0, Restarts))
    panics = Var(Range(0, Panics))
    resends = Var(Range(0, Resends))

    # -- words ---------------------------------------------------------------------------------------------

    def numbers(s):
        """Every sequence number."""
        return numbers(1, s.Length + 1)

    @definition
    def Last(s, who: Server):
        """Its last sequence number, 0 if it has none."""
        return greatest(s.numbers(), lambda i: If(is_some(s.store[who][i]), i, 0))

    @definition
    def LastTerm(s, who: Server):
        last = s.Last(who)
        return If(last == 0, 0, get(s.store[who][maximum(last, 1)]).term)

    @definition
    def NotBehind(s, candidate: Server, voter: Server):
        """By its history a voter lets it lead."""
        longer = s.Last(candidate) >= s.Last(voter)
        if s.variant in ("as-written", "election-by-sequence"):
            return longer
        same = s.LastTerm(candidate) == s.LastTerm(voter)
        return Or(s.LastTerm(candidate) > s.LastTerm(voter), And(same, longer))

    @definition
    def MayStand(s, candidate: Server):
        if s.variant in ("as-written", "catching-up-never-leads"):
            return And(s.up[candidate], Or(~s.met[candidate], s.steady[candidate]))
        return s.up[candidate]

    @definition
    def MayWin(s, candidate: Server, voter: Server):
        two = And(candidate != voter, s.up[voter], s.MayStand(candidate))
        return And(two, s.NotBehind(candidate, voter))

    @definition
    def Leads(s, who: Server):
        """It believes so, rightly or not."""
        return And(s.up[who], s.leads[who])

    @definition
    def Obeys(s, follower: Server, leader: Server):
        return And(s.up[follower], s.Leads(leader), ~s.leads[follower], s.term[follower] == s.term[leader])

    def steady_beside(s, follower, leader):
        """Whether a follower is in sync, when it meets a leader and they compare their histories."""
        if s.variant in COMPARE_TERMS:
            return False
        return s.Last(follower) >= s.Last(leader)

    # -- election ------------------------------------------------------------------------------------------

    @action
    def Elect(s, candidate: Server, voter: Server):
        """Two of three are a majority. Both forget what they led."""
        when(s.MayWin(candidate, voter))
        term = maximum(s.term[candidate], s.term[voter])
        when(term < s.Terms)
        beside = s.steady_beside(voter, candidate)

        def of_two(old, for_candidate, for_voter):
            return lambda r: If(r == candidate, for_candidate, If(r == voter, for_voter, old[r]))

        s.term = function(s.Server, of_two(s.term, term + 1, term + 1))
        s.leads = function(s.Server, of_two(s.leads, True, False))
        writing = s.writing
        s.writing = function(s.Server, lambda r: If(Or(r == candidate, r == voter), None, writing[r]))
        s.met = function(s.Server, of_two(s.met, True, True))
        s.steady = function(s.Server, of_two(s.steady, True, beside))

    @action
    def MeetLeader(s, follower: Server, leader: Server):
        """A message of a newer term, or the first since it started: also how an old leader steps down."""
        when(follower != leader, s.up[follower], s.Leads(leader))
        newer = s.term[follower] < s.term[leader]
        started = And(s.term[follower] == s.term[leader], ~s.met[follower])
        when(Or(newer, started))
        s.term[follower] = s.term[leader]
        s.leads[follower] = False
        s.writing[follower] = None
        s.met[follower] = True
        s.steady[follower] = s.steady_beside(follower, leader)

    # -- steady state --------------------------------------------------------------------------------------

    @definition
    def Taken(s, guid: Guid):
        """Some leader has given it a number."""
        return Exists(s.requests, lambda r: r.guid == guid)

    @action
    def LeaderSends(s, leader: Server, guid: Guid):
        """It gives the next number and tells the followers, before it writes."""
        when(s.Leads(leader), is_none(s.writing[leader]), s.Last(leader) < s.Length)
        if s.variant in RESENT:
            when(Or(~s.Taken(guid), s.resends < s.Resends))
            s.resends = If(s.Taken(guid), s.resends + 1, s.resends)
        else:
            when(~s.Taken(guid))
        if s.variant == "resent-guid-kept":
            mine = s.store[leader]
            when(~Exists(s.numbers(), lambda i: And(is_some(mine[i]), get(mine[i]).guid == guid)))
        number = s.Last(leader) + 1
        s.requests = with_member(s.requests, {"term": s.term[leader], "sequence": number, "guid": guid})
        s.writing[leader] = guid

    @action
    def LeaderWrites(s, leader: Server):
        when(s.Leads(leader), is_some(s.writing[leader]), s.Last(leader) < s.Length)
        new = record(s.Stored, guid=get(s.writing[leader]), term=s.term[leader])
        s.store[leader][s.Last(leader) + 1] = new
        s.writing[leader] = None

    @action
    def LeaderPanics(s, leader: Server):
        """It could not write what it had sent already."""
        when(s.Leads(leader), is_some(s.writing[leader]), s.panics < s.Panics)
        s.panics = s.panics + 1
        s.up[leader] = False
        s.leads[leader] = False
        s.writing[leader] = None
        s.met[leader] = False
        s.steady[leader] = False

    @action
    def FollowerStores(s, follower: Server):
        """It has the publisher's message and the StoreRequest."""
        request = some(s.requests, "request")
        when(s.up[follower], ~s.leads[follower], s.steady[follower])
        if s.variant != "old-term-stored":
            when(request.term == s.term[follower])
        if s.variant not in ("as-written", "no-gap-check"):
            when(request.sequence == s.Last(follower) + 1)
        else:
            when(request.sequence > s.Last(follower))
        new = record(s.Stored, guid=request.guid, term=request.term)
        s.store[follower][request.sequence] = new
        reply = {"server": follower, "term": request.term, "sequence": request.sequence}
        s.replies = with_member(s.replies, reply)

    @action
    def FollowerMisses(s, follower: Server):
        """A StoreRequest without its message, or a message without its StoreRequest, for too long."""
        when(s.up[follower], ~s.leads[follower], s.steady[follower])
        s.steady[follower] = False

    @definition
    def Copies(s, leader: Server, request: Request):
        """How many have stored it, as its leader can know."""
        mine = s.store[leader][request.sequence]
        sent = And(is_some(mine), get(mine).guid == request.guid, get(mine).term == request.term)
        own = 1 if s.variant == "leader-counts-itself-early" else If(sent, 1, 0)

        def replied(r):
            return And(
                r != leader,
                member(record(s.Reply, server=r, term=request.term, sequence=request.sequence), s.replies),
            )

        return own + count(s.Server, replied)

    @action
    def Acknowledge(s, leader: Server):
        """A success for the publisher."""
        request = some(s.requests, "request")
        when(s.Leads(leader), request.term == s.term[leader], s.Copies(leader, request) >= MAJORITY)
        s.acked = with_member(s.acked, {"sequence": request.sequence, "guid": request.guid})

    @only("variant", "failure-is-no")
    @action
    def Refuse(s, leader: Server):
        """Too few replies in time: a failure for the publisher."""
        request = some(s.requests, "request")
        when(s.Leads(leader), request.term == s.term[leader], s.Copies(leader, request) < MAJORITY)
        s.refused = with_member(s.refused, request.guid)

    @only("variant", "delivers-before-quorum")
    @action
    def Deliver(s, leader: Server):
        """A subscriber gets what the leader has written and sent."""
        number = some(s.numbers(), "number")
        when(s.Leads(leader), is_some(s.store[leader][number]))
        guid = get(s.store[leader][number]).guid
        s.delivered = with_member(s.delivered, {"sequence": number, "guid": guid})

    # -- catch-up ------------------------------------------------------------------------------------------

    @definition
    def CatchesUp(s, follower: Server):
        return And(s.met[follower], ~s.steady[follower])

    @definition
    def Agreed(s, follower: Server, leader: Server):
        """Up to which number the follower has what the leader has, or has had from this very leader."""
        mine, theirs = s.store[follower], s.store[leader]

        def kept(i):
            same = mine[i] == theirs[i]
            if s.variant != "cuts-to-leaders-end":
                same = Or(same, get(mine[i]).term == s.term[leader])
            return And(is_some(mine[i]), same)

        return count(s.numbers(), lambda i: Forall(s.numbers(), lambda j: Implies(j <= i, kept(j))))

    @only("variant", *COMPARE_TERMS)
    @action
    def CutWhatDiffers(s, follower: Server, leader: Server):
        """Nothing committed is among it."""
        when(s.Obeys(follower, leader), s.CatchesUp(follower))
        agreed = s.Agreed(follower, leader)
        when(agreed < s.Last(follower))
        old = s.store[follower]
        s.store[follower] = function(s.Sequence, lambda i: If(i <= agreed, old[i], None))

    @action
    def CopyHistory(s, follower: Server, leader: Server):
        """MsgSync: the leader's next message behind the follower's last."""
        when(s.Obeys(follower, leader), s.CatchesUp(follower), s.Last(follower) < s.Length)
        if s.variant in COMPARE_TERMS:
            when(s.Agreed(follower, leader) == s.Last(follower))
        number = s.Last(follower) + 1
        when(is_some(s.store[leader][number]))
        s.store[follower][number] = s.store[leader][number]

    @action
    def BecomeSteady(s, follower: Server, leader: Server):
        """No more history, or the first of it that a StoreRequest has brought as well."""
        when(s.Obeys(follower, leader), s.CatchesUp(follower))
        if s.variant in COMPARE_TERMS:
            when(s.Agreed(follower, leader) == s.Last(follower))

        def overlaps(r):
            return And(r.term == s.term[leader], r.sequence <= s.Last(follower))

        when(Or(s.Last(follower) >= s.Last(leader), Exists(s.requests, overlaps)))
        s.steady[follower] = True

    @action
    def Restart(s, who: Server):
        """Term and store are on disk."""
        when(s.up[who], s.restarts < s.Restarts, s.met[who])
        s.restarts = s.restarts + 1
        s.leads[who] = False
        s.writing[who] = None
        s.met[who] = False
        s.steady[who] = False

    # -- properties ----------------------------------------------------------------------------------------

    @definition
    def IsAt(s, who: Server, place: Place):
        """It has this message under this number."""
        found = s.store[who][place.sequence]
        return And(is_some(found), get(found).guid == place.guid)

    @definition
    def PresentLeader(s, who: Server):
        """It leads, and no server has heard of a newer term."""
        return And(s.Leads(who), Forall(s.Server, lambda r: s.term[r] <= s.term[who]))

    @invariant
    def LogMatching(s):
        """Servers in steady state in one term have the same message under each number that both have."""

        def in_step(r):
            return And(s.up[r], s.steady[r])

        def agree(a, b, i):
            both = And(in_step(a), in_step(b), s.term[a] == s.term[b])
            one, other = s.store[a][i], s.store[b][i]
            return Implies(And(both, is_some(one), is_some(other)), get(one).guid == get(other).guid)

        return Forall(s.Server, s.Server, s.numbers(), agree)

    @invariant
    def LeaderCompleteness(s):
        """The present leader has, or is writing, every message that a publisher was told is stored."""

        def has(r, place):
            writes = And(s.writing[r] == place.guid, place.sequence == s.Last(r) + 1)
            return Or(s.IsAt(r, place), writes)

        return Forall(
            s.Server, lambda r: Implies(s.PresentLeader(r), Forall(s.acked, lambda place: has(r, place)))
        )

    @invariant
    def NoCommittedRecordLost(s):
        """It is still on a server that runs."""
        return Forall(s.acked, lambda place: Exists(s.Server, lambda r: And(s.up[r], s.IsAt(r, place))))

    @invariant
    def StateMachineSafety(s):
        """No two publishers were told of one sequence number."""
        return Forall(s.acked, s.acked, lambda a, b: Implies(a.sequence == b.sequence, a.guid == b.guid))

    @invariant
    def ConsistentRead(s):
        """What a subscriber got under a number is what the present leader has there."""
        return Forall(
            s.Server,
            lambda r: Implies(s.PresentLeader(r), Forall(s.delivered, lambda place: s.IsAt(r, place))),
        )

    @invariant
    def ErrorMeansNotStored(s):
        """What a publisher was told to have failed never gets a majority."""

        def on_majority(guid, i):
            return (
                count(s.Server, lambda r: And(is_some(s.store[r][i]), get(s.store[r][i]).guid == guid))
                >= MAJORITY
            )

        return Forall(s.refused, s.numbers(), lambda guid, i: ~on_majority(guid, i))

    @invariant
    def NoDuplicate(s):
        """No server has a GUID under two numbers."""

        def differ(r, i, j):
            both = And(i < j, is_some(s.store[r][i]), is_some(s.store[r][j]))
            return Implies(both, get(s.store[r][i]).guid != get(s.store[r][j]).guid)

        return Forall(s.Server, s.numbers(), s.numbers(), differ)

    @invariant
    def MajorityCanElect(s):
        """While two servers run there is a leader, or one of them can become it."""
        two = count(s.Server, lambda r: s.up[r]) >= MAJORITY
        some_leader = Exists(s.Server, lambda r: s.Leads(r))
        return Implies(two, Or(some_leader, Exists(s.Server, s.Server, lambda c, v: s.MayWin(c, v))))

    @sometimes
    def EverythingIsAcknowledged(s):
        return Forall(s.Guid, lambda guid: Exists(s.acked, lambda place: place.guid == guid))

    @sometimes
    def StoresPart(s):
        """Two servers have different messages under one number."""

        def part(a, b, i):
            one, other = s.store[a][i], s.store[b][i]
            return And(is_some(one), is_some(other), get(one).guid != get(other).guid)

        return Exists(s.Server, s.Server, s.numbers(), part)

    @sometimes
    def ALateServerCatchesUp(s):
        """A follower of a later term has got from the leader what it had missed in an earlier one."""

        def has(f, lead, i):
            mine = s.store[f][i]
            older = And(is_some(mine), get(mine).term < s.term[f])
            return And(f != lead, s.Obeys(f, lead), s.steady[f], older)

        return Exists(s.Server, s.Server, s.numbers(), has)
