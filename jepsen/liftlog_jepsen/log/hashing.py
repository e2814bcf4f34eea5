"""XXH64, Spark's `xxhash64` of texts, in plain Python: for the few names of a task, not for every row."""

from __future__ import annotations

_MASK = 2**64 - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
SEED = 42
"""Spark's."""


def text_number(text: str, seed: int = SEED) -> int:
    """`xxhash64(text)`, as a signed number; of several columns, each one's result is the next one's seed."""
    number = _xxh64(text.encode(), seed & _MASK)
    return number - 2**64 if number >= 2**63 else number


def _rotated(number: int, bits: int) -> int:
    return ((number << bits) | (number >> (64 - bits))) & _MASK


def _round(lane: int, word: int) -> int:
    return _rotated((lane + word * _P2) & _MASK, 31) * _P1 & _MASK


def _xxh64(data: bytes, seed: int) -> int:
    place, size = 0, len(data)
    if size >= 32:
        lanes = [(seed + _P1 + _P2) & _MASK, (seed + _P2) & _MASK, seed, (seed - _P1) & _MASK]
        while place <= size - 32:
            for lane in range(4):
                lanes[lane] = _round(lanes[lane], int.from_bytes(data[place : place + 8], "little"))
                place += 8
        number = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            number = ((number ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        number = (seed + _P5) & _MASK
    number = (number + size) & _MASK
    while place <= size - 8:
        number ^= _round(0, int.from_bytes(data[place : place + 8], "little"))
        number = (_rotated(number, 27) * _P1 + _P4) & _MASK
        place += 8
    if place <= size - 4:
        number ^= int.from_bytes(data[place : place + 4], "little") * _P1 & _MASK
        number = (_rotated(number, 23) * _P2 + _P3) & _MASK
        place += 4
    for byte in data[place:]:
        number = _rotated(number ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    number = (number ^ (number >> 33)) * _P2 & _MASK
    number = (number ^ (number >> 29)) * _P3 & _MASK
    return number ^ (number >> 32)
