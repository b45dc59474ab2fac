import numpy as np
import pytest
import torch

from training.data import (
    BucketedBatches,
    EmbeddedQueries,
    OrderedBatches,
    RouterData,
    Supervision,
    TokenisedQueries,
)


def supervised(count: int, arms: int = 2) -> Supervision:
    return Supervision(
        targets=torch.full((count, arms), 1 / arms),
        rewards=torch.rand((count, arms)),
        competes=torch.ones((count, arms), dtype=torch.bool),
        weight=torch.ones(count),
    )


@pytest.mark.parametrize("size", [0, 1, 7, 8, 100])
@pytest.mark.parametrize("with_lengths", [False, True])
def test_an_epoch_holds_every_query_once(size, with_lengths):
    lengths = np.arange(size) % 11 if with_lengths else None
    batches = BucketedBatches(size, lengths, 8, seed=1)
    drawn = list(batches)
    assert sorted(row for batch in drawn for row in batch) == list(range(size))
    assert len(drawn) == len(batches)
    assert all(len(batch) <= 8 for batch in drawn)


def test_the_seed_fixes_the_order_and_epochs_differ():
    first, second = BucketedBatches(50, None, 8, seed=1), BucketedBatches(50, None, 8, seed=1)
    epochs = [list(first), list(first)]
    assert epochs == [list(second), list(second)]
    assert epochs[0] != epochs[1]
    assert epochs[0] != list(BucketedBatches(50, None, 8, seed=2))


def test_batches_hold_queries_of_similar_length():
    lengths = np.random.default_rng(0).integers(3, 100, size=640)
    bucketed = list(BucketedBatches(640, lengths, 32, seed=0))
    shuffled = list(BucketedBatches(640, None, 32, seed=0))

    def padded(batches):
        return sum(len(batch) * lengths[batch].max() for batch in batches)

    assert padded(bucketed) < 0.65 * padded(shuffled)
    assert padded(bucketed) < 1.1 * lengths.sum()


def test_processes_share_an_epoch_without_losing_a_query(monkeypatch):
    parts = []
    for rank in range(3):
        monkeypatch.setattr("training.data._processes", lambda rank=rank: (rank, 3))
        batches = BucketedBatches(50, None, 8, seed=1)
        parts.append(list(batches))
        assert len(parts[-1]) == len(batches) == 3
    assert {row for part in parts for batch in part for row in batch} == set(range(50))


def test_validation_walks_every_query_longest_first():
    order = [row for batch in OrderedBatches(5, np.array([3, 9, 1, 9, 4]), 2) for row in batch]
    assert order == [1, 3, 4, 0, 2]


@pytest.mark.parametrize(("side", "first"), [("right", [5, 6, 0]), ("left", [0, 5, 6])])
def test_tokens_are_padded_on_the_encoders_side(side, first):
    queries = TokenisedQueries([[5, 6], [7, 8, 9], []], 0, side, supervised(3))
    batch = queries.__getitems__([0, 1])
    assert batch["ids"].tolist() == [first, [7, 8, 9]]
    assert batch["mask"].tolist() == [[int(token > 0) for token in first], [1, 1, 1]]
    assert batch["targets"].shape == (2, 2)
    assert queries.__getitems__([2])["ids"].shape == (1, 1)


def test_the_data_module_gives_whole_batches_and_one_validation_batch():
    queries = EmbeddedQueries(torch.rand((10, 4)), supervised(10))
    data = RouterData(queries, queries, batch_size=4, seed=0)
    sizes = [len(batch["features"]) for batch in data.train_dataloader()]
    assert sorted(sizes) == [2, 4, 4]
    (whole,) = list(data.val_dataloader())
    assert torch.equal(whole["features"], queries.features)
