"""An index with a damaged file is refused by name, whichever file it is."""

import numpy as np
import pytest

from arms.arm import ArmSpec
from arms.catalogue import build_arm, open_arm
from arms.contract_corpus import contract_corpus
from arms.errors import ArmIndexError


@pytest.mark.parametrize(
    "spec",
    [
        ArmSpec("bm25", "paragraph"),
        ArmSpec("text_dense"),
        ArmSpec("text_dense", options={"index": "hnsw"}),
        ArmSpec("text_late", "paragraph", options={"exact_limit": 0}),
        ArmSpec("text_rerank"),
        ArmSpec("fusion", options={"arms": ["bm25", "text_dense"]}),
    ],
    ids=lambda spec: f"{spec.identity}{dict(spec.options)}",
)
@pytest.mark.parametrize("damage", ["cut", "empty", "garbage", "zeros"])
def test_any_damaged_file_is_refused_and_its_index_named(tmp_path, spec, damage):
    corpus = contract_corpus(spec.granularity)
    build_arm(spec, corpus, tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert files
    for path in files:
        whole = path.read_bytes()
        cut = whole[: len(whole) // 2]
        zeros = bytes(len(whole))
        path.write_bytes(
            {"cut": cut, "empty": b"", "garbage": b"\x93garbage", "zeros": zeros}[damage]
        )
        with pytest.raises(ArmIndexError, match="l2r index") as raised:
            open_arm(spec, corpus, tmp_path)
        assert str(tmp_path / path.relative_to(tmp_path).parts[0]) in str(raised.value), path
        path.write_bytes(whole)
    (ranking,) = open_arm(spec, corpus, tmp_path).rank(["high tides"], 1)
    assert ranking.doc_ids == ("d10",)
    assert np.isfinite(ranking.scores).all()
