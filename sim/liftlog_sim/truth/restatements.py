"""What a journal's restatements are worth: the truth about one partition's (R21).

    RestatedForNews      between two restatements by one leader the journal says something new

Without that an idle cluster writes its journal again for ever: what a restatement names is as much as makes
the next one worth it.
"""

from __future__ import annotations

from liftlog.core.consumers.entries import SaidAgain, decode_entry
from liftlog.core.replica.removal.entries import Outlived, RolledUp


class Restatements:
    """Of one journal. Its entries are told in their order."""

    __slots__ = ("_begun", "_come_to", "_news")

    def __init__(self) -> None:
        self._news: list[int] = []
        """Offsets of the entries that said something new, from where the newest restatement begins on."""
        self._begun = (0, 0)
        """(epoch that wrote it, where it begins) of the newest restatement; (0, 0) = there was none."""
        self._come_to: dict[type, int] = {}

    def says_more(self, offset: int) -> None:
        """The entry there names what no entry did."""
        self._news.append(offset)

    def of_consumer(self, offset: int, entry: bytes) -> None:
        """An entry about a consumer."""
        if not isinstance(decode_entry(entry), SaidAgain):
            self.says_more(offset)

    def come_to(self, offset: int, said: RolledUp | Outlived) -> None:
        """An entry that says how far the data was gone through."""
        if said.through > self._come_to.get(type(said), -1):
            self._come_to[type(said)] = said.through
            self.says_more(offset)

    def restated(self, epoch: int, begin: int) -> str:
        """A restatement by the leader of this epoch has ended. RestatedForNews: what is wrong, or nothing."""
        before, began = self._begun
        said = [offset for offset in self._news if began <= offset < begin]
        self._begun = epoch, begin
        self._news = [offset for offset in self._news if offset >= begin]
        if epoch != before or said:
            return ""
        return f"is said again from {begin} on as from {began} on before, and nothing was added between"
