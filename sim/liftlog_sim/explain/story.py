"""The story of a step: what caused it, in words, causes first, at most a screen.

Of the causal cone (`cone.py`) most is routine. What is told is chosen by weight: what is grave in general (an
election, a cut, a process that remembers less than it knew), what touches the very offsets, terms and nodes
of which the violation speaks, and what happened late. The faults that struck the nodes concerned are told
among it, and the first step to which the model said no.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

import msgspec

from liftlog.types import LiftlogError
from liftlog_sim.explain.bundle import Bundle, Disagreed, Happening
from liftlog_sim.explain.cone import GROUP, Cone, partition_in
from liftlog_sim.explain.journal_words import InQuestion, is_journal
from liftlog_sim.explain.words import Fact, Narrator, kind_of
from liftlog_sim.kernel import SECOND

WIDTH = 110
LINES = 24
FEW = 8
"""So many faults are told whatever else there is."""
ENOUGH, WORTH = 10, 6.5
"""When so much is told, only what has at least this weight is added."""
GRAVE = 8
"""What weighs so much is told as often as it happened."""
STARTS = ("start", "stop")
_ROUTINE = ("controller", "leader", "isr", "truncate", "reset", "rebuild", "damage", "repair", "heal")
"""Rows of the world that steps tell better themselves."""
_HISTORY = re.compile(r"\[([^\[\]]*?)\.\. (\d+)\]")


_CONSUMER = re.compile(r"\bconsumer (?:stands at \()?(\d+)(?:(?: \(|, )'([^']+)')?")
_NUMBER = re.compile(r"\d+")
_IN_JOURNAL = re.compile(r"(?:journal offset|journal below|entry at) (\d+)|(\d+) of the journal")
"""Below where an entry stands."""
_BY_JOURNAL = ("R21", "R22", "R23", "R24", "R25", "R26", "R27", "R28")
_BY_CONSUMERS = ("R26", "R27")
_MAY_BE_BY_JOURNAL = ("NoSilentGap", "RetentionKeeps", "HoldsNoMore")
"""Rules about what a journal says to be gone, those about what goes by consumers, and others' invariants of
which the journal may be the cause.
"""
_EMPHASIS = {
    "FencedInTime": "hears from the controller",
    "SilentBeforeReplaced": "hears from the controller",
    "WholeSessions": "hears from the controller",
    "ReadsBounded": "asks its disk",
    "MetadataReads": "client",
    "StoredAsExpected": "stores",
    "RefusedTruly": "stores",
    "SameVisible": "answers",
    "DeletedStaysDeleted": "answers",
    "NothingElseGone": "stores",
    "PurgeTakesAll": "answers",
    "RestatedForNews": "stores",
    "LimitHolds": "stores",
    "RollUpHolds": "stores",
    "TtlHolds": "stores",
    "MarkerLeft": "stores",
    "MarkerDue": "stores",
    "WorkQueueHolds": "stores",
    "TimeToAck": "stores",
    "InterestHolds": "stores",
    "SameConsumerState": "answers",
    "AckStays": "answers",
    "DeliveriesBounded": "answers",
    "NoneSkipped": "answers",
    "OfThisIncarnation": "answers",
    "PendingExact": "answers",
    "DeliveriesNumbered": "answers",
    "DeadLettersStored": "answers",
    "PinnedAlone": "answers",
    "NotBelowMinimum": "answers",
    "MirrorIsPrefix": "stores",
    "ActivityInOrder": "stores",
    "TrimmedIsTold": "stores",
    "SourcesExact": "stores",
    "OneOwner": "stores",
    "CommitsFenced": "stores",
    "NothingLeftOut": "stores",
    "StoredOnce": "stores",
    "TimesInOrder": "stores",
    "AnsweredWithFirst": "acknowledges",
    "ProducedOnce": "stores",
    "ProducedInOrder": "stores",
    "RunsFenced": "stores",
    "OutputsOnce": "stores",
    "ParcelWhole": "stores",
    "FastAcksHold": "acknowledges",
    "HoldsNoMore": "stores",
    "OnlyItsSubjects": "stores",
    "OneOfGroup": "stores",
    "SubjectAnswersTrue": "client",
    "FilteredExactly": "client",
    "HeadersHeeded": "stores",
    "OneAnswer": "acknowledges",
    "ReadyIsSubscribed": "subscription",
    "AtomicStateFiles": "remembered on its disk",
    "CommandAsMeant": "is asked by a client",
}
"""What is routine elsewhere, and of the essence for an invariant."""


class Focus(msgspec.Struct):
    """What a violation speaks of."""

    partitions: list[str]
    nodes: list[int]
    offsets: list[tuple[int, int]]
    """Of these partitions, end excluded."""
    indexes: list[tuple[int, int]]
    """Of the group's log, end excluded."""
    epochs: list[int]
    terms: list[int]
    emphasis: str = ""
    consumers: list[str] = []
    """By number and by name. Of these partitions."""
    entries: list[tuple[int, int]] = []
    """Offsets of these partitions' journals, end excluded."""
    by_journal: bool = False
    """Whether it is about what is gone by what a journal says."""
    done: bool = False
    """And about what consumers are done with."""

    @property
    def journals(self) -> list[str]:
        """The journals of which something is to be told."""
        found = self.by_journal or self.consumers
        return [f"{each}.journal" for each in self.partitions] if found else []

    @property
    def question(self) -> InQuestion:
        return InQuestion(self.offsets, self.consumers, self.done)

    def names(self, fact: Fact) -> bool:
        """Whether it is about one of these offsets being gone."""
        return self.question.meets(fact.names)

    def emphasises(self, fact: Fact) -> bool:
        """Whether it is of the essence, though routine elsewhere: of others' consumers nothing is."""
        if self.consumers and fact.who:
            return any(each in self.consumers for each in fact.who)
        if self.by_journal and self.offsets:
            return self.names(fact)
        return bool(self.emphasis) and self.emphasis in fact.text and not self.consumers

    def touches(self, fact: Fact) -> float:
        """How much a fact is about it."""
        found = 0.0
        start, end = fact.span
        spans, numbers, worth = self.offsets, self.epochs, 4.0
        if fact.subject == GROUP:
            spans, numbers = self.indexes, self.terms
        elif is_journal(fact.subject):
            # What an entry says is told of who wrote it, and of those who heed it.
            spans, worth = self.entries, 4.0 if fact.names else 1.0
        if end > start and any(start < high and low < end for low, high in spans):
            found += worth
        if any(number in numbers for number in fact.numbers):
            found += 1.5
        if fact.node in self.nodes:
            found += 1.0
        if self.emphasises(fact):
            found += 5.0 + 3.0 * self.question.share(fact.names)
        elif fact.who and self.consumers:
            found -= 5.0
        return found


