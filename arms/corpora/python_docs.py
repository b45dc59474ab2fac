"""The built-in corpus: the documentation that ships with Python, read where it is installed.

Documents are the topics of ``help()`` (``pydoc_data.topics``) and the docstrings of the standard
library's public modules, classes and functions. Sources are parsed, never imported, so nothing of
the library runs. What is there depends on the Python version; for one version the documents and
their order never change. Python built without its sources yields the topics alone.
"""

from __future__ import annotations

import ast
import inspect
import sysconfig
import warnings
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from arms.corpora.corpus import MemoryCorpus
from arms.errors import CorpusError
from arms.records import Document

MIN_WORDS = 20
"""A shorter docstring says too little to be found by."""

_NOT_DOCUMENTATION = "antigravity ensurepip idlelib lib2to3 pydoc_data test tests this turtledemo"
_LEFT_OUT = frozenset(_NOT_DOCUMENTATION.split())


def python_docs_corpus(name: str = "python-docs") -> MemoryCorpus:
    """Return Python's documentation as a corpus; documents are ordered by id.

    Ids are ``topics/<topic>`` and dotted names such as ``json.decoder.JSONDecoder.decode``; the
    title is the id without ``topics/``; ``metadata.kind`` is topic, module, class or function.
    A text that occurs twice stands under the first id alone.

    Raises:
        CorpusError: this Python has neither topics nor sources.
    """
    documents = _documents(Path(sysconfig.get_path("stdlib")))
    if not documents:
        raise CorpusError("this Python ships neither its help topics nor its library's sources")
    return MemoryCorpus(name, documents, language="english")


@lru_cache(maxsize=1)
def _documents(library: Path) -> tuple[Document, ...]:
    found: dict[str, Document] = {}
    for document in (*_topics(), *docstrings(library)):
        if len(document.text.split()) >= MIN_WORDS:
            found.setdefault(document.doc_id, document)
    ordered = sorted(found.values(), key=lambda document: document.doc_id)
    seen: set[str] = set()
    return tuple(
        document
        for document in ordered
        if not (document.text in seen or seen.add(document.text))  # type: ignore[func-returns-value]
    )


def _topics() -> Iterator[Document]:
    try:
        from pydoc_data.topics import topics
    except ImportError:
        return
    for topic, text in topics.items():
        yield Document(f"topics/{topic}", topic, text.strip(), {"kind": "topic"})


def docstrings(library: Path) -> Iterator[Document]:
    """Yield the docstrings of the public modules below ``library``, by path, then by line."""
    for path in sorted(library.rglob("*.py")):
        parts = path.relative_to(library).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        if parts and not any(_is_left_out(part) for part in parts):
            yield from _module_docstrings(path, ".".join(parts))


def _is_left_out(part: str) -> bool:
    return part in _LEFT_OUT or part.startswith("_") or not part.isidentifier()


def _module_docstrings(path: Path, module: str) -> Iterator[Document]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old escapes in sources that aren't ours
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError, RecursionError):
        return
    yield from _node_docstrings(tree, module, "module")


def _node_docstrings(
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, name: str, kind: str
) -> Iterator[Document]:
    docstring = ast.get_docstring(node, clean=False)
    if docstring:
        text = inspect.cleandoc(docstring).encode("utf-8", "replace").decode("utf-8")
        yield Document(name, name, text, {"kind": kind})
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return
    for child in node.body:
        if isinstance(child, ast.ClassDef):
            child_kind = "class"
        elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            child_kind = "function"
        else:
            continue
        if not child.name.startswith("_"):
            yield from _node_docstrings(child, f"{name}.{child.name}", child_kind)
