import numpy as np
import pytest

from router.text_style import NUMBERS, text_style


def test_numbers_of_a_short_question():
    found = text_style(["Which film, Jaws or Alien, is 2 h long?"])[0].tolist()
    # 12 words with marks: Which film , Jaws or Alien , is 2 h long ?
    assert found == pytest.approx(
        [
            np.log1p(12), np.log1p(39), 3 / 12, np.log1p(3), 3, 3 / 12, 1, 31 / 12,
            1, 0, 1, 0, 1, 1, 2, 0, 0, 0, 0,
        ],
        rel=1e-6,
    )  # fmt: skip


def test_neighbouring_capitals_are_one_run():
    assert text_style(["the New York Times and Le Monde"])[0, 4] == 2


def test_texts_without_words_are_zeros_and_no_text_is_no_row():
    np.testing.assert_array_equal(text_style(["", "  "]), np.zeros((2, NUMBERS)))
    assert text_style([]).shape == (0, NUMBERS)
