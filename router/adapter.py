"""LoRA adapters on disk: written small, read strictly, put on a model that stays as it was."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from arms.atomic import write_json
from arms.errors import RouterError
from arms.extras import not_importable
from arms.out_of_memory import is_out_of_memory, out_of_memory
from arms.read_errors import damage

WEIGHTS = "adapter_model.safetensors"
CONFIG = "adapter_config.json"


def save_adapter(model: Any, folder: Path) -> None:
    """Write the adapter of a peft model (not the base) to ``folder``, as safetensors and JSON."""
    # True and "auto" may ask the hub about the base model's vocabulary.
    model.save_pretrained(str(folder), safe_serialization=True, save_embedding_layers=False)
    (folder / "README.md").unlink(missing_ok=True)  # peft's blank model card
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    config["base_model_name_or_path"] = None  # a path of the training machine
    write_json(folder / CONFIG, config)


def load_adapter(model: Any, folder: Path, merge: bool) -> Any:
    """Return ``model`` with the adapter in ``folder`` on it; ``model`` itself doesn't change.

    The result shares the weights of ``model``; with ``merge`` the layers that the adapter changes
    are copies, with the adapter added in, and nothing of peft remains.

    Raises:
        MissingExtraError: peft is not installed.
        RouterError: a file is absent or damaged, or a weight is missing, unexpected or of another
            shape.
    """
    try:
        from peft import PeftConfig, get_peft_model, set_peft_model_state_dict
    except ImportError as error:
        raise not_importable(error, "peft", "serve") from error
    weights = _read_weights(folder)
    try:
        config = PeftConfig.from_pretrained(str(folder))
        config.inference_mode = True
        config.base_model_name_or_path = None  # where the base lay in training
        adapted = get_peft_model(sharing_copy(model), config)
    except (OSError, ValueError, TypeError, KeyError) as error:
        if is_out_of_memory(error):
            raise out_of_memory(error, f"load {folder}") from error
        raise RouterError(
            f"the adapter in {folder} doesn't fit its base model: {error}; rerun l2r train"
        ) from error
    _check_weights(folder, adapted, weights)
    set_peft_model_state_dict(adapted, weights)
    adapted = adapted.eval().requires_grad_(False)
    return _merged(adapted) if merge else adapted


def _read_weights(folder: Path) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            raise RouterError(
                f"{folder} is not an adapter: it holds no {name}; copy the whole router folder, "
                "or rerun l2r train"
            )
    try:
        weights: dict[str, Any] = load_file(folder / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise RouterError(f"{damage(folder / WEIGHTS, error)}; rerun l2r train") from error
    return weights


def _check_weights(folder: Path, adapted: Any, weights: dict[str, Any]) -> None:
    from peft import get_peft_model_state_dict

    wanted = get_peft_model_state_dict(adapted, save_embedding_layers=False)
    problems = [f"missing {key}" for key in wanted if key not in weights]
    problems += [f"unexpected {key}" for key in weights if key not in wanted]
    problems += [
        f"{key} has shape {tuple(weights[key].shape)}, not {tuple(wanted[key].shape)}"
        for key in wanted
        if key in weights and weights[key].shape != wanted[key].shape
    ]
    if problems:
        raise RouterError(
            f"the adapter in {folder} doesn't fit its base model: {'; '.join(problems[:5])} "
            f"({len(problems)} in all); rerun l2r train"
        )


def sharing_copy(model: Any) -> Any:
    """Copy the module tree of ``model``, sharing every weight and buffer."""
    shared = [*model.parameters(), *model.buffers()]
    return copy.deepcopy(model, {id(tensor): tensor for tensor in shared})


def _merged(adapted: Any) -> Any:
    """Add the adapter into copies of the layers it changes, and take peft off."""
    from peft.tuners.tuners_utils import BaseTunerLayer
    from torch.nn import Parameter

    for layer in adapted.modules():
        if isinstance(layer, BaseTunerLayer):
            for name, weight in layer.get_base_layer().named_parameters(recurse=False):
                own = Parameter(weight.detach().clone(), requires_grad=False)
                setattr(layer.get_base_layer(), name, own)
    return adapted.merge_and_unload()
