"""Page arms' scores against colpali-engine's ``score_multi_vector``."""

import numpy as np
import pytest
import torch

pytest.importorskip("colpali_engine")

from colpali_engine.utils.processing_utils import BaseVisualRetrieverProcessor

from arms.architectures.late import LateParts
from arms.architectures.rerank import RerankArm, RerankOptions
from arms.arm import Arm, ArmSpec
from arms.clock import StageClock
from arms.encoders.unit_encoder import Encoded, UnitEncoder
from arms.indexes.exact_index import ExactIndex
from arms.indexes.fold import UnitTable
from arms.indexes.maxsim import maxsim
from arms.indexes.token_vectors import TokenVectorWriter
from arms.pipelines.mm_late import LateOptions
from arms.pipelines.mm_late import PipelineArm as LateArm
from arms.records import Ranking, Unit

score_multi_vector = BaseVisualRetrieverProcessor.score_multi_vector
N_PAGES, PATCHES, DIMENSION = 30, 40, 128


def unit_vectors(shape, seed):
    vectors = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


class Given(UnitEncoder):
    """Queries are names of given vectors."""

    dimension = DIMENSION

    def __init__(self, queries):
        self._queries = queries

    def encode_units(self, units, batch_size=32):
        return Encoded([])

    def encode_queries(self, queries, batch_size=32):
        return [self._queries[int(name)] for name in queries]


@pytest.fixture
def pages():
    """As they are stored, in float16."""
    return unit_vectors((N_PAGES, PATCHES, DIMENSION), 1).astype(np.float16)


@pytest.fixture
def queries():
    return [unit_vectors((n, DIMENSION), 10 + n) for n in (1, 7, 20)]


@pytest.fixture
def parts(tmp_path, pages, queries):
    names = [f"d{n:02}" for n in range(N_PAGES)]
    table = UnitTable.write(tmp_path, [Unit(one, one, "") for one in names])
    with TokenVectorWriter(tmp_path / "tokens", DIMENSION) as writer:
        writer.add(pages.reshape(-1, DIMENSION), np.full(N_PAGES, PATCHES))
        return LateParts(Given(queries), table, writer.close())


def theirs(queries, pages):
    found = [
        score_multi_vector(
            [torch.from_numpy(query)],
            [torch.from_numpy(page.astype(np.float32)) for page in pages],
            device="cpu",
        )[0]
        for query in queries
    ]
    return torch.stack(found).numpy()


def scores_of(ranking):
    return {
        int(doc_id[1:]): score
        for doc_id, score in zip(ranking.doc_ids, ranking.scores, strict=True)
    }


def test_mm_late_equals_score_multi_vector_on_pages_of_equal_length(parts, pages, queries):
    spec = ArmSpec("mm_late", "page")
    arm = LateArm(spec, LateOptions(), parts, ExactIndex(parts.store))
    expected = theirs(queries, pages)
    for row, ranking in zip(expected, arm.rank(["0", "1", "2"], N_PAGES), strict=True):
        ours = scores_of(ranking)
        np.testing.assert_allclose([ours[n] for n in range(N_PAGES)], row, atol=1e-4)
        assert ranking.doc_ids[0] == f"d{row.argmax():02}"


def test_mm_rerank_equals_exact_scoring_of_the_same_candidates(parts, pages, queries):
    candidates = ("d03", "d20", "d11", "d07", "d29")

    class Dense(Arm):
        spec = ArmSpec("mm_dense", "page")

        def rank_batch(self, queries, k, clock: StageClock):
            return [Ranking(candidates, (5.0, 4.0, 3.0, 2.0, 1.0))] * len(queries)

        build = open = classmethod(lambda *arguments: None)

    arm = RerankArm(
        ArmSpec("mm_rerank", "page"), RerankOptions(candidates=5), Dense(), parts.encoder,
        parts.table, parts.store,
    )  # fmt: skip
    numbers = [int(one[1:]) for one in candidates]
    expected = theirs(queries, pages[numbers])
    for row, ranking in zip(expected, arm.rank(["0", "1", "2"], 5), strict=True):
        ours = scores_of(ranking)
        np.testing.assert_allclose([ours[n] for n in numbers], row, atol=1e-4)
        assert list(ours) == [numbers[place] for place in np.argsort(-row)]


def test_colpali_engine_pads_with_zeros_and_ours_does_not():
    """A page whose true MaxSim is −0.6 scores 0 in colpali-engine beside a longer one."""
    query = np.array([[1, 0]], dtype=np.float32)
    short = np.array([[-0.6, 0.8]], dtype=np.float32)
    long = np.array([[-0.8, 0.6], [-1, 0]], dtype=np.float32)
    padded = theirs([query], [short, long])[0].tolist()
    ours = maxsim([query], np.concatenate([short, long]), np.array([0, 1, 3]))[0].tolist()
    assert padded == pytest.approx([0.0, -0.8])
    assert ours == pytest.approx([-0.6, -0.8])
