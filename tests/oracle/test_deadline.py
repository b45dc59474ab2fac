import signal
import threading
import time

import pytest

from oracle.deadline import DeadlinePassed, deadline


def swallow_and_sleep():
    try:
        time.sleep(5)
    except Exception:
        time.sleep(5)


def test_a_slow_body_is_interrupted_even_where_it_swallows_exceptions():
    begin = time.perf_counter()
    with pytest.raises(DeadlinePassed), deadline(0.05):
        swallow_and_sleep()
    assert time.perf_counter() - begin < 1


def test_a_body_that_is_fast_enough_is_left_alone():
    before = signal.getsignal(signal.SIGALRM)
    with deadline(5), deadline(None):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is before


def test_its_own_error_passes_through():
    with pytest.raises(KeyError), deadline(5):
        raise KeyError("x")
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_outside_the_main_thread_a_slow_body_ends_and_still_counts_as_late():
    seen = []

    def body():
        try:
            with deadline(0.01):
                time.sleep(0.05)
                seen.append("ended")
        except DeadlinePassed:
            seen.append("late")

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert seen == ["ended", "late"]
