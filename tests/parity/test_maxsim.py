"""MaxSim against PyLate's ``colbert_scores``."""

import numpy as np
import pytest
import torch
from pylate.scores import colbert_scores

from arms.indexes.maxsim import maxsim


def unit_vectors(shape, seed):
    vectors = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@pytest.mark.parametrize(("n_queries", "n_documents", "tokens"), [(1, 1, 1), (5, 40, 17)])
def test_equal_lengths_give_pylate_scores(n_queries, n_documents, tokens):
    queries = unit_vectors((n_queries, 8, 32), seed=0)
    documents = unit_vectors((n_documents, tokens, 32), seed=1)
    theirs = colbert_scores(torch.from_numpy(queries), torch.from_numpy(documents)).numpy()
    begin = np.arange(n_documents + 1) * tokens
    ours = maxsim(list(queries), documents.reshape(-1, 32), begin)
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_pylate_pads_with_zeros_and_ours_does_not():
    """A document whose true MaxSim is −0.6 scores 0 in PyLate beside a longer one."""
    query = np.array([[1, 0]], dtype=np.float32)
    short = np.array([[-0.6, 0.8]], dtype=np.float32)
    long = np.array([[-0.8, 0.6], [-1, 0]], dtype=np.float32)
    padded = torch.nn.utils.rnn.pad_sequence(
        [torch.from_numpy(short), torch.from_numpy(long)], batch_first=True
    )
    theirs = colbert_scores(torch.from_numpy(query)[None], padded)[0].tolist()
    ours = maxsim([query], np.concatenate([short, long]), np.array([0, 1, 3]))[0].tolist()
    assert theirs == pytest.approx([0.0, -0.8])
    assert ours == pytest.approx([-0.6, -0.8])
