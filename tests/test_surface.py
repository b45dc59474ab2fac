"""The public names: a change here is a change for users and belongs in the changelog."""

import inspect

import router
from arms.catalogue import KINDS


def parameters(function) -> list[str]:
    return list(inspect.signature(function).parameters)


def test_router_package_exports():
    assert set(router.__all__) == {"Choice", "Router", "SearchResult"}


def test_router_methods_take_what_the_documentation_says():
    assert parameters(router.Router.load)[:1] == ["folder"]
    assert parameters(router.Router.select)[:3] == ["self", "query", "lam"]
    assert parameters(router.Router.select_many)[:3] == ["self", "queries", "lam"]
    assert parameters(router.Router.search)[:4] == ["self", "query", "lam", "k"]
    assert router.choice.DEFAULT_LAM == 0.1
    for method in (router.Router.select, router.Router.select_many, router.Router.search):
        wishes = ["max_latency_ms", "max_quality_loss"]
        assert [name for name in parameters(method) if name in wishes] == wishes
    assert parameters(router.Router.search)[-1] == "without"


def test_catalogue_of_arms():
    assert list(KINDS) == [
        "bm25", "text_dense", "text_late", "text_rerank", "mm_dense", "mm_late", "mm_rerank",
        "fusion", "run_file", "none",
    ]  # fmt: skip


def test_every_arm_module_defines_its_arm():
    from arms.arm import Arm
    from arms.catalogue import arm_class

    for name in KINDS:
        assert issubclass(arm_class(name), Arm)
        assert arm_class(name).__module__ == KINDS[name].module
