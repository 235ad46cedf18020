"""Checks of lines: whatever happens to one of them is noticed."""

from hypothesis import given
from hypothesis import strategies as st

from dynamite_fl.training.line_checks import check_of, find_broken, with_check


def chained(count: int, first: str = "run") -> list[str]:
    lines, previous = list[str](), first
    for number in range(count):
        line, previous = with_check(f'{{"round": {number}, "cost": {number**0.5}}}\n', previous)
        lines.append(line)
    return lines


def test_sound_lines_are_found_sound() -> None:
    lines = chained(4)
    for first in ("run", None):
        assert list(find_broken(lines, first, needed=True)) == [False] * 4
    assert list(find_broken(lines, "another run", needed=True)) == [True, False, False, False]
    assert check_of(lines[0]) != check_of(lines[1])


def test_lines_without_a_check() -> None:
    lines = ['{"round": 1}\n']
    assert list(find_broken(lines, None, needed=False)) == [False]
    assert list(find_broken(lines, None, needed=True)) == [True]
    assert check_of(lines[0]) is None


@given(st.data())
def test_any_bit_that_flips_is_found(data: st.DataObject) -> None:
    content = bytearray("".join(chained(3)).encode())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    lines = bytes(content).decode(errors="replace").split("\n")
    broken = find_broken([f"{line}\n" for line in lines[:-1]], "run", needed=True)
    assert any(broken) or lines[-1]  # a lost end of line leaves a line that is cut off


@given(st.permutations(range(4)), st.integers(0, 4))
def test_lines_lost_or_in_another_order_are_found(order: list[int], kept: int) -> None:
    lines = chained(4)
    given_lines = [lines[place] for place in order][:kept]
    broken = any(find_broken(given_lines, "run", needed=True))
    assert broken == (given_lines != lines[:kept])
