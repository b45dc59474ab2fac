import numpy as np

from router.text_views import NgramSpec, TokenIds
from training.routes import ridge
from training.routes.ridge_views import TokenVectors, fit_views

VIEWS = (NgramSpec("words", 1, 2, 512), NgramSpec("characters", 2, 3, 512))


def test_letter_case_alone_tells_routes_apart():
    words = "alpha beta gamma delta epsilon zeta".split()  # noqa: SIM905
    texts, needed = [], []
    for first in words:
        for second in words:
            texts += [f"{first} {second}", f"{first.capitalize()} {second.capitalize()}"]
            needed += [[True, False], [False, True]]
    policy = fit_views("s", ("low", "high"), VIEWS, texts, np.array(needed), [0.1])
    rows = policy.probabilities(["alpha kappa", "Alpha Kappa"], 0.0)
    assert rows.argmax(axis=1).tolist() == [0, 1]
    assert rows.max() < 1.0
    assert policy.provenance["leave_one_out_accuracy"] > 0.95


def word_tokeniser(words):
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({word: row for row, word in enumerate(words)}, words[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer.to_str()


def test_many_queries_give_the_router_that_few_would(monkeypatch):
    """Both ways solve the same equations: at one strength the routers agree."""
    random = np.random.default_rng(4)
    words = [f"w{number}" for number in range(40)]
    rows = random.normal(size=(40, 6)).astype(np.float32)
    drawn = [random.choice(40, size=5) for _ in range(300)]
    texts = [" ".join(words[one] for one in ids) for ids in drawn] + [""]
    best = np.append([rows[ids].sum(axis=0)[:3].argmax() for ids in drawn], 0)
    needed = np.eye(3, dtype=bool)[best]
    views = (TokenVectors(TokenIds(word_tokeniser(words), 16), rows), *VIEWS)
    routers, calls = [], []
    for limit in (1000, 300):
        monkeypatch.setattr(ridge, "EXACT_UP_TO", limit)
        calls.append(0)

        def solved():
            calls[-1] += 1

        args = (("a", "b", "c"), views, texts, needed, [0.3])
        routers.append(fit_views("s", *args, on_solve=solved))
        assert calls[-1] == ridge.solves(301)
    few, many = routers
    assert [one.provenance["left_out"] for one in routers] == [301, 300]
    assert many.provenance["leave_one_out_accuracy"] > 0.6
    scale = few.provenance["temperature"] / many.provenance["temperature"]
    new = [" ".join(words[one] for one in random.choice(40, size=5)) for _ in range(50)]
    first, second = (one.heads.logits(one.features(new), 0.0) for one in routers)
    np.testing.assert_allclose(first, scale * second, rtol=0.02, atol=0.05)
    assert (first.argmax(axis=1) == second.argmax(axis=1)).all()