def focus_of(finding: str) -> Focus:
    """Read a finding."""
    entries = [int(next(filter(None, found))) for found in _IN_JOURNAL.findall(finding)]
    offsets = _offsets(_IN_JOURNAL.sub("", finding))
    histories = [_history(*found) for found in _HISTORY.findall(finding)]
    if len(histories) >= 2:
        offsets.append(_differ(histories[0], histories[1]))
    return Focus(
        partitions=list(dict.fromkeys(re.findall(r"\b(\d+/\d+)\b", finding))),
        nodes=_numbers(r"\b(?:node|of) (\d+)\b(?!/)", finding),
        offsets=offsets,
        indexes=_ranges(r"(?:index|entry)", finding),
        epochs=_numbers(r"\bepoch (\d+)", finding),
        terms=_numbers(r"\bterm (\d+)", finding),
        consumers=[each for found in _CONSUMER.findall(finding) for each in found if each],
        entries=[(end - 1, end) for end in entries if end],
    )


def _offsets(finding: str) -> list[tuple[int, int]]:
    """Of the data."""
    offsets = _ranges(r"offsets?", finding)
    offsets += [(int(low), int(high)) for low, high in re.findall(r"\[(\d+), (\d+)\)", finding)]
    # What a copy hides or shows, each with its epoch, and what a purge has left, or where it ended.
    single = re.findall(r"\((\d+), \d+\)", finding) if " hides [" in finding else []
    for listed in re.findall(r"\b(?:offsets|left are) \[([\d, ]*)\]", finding):
        single += _NUMBER.findall(listed)
    if not single and not offsets:
        single = [str(int(below) - 1) for below in re.findall(r"' below (\d+) is said", finding)]
    return _merged(offsets + [(int(each), int(each) + 1) for each in single])


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same offsets in few spans, in order: a finding may name thousands."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _ranges(noun: str, finding: str) -> list[tuple[int, int]]:
    """`offset 3` and `offsets 3..7`, end excluded."""
    found = re.findall(rf"\b{noun} (\d+)(?:\.\.(\d+))?", finding)
    return [(int(low), int(high or low) + 1) for low, high in found]


def _numbers(pattern: str, finding: str) -> list[int]:
    return list(dict.fromkeys(map(int, re.findall(pattern, finding))))


def _history(starts: str, end: str) -> list[tuple[int, int]]:
    """(epoch, start) of a history as findings show it, with its end as the last."""
    found = [(int(epoch), int(start)) for epoch, start in re.findall(r"(\d+)@(\d+)", starts)]
    return [*found, (0, int(end))]


