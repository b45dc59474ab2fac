"""Views of a corpus: whole documents, paragraphs of at most 100 words, or page pictures.

A *word* is a run of characters without white space; a Chinese or Japanese character is a word of
its own, with the punctuation after it; of Thai, Lao, Khmer and Burmese, four letters with their
marks count as one. A *sentence* ends

- after ``. ! ? … ؟ ۔ । ॥`` and closing quotes or brackets, where white space follows;
- after ``。 ！ ？ ။ ។ ።``, whether or not white space follows;
- at an empty line.

A full stop ends no sentence before a lower-case letter (unless the whole text is lower case, or the
stop stands alone as in older collections), after an English or German abbreviation, an initial, or
a number of one or two digits (``3. Oktober``). Missing a border merges two sentences, which only
makes windows shorter than they could be; nothing is ever lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from arms.corpora.corpus import Corpus
from arms.records import Document, Granularity, Unit
from arms.words import CLUSTERS_A_WORD, south_east_asian

PARAGRAPH_WORDS = 100

CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_CJK_MARKS = "\u3001-\u3003\u3008-\u3011\u3014-\u301f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40"
_CJK_MARKS += "\uff5b-\uff65"
_LETTERS, _MARKS = south_east_asian()
_WORD = re.compile(
    rf"[{CJK}][{_CJK_MARKS}]*"
    rf"|[^\s{CJK}{_CJK_MARKS}{_LETTERS}]+[{_CJK_MARKS}]*"
    rf"|(?:[{_LETTERS}][{_MARKS}]*){{1,{CLUSTERS_A_WORD}}}[^\w\s]*"
    rf"|[{_CJK_MARKS}]+"
)
_STOPS = ".!?…؟۔।॥"
_BORDER = re.compile(
    rf"(?<![{_STOPS}])(?P<stop>[{_STOPS}]+)[\"'”’»“›)\]]*(?=\s+(?P<next>\S))"
    rf"|[。！？｡။។៕።][{_CJK_MARKS}]*"
    r"|\n[^\S\n]*\n"
)
_OPENING = "\"'“„»«‹([¿¡"
_LONGEST_ABBREVIATION = 12
_SHORT_FORMS = (
    "adj al approx apr aug bd bspw bzgl bzw ca cf corp dec dept dgl dr ed eds engl eq etc ev evtl "
    "feb fig figs ggf gov hr hrsg inc incl inkl jan jhdt jr jul jun lt ltd mfg min mio mrd mr mrs "
    "ms mt nov nr oct okt pp prof ref refs resp rev sen sep sept sog sr st tel univ usf usw vgl "
    "viz vol vs zb zzgl"
)
_ABBREVIATIONS = frozenset(_SHORT_FORMS.split())
_ABBREVIATIONS_BEFORE_NUMBERS = frozenset(("art", "ch", "no", "op", "par", "sec", "sect"))
"""Common words too, so abbreviations only where a digit follows."""

Span = tuple[int, int]


def units(corpus: Corpus, granularity: Granularity) -> Iterator[Unit]:
    """Yield the corpus's units, streamed, in document order; a document's units are contiguous.

    ``document``: one unit per document, title and text; its id is the document's.
    ``paragraph``: windows of at most 100 words, cut at sentence borders, each with the document's
    title and a space before it; ids are ``<doc_id>#0``, ``<doc_id>#1``, … The title is context and
    doesn't count towards the 100 words. Every document gives at least one unit.
    ``page``: one unit per page picture, without text; its id is the document's where that has one
    page, else ``<doc_id>#p1``, ``<doc_id>#p2``, … A document without pictures gives none.

    Raises:
        ValueError: the granularity is unknown.
    """
    if granularity == "document":
        return (Unit(document.doc_id, document.doc_id, document.full_text) for document in corpus)
    if granularity == "paragraph":
        return (unit for document in corpus for unit in paragraphs(document))
    if granularity == "page":
        return (unit for document in corpus for unit in pages(document))
    raise ValueError(f"granularity must be document, paragraph or page, got '{granularity}'")


def pages(document: Document) -> Iterator[Unit]:
    """Yield the page units of one document, in reading order; none where it has no picture."""
    if len(document.pages) == 1:
        yield Unit(document.doc_id, document.doc_id, "", document.pages[0])
        return
    for number, page in enumerate(document.pages, start=1):
        yield Unit(f"{document.doc_id}#p{number}", document.doc_id, "", page)


def paragraphs(document: Document) -> Iterator[Unit]:
    """Yield the paragraph units of one document, in reading order; at least one."""
    prefix = f"{document.title} " if document.title else ""
    number = -1
    for number, window in enumerate(windows(document.text)):
        yield Unit(f"{document.doc_id}#{number}", document.doc_id, prefix + window)
    if number < 0:
        yield Unit(f"{document.doc_id}#0", document.doc_id, document.full_text)


def windows(text: str, max_words: int = PARAGRAPH_WORDS) -> Iterator[str]:
    """Yield consecutive parts of the text: whole sentences, as many as fit in ``max_words``.

    A longer sentence is cut as :func:`pieces` says. White space inside a window is kept as it is.
    No word is lost, repeated or moved; a text without words yields nothing.
    """
    if len(words(text)) <= max_words:
        if text.strip():
            yield text.strip()
        return
    begin = end = filled = 0
    for piece_begin, piece_end, n_words in pieces(text, max_words):
        if filled + n_words > max_words:
            yield text[begin:end].strip()
            filled = 0
        if not filled:
            begin = piece_begin
        end = piece_end
        filled += n_words
    yield text[begin:end].strip()


def pieces(text: str, max_words: int) -> Iterator[tuple[int, int, int]]:
    """Yield ``(begin, end, number of words)`` of each sentence, in order, 1 to ``max_words`` words.

    A longer sentence is taken line by line (rows of a table), and a longer line, such as a
    transcript without punctuation, is cut after every ``max_words`` words.
    """
    for sentence in sentence_spans(text):
        for begin, end in _fitting(text, sentence, max_words):
            n_words = len(words(text[begin:end]))
            if n_words:
                yield begin, end, n_words


def words(text: str) -> list[str]:
    """Return the text's words in order."""
    return text.split() if text.isascii() else _WORD.findall(text)


