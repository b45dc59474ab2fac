import numpy as np
import pytest

from arms.arm import ArmSpec
from arms.catalogue import build_arm, open_arm
from arms.contract import QUERIES, ArmContract, contract_corpus
from arms.errors import ArmIndexError


class TestTextRerank(ArmContract):
    fills_k = True

    @pytest.fixture(params=["document", "paragraph"])
    def spec(self, request):
        return ArmSpec("text_rerank", request.param)


@pytest.mark.parametrize("granularity", ["document", "paragraph"])
def test_it_ranks_the_dense_candidates_by_exact_maxsim_over_all_their_units(tmp_path, granularity):
    corpus = contract_corpus(granularity)
    spec = ArmSpec("text_rerank", granularity, options={"candidates": 3})
    build_arm(spec, corpus, tmp_path)
    reranked = open_arm(spec, corpus, tmp_path).rank(QUERIES, 3)
    dense = open_arm(ArmSpec("text_dense", granularity), corpus, tmp_path).rank(QUERIES, 3)
    late = open_arm(ArmSpec("text_late", granularity), corpus, tmp_path).rank(QUERIES, 10)
    for ours, candidates, every in zip(reranked, dense, late, strict=True):
        assert set(ours.doc_ids) == set(candidates.doc_ids)
        expected = [doc_id for doc_id in every.doc_ids if doc_id in candidates.doc_ids]
        assert list(ours.doc_ids) == expected
        scores = dict(zip(every.doc_ids, every.scores, strict=True))
        np.testing.assert_allclose(ours.scores, [scores[one] for one in ours.doc_ids], rtol=1e-5)


def test_with_every_document_a_candidate_it_equals_late_interaction(tmp_path):
    corpus = contract_corpus("paragraph")
    spec = ArmSpec("text_rerank", "paragraph")
    build_arm(spec, corpus, tmp_path)
    reranked = open_arm(spec, corpus, tmp_path).rank(QUERIES, 10)
    late = open_arm(ArmSpec("text_late", "paragraph"), corpus, tmp_path).rank(QUERIES, 10)
    for ours, theirs in zip(reranked, late, strict=True):
        assert ours.doc_ids == theirs.doc_ids
        np.testing.assert_allclose(ours.scores, theirs.scores, rtol=1e-5)


def test_it_encodes_no_document_when_its_parts_are_there(tmp_path, monkeypatch):
    from arms.encoders.text_encoder import TextEncoder
    from arms.encoders.token_encoder import TokenEncoder

    corpus = contract_corpus()
    for name in ("text_dense", "text_late"):
        build_arm(ArmSpec(name), corpus, tmp_path)

    def refuse(*arguments, **named):
        raise AssertionError("a document was encoded again")

    monkeypatch.setattr(TokenEncoder, "encode_documents", refuse)
    with monkeypatch.context() as building:
        building.setattr(TextEncoder, "embed", refuse)
        build_arm(ArmSpec("text_rerank"), corpus, tmp_path)
    assert open_arm(ArmSpec("text_rerank"), corpus, tmp_path).rank(QUERIES, 2)


def test_parts_are_those_that_the_options_name(tmp_path):
    corpus = contract_corpus()
    options = {
        "dense": {"max_tokens": 64, "encoder": "all-MiniLM-L6-v2"},
        "late": {"exact_limit": 0, "n_ivf_probe": 8},
    }
    spec = ArmSpec("text_rerank", options=options)
    build_arm(spec, corpus, tmp_path)
    assert (tmp_path / "text_late" / "plaid").is_dir()
    assert open_arm(spec, corpus, tmp_path).rank(QUERIES, 2)
    with pytest.raises(ArmIndexError, match="options"):
        open_arm(ArmSpec("text_rerank"), corpus, tmp_path)


def test_a_part_built_differently_is_refused(tmp_path):
    corpus = contract_corpus()
    build_arm(ArmSpec("text_rerank"), corpus, tmp_path)
    build_arm(ArmSpec("text_late", options={"dtype": "bfloat16"}), corpus, tmp_path)
    with pytest.raises(ArmIndexError, match="encoder_dtype"):
        open_arm(ArmSpec("text_rerank"), corpus, tmp_path)
