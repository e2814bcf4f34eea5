"""Consumer groups: members share the partitions of a stream, and go on where the group left off.

A group has a coordinator, the leader of the partition of the cursor stream that holds the group. It knows who
is a member, who owns which partition, and each partition's *cursor*: the first record that the group has not
done yet. All of it are records of the cursor stream, which is compacted by key, so that another coordinator
finds the last of each. A member takes records from its position on, works on them, and commits the position.
What is hard is that nobody can tell a member that is slow from one that is gone. A member that was paused,
expired and replaced goes on as if nothing had happened; we call it a *zombie*, and it may do no harm.

    generation  counts decisions about who shall own what. A partition is *granted* in one generation, and the
                grant's number comes with all that its owner says afterwards.
    revocation  a partition is granted only after its last owner has confirmed that it gave the partition up,
                or has been expired. The other partitions go on meanwhile.
    fencing     a commit counts if member and generation are those of the partition's present grant. Of two
                commits of one grant the greater position counts, in whatever order they come.
    cursors     a group without a cursor, or with one below the log start, goes on at the log start. Only an
                operator moves a cursor back, and only while nobody owns the partition.
    coordinator it answers nothing before what it says is committed in the cursor stream, nor before it has
                read that stream to its end.

What is modelled. Several partitions with log starts that move. Members that join, leave and crash, and
members that are thought dead, which is anybody at any time, and do not know it. The assignment is any: each
decision gives one partition to one member. Commits and grants that arrive at any later time (`Delays`).
Coordinators that are replaced, and cursors that are reset.

What is abstracted. *Heartbeats*: a member and its coordinator take a step on what both hold at this moment; a
question that is not asked or not answered is a step that is not taken. An answer to a heartbeat that is not
the newest is not used. *The cursor stream*: one atomic step, as the ISR model shows a committed record to be,
and its compaction keeps the last record of each key. A coordinator that was replaced cannot commit there, so
it cannot answer. *Records* below the end of a partition are committed. A log that loses committed records
(unclean election) would leave a cursor beyond its end; that is not here.

At least once is what is promised (NoSkippedRecord): a record may be worked on twice, after a crash, and by a
zombie at the same time. Each variant breaks one rule:

    commit-not-fenced            any commit counts
    commit-fenced-by-member      the generation is not compared: a late commit of an earlier grant counts
    generation-not-persisted     a new coordinator knows the cursors only, and counts from 1 again
    assignment-before-revoke     a partition is granted while its last owner, a member, still works on it
    old-answer-used              an answer that grants what was confirmed to be given up is used
    commit-before-processing     the position is committed first, and the record worked on afterwards
    latest-when-missing          a group without a cursor begins at the end of the log
    latest-when-below-log-start  a cursor below the log start is moved to the end of the log
    cursor-goes-back             of two commits of one grant the one that comes last counts
    answered-before-stored       a commit is answered before it is in the cursor stream
    serves-before-replay         a new coordinator takes a cursor that it has not read for missing
    replaced-coordinator-commits the cursor stream takes records of a coordinator that was replaced
"""

from __future__ import annotations

from liftlog_spec.lang import *

MISSING = -1
"""A cursor that was never committed."""
NOT_HELD = 0
"""In place of a grant's generation; the first generation is 1."""


