"""The handshake and the frames after it: who knows a secret gets in, and nothing else does."""

from __future__ import annotations

import hmac

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from liftlog.api import wire
from liftlog.api.handshake import (
    ACCEPTED_MAX,
    CLIENT,
    CLIENT_NODE,
    FRAME_MAX_BYTES,
    GMAC_TAGS,
    HMAC_TAGS,
    NO_SECRET,
    PEER,
    REASONS,
    REFUSED_DOOR,
    REFUSED_NODE,
    REFUSED_PROOF,
    REFUSED_VERSION,
    SECRETS_MAX,
    Answerer,
    Caller,
    HandshakeError,
    Party,
    SecureSession,
    refusal,
)
from liftlog.api.tags import FrameOpener, FrameSealer, possible_tags

SECRET, OTHER, THIRD = b"s" * 32, b"o" * 32, b"t" * 32
NODES = (1, 2, 3)


class Nonces:
    """Distinct nonces, one after the other."""

    def __init__(self, start: int) -> None:
        self._next = start

    def __call__(self) -> bytes:
        self._next += 1
        return self._next.to_bytes(32, "big")


MINE, THEIRS = Nonces(1000), Nonces(2_000_000)


def caller(
    node: int = 1,
    to: int = 2,
    *,
    role: int = PEER,
    cluster: str = "c",
    secrets: tuple[bytes, ...] = (SECRET,),
) -> Caller:
    return Caller(Party(cluster, node, secrets), role, to, MINE())


def answerer(
    node: int = 2, *, role: int = PEER, cluster: str = "c", secrets: tuple[bytes, ...] = (SECRET,)
) -> Answerer:
    return Answerer(Party(cluster, node, secrets), role, NODES.__contains__, THEIRS)


def converse(one: Caller, other: Answerer) -> tuple[SecureSession, SecureSession]:
    """Carry all messages; the sessions of both. Raises HandshakeError."""
    message = one.hello()
    while True:
        assert len(message) <= FRAME_MAX_BYTES
        message = one.receive(other.receive(message))
        if not message:
            assert one.session is not None and other.session is not None
            return one.session, other.session


def fails(one: Caller, other: Answerer) -> HandshakeError:
    with pytest.raises(HandshakeError) as caught:
        converse(one, other)
    return caught.value


# -- who gets in -------------------------------------------------------------------------------------------


@given(st.sampled_from((PEER, CLIENT)), st.permutations((SECRET, OTHER, THIRD)), st.integers(1, 3))
def test_who_shares_a_secret_gets_in_and_both_have_the_same_keys(
    role: int, order: list[bytes], shared: int
) -> None:
    node = 1 if role == PEER else CLIENT_NODE
    theirs = (*order[:shared], b"only mine" * 4)
    mine = (b"only theirs" * 4, *order[shared - 1 :])
    one, other = converse(caller(node, role=role, secrets=theirs), answerer(role=role, secrets=mine))
    assert (one.node, other.node) == (2, node)
    assert (one.caller_key, one.answerer_key) == (other.caller_key, other.answerer_key)
    assert one.caller_key != one.answerer_key


@given(st.binary(max_size=40), st.binary(max_size=40))
@example(b"", bytes(32))
def test_v6_both_sides_must_have_the_same_certificate_in_mind(mine: bytes, theirs: bytes) -> None:
    one = Caller(Party("c", 1, (SECRET,)), PEER, 2, MINE(), binding=mine)
    other = Answerer(Party("c", 2, (SECRET,)), PEER, NODES.__contains__, THEIRS, binding=theirs)
    if mine == theirs:
        session, _ = converse(one, other)
        plain, _ = converse(caller(), answerer())
        assert session.caller_key != plain.caller_key
    else:
        assert fails(one, other).code == REFUSED_PROOF


SECRETS = st.binary(min_size=32, max_size=64)


@given(st.sampled_from((PEER, CLIENT)), SECRETS, SECRETS)
@example(PEER, SECRET, SECRET + b"\0")
def test_v6_who_has_another_secret_does_not_get_in_and_is_told_no_more(
    role: int, theirs: bytes, mine: bytes
) -> None:
    if theirs == mine:
        return
    node = 1 if role == PEER else CLIENT_NODE
    error = fails(caller(node, role=role, secrets=(theirs,)), answerer(role=role, secrets=(mine,)))
    assert error.code == REFUSED_PROOF
    assert theirs.hex() not in str(error) and mine.hex() not in str(error)


