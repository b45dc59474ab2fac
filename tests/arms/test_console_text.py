"""Text on consoles of any encoding."""

import io

import pytest

from arms.console_text import write_any_text

TEXT = "λ = 0.1 → 0.3 — “näher” … 0 ≤ x × 2 日本 \udcff│"


@pytest.mark.parametrize(
    ("encoding", "written"),
    [
        ("utf-8", "λ = 0.1 → 0.3 — “näher” … 0 ≤ x × 2 日本 \\xff│"),
        ("cp1252", "lambda = 0.1 -> 0.3 — “näher” … 0 <= x × 2 \\u65e5\\u672c \\xff|"),
        ("latin-1", 'lambda = 0.1 -> 0.3 - "näher" ... 0 <= x × 2 \\u65e5\\u672c \\xff|'),
        ("ascii", 'lambda = 0.1 -> 0.3 - "naher" ... 0 <= x x 2 \\u65e5\\u672c \\xff|'),
    ],
)
def test_what_an_encoding_lacks_is_written_readably(encoding, written):
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    write_any_text([stream, io.StringIO()])
    stream.write(TEXT)
    stream.flush()
    assert raw.getvalue().decode(encoding) == written
