"""TF-IDF and logistic regression: the baseline that a trained router must beat.

Persisted without pickle and rebuilt with scikit-learn's vectoriser, so that a loaded policy gives
the probabilities of the fitted one bit for bit.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from arms.errors import RouterError
from arms.extras import not_importable
from arms.reward import FloatArray
from router.policies.files import (
    ascending_lams,
    lam_folder_name,
    read_arrays,
    read_policy_json,
    write_arrays,
    write_policy_json,
)
from router.policy import NO_INPUTS, Policy, PolicyInputs

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

_SETTINGS = (
    "analyzer",
    "binary",
    "lowercase",
    "ngram_range",
    "norm",
    "smooth_idf",
    "stop_words",
    "strip_accents",
    "sublinear_tf",
    "token_pattern",
    "use_idf",
)
"""Parameters of ``TfidfVectorizer`` that shape a query's vector once it is fitted."""


@dataclass(frozen=True)
class TfidfHead:
    """A fitted logistic regression over C of the arms; the other arms get probability 0."""

    columns: NDArray[np.int64]
    """(C,) columns of the arms seen in training, ascending."""
    coef: NDArray[Any]
    """(C, V), or (1, V) for two arms (log-odds of the second) or one (ignored)."""
    intercept: NDArray[Any]
    """(C,) or (1,), as ``coef``."""

    @classmethod
    def of(cls, classifier: LogisticRegression) -> TfidfHead:
        """Take over a classifier that was fitted on arm columns (integers) as classes."""
        columns = np.asarray(classifier.classes_, dtype=np.int64)
        return cls(columns, np.array(classifier.coef_), np.array(classifier.intercept_))

    @classmethod
    def constant(cls, column: int, terms: int) -> TfidfHead:
        """Always the arm at ``column``: for a training set that knows no other best arm."""
        return cls(np.array([column]), np.zeros((1, terms)), np.zeros(1))

    def probabilities(self, features: Any, arms: int) -> FloatArray:
        """(n, arms) from sparse features (n, V), as scikit-learn's ``predict_proba``."""
        from scipy.special import expit

        logits = np.asarray(features @ self.coef.T) + self.intercept
        if len(self.columns) == 1:
            seen = np.ones((features.shape[0], 1))
        elif len(self.columns) == 2:
            second = expit(logits[:, 0])
            seen = np.stack([1.0 - second, second], axis=1)
        else:
            seen = np.exp(logits - logits.max(axis=1, keepdims=True))
            seen /= seen.sum(axis=1, keepdims=True)
        rows = np.zeros((features.shape[0], arms))
        rows[:, self.columns] = seen
        return rows


