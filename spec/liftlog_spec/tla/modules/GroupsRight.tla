----------------------------- MODULE GroupsRight -----------------------------

\* One group, its coordinator, its members and the partitions that they share.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Member, Partition, Records, Generations, Failovers, Delays, Resets

VARIABLES
    members, generation, target, owner, granted, cursor, stored, replayed, unread, replaced, held, position, start, end, failovers, delays, resets, late, processed, highest, found, moved_by

vars == <<members, generation, target, owner, granted, cursor, stored, replayed, unread, replaced, held, position, start, end, failovers, delays, resets, late, processed, highest, found, moved_by>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ members \in SUBSET Member
    /\ generation \in (0..Generations)
    /\ target \in [Partition -> (Member \cup {None})]
    /\ owner \in [Partition -> (Member \cup {None})]
    /\ granted \in [Partition -> (0..Generations)]
    /\ cursor \in [Partition -> (-1..Records)]
    /\ stored \in [Partition -> (-1..Records)]
    /\ replayed \in BOOLEAN
    /\ unread \in [Partition -> (-1..Records)]
    /\ replaced \in [Partition -> [owner: (Member \cup {None}), granted: (0..Generations)]]
    /\ held \in [Member -> [Partition -> (0..Generations)]]
    /\ position \in [Member -> [Partition -> (0..Records)]]
    /\ start \in [Partition -> (0..Records)]
    /\ end \in [Partition -> (0..Records)]
    /\ failovers \in (0..Failovers)
    /\ delays \in (0..Delays)
    /\ resets \in (0..Resets)
    /\ late \in ([kind: {"commit", "grant"}, member: Member, partition: Partition, generation: (0..Generations), position: (0..Records)] \cup {None})
    /\ processed \in [Partition -> SUBSET (0..Records)]
    /\ highest \in [Partition -> (-1..Records)]
    /\ found \in [Partition -> (-1..Records)]
    /\ moved_by \in [Partition -> (0..Generations)]

\* The cursor, as the present coordinator knows it.
Known(p) ==
    cursor[p]

\* Where a new owner begins.
BeginsAt(p) ==
    MaxOf({Known(p), (IF (Known(p) = -1) THEN start[p] ELSE 0)})

\* What a member commits: everything below is done.
Committable(m, p) ==
    position[m][p]

\* Whether a commit is one of the present grant.
Counts(m, p, generation2) ==
    ((owner[p] = m) /\ (granted[p] = generation2))

Init ==
    /\ members = {}
    /\ generation = 0
    /\ target = [x \in Partition |-> None]
    /\ owner = [x \in Partition |-> None]
    /\ granted = [x \in Partition |-> 0]
    /\ cursor = [x \in Partition |-> -1]
    /\ stored = [x \in Partition |-> -1]
    /\ replayed = TRUE
    /\ unread = [x \in Partition |-> -1]
    /\ replaced = [x \in Partition |-> [owner |-> None, granted |-> 0]]
    /\ held = [x \in Member |-> [x2 \in Partition |-> 0]]
    /\ position = [x \in Member |-> [x2 \in Partition |-> 0]]
    /\ start = [x \in Partition |-> 0]
    /\ end = [x \in Partition |-> 0]
    /\ failovers = 0
    /\ delays = 0
    /\ resets = 0
    /\ late = None
    /\ processed = [x \in Partition |-> {}]
    /\ highest = [x \in Partition |-> -1]
    /\ found = [x \in Partition |-> -1]
    /\ moved_by = [x \in Partition |-> 0]

\* Whoever joins, or learns that it was expired and joins again, holds nothing any more.
Join(m) ==
    /\ replayed
    /\ ~((m \in members))
    /\ members' = (members \cup {m})
    /\ held' = [held EXCEPT ![m] = [x \in Partition |-> 0]]
    /\ position' = [position EXCEPT ![m] = [x \in Partition |-> 0]]
    /\ late' = (IF (((late # None) /\ (late.kind = "grant")) /\ (late.member = m)) THEN None ELSE late)
    /\ UNCHANGED <<generation, target, owner, granted, cursor, stored, replayed, unread, replaced, start, end, failovers, delays, resets, processed, highest, found, moved_by>>

