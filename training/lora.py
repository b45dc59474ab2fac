"""LoRA adapters on any Hugging Face encoder, encoder-only or decoder-only."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pytorch_lightning import seed_everything

from arms.encoders.resolve import ResolvedEncoder
from arms.errors import SettingsError
from router.adapter import save_adapter
from router.policies.encoder import LinearHead
from router.query_encoder import TokenCutter, load_encoder
from training.data import RouterData, Supervision, TokenisedQueries
from training.lightning_module import Optimisation, RouterModule
from training.lightning_run import run
from training.settings import LoraSettings, TrainingSettings

_IN_BLOCK = re.compile(r"(?P<stack>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\.\d+\.(?P<layer>.+)")


def projection_pattern(encoder: torch.nn.Module) -> str:
    """Return a pattern that matches the attention and feed-forward projections, and nothing else.

    These are the linear layers inside the encoder's stack of repeated blocks. Embeddings, poolers
    and task heads stand outside it, even where they share a name with a projection (BERT's pooler
    is called ``dense`` like its projections). Matched against whole module names, as peft does.

    Raises:
        SettingsError: the encoder has no repeated blocks with linear layers.
    """
    found = [match for name in _linear_names(encoder) if (match := _IN_BLOCK.fullmatch(name))]
    if not found:
        raise SettingsError(
            f"{type(encoder).__name__} has no stack of blocks with linear layers, so LoRA has "
            "nothing to adapt; choose another encoder or encoder_mode: frozen"
        )
    stacks = Counter(match["stack"] for match in found)
    stack = max(sorted(stacks), key=lambda name: stacks[name])
    layers = sorted({match["layer"] for match in found if match["stack"] == stack})
    return rf"{re.escape(stack)}\.\d+\.(?:{'|'.join(map(re.escape, layers))})"


def _linear_names(encoder: torch.nn.Module) -> list[str]:
    from transformers.pytorch_utils import Conv1D

    return [
        name
        for name, module in encoder.named_modules()
        if isinstance(module, (torch.nn.Linear, Conv1D))
    ]


def add_adapters(encoder: torch.nn.Module, settings: LoraSettings) -> Any:
    """Wrap ``encoder`` in a peft model: base weights frozen, adapters trainable.

    The adapters start as the identity, so the wrapped encoder computes what the bare one did.
    """
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=projection_pattern(encoder),
        bias="none",
    )
    return get_peft_model(encoder, config)


@dataclass(frozen=True)
class Tokens:
    """Queries as token ids, made once for all λ."""

    token_ids: Sequence[Sequence[int]]
    pad_id: int
    padding_side: Literal["left", "right"]

    @classmethod
    def of(cls, encoder: ResolvedEncoder, texts: Sequence[str], max_tokens: int) -> Tokens:
        """Tokenise ``texts`` as the encoder will when it serves."""
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(encoder.path, revision=encoder.hub_revision)
        cutter = TokenCutter(tokenizer, max_tokens)
        return cls(cutter(list(texts)), cutter.pad_id, cutter.padding_side)

    def supervised(self, rows: NDArray[np.intp], targets: Supervision) -> TokenisedQueries:
        """Pair the queries at ``rows`` with their targets, which run parallel to ``rows``."""
        chosen = [self.token_ids[row] for row in rows]
        return TokenisedQueries(chosen, self.pad_id, self.padding_side, targets)


def fit_lora(
    arms: tuple[str, ...],
    encoder: ResolvedEncoder,
    train: TokenisedQueries,
    validation: TokenisedQueries | None,
    settings: TrainingSettings,
    start: LinearHead | None,
    adapter_folder: Path,
    logger: Any = False,
    on_batch: Callable[[], None] = lambda: None,
) -> tuple[LinearHead, dict[str, float]]:
    """Train adapters and head at one λ; write the adapter, return the head and the kept epoch.

    The base encoder is in evaluation mode throughout: the dropouts are those of the adapters and
    of the head. ``start`` is the head to begin with; None begins at random.
    """
    seed_everything(settings.seed, verbose=False)
    base, _ = load_encoder(encoder, getattr(torch, settings.encoder_dtype))
    adapted = add_adapters(base.eval(), settings.lora)
    options = settings.lora
    module = RouterModule(
        arms,
        int(base.config.hidden_size),
        Optimisation(options.learning_rate, options.weight_decay, settings.warmup_share),
        settings.head_dropout,
        encoder=base,
    )
    if start is not None:
        module.head.load_state_dict(
            {"weight": torch.tensor(start.weight), "bias": torch.tensor(start.bias)}
        )
    data = RouterData(train, validation, options.batch_size // options.accumulate, settings.seed)
    metrics = run(
        module, data, options.epochs, settings.trainer, logger, on_batch, options.accumulate
    )
    adapted.peft_config["default"].base_model_name_or_path = encoder.encoder_id
    save_adapter(adapted, adapter_folder)
    weight, bias = (tensor.detach().numpy() for tensor in (module.head.weight, module.head.bias))
    return LinearHead(weight, bias), metrics
