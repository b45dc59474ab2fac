"""For all tests: which files begin first, and no deadline for what Hypothesis draws."""

import pytest
from hypothesis import settings

# Under load an example may be slow for no reason of its own.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")

FIRST = (
    "tests/test_demo.py",
    "tests/test_readme.py",
    "tests/test_surface.py",
    "tests/training/test_train.py",
    "tests/arms/test_vision_pages.py",
    "tests/test_labels_only.py",
    "tests/training/test_policy_learners.py",
    "tests/router/test_onnx.py",
)
"""Files that take longest: one that began last would be waited for.

Of two workers the one with the demo is given the third file at once, to do after it: a short one.
"""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, then go on in the usual order."""
    place = {name: number for number, name in enumerate(FIRST)}
    items.sort(key=lambda item: place.get(item.nodeid.partition("::")[0], len(place)))
