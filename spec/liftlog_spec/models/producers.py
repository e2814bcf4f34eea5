"""Producers whose retries are stored once, across fail-over: rule L2.

A publisher that gets no answer sends again. If the first message was stored after all, it is there twice,
unless the leader can tell. So a producer has an id and numbers its messages from 0, and each *run* of it
has a number that is greater than all before, and that no other has. A record carries the three. From its log
every copy derives a *table*: for each producer the newest run, the number that is due, and where the last
few messages of the run are. A leader that gets message n of a run

    of an older run than the table's    refuses it: the publisher has been replaced
    n is due                            appends it; so too n = 0 of a newer run
    n is in the table                   answers with the place of the first, once that is committed
    n is before that                    refuses it: too old to tell where it is
    n is behind what is due             refuses it: what precedes it is missing and has to be sent first

The table is a function of the log, as the log is of the table: it is complete up to the LEO before a leader
takes its first message, is cut with the log, and a copy of it as of the log start survives retention and
travels with a log start. The code does less (`start-waits`): a new leader makes the table of its log alone,
and log starts wait for what is remembered of what is committed. Kafka's idempotent producer is the ancestor
(KIP-98, KIP-185, KIP-360); its producer epoch is our run.

What is modelled. Publishers that send some messages ahead of the answers; every message that was ever sent
may arrive at any time, any number of times, at whoever believes to lead: retries, doubles, late messages of
publishers that are thought dead and live on. Answers, which are true for ever and therefore need no delay.
Copies, epochs with several leaders at once, truncation, log starts, and the table of each copy.

What is abstracted. *Replication* as in `partition_log`. *A restart* of a node reads log and table from
disk and has what it had. *Compaction* takes records and leaves the table as it is: it would be kept like
the table at a log start. *Batches*: one message each. *The answer "too old"* is silence.

What is not promised: two messages that a publisher means as one but sends in two runs; one message in two
partitions; a retry after the table has forgotten the producer. The variant `producer-expires` shows the
last: the time after which a producer is forgotten must exceed that of any retry. Each other variant breaks
a rule:

    table-not-rebuilt         a new leader knows of what it appended itself, not of what it copied
    table-rebuilt-to-hw       a new leader has read its log as far as it knows it to be committed
    table-not-truncated       what was cut is still in the table
    table-from-log-alone      what was retained away is not in the table of a new leader any more
    start-waits-for-uncommitted  log starts wait for what is remembered, of what may be cut as well
    log-start-without-table   a copy that begins at a log start does not get the table
    run-not-checked           a replaced run goes on writing
    restart-keeps-run         a publisher that has lost its memory numbers from 0 again in the same run
    gap-accepted              a message may come before the one that precedes it
    window-below-in-flight    the table remembers fewer messages than may be unanswered
    new-if-not-in-window      the same, and what is not remembered is taken for new
    duplicate-acked-at-once   a duplicate is acknowledged before the first is committed
    acked-with-newest-offset  a duplicate is acknowledged with the offset that is newest
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *
from liftlog_spec.models.producers_log import ProducerLog


class Producers(ProducerLog):
    """Publishers, what a leader does with their messages, and what must always be true."""

    Replica, Producer, Run, Number = (
        ProducerLog.Replica,
        ProducerLog.Producer,
        ProducerLog.Run,
        ProducerLog.Number,
    )
    Place, Runs, Messages = ProducerLog.Place, ProducerLog.Runs, ProducerLog.Messages
    Begun = Range(1, Runs)

    # Each producer: the run it is in, how many messages each run has sent, and what was answered.
    current = Var(Fn(Producer, Begun), init=1)
    sent = Var(Fn(Producer, Begun, Range(0, Messages)))
    answered = Var(Fn(Producer, Begun, Number, Option(Place)))

    # -- publishers ----------------------------------------------------------------------------------------

    @action
    def Send(s, p: Producer, run: Begun):
        """The next message of a run, even a replaced one; at most `InFlight` from the first unanswered."""
        number = s.sent[p][run]
        when(run <= s.current[p], number < s.Messages)
        when(Forall(s.Number, lambda n: Or(number < n + s.InFlight, is_some(s.answered[p][run][n]))))
        s.sent[p][run] = number + 1

    @action
    def Restart(s, p: Producer):
        """A new run of the producer."""
        when(s.current[p] < s.Runs, s.sent[p][s.current[p]] > 0)
        s.current[p] = s.current[p] + 1

    # -- leaders -------------------------------------------------------------------------------------------

    @definition
    def Remembered(s, r: Replica, p: Producer, n: Number):
        """The table still says where it is: it is one of the last few."""
        line = s.table[r][p]
        window = s.InFlight
        if s.variant in ("window-below-in-flight", "new-if-not-in-window"):
            window = s.InFlight - 1
        return And(is_some(line.places[n]), line.next <= n + window)

    @action
    def Publish(s, lead: Replica, p: Producer, run: Begun, n: Number):
        """A message arrives at a leader that finds it to be new. Others change nothing."""
        when(s.Leads(lead), n < s.sent[p][run], size(s.log[lead]) < s.Records)
        line, claimed = s.table[lead][p], s.claimed(run)
        due = Or(And(line.run == claimed, line.next == n), And(line.run < claimed, n == 0))
        if s.variant == "gap-accepted":
            due = Or(And(line.run == claimed, line.next <= n), line.run < claimed)
        elif s.variant == "new-if-not-in-window":
            due = Or(due, And(line.run == claimed, n < line.next, ~s.Remembered(lead, p, n)))
        elif s.variant == "run-not-checked":
            due = Or(due, line.run > claimed)
        when(due)
        message = record(s.Message, epoch=s.epoch[lead], producer=p, run=run, seq=n)
        s.table[lead] = s.noted(s.table[lead], message, size(s.log[lead]))
        s.log[lead] = append(s.log[lead], message)

    @action
    def Answer(s, lead: Replica, p: Producer, run: Begun, n: Number):
        """The table has the message, sent for the first time or again. Once it is committed: where it is."""
        when(s.Leads(lead), n < s.sent[p][run], is_none(s.answered[p][run][n]))
        line = s.table[lead][p]
        when(line.run == s.claimed(run), s.Remembered(lead, p, n))
        place = get(line.places[n])
        if s.variant != "duplicate-acked-at-once":
            when(place < s.hw[lead])
        if s.variant == "acked-with-newest-offset":
            place = s.hw[lead] - 1
        s.answered[p][run][n] = place

    @action
    def AnswerLate(s, lead: Replica, place: Place):
        """The table had the message when it came, and has a newer run by the time that it is committed."""
        when(s.Leads(lead), place < s.hw[lead])
        m = s.log[lead][place]
        when(is_none(s.answered[m.producer][m.run][m.seq]))
        when(s.claimed(m.run) < s.table[lead][m.producer].run)
        s.answered[m.producer][m.run][m.seq] = place

    @only("variant", "producer-expires")
    @action
    def Expire(s, r: Replica, p: Producer):
        """Nothing was heard of the producer for long."""
        when(s.table[r][p].run > 0)
        s.table[r][p] = s.unknown()

    # -- properties ----------------------------------------------------------------------------------------

    def same(s, a, b):
        """One message: of the same producer, run and number."""
        return And(a.producer == b.producer, a.run == b.run, a.seq == b.seq)

    @invariant
    def NoDuplicate(s):
        """Each message is committed at most once."""

        def once(i):
            return Forall(numbers(0, i), lambda j: ~s.same(s.committed[j], s.committed[i]))

        return Forall(indexes(s.committed), once)

    @invariant
    def InOrder(s):
        """No message of a run is committed before those that precede it in the run: order, and no gaps."""

        def preceded(i):
            m = s.committed[i]

            def precedes(j):
                o = s.committed[j]
                return And(o.producer == m.producer, o.run == m.run, o.seq + 1 == m.seq)

            return Or(m.seq == 0, Exists(numbers(0, i), precedes))

        return Forall(indexes(s.committed), preceded)

    @invariant
    def ZombieFenced(s):
        """Behind the first message of a run there is none of an earlier one."""

        def fenced(i):
            m = s.committed[i]
            return Forall(
                numbers(0, i),
                lambda j: Implies(s.committed[j].producer == m.producer, s.committed[j].run <= m.run),
            )

        return Forall(indexes(s.committed), fenced)

    @invariant
    def AckedIsCommitted(s):
        """What was acknowledged is committed, at the offset that was named."""

        def right(p, run, n):
            place = get(s.answered[p][run][n])
            m = s.committed[place]
            there = And(place < size(s.committed), m.producer == p, m.run == run, m.seq == n)
            return Implies(is_some(s.answered[p][run][n]), there)

        return Forall(s.Producer, s.Begun, s.Number, right)

    @definition
    def TooOld(s, lead: Replica, p: Producer, run: Begun, n: Number):
        """A leader refuses the message for good, though its run was not replaced."""
        if s.variant == "new-if-not-in-window":
            return s.newest < 0
        line = s.table[lead][p]
        return And(line.run == s.claimed(run), n < line.next, ~s.Remembered(lead, p, n))

    @invariant
    def RetryIsAnswered(s):
        """What is stored and not answered can be: no more may wait for answers than is remembered."""

        def heard(lead, i):
            m = s.log[lead][i]
            waits = is_none(s.answered[m.producer][m.run][m.seq])
            return Implies(waits, ~s.TooOld(lead, m.producer, m.run, m.seq))

        def all_heard(lead):
            return Implies(s.Leads(lead), Forall(indexes(s.log[lead]), lambda i: heard(lead, i)))

        return Forall(s.Replica, all_heard)

    @invariant
    def RetryIsStored(s):
        """A leader takes a message for stored only if it is in its log."""

        def stored(lead, p, n):
            line = s.table[lead][p]
            place = get(line.places[n])
            m = s.log[lead][place]
            there = And(place < size(s.log[lead]), m.producer == p, m.seq == n)
            return Implies(And(s.Leads(lead), is_some(line.places[n])), there)

        return Forall(s.Replica, s.Producer, s.Number, stored)

    # -- signs of life -------------------------------------------------------------------------------------

    @sometimes
    def ADuplicateIsAnswered(s):
        """By another leader than the one that stored it."""

        def other(p, run, n):
            place = s.answered[p][run][n]
            stored = And(is_some(place), get(place) < size(s.committed))
            return And(stored, s.committed[get(place)].epoch < s.newest)

        return Exists(s.Producer, s.Begun, s.Number, other)

    @sometimes
    def ARunIsReplaced(s):
        return Exists(indexes(s.committed), lambda i: s.committed[i].run > 1)

    @sometimes
    def ATableIsCut(s):
        """A follower that knows of a message has to cut it."""

        def cuts(f, lead):
            return And(
                s.Hears(lead, f), ~s.Agrees(f, lead), Exists(s.Producer, lambda p: s.table[f][p].run > 0)
            )

        return Exists(s.Replica, s.Replica, cuts)
