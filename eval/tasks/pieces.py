"""A text cut into pieces that pages are made of."""

from __future__ import annotations

from collections.abc import Iterator

PIECE_WORDS, PIECE_CHARACTERS = 100, 1000


def pieces_of(text: str) -> Iterator[str]:
    """The text in pieces of at most about 100 words: paragraphs, long ones cut by lines, long lines by words.

    Nothing is lost but white space between pieces. A text without spaces is cut by letters.
    """
    held: list[str] = []
    words = length = 0
    for line in _lines(text):
        amount, size = len(line.split()), len(line) + 1
        if held and (not amount or words + amount > PIECE_WORDS or length + size > PIECE_CHARACTERS):
            yield "\n".join(held)
            held, words, length = [], 0, 0
        if amount:
            held.append(line)
            words, length = words + amount, length + size
    if held:
        yield "\n".join(held)


def _lines(text: str) -> Iterator[str]:
    """Lines, and parts of those that are longer than a piece."""
    start = 0
    while start <= len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        line, start = text[start:end], end + 1
        if len(line) <= PIECE_CHARACTERS and len(line.split()) <= PIECE_WORDS:
            yield line
            continue
        held: list[str] = []
        length = 0
        for word in line.split():
            for at in range(0, len(word), PIECE_CHARACTERS):
                part = word[at : at + PIECE_CHARACTERS]
                if held and (len(held) == PIECE_WORDS or length + len(part) > PIECE_CHARACTERS):
                    yield " ".join(held)
                    held, length = [], 0
                held.append(part)
                length += len(part) + 1
        yield " ".join(held)
