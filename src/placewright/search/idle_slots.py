"""The idle time of one device, into which ops are inserted."""

from __future__ import annotations

from bisect import bisect_right

#: Slots of a chunk are looked at one by one, chunks without a slot long enough are passed over.
_CHUNK = 128
_FOREVER = 2**63


class IdleSlots:
    """The slots between the ops of a device, from 0 to forever, in chunks of neighbours.

    There is one before each op and one after the last; those of no length stay, for ops that take no time.
    """

    def __init__(self) -> None:
        self._begins: list[list[int]] = [[0]]
        self._ends: list[list[int]] = [[_FOREVER]]
        self._first_begin = [0]
        self._longest = [_FOREVER]

    def earliest(self, ready: int, duration: int) -> int:
        """The first moment from `ready` on at which an op of that duration fits."""
        chunk = bisect_right(self._first_begin, ready) - 1
        start = self._first_fit(chunk, ready, duration)
        while start < 0:
            chunk += 1
            if self._longest[chunk] >= duration:
                start = self._first_fit(chunk, ready, duration)
        return start

    def _first_fit(self, chunk: int, ready: int, duration: int) -> int:
        """-1 when no slot of the chunk serves."""
        begins, ends = self._begins[chunk], self._ends[chunk]
        later = bisect_right(begins, ready)
        if later and ready + duration <= ends[later - 1]:
            return ready
        for begin, end in zip(begins[later:], ends[later:], strict=True):
            if begin + duration <= end:
                return begin
        return -1

    def occupy(self, start: int, duration: int) -> None:
        """Takes what `earliest` found."""
        chunk = bisect_right(self._first_begin, start) - 1
        begins, ends = self._begins[chunk], self._ends[chunk]
        slot = bisect_right(begins, start) - 1
        assert start + duration <= ends[slot]
        begins.insert(slot + 1, start + duration)
        ends.insert(slot, start)
        if len(begins) > _CHUNK:
            self._split(chunk)
        else:
            self._longest[chunk] = _longest(begins, ends)

    def _split(self, chunk: int) -> None:
        half = _CHUNK // 2
        for lists in (self._begins, self._ends):
            whole = lists[chunk]
            lists[chunk : chunk + 1] = [whole[:half], whole[half:]]
        both = range(chunk, chunk + 2)
        self._first_begin[chunk : chunk + 1] = [self._begins[part][0] for part in both]
        self._longest[chunk : chunk + 1] = [_longest(self._begins[part], self._ends[part]) for part in both]


def _longest(begins: list[int], ends: list[int]) -> int:
    return max(end - begin for begin, end in zip(begins, ends, strict=True))