def sentence_spans(text: str) -> Iterator[Span]:
    """Yield ``(begin, end)`` of the sentences; they cover the text without gap or overlap."""
    begin = 0
    all_lower_case = text.islower()
    for match in _BORDER.finditer(text):
        if match["stop"] is None or _ends_sentence(text, match, all_lower_case):
            yield begin, match.end()
            begin = match.end()
    if begin < len(text):
        yield begin, len(text)


def _ends_sentence(text: str, match: re.Match[str], all_lower_case: bool) -> bool:
    place = match.start()
    before = text[max(0, place - _LONGEST_ABBREVIATION) : place]
    if not before or before[-1].isspace():
        return True
    if match["next"].islower() and not all_lower_case:
        return False
    return match["stop"] != "." or not _is_abbreviation(before, match["next"])


def _is_abbreviation(before: str, following: str) -> bool:
    """Whether the word that the full stop ends is an abbreviation, initial or ordinal number."""
    word = before.split()[-1].lstrip(_OPENING).casefold()
    if len(word) == 1 or (len(word) == 2 and word.isdigit()):
        return word.isalnum()
    if following.isdigit() and word in _ABBREVIATIONS_BEFORE_NUMBERS:
        return True
    return word in _ABBREVIATIONS or ("." in word and all(len(p) <= 2 for p in word.split(".")))


def _fitting(text: str, sentence: Span, max_words: int) -> Iterator[Span]:
    """Cut one sentence into lines, then lines into runs of words, only as far as needed."""
    if len(words(text[slice(*sentence)])) <= max_words:
        yield sentence
        return
    begin = sentence[0]
    for line in text[slice(*sentence)].splitlines(keepends=True):
        yield from _word_runs(text, (begin, begin + len(line)), max_words)
        begin += len(line)


def _word_runs(text: str, line: Span, max_words: int) -> Iterator[Span]:
    begin = line[0]
    n_words = 0
    for n_words, word in enumerate(_WORD.finditer(text, *line), start=1):
        if n_words % max_words == 0:
            yield begin, word.end()
            begin = word.end()
    if n_words % max_words:
        yield begin, line[1]