def test_a_cluster_without_secrets_and_one_with_do_not_mix() -> None:
    converse(caller(secrets=(NO_SECRET,)), answerer(secrets=(NO_SECRET,)))
    assert fails(caller(secrets=(NO_SECRET,)), answerer()).code == REFUSED_PROOF
    assert fails(caller(), answerer(secrets=(NO_SECRET,))).code == REFUSED_PROOF


def test_another_cluster_s_node_with_the_same_secret_is_refused_like_a_wrong_secret() -> None:
    wrong_cluster, wrong_secret = caller(cluster="d"), caller(secrets=(OTHER,))
    errors = [fails(one, answerer()) for one in (wrong_cluster, wrong_secret)]
    assert [error.code for error in errors] == [REFUSED_PROOF] * 2
    assert "cluster 'd'" in str(errors[0])


def test_a_node_that_is_no_peer_is_told_so_only_once_it_has_proved_the_secret() -> None:
    assert fails(caller(9), answerer()).code == REFUSED_NODE
    assert fails(caller(9, secrets=(OTHER,)), answerer()).code == REFUSED_PROOF


def test_roles_have_doors_of_their_own() -> None:
    assert fails(caller(CLIENT_NODE, role=CLIENT), answerer()).code == REFUSED_DOOR
    assert fails(caller(), answerer(role=CLIENT)).code == REFUSED_DOOR


def test_a_client_need_not_know_which_node_answers_but_hears_when_it_is_another() -> None:
    one, _ = converse(caller(CLIENT_NODE, 0, role=CLIENT), answerer(3, role=CLIENT))
    assert one.node == 3
    assert "node 3 answers" in str(fails(caller(CLIENT_NODE, 2, role=CLIENT), answerer(3, role=CLIENT)))


Pair = tuple[int, int]
RANGES = st.tuples(st.integers(2, 9), st.integers(0, 9)).map(lambda both: (both[0], both[0] + both[1]))


def of_versions(theirs: Pair, mine: Pair) -> tuple[Caller, Answerer]:
    one = Caller(Party("c", 1, (SECRET,)), PEER, 2, MINE(), 3, versions=theirs)
    other = Answerer(Party("c", 2, (SECRET,)), PEER, NODES.__contains__, THEIRS, 3, versions=mine)
    return one, other


@given(RANGES, RANGES)
def test_u1_the_highest_version_that_both_speak_is_chosen_or_both_name_both_ranges(
    theirs: Pair, mine: Pair
) -> None:
    one, other = of_versions(theirs, mine)
    best = min(theirs[1], mine[1])
    if best >= max(theirs[0], mine[0]):
        assert {session.version for session in converse(one, other)} == {best}
        return
    error = fails(one, other)
    assert error.code == REFUSED_VERSION
    with pytest.raises(HandshakeError) as told:
        one.receive(refusal(error.code, error.versions))
    older_calls = theirs[1] < mine[0]
    assert str(error).endswith(f"upgrade liftlog {'there' if older_calls else 'here'}")
    # Who spoke release 0.1.0's version only can read no ranges, and is told to compare.
    for text in (str(error), str(told.value)) if error.versions is not None else (str(error),):
        for lowest, highest in (theirs, mine) if theirs[0] <= mine[1] else (mine,):
            assert (str(lowest) if lowest == highest else f"{lowest} to {highest}") in text
    if error.versions is not None:
        assert str(told.value).endswith(f"upgrade liftlog {'here' if older_calls else 'there'}")
    else:
        assert "upgrade liftlog on the older side" in str(told.value)


@pytest.mark.parametrize("where", ["hello", "challenge"])
def test_u1_nobody_talks_two_nodes_into_an_older_version(where: str) -> None:
    one, other = of_versions((2, 3), (2, 3))
    hello = bytearray(one.hello())
    assert hello[4:6] == b"\0\2" and hello[7] == 3 | 1 << 2
    if where == "hello":
        hello[7] = 3
    challenge = bytearray(other.receive(bytes(hello)))
    challenge[1] = GMAC_TAGS
    with pytest.raises(HandshakeError) as caught:
        other.receive(one.receive(bytes(challenge)))
    assert caught.value.code == REFUSED_PROOF


