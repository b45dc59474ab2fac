import sys
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from oracle.hardware import fixed_threads, hardware, hardware_name, resolve_threads


def test_threads_are_those_set_or_those_of_the_environment_or_every_core(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert resolve_threads(5) == 5
    assert resolve_threads(None) == 3
    for unusable in ("", "0", "many"):
        monkeypatch.setenv("OMP_NUM_THREADS", unusable)
        assert resolve_threads(None) == hardware()["cores"]


def test_every_back_end_is_held_to_the_threads_and_let_go_again(monkeypatch):
    state = {"torch": 8, "numba": 8}

    @contextmanager
    def limits(threads):  # as threadpoolctl's: it changes what torch reports
        before, state["torch"] = state["torch"], threads
        try:
            yield
        finally:
            state["torch"] = before

    def setter(name):
        return lambda threads: state.update({name: threads})

    torch = SimpleNamespace(get_num_threads=lambda: state["torch"], set_num_threads=setter("torch"))
    numba = SimpleNamespace(
        get_num_threads=lambda: state["numba"],
        set_num_threads=setter("numba"),
        config=SimpleNamespace(NUMBA_NUM_THREADS=2),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "numba", numba)
    monkeypatch.setitem(sys.modules, "threadpoolctl", SimpleNamespace(threadpool_limits=limits))
    with pytest.raises(KeyError), fixed_threads(4):
        assert state == {"torch": 4, "numba": 2}
        raise KeyError
    assert state == {"torch": 8, "numba": 8}


def test_hardware_is_told():
    found = hardware()
    assert found["cores"] >= 1 and found["cpu"] and found["memory_bytes"] > 0
    assert hardware_name() == f"{found['cpu']}, {found['cores']} cores"
