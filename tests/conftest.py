"""For all tests: which files begin first, and no deadline for what Hypothesis draws."""

import pytest
from hypothesis import settings

# Under load an example may be slow for no reason of its own.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")

LONGEST_FIRST = ("tests/test_readme.py",)
"""A worker takes one file after another; a long one that began last would be waited for."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, then go on in the usual order."""
    place = {name: number for number, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: place.get(item.nodeid.partition("::")[0], len(place)))
