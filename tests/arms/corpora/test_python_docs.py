import sys

from arms.corpora.python_docs import MIN_WORDS, docstrings, python_docs_corpus
from arms.corpora.reader import read_dataset
from arms.settings import DatasetSettings


def test_the_corpus_is_large_ordered_distinct_and_the_same_each_time():
    corpus = python_docs_corpus()
    documents = list(corpus)
    ids = [document.doc_id for document in documents]
    assert 1_500 < len(documents) == len(corpus) < 5_000
    assert ids == sorted(set(ids))
    assert len({document.text for document in documents}) == len(documents)
    assert all(len(document.text.split()) >= MIN_WORDS for document in documents)
    assert {"topics/for", "json.load", "subprocess.Popen"} <= set(ids)
    assert corpus.fingerprint == python_docs_corpus("again").fingerprint


def test_tests_and_private_parts_are_left_out():
    ids = [document.doc_id for document in python_docs_corpus()]
    assert not [i for i in ids if i.startswith(("test.", "idlelib.", "lib2to3.", "site-packages"))]
    assert not [i for i in ids if any(part.startswith("_") for part in i.split("."))]


def test_sources_are_parsed_and_never_run(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text('"""The package."""\nraise SystemExit\n')
    (tmp_path / "package" / "deep.py").write_text(
        'class A:\n    """An A."""\n    async def run(self):\n        """Run\n        it."""\n'
        '    def _hidden(self):\n        """No."""\n'
        "def plain(): pass\n"
    )
    (tmp_path / "broken.py").write_text("def (:\n")
    (tmp_path / "_private.py").write_text('"""No."""\n')
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "one.py").write_text('"""No."""\n')
    found = [(d.doc_id, d.text, d.metadata["kind"]) for d in docstrings(tmp_path)]
    assert found == [
        ("package", "The package.", "module"),
        ("package.deep.A", "An A.", "class"),
        ("package.deep.A.run", "Run\nit.", "function"),
    ]
    assert "package" not in sys.modules


def test_reading_needs_no_path_and_makes_queries():
    dataset = read_dataset(DatasetSettings(format="python-docs"))
    assert dataset.name == "python-docs"
    assert len(dataset.queries) == 500
    assert {query.metadata["kind"] for query in dataset.queries} == {"sentence", "keywords"}