def test_u1_who_answers_chooses_only_what_was_offered() -> None:
    one, other = of_versions((2, 3), (2, 3))
    challenge = bytearray(other.receive(one.hello()))
    challenge[1] = GMAC_TAGS | 2 << 2
    with pytest.raises(HandshakeError, match="version that was not offered"):
        one.receive(bytes(challenge))


@pytest.mark.parametrize("versions", [(1, 2), (3, 2), (2, 66)])
def test_a_range_that_no_hello_can_name_is_refused_at_once(versions: Pair) -> None:
    with pytest.raises(ValueError, match="no range"):
        of_versions(versions, (2, 3))


def test_every_refusal_is_explained_to_the_caller_and_an_unknown_one_named() -> None:
    for code, reason in REASONS.items():
        with pytest.raises(HandshakeError) as caught:
            caller().receive(refusal(code))
        assert caught.value.code == code and str(caught.value).startswith(reason)
    with pytest.raises(HandshakeError, match="77"):
        caller().receive(refusal(77))


@given(st.sampled_from((1, 3)), st.sampled_from((1, 3)))
def test_the_faster_tags_are_used_where_both_can_make_them(theirs: int, mine: int) -> None:
    one = Caller(Party("c", 1, (SECRET,)), PEER, 2, MINE(), theirs)
    other = Answerer(Party("c", 2, (SECRET,)), PEER, NODES.__contains__, THEIRS, mine)
    sessions = converse(one, other)
    assert {session.tags for session in sessions} == {GMAC_TAGS if theirs == mine == 3 else HMAC_TAGS}


@pytest.mark.parametrize("where", ["hello", "challenge"])
def test_nobody_talks_two_nodes_into_other_tags(where: str) -> None:
    one = Caller(Party("c", 1, (SECRET,)), PEER, 2, MINE(), 3)
    other = Answerer(Party("c", 2, (SECRET,)), PEER, NODES.__contains__, THEIRS, 3)
    hello = bytearray(one.hello())
    offered = hello[7]
    assert offered & 3 == 3
    hello[7] = offered & ~3 | HMAC_TAGS if where == "hello" else offered
    challenge = bytearray(other.receive(bytes(hello)))
    challenge[1] = challenge[1] & ~3 | HMAC_TAGS
    with pytest.raises(HandshakeError) as caught:
        other.receive(one.receive(bytes(challenge)))
    assert caught.value.code == REFUSED_PROOF


@pytest.mark.parametrize("chosen", [0, GMAC_TAGS, 3, 4])
def test_tags_that_were_not_offered_are_refused(chosen: int) -> None:
    one = caller()
    challenge = bytearray(answerer().receive(one.hello()))
    challenge[1] = chosen
    with pytest.raises(HandshakeError, match="not offered"):
        one.receive(bytes(challenge))


def test_the_list_of_secrets_is_bounded() -> None:
    for secrets in ((), (SECRET,) * (SECRETS_MAX + 1)):
        with pytest.raises(ValueError, match="accepted: 1 to 4"):
            caller(secrets=secrets)
    for secrets in ((), (SECRET,) * (ACCEPTED_MAX + 1)):
        with pytest.raises(ValueError, match=f"accepted: 1 to {ACCEPTED_MAX}"):
            answerer(secrets=secrets)
    converse(caller(secrets=(OTHER, THIRD, b"x" * 32, SECRET)), answerer())


def test_both_know_which_secret_was_proved() -> None:
    """V9: by it a node knows whom it speaks with."""
    many = (*(number.to_bytes(32, "big") for number in range(1, ACCEPTED_MAX)), OTHER)
    one, other = caller(secrets=(THIRD, OTHER)), answerer(secrets=many)
    converse(one, other)
    assert one.session is not None
    assert other.session is not None
    assert one.session.secret == other.session.secret == OTHER
    assert OTHER.hex() not in repr(other.session)
    assert repr(OTHER) not in repr(other.session)


# -- attacks -----------------------------------------------------------------------------------------------


def recorded() -> tuple[bytes, bytes, bytes, bytes]:
    """All messages of a good conversation."""
    one, other = caller(), answerer()
    hello = one.hello()
    challenge = other.receive(hello)
    proof = one.receive(challenge)
    return hello, challenge, proof, other.receive(proof)


