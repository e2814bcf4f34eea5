"""The truth about the metadata group: what has been led, appended and committed, whoever saw it (M1).

ElectionSafety, RaftLogMatching, LeaderCompleteness and StateMachineSafety are judged here, after each step of
a node, by what the node's log and term then are (Ongaro and Ousterhout 2014, figure 3).
"""

from __future__ import annotations

from collections.abc import Sequence

from liftlog.types import BEGINNING, Entry, LogBase
from liftlog_sim.truth.invariants import Checks, Violation


class RaftTruth:
    """The truth about the metadata group."""

    __slots__ = ("checks", "committed_in", "committed_terms", "elected_with", "entries", "leaders")

    def __init__(self, checks: Checks) -> None:
        self.checks = checks.counts
        self.leaders: dict[int, int] = {}
        self.entries: dict[tuple[int, int], tuple[int, bytes]] = {}
        self.committed_terms: list[int] = []
        self.committed_in: dict[int, int] = {}
        """The commit index that each term has reached."""
        self.elected_with: dict[int, tuple[int, list[int]]] = {}
        """For each term that had a leader: how many entries were committed when it was elected, and the terms
        of those behind them that were in its log then. What was committed by then has been compared then.
        """

    def led(self, term: int, node: int) -> bool:
        """A node acts as Raft leader of `term`; True the first time. ElectionSafety."""
        self.checks["ElectionSafety"] += 1
        known = self.leaders.get(term)
        if known is None:
            self.leaders[term] = node
            return True
        if known != node:
            raise Violation(
                "ElectionSafety", f"term {term} was led by node {known}, now node {node} leads it"
            )
        return False

    def appended(self, node: int, log: Sequence[Entry], first: int, base: LogBase = BEGINNING) -> None:
        """A node appended the entries from index `first` on. `log` follows `base`. RaftLogMatching.

        Equal (index, term) must mean equal data and an equal term before; by induction everything before is
        equal then.
        """
        for position in range(first - base.index - 1, len(log)):
            self.checks["RaftLogMatching"] += 1
            entry = log[position]
            found = (log[position - 1].term if position else base.term, entry.data)
            known = self.entries.setdefault((entry.index, entry.term), found)
            if known != found or entry.index != base.index + position + 1:
                raise Violation(
                    "RaftLogMatching",
                    f"node {node} has entry {entry.index} of term {entry.term} after one of term {found[0]}; "
                    f"elsewhere it comes after term {known[0]} or differs",
                )

    def based(self, node: int, base: LogBase, snapshot: int) -> None:
        """A node has a snapshot that ends at index `snapshot`, and a log that follows `base`, which lies in
        it. SnapshotOfCommitted.
        """
        self.checks["SnapshotOfCommitted"] += 1
        terms = self.committed_terms
        if snapshot > len(terms):
            text = f"node {node} has a snapshot of {snapshot} entries, of which {len(terms)} are committed"
            raise Violation("SnapshotOfCommitted", text)
        if base.index > snapshot:
            text = f"the log of node {node} begins behind {base.index}, its snapshot ends with {snapshot}"
            raise Violation("SnapshotOfCommitted", text)
        if base.index and terms[base.index - 1] != base.term:
            raise Violation(
                "SnapshotOfCommitted",
                f"the snapshot of node {node} says that entry {base.index} is of term {base.term}, "
                f"where one of term {terms[base.index - 1]} is committed",
            )

    def began_anew(self, index: int, term: int) -> None:
        """M5: a recovery has made a snapshot that ends at `index` what is committed; nobody ever has the
        entries between that and the last one so far.
        """
        self.committed_terms += [term] * (index - len(self.committed_terms))
        self.committed_in[term] = index

    def elected(self, node: int, term: int, log: Sequence[Entry], base: LogBase = BEGINNING) -> None:
        """A node begins to lead: it must have every entry committed in earlier terms. LeaderCompleteness.

        Later ones may have been committed already, if this node learns late that it was elected.
        """
        # What its log begins behind is committed (`based`).
        terms = self.committed_terms
        had = [*terms[: base.index], *(entry.term for entry in log)]
        index = max((i for before, i in self.committed_in.items() if before < term), default=0)
        self._complete(node, term, (0, had), index)
        self.elected_with[term] = len(terms), had[len(terms) :]

    def _complete(self, node: int, term: int, had: tuple[int, list[int]], index: int) -> None:
        """The leader of `term` had the committed entry `index`; by RaftLogMatching all before it then,
        too. `had`: as in `elected_with`.
        """
        self.checks["LeaderCompleteness"] += 1
        if index == 0:
            return
        before, terms = had
        place = index - before - 1
        committed_term = self.committed_terms[index - 1]
        if place >= len(terms) or terms[place] != committed_term:
            found = f"an entry of term {terms[place]}" if place < len(terms) else "nothing"
            raise Violation(
                "LeaderCompleteness",
                f"node {node} leads term {term}, elected with {found} at index {index}, "
                f"where an entry of term {committed_term} is committed",
            )

    def committed(
        self,
        node: int,
        term: int,
        log: Sequence[Entry],
        before: int,
        commit: int,
        base: LogBase = BEGINNING,
    ) -> None:
        """A node, in `term`, moved its commit index from `before` to `commit`. StateMachineSafety.

        What is committed only now, in an older term, the leaders of newer terms must have had when they were
        elected. LeaderCompleteness.
        """
        terms = self.committed_terms
        known = len(terms)
        for index in range(max(before, base.index) + 1, commit + 1):
            self.checks["StateMachineSafety"] += 1
            if index > base.index + len(log):
                raise Violation(
                    "StateMachineSafety", f"node {node} commits index {index}, which it does not have"
                )
            entry_term = log[index - base.index - 1].term
            if index > len(terms):
                terms.append(entry_term)
            elif terms[index - 1] != entry_term:
                raise Violation(
                    "StateMachineSafety",
                    f"node {node} commits an entry of term {entry_term} at index {index}, "
                    f"where one of term {terms[index - 1]} is committed",
                )
        if commit > known:
            self.committed_in[term] = commit
            for newer, leader in self.leaders.items():
                if newer > term:
                    self._complete(leader, newer, self.elected_with[newer], commit)