\* It is thought dead. It may be paused, and go on later.
Expire(m) ==
    /\ replayed
    /\ (m \in members)
    /\ members' = (members \ {m})
    /\ target' = [p \in Partition |-> (IF (target[p] = m) THEN None ELSE target[p])]
    /\ owner' = [p \in Partition |-> (IF (owner[p] = m) THEN None ELSE owner[p])]
    /\ granted' = [p \in Partition |-> (IF (owner[p] = m) THEN 0 ELSE granted[p])]
    /\ found' = [p \in Partition |-> (IF (owner[p] = m) THEN cursor[p] ELSE found[p])]
    /\ moved_by' = [p \in Partition |-> (IF (owner[p] = m) THEN 0 ELSE moved_by[p])]
    /\ UNCHANGED <<generation, cursor, stored, replayed, unread, replaced, held, position, start, end, failovers, delays, resets, late, processed, highest>>

\* It stops and says so.
Leave(m) ==
    /\ replayed
    /\ (m \in members)
    /\ members' = (members \ {m})
    /\ target' = [p \in Partition |-> (IF (target[p] = m) THEN None ELSE target[p])]
    /\ owner' = [p \in Partition |-> (IF (owner[p] = m) THEN None ELSE owner[p])]
    /\ granted' = [p \in Partition |-> (IF (owner[p] = m) THEN 0 ELSE granted[p])]
    /\ found' = [p \in Partition |-> (IF (owner[p] = m) THEN cursor[p] ELSE found[p])]
    /\ moved_by' = [p \in Partition |-> (IF (owner[p] = m) THEN 0 ELSE moved_by[p])]
    /\ held' = [held EXCEPT ![m] = [x \in Partition |-> 0]]
    /\ position' = [position EXCEPT ![m] = [x \in Partition |-> 0]]
    /\ late' = (IF (((late # None) /\ (late.kind = "grant")) /\ (late.member = m)) THEN None ELSE late)
    /\ UNCHANGED <<generation, cursor, stored, replayed, unread, replaced, start, end, failovers, delays, resets, processed, highest>>