def test_a_recorded_conversation_is_worth_nothing_against_either_side() -> None:
    hello, challenge, proof, welcome = recorded()
    other = answerer()
    other.receive(hello)
    with pytest.raises(HandshakeError) as caught:
        other.receive(proof)
    assert caught.value.code == REFUSED_PROOF and other.session is None
    one = caller()
    one.hello()
    one.receive(challenge)
    with pytest.raises(HandshakeError, match="does not know the secret"):
        one.receive(welcome)
    assert one.session is None


def test_messages_sent_back_to_their_author_prove_nothing() -> None:
    # Node 1 calls node 2; whoever answers in its place calls node 1 and passes on what that says.
    one, door = caller(1, 2), answerer(1)
    challenge = bytearray(door.receive(caller(2, 1).hello()))
    challenge[2:4] = (2).to_bytes(2, "big")
    proof = one.receive(bytes(challenge))
    with pytest.raises(HandshakeError) as caught:
        door.receive(proof)
    assert caught.value.code == REFUSED_PROOF
    for echoed in (one.hello(), proof, proof[2:34]):
        with pytest.raises(HandshakeError):
            one.receive(echoed)
    assert one.session is None


def test_a_challenge_with_the_caller_s_own_id_is_refused() -> None:
    one = caller(1, 0, role=PEER)
    challenge = bytearray(answerer(2).receive(caller(1, 2).hello()))
    challenge[2:4] = (1).to_bytes(2, "big")
    with pytest.raises(HandshakeError, match="itself"):
        one.receive(bytes(challenge))


def test_the_proof_of_one_role_is_worth_nothing_in_the_other() -> None:
    # Even if somebody gave both roles the same secret: the hello's role is changed on the way.
    one, other = caller(CLIENT_NODE, 0, role=CLIENT), answerer(role=PEER)
    hello = bytearray(one.hello())
    hello[6] = PEER
    hello[10:12] = (2).to_bytes(2, "big")
    with pytest.raises(HandshakeError) as caught:
        other.receive(one.receive(other.receive(bytes(hello))))
    assert caught.value.code == REFUSED_PROOF


@given(st.sampled_from(NODES), st.sampled_from(NODES), st.sampled_from(NODES), st.booleans(), st.booleans())
def test_who_passes_messages_on_to_another_node_than_was_meant_gets_nobody_in(
    node: int, to: int, reached: int, hello_changed: bool, challenge_changed: bool
) -> None:
    if len({node, to, reached}) < 3:
        return
    one, other = caller(node, to), answerer(reached)
    hello = bytearray(one.hello())
    if hello_changed:
        hello[10:12] = reached.to_bytes(2, "big")
    challenge = bytearray(other.receive(bytes(hello)))
    if challenge_changed:
        challenge[2:4] = to.to_bytes(2, "big")
    with pytest.raises(HandshakeError):
        other.receive(one.receive(bytes(challenge)))
    assert one.session is None and other.session is None


@given(st.data())
@settings(max_examples=300)
def test_any_change_on_the_way_of_any_message_ends_the_handshake(data: st.DataObject) -> None:
    """Flipped, cut off or prolonged: one side at least refuses, and nobody has a session that differs."""
    at = data.draw(st.integers(0, 3), "message")
    kind = data.draw(st.sampled_from(("flip", "cut", "append")))

    def spoil(message: bytes) -> bytes:
        if kind == "cut":
            return message[: data.draw(st.integers(0, len(message) - 1))]
        if kind == "append":
            return message + data.draw(st.binary(min_size=1, max_size=40))
        spoiled = bytearray(message)
        spoiled[data.draw(st.integers(0, len(message) - 1))] ^= data.draw(st.integers(1, 255))
        return bytes(spoiled)

    one, other = caller(), answerer()
    message, number = one.hello(), 0
    try:
        while message:
            if number == at:
                message = spoil(message)
            message = (other, one)[number % 2].receive(message)
            number += 1
    except HandshakeError:
        pass
    assert one.session is None
    # Who answers is done once it has sent the last message.
    assert other.session is None or at == 3


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=3))
@settings(max_examples=400)
def test_whatever_a_stranger_says_is_refused_with_nothing_but_the_one_error(messages: list[bytes]) -> None:
    for machine in (answerer(), answerer(role=CLIENT), caller()):
        for message in messages:
            try:
                machine.receive(message)
            except HandshakeError:
                break
        assert machine.session is None


