"""A small table in HTML: how objects show themselves in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_table(
    title: str, header: Sequence[str], rows: Iterable[Sequence[object]], call_next: str = ""
) -> str:
    """Return a table under ``title``; every cell is escaped.

    ``call_next`` is code that the reader may want to run next.
    """
    head = "".join(f"<th>{escape(str(name))}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    shown = f"<p>next: <code>{escape(call_next)}</code></p>" if call_next else ""
    thead = f"<thead><tr>{head}</tr></thead>" if any(header) else ""
    return f"<b>{escape(title)}</b><table>{thead}<tbody>{body}</tbody></table>{shown}"