def _differ(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> tuple[int, int]:
    """The first offset of which two histories say different things."""
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            first = min(mine[1], theirs[1])
            return first, first + 1
    return 0, 0


# -- choosing ------------------------------------------------------------------------------------------------


def _ranked(
    bundle: Bundle, target: int, subjects: Sequence[str], focus: Focus, disagreed: Disagreed | None
) -> list[Fact | Happening]:
    """What could be told, what matters most first."""
    cone = Cone(bundle)
    roots = [target] + ([disagreed.at_step] if disagreed is not None else [])
    subjects = [*subjects, *focus.journals]
    steps = cone.of(roots, subjects)
    told = Narrator(bundle, focus.question).facts
    wanted = {*subjects, *(focus.partitions or [GROUP]), GROUP}
    if focus.emphasis and not focus.partitions:
        wanted |= {fact.subject for fact in told if focus.emphasis in fact.text}
    about_partition = any("/" in subject for subject in wanted)
    # What else was done in the step that wrote an entry: it may be why.
    entries = [fact for fact in told if is_journal(fact.subject) and focus.names(fact)]
    beside = {fact.at_step for fact in entries if " writes " in fact.text}
    facts: dict[str, Fact] = {}
    for fact in told:
        emphasised = focus.emphasises(fact)
        # What contradicts it may be known to others only.
        if (
            (fact.at_step not in steps and not emphasised and focus.touches(fact) < 4)
            or fact.at_step > target
            or fact.subject not in wanted
        ):
            continue
        often = fact.weight <= 1 and bool(fact.who) and not focus.names(fact)
        routine = often or (fact.weight <= 3 and focus.touches(fact) < 4)
        # Of what was said before, or of what is routine but for its numbers, the last time counts.
        said = _NUMBER.sub("#", fact.text) + f" {fact.node}" if routine else fact.text
        each_time = fact.weight >= GRAVE or (focus.names(fact) and fact.at_step in beside)
        facts[f"{said} {fact.at_step}" if each_time else said] = fact
    nodes = {fact.node for fact in facts.values()}
    ranked: list[tuple[float, int, Fact | Happening]] = []

    def rank(weight: float, step: int, told: Fact | Happening) -> None:
        late = step / max(1, target)
        ranked.append((weight + 3.0 * late + 2.0 * (target - step < min(60, target // 5)), step, told))

    for fact in facts.values():
        weight = fact.weight + focus.touches(fact)
        # What was asked and told of a deletion contradicts nothing.
        if fact.at_step not in steps and (is_journal(fact.subject) or not fact.names):
            weight += 3
        if about_partition and fact.subject == GROUP:
            weight += 1 if fact.about in focus.partitions else -2
        if disagreed is not None and abs(fact.at_step - disagreed.at_step) < 1:
            weight += 20
        if fact.at_step == target:
            weight += 8
        if fact.at_step in beside and "/" in fact.subject:
            weight += 2
        rank(weight, fact.at_step, fact)
    befell = [
        one
        for one in bundle.happenings
        if one.before_step <= target + (target == len(bundle.trace) - 1)
        and one.what not in _ROUTINE
        and (not one.node or one.node in nodes)
    ]
    # Where little befell the world, it is what is left of more: each of it was needed.
    few = 6.0 if len(befell) <= FEW else 0.0
    for happening in befell:
        weight = 4.0 + few + (happening.node in focus.nodes) - (1.5 + few) * (happening.what in STARTS)
        rank(weight, happening.before_step, happening)
    ranked.sort(key=lambda each: (-each[0], -each[1]))
    return [told for place, (weight, _, told) in enumerate(ranked) if place < ENOUGH or weight >= WORTH]


def _place(told: Fact | Happening) -> tuple[int, int, int]:
    """Order in time: what happened to the world before a step stands before it."""
    return (told.at_step, 1, told.order) if isinstance(told, Fact) else (told.before_step, 0, 0)


# -- telling -------------------------------------------------------------------------------------------------


def _wrapped(text: str, first: str, most: int = 3) -> list[str]:
    """One paragraph in at most `most` lines."""
    text = " ".join(text.split())
    lines = textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=" " * 18)
    if len(lines) > most:
        lines = lines[:most]
        lines[-1] = lines[-1][: WIDTH - 4] + " ..."
    return lines


def _line(bundle: Bundle, told: Fact | Happening, disagreed: Disagreed | None) -> list[str]:
    if isinstance(told, Happening):
        return _wrapped(told.detail, f"{told.at_us / SECOND:9.4f}         ", 2)
    at_s = bundle.trace[told.at_step].at_us / SECOND
    lines = _wrapped(told.text, f"{at_s:9.4f} #{told.at_step:<6} ", 2)
    if disagreed is not None and told.at_step == disagreed.at_step:
        lines += _says_no(disagreed)
    return lines


def _says_no(disagreed: Disagreed) -> list[str]:
    action = f"{disagreed.action}: " if disagreed.action and disagreed.action not in disagreed.finding else ""
    return _wrapped(f"^ here the model says no: {action}{disagreed.finding}", " " * 18, 3)


def _told(
    bundle: Bundle,
    target: int,
    subjects: Sequence[str],
    focus: Focus,
    end: list[str],
    disagreed: Disagreed | None,
) -> list[str]:
    """As many of the chosen as there is room for, and the end."""
    room = LINES - len(end)
    ranked = _ranked(bundle, target, subjects, focus, disagreed)
    for most in range(room, 0, -1):
        lines: list[str] = []
        named = False
        for told in sorted(ranked[:most], key=_place):
            here = disagreed is not None and isinstance(told, Fact) and told.at_step == disagreed.at_step
            if disagreed is not None and not named and _place(told)[:2] > (disagreed.at_step, 1):
                lines += _silent(bundle, disagreed)
                named = True
            lines += _line(bundle, told, None if named else disagreed)
            named = named or here
        if disagreed is not None and not named:
            lines += _silent(bundle, disagreed)
        if len(lines) <= room:
            return lines + end
    return end


def _silent(bundle: Bundle, disagreed: Disagreed) -> list[str]:
    """The step to which the model says no, where nothing else is to be told of it."""
    step = bundle.trace[disagreed.at_step]
    what = "starts" if step.event is None else f"takes {kind_of(step.event)}"
    first = f"{step.at_us / SECOND:9.4f} #{disagreed.at_step:<6} "
    return [*_wrapped(f"node {step.node} {what}", first, 1), *_says_no(disagreed)]


def tell(bundle: Bundle) -> list[str]:
    """The story of a bundle's violation."""
    violation = bundle.violation
    finding = violation.finding
    if "Traceback" in finding:
        finding = f"{finding.partition(':')[0]}: {finding.strip().splitlines()[-1].strip()}"
    focus = focus_of(finding)
    focus.emphasis = _EMPHASIS.get(violation.invariant, "")
    focus.done = violation.rule in _BY_CONSUMERS
    focus.by_journal = violation.rule in _BY_JOURNAL or violation.invariant in _MAY_BE_BY_JOURNAL
    end = _wrapped(f"{violation.invariant} is violated: {finding}", f"{violation.at_us / SECOND:9.4f} => ", 4)
    if violation.sentence:
        said = f"{violation.rule}: {violation.sentence}" if violation.rule else violation.sentence
        end += _wrapped(said, " " * 13, 4)
    if violation.at_step < 0:
        return end
    event = bundle.trace[violation.at_step].event
    about = partition_in(event[1]) if event is not None else ""
    subjects = focus.partitions or [about or GROUP]
    return _told(bundle, violation.at_step, subjects, focus, end, bundle.disagreement)


def why(bundle: Bundle, step: int) -> list[str]:
    """The story of any step. Raises LiftlogError if there is none of that number."""
    if not 0 <= step < len(bundle.trace):
        raise LiftlogError(f"there is no step {step}; choose 0 to {len(bundle.trace) - 1}")
    traced = bundle.trace[step]
    facts = [fact for fact in Narrator(bundle).facts if fact.at_step == step]
    what = "; ".join(fact.text for fact in facts)
    if not what:
        what = f"node {traced.node} " + (
            "starts" if traced.event is None else f"takes {kind_of(traced.event)}"
        )
    changed = ", ".join(f"{name} = {value}" for name, value in list(bundle.changes[step].items())[:6])
    end = _wrapped(what, f"{traced.at_us / SECOND:9.4f} => ", 3)
    end += _wrapped(f"changed: {changed or 'nothing'}", " " * 13, 2)
    about = partition_in(traced.event[1]) if traced.event is not None else ""
    focus = _focus_on(traced.node, about, facts)
    return _told(bundle, step, [about or GROUP], focus, end, None)


def _focus_on(node: int, about: str, facts: list[Fact]) -> Focus:
    """What a step speaks of. Of a journal's: the data too, whose records its entries name."""
    group = [fact for fact in facts if fact.subject == GROUP]
    others = [fact for fact in facts if fact.subject != GROUP]
    data = [fact for fact in others if not is_journal(fact.subject)]
    named = [span for fact in others for span in fact.names] if is_journal(about) else []
    return Focus(
        partitions=[about.removesuffix(".journal")] if about else [],
        nodes=[node],
        offsets=[*(fact.span for fact in data if fact.span[1]), *named],
        indexes=[fact.span for fact in group if fact.span[1]],
        epochs=[number for fact in others for number in fact.numbers],
        terms=[number for fact in group for number in fact.numbers],
        entries=[fact.span for fact in others if fact.span[1] and is_journal(fact.subject)],
        by_journal=is_journal(about),
    )
