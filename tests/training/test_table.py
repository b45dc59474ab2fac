import numpy as np
import pytest

from arms.errors import LabelsError
from oracle.labels import read_labels
from tests.training.synthetic import ARMS, write_labels
from training.table import check_trainable, routing_table


def test_masks_failures_and_normalisation(tmp_path):
    folder = write_labels(tmp_path, count=40, lacking={"beta": ("text_rerank",)}, failing=2)
    table = routing_table(read_labels(folder), ARMS)
    beta = table.datasets == "beta"
    assert not table.competes[beta, 2].any()
    assert table.competes[~beta].all()
    assert (~table.comparable).sum() == 2
    rewards = table.rewards(1.0)
    assert np.isnan(rewards[beta, 2]).all()
    # At lam = 1 the rewards of the arms that compete sum to (arms − 1): latency shares sum to 1.
    whole = table.comparable & beta
    np.testing.assert_allclose(np.nansum(rewards[whole], axis=1), 1.0)
    whole = table.comparable & ~beta
    np.testing.assert_allclose(rewards[whole].sum(axis=1), 2.0)


def test_texts_can_be_handed_in(tmp_path):
    labels = read_labels(write_labels(tmp_path, count=20, with_text=False))
    texts = {
        (dataset, query_id): f"text of {query_id}"
        for dataset, query_id in zip(labels.datasets, labels.query_ids, strict=True)
    }
    assert routing_table(labels, ARMS, texts).texts[0] == f"text of {labels.query_ids[0]}"
    texts.pop(("alpha", "q0003"))
    with pytest.raises(LabelsError, match=r"1 of 20 queries .* first 'q0003' of alpha"):
        routing_table(labels, ARMS, texts)


def test_too_little_to_train_on(tmp_path):
    labels = read_labels(write_labels(tmp_path, count=10, failing=100))
    with pytest.raises(LabelsError, match="at least two arms to choose from, got bm25"):
        check_trainable(routing_table(labels, ("bm25",)))
    with pytest.raises(LabelsError, match="none of 8 training queries"):
        check_trainable(routing_table(labels, ARMS))
