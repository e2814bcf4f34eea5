"""The metadata group's commands as actions of the model.

One command of the program may be several actions: a registration tells what is left after the crash before
it, and whoever takes a leader away elects its successor in the same command (R16). The command says which
actions; the record after it is compared with the model's.
"""

from __future__ import annotations

from liftlog.trace.replica_lines import Found, Group, GroupStep, Member
from liftlog_spec.refine.abstract import (
    APPLIED,
    CHANGE,
    ELIGIBLE,
    FORMER,
    HERE,
    INDEX,
    KNOWN,
    LOG,
    MAIL,
    MAIL_FOLLOWER,
    MAIL_KIND,
    MINIMUM_NOW,
    REPORT,
    SYNCED,
    TAIL,
    TOLD,
    Abstract,
    Disagreement,
)
from liftlog_spec.refine.runs import epoch_before

DOUBTFUL = ("suspect", "damaged")
GONE = ("none", "lost")


class GroupPart:
    """What the group does to one partition. `twice`: confessions that were made again while on their way."""

    def __init__(self, abstract: Abstract, first: GroupStep) -> None:
        if first.after is None:
            raise Disagreement("", f"the first that is heard of partition {first.partition} is its end")
        self.abstract = abstract
        self.durability = first.durability
        self.created = first.index
        self.record = first.after
        self.last_index = first.index
        self.heard: dict[int, Group] = {first.index: first.after}
        self.twice: dict[tuple[object, ...], int] = {}
        self.confirmed: set[int] = set()
        """Whose last confirmed run found the partition there: a folder that is gone was lost (I1)."""
        self.left: dict[int, int] = {}
        """R20: replicas that are to have no copy any more, and the model's index since which that is so."""
        self._create(first.after)
        self._numbered(first.index, first.after)
        self._compare(first.after)

    def _create(self, after: Group) -> None:
        """R12."""
        a = self.abstract
        a.raft_index[0] = self.last_index
        a.incarnations = [[after.members[node].incarnation] for node in a.members]
        a.version_at[0] = a.epoch_at[0] = 0
        a.do("Begin")
        for place, node in enumerate(a.members):
            if not after.members[node].live:
                a.do("IsAbsent", place)
        if after.leader:
            a.do("ElectFromIsr", a.place[after.leader])
            a.epochs[after.epoch] = a.now.epoch

    def take(self, step: GroupStep) -> bool:
        """Explain one command; False if it was explained before. Raises Disagreement."""
        if step.index <= self.last_index:
            known = self.heard.get(step.index)
            if known is not None and step.after is not None and known != step.after:
                raise Disagreement(step.command, f"applied at index {step.index} with another outcome")
            return False
        after = step.after
        assert after is not None
        before, version = self.record, self.abstract.now.version
        self._begin_copies(before, after)
        match step.command:
            case "RegisterNode":
                self._register(step)
            case "ConfirmNode":
                self._confirm(step, after)
            case "ExpireNode" | "LeaveNode":
                self._expire(step)
            case "ChangeIsr":
                self._change(step)
            case "ReplicaFailed" | "PairFailed":
                self._failed(step)
            case "FinishMove":
                self._finish(before, after)
            case "AlterStream":
                self._alter(step)
        self._elect(before, after)
        self.record = after
        self.last_index = step.index
        self.heard[step.index] = after
        self._numbered(step.index, after)
        if (after.version != before.version) != (self.abstract.now.version != version):
            raise Disagreement(
                step.command,
                f"version {before.version} -> {after.version}, but the model's {version} -> "
                f"{self.abstract.now.version}",
            )
        self._compare(after)
        return True

    def _numbered(self, index: int, after: Group) -> None:
        a = self.abstract
        last = a.state[INDEX]
        a.raft_index.extend([index] * (last + 1 - len(a.raft_index)))
        a.version_at[last] = after.version
        a.epoch_at[last] = after.epoch

    # -- nodes ---------------------------------------------------------------------------------------------

    def _register(self, step: GroupStep) -> None:
        """I2: what the process before left on the disk, and then the new one's registration."""
        a = self.abstract
        place = a.place[step.about]
        found = step.found
        assert found is not None
        self._fall(place, found, self._doubtful(found))
        for message in a.state[MAIL]:
            if message[MAIL_FOLLOWER] == place and message[MAIL_KIND] != REPORT:
                a.do("IsLost", message)
        for said in a.state[TOLD]:
            if said[0] == place:
                a.do("ConfessionIsLost", said)
        a.incarnations[place].append(step.incarnation)
        a.do("Register" if a.state[TAIL][place] == 0 else "RegisterAfterDamage", place)

    def _doubtful(self, found: Found) -> bool:
        """R14: whether this find makes a copy doubtful."""
        if found.state in DOUBTFUL or found.state in GONE or found.reset:
            return True
        return found.state == "intact" and self.durability == "os"

    def _fall(self, place: int, found: Found, doubtful: bool) -> None:
        a = self.abstract
        log = a.state[LOG][place]
        if found.reset or found.state == "lost" or (found.state == "none" and place in self.confirmed):
            a.do("LoseDisk", place)
            return
        keep = found.leo
        shown = epoch_before(log, keep)
        if keep <= len(log) and shown == a.epochs.get(found.epoch):
            if not doubtful:
                a.do("Crash", place, keep)
            elif keep < len(log):
                a.do("CrashWithTornTail", place, keep)
            else:
                a.do("CrashWithDoubt", place)
            return
        for old in a.state[FORMER][place]:
            text, synced, cut = old
            kept = min(max(synced, a.state[SYNCED][place]), cut)
            fits = keep <= len(text) and epoch_before(text, keep) == a.epochs.get(found.epoch)
            if fits and (doubtful or kept <= keep):
                a.do("CrashBeforeCut", place, keep, 1 if doubtful else 0, old)
                return
        raise Disagreement(
            "Crash",
            f"{found.leo} records up to epoch {found.epoch} are found after it, but the log had {len(log)}, "
            f"{a.state[SYNCED][place]} of them synced, and no cut explains that",
        )

    def _confirm(self, step: GroupStep, after: Group) -> None:
        a = self.abstract
        place = a.place[step.about]
        if step.incarnation > self.created:
            self.confirmed.add(place)
        if after.members[step.about].live and not a.now.live >> place & 1:
            a.do("Confirm", place)

    def _expire(self, step: GroupStep) -> None:
        a = self.abstract
        place = a.place[step.about]
        if a.now.isr >> place & 1:
            a.do("ExpireMember", place)
        elif a.now.live >> place & 1:
            a.do("ExpireOutsider", place)

    # -- ISR -----------------------------------------------------------------------------------------------

    def _change(self, step: GroupStep) -> None:
        a = self.abstract
        if step.code:
            a.do("RefuseAddition")
            return
        gone = [node for node in self.record.isr if node not in step.isr]
        who = step.joiner or (gone[0] if len(gone) == 1 else 0)
        change = a.state[CHANGE]
        if not change or a.node(change[0][0]) != who:
            raise Disagreement("ApplyAddition" if step.joiner else "ApplyRemoval", "nobody has proposed that")
        a.do("ApplyAddition" if step.joiner else "ApplyRemoval")

    def _failed(self, step: GroupStep) -> None:
        a = self.abstract
        told = step.told
        assert told is not None
        place = a.place[step.about]
        run = a.run_of(place, step.incarnation)
        said = (place, run, a.epochs.get(told.epoch, -1), told.leo, step.shortfall)
        if said not in a.state[TOLD]:
            raise Disagreement("HearConfession", f"node {step.about} has not said that it ends at {told.leo}")
        again = self.twice.get(said, 0)
        if again:
            self.twice[said] = again - 1
        a.do("HearConfession", bool(again), said)

    def confessed(self, said: tuple[object, ...]) -> None:
        """The same is said while it is on its way."""
        self.twice[said] = self.twice.get(said, 0) + 1

    def _alter(self, step: GroupStep) -> None:
        """R19: of what can be altered the minimum alone is in the model."""
        a = self.abstract
        if step.minimum != a.state[MINIMUM_NOW]:
            a.do("AlterMinimum", step.minimum)

    # -- moves (R20) ---------------------------------------------------------------------------------------

    def _begin_copies(self, before: Group, after: Group) -> None:
        """Nodes that are to have a copy and had none."""
        a = self.abstract
        for node, member in after.members.items():
            if node in before.members:
                continue
            if node in a.place:
                self._begin_again(a.place[node], member)
            else:
                a.widen(node, member.incarnation, member.live)

    def _begin_again(self, place: int, member: Member) -> None:
        """It has had one before, and dropped it, in this run or in an earlier one."""
        a = self.abstract
        if member.incarnation != a.incarnations[place][-1]:
            a.do("LoseDisk", place)
            a.incarnations[place].append(member.incarnation)
            a.do("RegisterAfterDamage", place)
        else:
            if not a.state[TAIL][place]:
                # It was dropped by a process that had not opened it.
                self.drop(place)
            a.do("BeginCopy", place)
        del self.left[place]
        lives = bool(a.now.live >> place & 1)
        if member.live != lives:
            a.do("Confirm" if member.live else "ExpireOutsider", place)

    def drop(self, place: int) -> None:
        """Who has left gives its copy up, once it knows."""
        a, left = self.abstract, self.left.get(place)
        if left is None:
            raise Disagreement("Drop", f"node {a.members[place]} gives up a copy that it is to have")
        if a.state[HERE][place]:
            while a.state[APPLIED][place] < left:
                a.apply_next(place)
            a.do("Drop", place)

    def _finish(self, before: Group, after: Group) -> None:
        a = self.abstract
        gone = [a.place[node] for node in before.members if node not in after.members]
        in_sync = [place for place in gone if a.now.isr >> place & 1]
        for place in in_sync:
            a.do("LeaveForGood", place)
        if not in_sync:
            a.do("EndMove")
        for place in gone:
            self.left[place] = a.state[INDEX]

    # -- elections -----------------------------------------------------------------------------------------

    def _elect(self, before: Group, after: Group) -> None:
        """R16: whoever leads after the command in a new epoch was elected by it."""
        a = self.abstract
        if after.epoch == before.epoch:
            return
        if not after.leader:
            a.epochs.setdefault(after.epoch, a.now.epoch)
            return
        place = a.place[after.leader]
        if a.now.leader == place and a.now.epoch > a.epochs.get(before.epoch, 0):
            pass  # HearConfession begins the epoch itself.
        elif after.unclean > before.unclean:
            a.do("ElectAnybody", place)
        elif a.now.leader >= 0:
            a.do("ElectAnother", place)
        elif a.now.isr >> place & 1:
            a.do("ElectFromIsr", place)
        elif a.state[ELIGIBLE] >> place & 1:
            a.do("ElectFromEligible", place)
        else:
            a.do("ElectFromLastKnown", place)
        a.epochs[after.epoch] = a.now.epoch

    # -- comparison ----------------------------------------------------------------------------------------

    def _compare(self, after: Group) -> None:
        a, now = self.abstract, self.abstract.now
        pairs: list[tuple[str, object, object]] = [
            ("leader", a.node(now.leader), after.leader),
            ("isr", sorted(a.nodes(now.isr)), sorted(after.isr)),
            ("eligible", sorted(a.nodes(a.state[ELIGIBLE])), sorted(after.eligible)),
            ("epoch", now.epoch, a.epochs.get(after.epoch)),
        ]
        for node, member in sorted(after.members.items()):
            place = a.place[node]
            pairs.append((f"live[{node}]", bool(now.live >> place & 1), member.live))
            pairs.append((f"run[{node}]", a.incarnations[place][now.runs[place]], member.incarnation))
            known = a.state[KNOWN][place]
            copy = after.known.get(node)
            shown = None if copy is None else (a.epochs.get(copy.epoch), copy.leo, copy.lost)
            pairs.append((f"known[{node}]", tuple(known[0]) if known else None, shown))
        wrong = [f"{name} is {real}, in the model {model}" for name, model, real in pairs if model != real]
        if wrong:
            raise Disagreement("", "the group: " + "; ".join(wrong))