\* Its memory is gone. Under its old name it may go on before anybody has noticed.
Crash(m) ==
    /\ (\E p \in Partition : (held[m][p] # 0))
    /\ held' = [held EXCEPT ![m] = [x \in Partition |-> 0]]
    /\ position' = [position EXCEPT ![m] = [x \in Partition |-> 0]]
    /\ late' = (IF (((late # None) /\ (late.kind = "grant")) /\ (late.member = m)) THEN None ELSE late)
    /\ UNCHANGED <<members, generation, target, owner, granted, cursor, stored, replayed, unread, replaced, start, end, failovers, delays, resets, processed, highest, found, moved_by>>

\* A new generation, in which this partition shall be owned by this member.
Assign(p, m) ==
    /\ replayed
    /\ (m \in members)
    /\ (target[p] # m)
    /\ (generation < Generations)
    /\ target' = [target EXCEPT ![p] = m]
    /\ generation' = (generation + 1)
    /\ UNCHANGED <<members, owner, granted, cursor, stored, replayed, unread, replaced, held, position, start, end, failovers, delays, resets, late, processed, highest, found, moved_by>>

\* It has no owner any more: now it has another one.
Grant(p) ==
    /\ replayed
    /\ (target[p] # None)
    /\ (owner[p] = None)
    /\ owner' = [owner EXCEPT ![p] = target[p]]
    /\ granted' = [granted EXCEPT ![p] = generation]
    /\ found' = [found EXCEPT ![p] = cursor[p]]
    /\ moved_by' = [moved_by EXCEPT ![p] = 0]
    /\ UNCHANGED <<members, generation, target, cursor, stored, replayed, unread, replaced, held, position, start, end, failovers, delays, resets, late, processed, highest>>

HearGrant(m, p) ==
    /\ replayed
    /\ (owner[p] = m)
    /\ (target[p] = m)
    /\ (held[m][p] # granted[p])
    /\ held' = [held EXCEPT ![m] = [held[m] EXCEPT ![p] = granted[p]]]
    /\ position' = [position EXCEPT ![m] = [position[m] EXCEPT ![p] = BeginsAt(p)]]
    /\ late' = (IF (((late # None) /\ (late.kind = "grant")) /\ (late.member = m)) THEN None ELSE late)
    /\ UNCHANGED <<members, generation, target, owner, granted, cursor, stored, replayed, unread, replaced, start, end, failovers, delays, resets, processed, highest, found, moved_by>>

\* It shall be another's: the member stops to work on it.
HearRevocation(m, p) ==
    /\ replayed
    /\ (m \in members)
    /\ (held[m][p] # 0)
    /\ (target[p] # m)
    /\ held' = [held EXCEPT ![m] = [held[m] EXCEPT ![p] = 0]]
    /\ position' = [position EXCEPT ![m] = [position[m] EXCEPT ![p] = 0]]
    /\ late' = (IF (((late # None) /\ (late.kind = "grant")) /\ (late.member = m)) THEN None ELSE late)
    /\ UNCHANGED <<members, generation, target, owner, granted, cursor, stored, replayed, unread, replaced, start, end, failovers, delays, resets, processed, highest, found, moved_by>>

\* The coordinator hears that the owner has given it up.
ConfirmRevocation(m, p) ==
    /\ replayed
    /\ (owner[p] = m)
    /\ (target[p] # m)
    /\ (held[m][p] = 0)
    /\ owner' = [p2 \in Partition |-> (IF (p2 = p) THEN None ELSE owner[p2])]
    /\ granted' = [p2 \in Partition |-> (IF (p2 = p) THEN 0 ELSE granted[p2])]
    /\ found' = [p2 \in Partition |-> (IF (p2 = p) THEN cursor[p2] ELSE found[p2])]
    /\ moved_by' = [p2 \in Partition |-> (IF (p2 = p) THEN 0 ELSE moved_by[p2])]
    /\ late' = (IF (((late # None) /\ (late.kind = "grant")) /\ (late.member = m)) THEN None ELSE late)
    /\ UNCHANGED <<members, generation, target, cursor, stored, replayed, unread, replaced, held, position, start, end, failovers, delays, resets, processed, highest>>

\* The record at its position is done.
Process(m, p) ==
    /\ (held[m][p] # 0)
    /\ (start[p] <= position[m][p])
    /\ (position[m][p] < end[p])
    /\ processed' = [processed EXCEPT ![p] = (processed[p] \cup {position[m][p]})]
    /\ position' = [position EXCEPT ![m] = [position[m] EXCEPT ![p] = (position[m][p] + 1)]]
    /\ UNCHANGED <<members, generation, target, owner, granted, cursor, stored, replayed, unread, replaced, held, start, end, failovers, delays, resets, late, highest, found, moved_by>>

\* What lies below the log start cannot be done by anybody; the member is told so, and goes on.
SkipWhatIsGone(m, p) ==
    /\ (held[m][p] # 0)
    /\ (position[m][p] < start[p])
    /\ position' = [position EXCEPT ![m] = [position[m] EXCEPT ![p] = start[p]]]
    /\ UNCHANGED <<members, generation, target, owner, granted, cursor, stored, replayed, unread, replaced, held, start, end, failovers, delays, resets, late, processed, highest, found, moved_by>>

Commit(m, p) ==
    /\ replayed
    /\ (held[m][p] # 0)
    /\ Counts(m, p, held[m][p])
    /\ (0 < Committable(m, p))
    /\ (MaxOf({Known(p), Committable(m, p)}) # cursor[p])
    /\ cursor' = [cursor EXCEPT ![p] = MaxOf({Known(p), Committable(m, p)})]
    /\ stored' = [stored EXCEPT ![p] = MaxOf({Known(p), Committable(m, p)})]
    /\ highest' = [highest EXCEPT ![p] = MaxOf({highest[p], MaxOf({Known(p), Committable(m, p)})})]
    /\ moved_by' = [moved_by EXCEPT ![p] = held[m][p]]
    /\ UNCHANGED <<members, generation, target, owner, granted, replayed, unread, replaced, held, position, start, end, failovers, delays, resets, late, processed, found>>

\* An operator lets the group begin again, while nobody works on it.
Reset(p) ==
    /\ replayed
    /\ (resets < Resets)
    /\ (owner[p] = None)
    /\ (start[p] < cursor[p])
    /\ resets' = (resets + 1)
    /\ cursor' = [cursor EXCEPT ![p] = start[p]]
    /\ stored' = [stored EXCEPT ![p] = start[p]]
    /\ highest' = [highest EXCEPT ![p] = start[p]]
    /\ found' = [found EXCEPT ![p] = start[p]]
    /\ processed' = [processed EXCEPT ![p] = {}]
    /\ UNCHANGED <<members, generation, target, owner, granted, replayed, unread, replaced, held, position, start, end, failovers, delays, late, moved_by>>

CommitIsLate(m, p) ==
    /\ (held[m][p] # 0)
    /\ (0 < Committable(m, p))
    /\ (delays < Delays)
    /\ (late = None)
    /\ delays' = (delays + 1)
    /\ late' = [kind |-> "commit", member |-> m, partition |-> p, generation |-> held[m][p], position |-> Committable(m, p)]
    /\ UNCHANGED <<members, generation, target, owner, granted, cursor, stored, replayed, unread, replaced, held, position, start, end, failovers, resets, processed, highest, found, moved_by>>

\* It counts, or is refused.
LateCommitArrives ==
    /\ replayed
    /\ (late # None)
    /\ (late.kind = "commit")
    /\ Counts(late.member, late.partition, late.generation)
    /\ (0 < late.position)
    /\ (MaxOf({Known(late.partition), late.position}) # cursor[late.partition])
    /\ cursor' = [cursor EXCEPT ![late.partition] = MaxOf({Known(late.partition), late.position})]
    /\ stored' = [stored EXCEPT ![late.partition] = MaxOf({Known(late.partition), late.position})]
    /\ highest' = [highest EXCEPT ![late.partition] = MaxOf({highest[late.partition], MaxOf({Known(late.partition), late.position})})]
    /\ moved_by' = [moved_by EXCEPT ![late.partition] = late.generation]
    /\ late' = None
    /\ UNCHANGED <<members, generation, target, owner, granted, replayed, unread, replaced, held, position, start, end, failovers, delays, resets, processed, found>>

GrantIsLate(m, p) ==
    /\ replayed
    /\ (owner[p] = m)
    /\ (target[p] = m)
    /\ (delays < Delays)
    /\ (late = None)
    /\ delays' = (delays + 1)
    /\ late' = [kind |-> "grant", member |-> m, partition |-> p, generation |-> granted[p], position |-> BeginsAt(p)]
    /\ UNCHANGED <<members, generation, target, owner, granted, cursor, stored, replayed, unread, replaced, held, position, start, end, failovers, resets, processed, highest, found, moved_by>>

LateGrantArrives(m, p) ==
    /\ (late # None)
    /\ (late.kind = "grant")
    /\ (late.member = m)
    /\ (late.partition = p)
    /\ (held[m][p] # late.generation)
    /\ held' = [held EXCEPT ![m] = [held[m] EXCEPT ![p] = late.generation]]
    /\ position' = [position EXCEPT ![m] = [position[m] EXCEPT ![p] = late.position]]
    /\ late' = None
    /\ UNCHANGED <<members, generation, target, owner, granted, cursor, stored, replayed, unread, replaced, start, end, failovers, delays, resets, processed, highest, found, moved_by>>

\* Or lost.
LateMessageIsRefused ==
    /\ (late # None)
    /\ late' = None
    /\ UNCHANGED <<members, generation, target, owner, granted, cursor, stored, replayed, unread, replaced, held, position, start, end, failovers, delays, resets, processed, highest, found, moved_by>>

\* Another coordinator: it knows what the cursor stream holds.
FailOver ==
    /\ (failovers < Failovers)
    /\ failovers' = (failovers + 1)
    /\ replayed' = FALSE
    /\ cursor' = stored
    /\ unread' = [x \in Partition |-> -1]
    /\ UNCHANGED <<members, generation, target, owner, granted, stored, replaced, held, position, start, end, delays, resets, late, processed, highest, found, moved_by>>

Replay ==
    /\ ~replayed
    /\ replayed' = TRUE
    /\ UNCHANGED <<members, generation, target, owner, granted, cursor, stored, unread, replaced, held, position, start, end, failovers, delays, resets, late, processed, highest, found, moved_by>>

Write(p) ==
    /\ (end[p] < Records)
    /\ end' = [end EXCEPT ![p] = (end[p] + 1)]
    /\ UNCHANGED <<members, generation, target, owner, granted, cursor, stored, replayed, unread, replaced, held, position, start, failovers, delays, resets, late, processed, highest, found, moved_by>>

\* Retention moves the log start past a record, whether the group has done it or not (C3).
Retain(p) ==
    /\ (start[p] < end[p])
    /\ start' = [start EXCEPT ![p] = (start[p] + 1)]
    /\ UNCHANGED <<members, generation, target, owner, granted, cursor, stored, replayed, unread, replaced, held, position, end, failovers, delays, resets, late, processed, highest, found, moved_by>>

Next ==
    \/ \E m \in Member : Join(m)
    \/ \E m \in Member : Expire(m)
    \/ \E m \in Member : Leave(m)
    \/ \E m \in Member : Crash(m)
    \/ \E p \in Partition, m \in Member : Assign(p, m)
    \/ \E p \in Partition : Grant(p)
    \/ \E m \in Member, p \in Partition : HearGrant(m, p)
    \/ \E m \in Member, p \in Partition : HearRevocation(m, p)
    \/ \E m \in Member, p \in Partition : ConfirmRevocation(m, p)
    \/ \E m \in Member, p \in Partition : Process(m, p)
    \/ \E m \in Member, p \in Partition : SkipWhatIsGone(m, p)
    \/ \E m \in Member, p \in Partition : Commit(m, p)
    \/ \E p \in Partition : Reset(p)
    \/ \E m \in Member, p \in Partition : CommitIsLate(m, p)
    \/ LateCommitArrives
    \/ \E m \in Member, p \in Partition : GrantIsLate(m, p)
    \/ \E m \in Member, p \in Partition : LateGrantArrives(m, p)
    \/ LateMessageIsRefused
    \/ FailOver
    \/ Replay
    \/ \E p \in Partition : Write(p)
    \/ \E p \in Partition : Retain(p)

Spec == Init /\ [][Next]_vars

\* A grant has one holder. And of those who are members still, one at most holds a partition.
OneOwnerPerPartition ==
    (\A a \in Member : (\A b \in Member : (\A p \in Partition : ((((a # b) /\ (held[a][p] # 0)) /\ (held[b][p] # 0)) => ((held[a][p] # held[b][p]) /\ ~(((a \in members) /\ (b \in members))))))))

\* Since a partition was granted, only that grant has moved its cursor; without an owner, nobody.
FencedCommit ==
    (\A p \in Partition : ((cursor[p] = found[p]) \/ ((granted[p] # 0) /\ (moved_by[p] = granted[p]))))

\* A cursor never goes back behind what was acknowledged, but by a reset.
CursorMonotone ==
    (\A p \in Partition : (cursor[p] = highest[p]))

\* What lies below a cursor has been done by a member, or retention has taken it: at least once.
NoSkippedRecord ==
    (\A p \in Partition : (\A offset \in (0)..(Records - 1) : ((offset < cursor[p]) => ((offset < start[p]) \/ (offset \in processed[p])))))

==============================================================================