class TfidfPolicy(Policy):
    """One fitted vectoriser, and a head per λ.

    Args:
        name: in reports, e.g. ``tfidf``.
        arms: the arms to choose from, in column order.
        vectorizer: fitted; its parameters must be plain values (no callables).
        heads: λ → head over the vectoriser's terms.

    Raises:
        RouterError: a parameter can't be persisted, or a head's shape doesn't fit.
    """

    kind: ClassVar[str] = "tfidf"

    def __init__(
        self,
        name: str,
        arms: Sequence[str],
        vectorizer: TfidfVectorizer,
        heads: Mapping[float, TfidfHead],
    ) -> None:
        settings = {key: vectorizer.get_params()[key] for key in _SETTINGS}
        settings["dtype"] = np.dtype(vectorizer.dtype).name
        settings["ngram_range"] = list(settings["ngram_range"])
        plain = (str, bool, int, float, list, type(None))
        refused = [key for key, value in settings.items() if not isinstance(value, plain)]
        refused += [key for key in ("preprocessor", "tokenizer") if vectorizer.get_params()[key]]
        if refused or vectorizer.get_params()["decode_error"] != "strict":
            raise RouterError(
                f"policy '{name}' can't persist the vectoriser's {', '.join(refused)}; "
                "use plain values"
            )
        idf = np.array(vectorizer.idf_) if settings["use_idf"] else np.ones(0)
        terms = {str(term): int(column) for term, column in vectorizer.vocabulary_.items()}
        self._set(name, arms, settings, terms, idf, heads)
        self._vectorizer: TfidfVectorizer | None = vectorizer

    def _set(
        self,
        name: str,
        arms: Sequence[str],
        settings: dict[str, Any],
        terms: dict[str, int],
        idf: NDArray[Any],
        heads: Mapping[float, TfidfHead],
    ) -> None:
        self.name = name
        self.arms = tuple(arms)
        self.lams = ascending_lams(heads)
        self._settings, self._terms, self._idf = settings, terms, idf
        self._heads = {float(lam): head for lam, head in heads.items()}
        self._lock = threading.Lock()
        for head in self._heads.values():
            _check_head(name, head, len(self.arms), len(terms))

    def prepare(self, lam: float) -> None:
        """Import scikit-learn and rebuild the vectoriser."""
        self._fitted_vectorizer()

    def probabilities(
        self, queries: Sequence[str], lam: float, known: PolicyInputs = NO_INPUTS
    ) -> FloatArray:
        """(len(queries), len(arms)); an arm absent from training has probability 0."""
        if not queries:
            return np.zeros((0, len(self.arms)))
        head = self._heads[self.nearest_lam(lam)]
        features = self._fitted_vectorizer().transform(list(queries))
        return head.probabilities(features, len(self.arms))

    def _fitted_vectorizer(self) -> TfidfVectorizer:
        if self._vectorizer is None:
            with self._lock:
                if self._vectorizer is None:
                    self._vectorizer = _rebuild(self._settings, self._terms, self._idf)
        return self._vectorizer

    def save(self, folder: Path) -> None:
        """Write ``policy.json``, ``vectorizer.safetensors`` and a head per λ."""
        content = {
            "name": self.name,
            "arms": list(self.arms),
            "lams": list(self.lams or ()),
            "settings": self._settings,
            "terms": sorted(self._terms, key=self._terms.__getitem__),
        }
        write_policy_json(folder, self.kind, content)
        write_arrays(folder / "vectorizer.safetensors", {"idf": self._idf})
        for lam, head in self._heads.items():
            arrays = {"columns": head.columns, "coef": head.coef, "intercept": head.intercept}
            write_arrays(folder / lam_folder_name(lam) / "head.safetensors", arrays)

    @classmethod
    def load(cls, folder: Path) -> TfidfPolicy:
        """Read what :meth:`save` wrote; scikit-learn is imported later, by the first call."""
        content = read_policy_json(folder, ("name", "arms", "lams", "settings", "terms"))
        terms = {term: column for column, term in enumerate(content["terms"])}
        n_idf = len(terms) if content["settings"].get("use_idf") else 0
        idf = read_arrays(folder / "vectorizer.safetensors", {"idf": (n_idf,)})["idf"]
        shapes = {"columns": (None,), "coef": (None, len(terms)), "intercept": (None,)}
        heads = {
            float(lam): TfidfHead(
                **read_arrays(folder / lam_folder_name(lam) / "head.safetensors", shapes)
            )
            for lam in content["lams"]
        }
        policy = cls.__new__(cls)
        policy._vectorizer = None
        policy._set(content["name"], content["arms"], content["settings"], terms, idf, heads)
        return policy


def _check_head(name: str, head: TfidfHead, arms: int, terms: int) -> None:
    seen = len(head.columns)
    rows = 1 if seen <= 2 else seen
    in_range = seen > 0 and bool(np.all((head.columns >= 0) & (head.columns < arms)))
    distinct = len(set(head.columns.tolist())) == seen
    fits = head.coef.shape == (rows, terms) and head.intercept.shape == (rows,)
    if not (in_range and distinct and fits):
        raise RouterError(
            f"policy '{name}' needs heads over {arms} arms and {terms} terms, got columns "
            f"{head.columns.tolist()}, coef {head.coef.shape}, intercept {head.intercept.shape}"
        )


def _rebuild(settings: dict[str, Any], terms: dict[str, int], idf: NDArray[Any]) -> TfidfVectorizer:
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
    except ImportError as error:
        raise not_importable(error, "scikit-learn", "serve") from error
    given = {
        **settings,
        "ngram_range": tuple(settings["ngram_range"]),
        "dtype": np.dtype(settings["dtype"]).type,
    }
    vectorizer = TfidfVectorizer(vocabulary=terms, **given)
    if given["use_idf"]:
        vectorizer.idf_ = idf
    else:
        vectorizer.fit([""])  # learns nothing; without it scikit-learn calls it unfitted
    return vectorizer
