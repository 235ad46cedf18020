from hypothesis import given
from hypothesis import strategies as st

from dynamite_fl.flower.plain_text import plain


@given(st.text(max_size=2000))
def test_a_text_becomes_one_short_line(text: str) -> None:
    line = plain(text)
    assert len(line.splitlines()) <= 1
    assert len(line) <= 10 * 300 + 30  # escapes have at most ten characters
    assert all(c.isprintable() for c in line)


def test_ordinary_texts_stay() -> None:
    assert plain("Größe 3 + 4: it's «fine»") == "Größe 3 + 4: it's «fine»"
