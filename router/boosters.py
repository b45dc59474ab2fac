"""Gradient-boosted trees of LightGBM on disk as its own text files, each held by its hash."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from arms.atomic import atomic_file
from arms.errors import RouterError
from arms.extras import not_importable
from arms.reward import FloatArray
from router.policies.files import read_held, sha256_of


class Boosters:
    """Some models over the same features; LightGBM is imported by the first prediction.

    Args:
        texts: each model as LightGBM writes it.
        features: how many columns they read.
    """

    def __init__(self, texts: Sequence[str], features: int) -> None:
        self.texts, self.features = tuple(texts), features
        self._loaded: list[Any] | None = None

    def load(self) -> list[Any]:
        """Return the models, parsed once.

        Raises:
            MissingExtraError: LightGBM is absent.
            RouterError: a text is no model, or one over another number of features.
        """
        if self._loaded is None:
            lightgbm = import_lightgbm()
            try:
                loaded = [lightgbm.Booster(model_str=text) for text in self.texts]
            except lightgbm.basic.LightGBMError as error:
                raise RouterError(f"a model of LightGBM can't be read: {error}") from error
            for one in loaded:
                if one.num_feature() != self.features:
                    raise RouterError(
                        f"a model reads {one.num_feature()} features, expected {self.features}; "
                        "its files are of another router"
                    )
            self._loaded = loaded
        return self._loaded

    def predict(self, features: FloatArray) -> FloatArray:
        """(n, models) from (n, features); NaN features are missing ones."""
        if not len(features):
            return np.zeros((0, len(self.texts)))
        return np.column_stack([one.predict(features, num_threads=1) for one in self.load()])

    def save(self, folder: Path) -> list[str]:
        """Write ``boosters-0.txt``, …; return their SHA-256, which :meth:`read` asks for."""
        for number, text in enumerate(self.texts):
            with atomic_file(folder / f"boosters-{number}.txt") as temporary:
                temporary.write_bytes(text.encode("utf-8"))
        return [sha256_of(text.encode("utf-8")) for text in self.texts]

    @classmethod
    def read(cls, folder: Path, hashes: Sequence[str], features: int) -> Boosters:
        """Read what :meth:`save` wrote; raise ``RouterError`` where a file is absent or altered."""
        held = [
            read_held(folder / f"boosters-{number}.txt", sha256)
            for number, sha256 in enumerate(hashes)
        ]
        return cls([content.decode("utf-8") for content in held], features)


def import_lightgbm() -> Any:
    """Import LightGBM; raise ``MissingExtraError`` where it is absent."""
    try:
        import lightgbm
    except ImportError as error:
        raise not_importable(error, "lightgbm", "boost") from error
    return lightgbm