class Groups(Model):
    """One group, its coordinator, its members and the partitions that they share."""

    variant = Setting(
        "right",
        "commit-not-fenced",
        "commit-fenced-by-member",
        "generation-not-persisted",
        "assignment-before-revoke",
        "old-answer-used",
        "commit-before-processing",
        "latest-when-missing",
        "latest-when-below-log-start",
        "cursor-goes-back",
        "answered-before-stored",
        "serves-before-replay",
        "replaced-coordinator-commits",
    )
    Members = Constant(2)
    Partitions = Constant(1)
    Records = Constant(2)
    Generations = Constant(3)
    Failovers = Constant(1)
    Delays = Constant(1)
    Resets = Constant(1)
    """Failovers: of the coordinator. Delays: messages that arrive at any later time. Resets: of cursors."""

    Member = Sort(Members)
    Partition = Sort(Partitions)
    Generation = Range(0, Generations)
    Offset = Range(0, Records)
    Cursor = Range(MISSING, Records)
    Owned = Record(owner=Option(Member), granted=Generation)
    Late = Record(
        kind=Enum("commit", "grant"),
        member=Member,
        partition=Partition,
        generation=Generation,
        position=Offset,
    )
    """A message on its way: a commit to the coordinator, or a grant to a member with where to begin."""

    # What the coordinator knows, and the cursor stream holds.
    members = Var(Set(Member), init=[])
    generation = Var(Generation)
    target = Var(Fn(Partition, Option(Member)))
    """Who shall own it."""
    owner = Var(Fn(Partition, Option(Member)))
    """Who was granted it, and has neither confirmed to have given it up nor been expired."""
    granted = Var(Fn(Partition, Generation))
    cursor = Var(Fn(Partition, Cursor), init=MISSING)
    stored = Var(Fn(Partition, Cursor), init=MISSING)
    """The cursor that another coordinator would find."""
    replayed = Var(Bool, init=True)
    """The present coordinator has read the cursor stream."""
    unread = Var(Fn(Partition, Cursor), init=MISSING)
    """The cursor for a coordinator that answers without having read it."""
    replaced = Var(Fn(Partition, Owned))
    """What the coordinator before knew, where that matters."""

    # Members: what each believes to own, by the grant's generation, and what it works on next.
    held = Var(Fn(Member, Fn(Partition, Generation)))
    position = Var(Fn(Member, Fn(Partition, Offset)))

    # Partitions.
    start = Var(Fn(Partition, Offset))
    end = Var(Fn(Partition, Offset))

    # Budgets, and a late message.
    failovers = Var(Range(0, Failovers))
    delays = Var(Range(0, Delays))
    resets = Var(Range(0, Resets))
    late = Var(Option(Late))

    # What truly happened since the cursor was last reset.
    processed = Var(Fn(Partition, Set(Offset)))
    highest = Var(Fn(Partition, Cursor), init=MISSING)
    """The greatest position that was acknowledged."""
    found = Var(Fn(Partition, Cursor), init=MISSING)
    """The cursor when the partition last changed hands."""
    moved_by = Var(Fn(Partition, Generation))
    """The grant that has moved it since."""

    # -- words ---------------------------------------------------------------------------------------------

    @definition
    def Known(s, p: Partition):
        """The cursor, as the present coordinator knows it."""
        if s.variant == "serves-before-replay":
            return If(s.replayed, s.cursor[p], s.unread[p])
        return s.cursor[p]

    @definition
    def BeginsAt(s, p: Partition):
        """Where a new owner begins."""
        if s.variant == "latest-when-missing":
            return If(s.Known(p) == MISSING, s.end[p], s.Known(p))
        return maximum(s.Known(p), If(s.Known(p) == MISSING, s.start[p], 0))

    def serving(s):
        """A coordinator says nothing before it has read the cursor stream."""
        if s.variant != "serves-before-replay":
            when(s.replayed)

    def ask(s, m):
        """A new question of a member, or a new answer to it: an older answer is not used."""
        if s.variant != "old-answer-used":
            older = And(is_some(s.late), get(s.late).kind == "grant", get(s.late).member == m)
            s.late = If(older, None, s.late)

    def release(s, given_up):
        """Partitions change hands: `given_up` says of a partition whether it has no owner from now on."""
        owner, granted, found, cursor, moved = s.owner, s.granted, s.found, s.cursor, s.moved_by
        s.owner = function(s.Partition, lambda p: If(given_up(p), None, owner[p]))
        s.granted = function(s.Partition, lambda p: If(given_up(p), NOT_HELD, granted[p]))
        s.found = function(s.Partition, lambda p: If(given_up(p), cursor[p], found[p]))
        s.moved_by = function(s.Partition, lambda p: If(given_up(p), 0, moved[p]))

    # -- membership ----------------------------------------------------------------------------------------

    @action
    def Join(s, m: Member):
        """Whoever joins, or learns that it was expired and joins again, holds nothing any more."""
        s.serving()
        when(~member(m, s.members))
        s.members = with_member(s.members, m)
        s.held[m] = NOT_HELD
        s.position[m] = 0
        s.ask(m)

    def remove(s, m):
        s.serving()
        when(member(m, s.members))
        s.members = without(s.members, m)
        target = s.target
        s.target = function(s.Partition, lambda p: If(target[p] == m, None, target[p]))
        s.release(lambda p: s.owner[p] == m)

    @action
    def Expire(s, m: Member):
        """It is thought dead. It may be paused, and go on later."""
        s.remove(m)

    @action
    def Leave(s, m: Member):
        """It stops and says so."""
        s.remove(m)
        s.held[m] = NOT_HELD
        s.position[m] = 0
        s.ask(m)

    @action
    def Crash(s, m: Member):
        """Its memory is gone. Under its old name it may go on before anybody has noticed."""
        when(Exists(s.Partition, lambda p: s.held[m][p] != NOT_HELD))
        s.held[m] = NOT_HELD
        s.position[m] = 0
        s.ask(m)

    # -- who owns what -------------------------------------------------------------------------------------

    @action
    def Assign(s, p: Partition, m: Member):
        """A new generation, in which this partition shall be owned by this member."""
        s.serving()
        when(member(m, s.members), s.target[p] != m, s.generation < s.Generations)
        s.target[p] = m
        s.generation = s.generation + 1

    @action
    def Grant(s, p: Partition):
        """It has no owner any more: now it has another one."""
        s.serving()
        when(is_some(s.target[p]))
        if s.variant == "assignment-before-revoke":
            when(s.owner[p] != s.target[p])
        else:
            when(is_none(s.owner[p]))
        s.owner[p] = s.target[p]
        s.granted[p] = s.generation
        s.found[p] = s.cursor[p]
        s.moved_by[p] = 0

    def take(s, m, p, generation, begins):
        """A member begins, unless it has this grant already."""
        when(s.held[m][p] != generation)
        s.held[m][p] = generation
        s.position[m][p] = begins

    @action
    def HearGrant(s, m: Member, p: Partition):
        s.serving()
        when(s.owner[p] == m, s.target[p] == m)
        s.take(m, p, s.granted[p], s.BeginsAt(p))
        s.ask(m)

    @action
    def HearRevocation(s, m: Member, p: Partition):
        """It shall be another's: the member stops to work on it."""
        s.serving()
        when(member(m, s.members), s.held[m][p] != NOT_HELD, s.target[p] != m)
        s.held[m][p] = NOT_HELD
        s.position[m][p] = 0
        s.ask(m)

    @action
    def ConfirmRevocation(s, m: Member, p: Partition):
        """The coordinator hears that the owner has given it up."""
        s.serving()
        when(s.owner[p] == m, s.target[p] != m, s.held[m][p] == NOT_HELD)
        s.release(lambda q: q == p)
        s.ask(m)

    # -- work ----------------------------------------------------------------------------------------------

    @action
    def Process(s, m: Member, p: Partition):
        """The record at its position is done."""
        at = s.position[m][p]
        when(s.held[m][p] != NOT_HELD, s.start[p] <= at, at < s.end[p])
        s.processed[p] = with_member(s.processed[p], at)
        s.position[m][p] = at + 1

    @action
    def SkipWhatIsGone(s, m: Member, p: Partition):
        """What lies below the log start cannot be done by anybody; the member is told so, and goes on."""
        when(s.held[m][p] != NOT_HELD, s.position[m][p] < s.start[p])
        if s.variant == "latest-when-below-log-start":
            s.position[m][p] = s.end[p]
        else:
            s.position[m][p] = s.start[p]

    # -- cursors -------------------------------------------------------------------------------------------

    @definition
    def Committable(s, m: Member, p: Partition):
        """What a member commits: everything below is done."""
        if s.variant == "commit-before-processing":
            return minimum(s.position[m][p] + 1, s.end[p])
        return s.position[m][p]

    @definition
    def Counts(s, m: Member, p: Partition, generation: Generation):
        """Whether a commit is one of the present grant."""
        if s.variant == "commit-not-fenced":
            return generation != NOT_HELD
        if s.variant == "commit-fenced-by-member":
            return s.owner[p] == m
        return And(s.owner[p] == m, s.granted[p] == generation)

    def put(s, p, generation, position):
        """A record of the cursor stream, and the answer when that is committed."""
        new = position if s.variant == "cursor-goes-back" else maximum(s.Known(p), position)
        when(position > 0, new != s.cursor[p])
        s.cursor[p] = new
        if s.variant != "answered-before-stored":
            s.stored[p] = new
        if s.variant == "serves-before-replay":
            s.unread[p] = new
        s.highest[p] = maximum(s.highest[p], new)
        s.moved_by[p] = generation

    @action
    def Commit(s, m: Member, p: Partition):
        s.serving()
        when(s.held[m][p] != NOT_HELD, s.Counts(m, p, s.held[m][p]))
        s.put(p, s.held[m][p], s.Committable(m, p))

    @only("variant", "answered-before-stored")
    @action
    def Store(s, p: Partition):
        when(s.stored[p] != s.cursor[p])
        s.stored[p] = s.cursor[p]

    @action
    def Reset(s, p: Partition):
        """An operator lets the group begin again, while nobody works on it."""
        s.serving()
        when(s.resets < s.Resets, is_none(s.owner[p]), s.cursor[p] > s.start[p])
        s.resets = s.resets + 1
        s.cursor[p] = s.start[p]
        s.stored[p] = s.start[p]
        s.highest[p] = s.start[p]
        s.found[p] = s.start[p]
        s.processed[p] = []

    # -- late messages -------------------------------------------------------------------------------------

    def delay(s, kind, m, p, generation, position):
        when(s.delays < s.Delays, is_none(s.late))
        s.delays = s.delays + 1
        s.late = {
            "kind": kind,
            "member": m,
            "partition": p,
            "generation": generation,
            "position": position,
        }

    @action
    def CommitIsLate(s, m: Member, p: Partition):
        when(s.held[m][p] != NOT_HELD, s.Committable(m, p) > 0)
        s.delay("commit", m, p, s.held[m][p], s.Committable(m, p))

    @action
    def LateCommitArrives(s):
        """It counts, or is refused."""
        s.serving()
        sent = get(s.late)
        when(is_some(s.late), sent.kind == "commit", s.Counts(sent.member, sent.partition, sent.generation))
        s.put(sent.partition, sent.generation, sent.position)
        s.late = None

    @action
    def GrantIsLate(s, m: Member, p: Partition):
        s.serving()
        when(s.owner[p] == m, s.target[p] == m)
        s.delay("grant", m, p, s.granted[p], s.BeginsAt(p))

    @action
    def LateGrantArrives(s, m: Member, p: Partition):
        sent = get(s.late)
        when(is_some(s.late), sent.kind == "grant", sent.member == m, sent.partition == p)
        s.take(m, p, sent.generation, sent.position)
        s.late = None

    @action
    def LateMessageIsRefused(s):
        """Or lost."""
        when(is_some(s.late))
        s.late = None

    # -- coordinators --------------------------------------------------------------------------------------

    @action
    def FailOver(s):
        """Another coordinator: it knows what the cursor stream holds."""
        when(s.failovers < s.Failovers)
        s.failovers = s.failovers + 1
        s.replayed = False
        s.cursor = s.stored
        s.unread = MISSING
        if s.variant == "generation-not-persisted":
            s.members = []
            s.generation = 0
            s.target = None
            s.release(lambda p: is_some(s.owner[p]))
        if s.variant == "replaced-coordinator-commits":
            owner, granted = s.owner, s.granted
            s.replaced = function(s.Partition, lambda p: record(s.Owned, owner=owner[p], granted=granted[p]))

    @action
    def Replay(s):
        when(~s.replayed)
        s.replayed = True

    @only("variant", "replaced-coordinator-commits")
    @action
    def CommitAtReplacedCoordinator(s, m: Member, p: Partition):
        """It goes by what it knew."""
        before = s.replaced[p]
        when(s.held[m][p] != NOT_HELD, before.owner == m, before.granted == s.held[m][p])
        s.put(p, s.held[m][p], s.Committable(m, p))

    # -- partitions ----------------------------------------------------------------------------------------

    @action
    def Write(s, p: Partition):
        when(s.end[p] < s.Records)
        s.end[p] = s.end[p] + 1

    @action
    def Retain(s, p: Partition):
        """Retention moves the log start past a record, whether the group has done it or not (C3)."""
        when(s.start[p] < s.end[p])
        s.start[p] = s.start[p] + 1

    # -- properties ----------------------------------------------------------------------------------------

    @invariant
    def OneOwnerPerPartition(s):
        """A grant has one holder. And of those who are members still, one at most holds a partition."""

        def alone(a, b, p):
            both = And(a != b, s.held[a][p] != NOT_HELD, s.held[b][p] != NOT_HELD)
            known = And(member(a, s.members), member(b, s.members))
            return Implies(both, And(s.held[a][p] != s.held[b][p], ~known))

        return Forall(s.Member, s.Member, s.Partition, alone)

    @invariant
    def FencedCommit(s):
        """Since a partition was granted, only that grant has moved its cursor; without an owner, nobody."""

        def fenced(p):
            by_owner = And(s.granted[p] != NOT_HELD, s.moved_by[p] == s.granted[p])
            return Or(s.cursor[p] == s.found[p], by_owner)

        return Forall(s.Partition, fenced)

    @invariant
    def CursorMonotone(s):
        """A cursor never goes back behind what was acknowledged, but by a reset."""
        return Forall(s.Partition, lambda p: s.cursor[p] == s.highest[p])

    @invariant
    def NoSkippedRecord(s):
        """What lies below a cursor has been done by a member, or retention has taken it: at least once."""

        def done(p, offset):
            gone = offset < s.start[p]
            return Implies(offset < s.cursor[p], Or(gone, member(offset, s.processed[p])))

        return Forall(s.Partition, numbers(0, s.Records), done)

    @sometimes
    def EverythingIsDone(s):
        return Forall(s.Partition, lambda p: And(s.start[p] == 0, s.cursor[p] == s.Records))

    @sometimes
    def AZombieWorksBesideTheOwner(s):
        """Two hold the partition: one of them was expired, and does not know."""

        def both(a, b, p):
            holds = And(s.held[a][p] != NOT_HELD, s.held[b][p] == s.granted[p], s.owner[p] == b)
            return And(a != b, holds, ~member(a, s.members))

        return Exists(s.Member, s.Member, s.Partition, both)

    @sometimes
    def ASecondOwnerGoesOn(s):
        """What one began another continues behind the first one's cursor."""
        return Exists(s.Partition, lambda p: And(s.found[p] > 0, s.moved_by[p] > 1))

    @sometimes
    def TheLogStartPassesTheCursor(s):
        return Exists(s.Partition, lambda p: And(s.cursor[p] != MISSING, s.cursor[p] < s.start[p]))

    @sometimes
    def AnOwnerOutlivesTheCoordinator(s):
        """A partition that has been worked on keeps its owner across a fail-over."""
        moved = Exists(s.Partition, lambda p: And(s.granted[p] != NOT_HELD, s.moved_by[p] == s.granted[p]))
        return And(s.failovers > 0, s.replayed, moved)