@given(st.binary(max_size=200))
@settings(max_examples=300)
def test_whatever_a_stranger_proves_after_a_good_hello_is_refused(message: bytes) -> None:
    other = answerer()
    other.receive(caller().hello())
    with pytest.raises(HandshakeError):
        other.receive(message)
    assert other.session is None


def test_a_machine_takes_nothing_after_its_end_and_shows_no_secret() -> None:
    one, other = caller(), answerer()
    sessions = converse(one, other)
    for machine in (one, other):
        with pytest.raises(HandshakeError, match="after its end"):
            machine.receive(b"")
    shown = repr(Party("c", 1, (SECRET,))) + repr(sessions)
    assert "ssss" not in shown and sessions[0].caller_key.hex() not in shown
    assert repr(sessions[0].caller_key) not in shown


# -- frames ------------------------------------------------------------------------------------------------


def frames_of(data: bytes) -> list[bytes]:
    return [bytes(frame) for frame in wire.FrameSplitter().feed(data)]


WAYS = st.sampled_from((HMAC_TAGS, GMAC_TAGS))


def test_both_ways_of_making_tags_are_there_for_these_tests() -> None:
    assert possible_tags() == HMAC_TAGS | GMAC_TAGS


@given(st.lists(st.one_of(st.binary(max_size=50), st.none()), max_size=20), WAYS)
def test_frames_arrive_as_they_were_sent(messages: list[bytes | None], tags: int) -> None:
    sealer, opener = FrameSealer(b"k" * 32, tags), FrameOpener(b"k" * 32, tags)
    data = b"".join(sealer.close(sealer.nothing()) if one is None else sealer.seal(one) for one in messages)
    opened = [bytes(opener.open(memoryview(frame))) for frame in frames_of(data)]
    assert opened == [b"" if one is None else msgspec.msgpack.encode(one) for one in messages]


@pytest.mark.parametrize("size", [0, 1, 2000, 2022, 2023, 2024, 4070, 4071, 100_000])
def test_a_tag_is_a_cut_hmac_sha256_of_number_and_message(size: int) -> None:
    key = bytes(range(32))
    sealer = FrameSealer(key)
    sealer.seal(b"first")
    frame = sealer.seal(bytes(size))[4:]
    assert frame[16:24] == (1).to_bytes(8, "big")
    assert frame[:16] == hmac.digest(key, frame[16:], "sha256")[:16]


def test_a_frame_counts_from_when_it_is_closed_and_one_that_never_is_leaves_no_gap() -> None:
    sealer, opener = FrameSealer(b"k" * 32), FrameOpener(b"k" * 32)
    late, _dropped = sealer.encode("late"), sealer.encode("dropped")
    sent = [sealer.seal("first"), sealer.close(late)]
    opened = [bytes(opener.open(memoryview(frame)[4:])) for frame in sent]
    assert opened == [msgspec.msgpack.encode("first"), msgspec.msgpack.encode("late")]


@given(st.data(), WAYS)
@settings(max_examples=300)
def test_v6_a_frame_that_was_changed_repeated_left_out_or_moved_is_refused(
    data: st.DataObject, tags: int
) -> None:
    sealer, opener = FrameSealer(b"k" * 32, tags), FrameOpener(b"k" * 32, tags)
    frames = [sealer.seal(one)[4:] for one in (b"a", b"bb", b"ccc")]
    what = data.draw(st.sampled_from(("flip", "cut", "repeat", "skip", "key")))
    good = data.draw(st.integers(0, 1))
    for frame in frames[:good]:
        opener.open(memoryview(frame))
    frame = frames[good]
    if what == "flip":
        spoiled = bytearray(frame)
        spoiled[data.draw(st.integers(0, len(frame) - 1))] ^= data.draw(st.integers(1, 255))
        frame = bytes(spoiled)
    elif what == "cut":
        frame = frame[: data.draw(st.integers(0, len(frame) - 1))]
    elif what == "repeat":
        opener.open(memoryview(frame))
    elif what == "skip":
        frame = frames[good + 1]
    else:
        other = FrameSealer(b"j" * 32, tags)
        frame = [other.seal(one)[4:] for one in (b"a", b"bb")][good]
    with pytest.raises(wire.WireError):
        opener.open(memoryview(frame))
