"""Vision models of colpali-engine: which class a checkpoint is of, and loading it whole.

Colpali-engine (Faysse et al., "ColPali: Efficient Document Retrieval with Vision Language Models",
2024) has a ``Bi…`` class, one vector per page, and a ``Col…`` class, a bag of patch vectors, for
each family of models.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from arms.encoders.resolve import ResolvedEncoder
from arms.encoders.text_encoder import quiet_loading
from arms.errors import MissingExtraError, SettingsError
from arms.out_of_memory import is_out_of_memory, out_of_memory

_FAMILIES = {
    "gemma3": "Gemma3",
    "idefics3": "Idefics3",
    "modernvbert": "ModernVBert",
    "paligemma": "Pali",
    "qwen2_5_omni_thinker": "Qwen2_5Omni",
    "qwen2_5_vl": "Qwen2_5",
    "qwen2_vl": "Qwen2",
    "qwen3_5": "Qwen3_5",
    "qwen3_vl": "Qwen3",
}
"""``model_type`` of a configuration → what follows Bi or Col in the name of a class."""
_PROCESSORS = {
    "BiGemma3": "BiGemmaProcessor3",
    "BiPaliProj": "BiPaliProcessor",
    "BiQwen2_5": "BiQwen2_5_Processor",
    "ColGemma3": "ColGemmaProcessor3",
    "ColQwen2_5": "ColQwen2_5_Processor",
}
"""Processors that aren't called like their model with ``Processor`` after it."""
_CONFIG, _ADAPTER = "config.json", "adapter_config.json"


@dataclass(frozen=True)
class VisionModel:
    """A loaded model with its processor."""

    class_name: str
    model: Any
    processor: Any


def model_class_of(encoder: ResolvedEncoder, given: str | None, *, one_vector_each: bool) -> str:
    """Return the name of the model's class.

    It is the one given, else the one that the checkpoint's configuration names, else, for an
    adapter over a plain vision-language model, the ``Bi…`` or ``Col…`` class of its family, as the
    arm needs.

    Raises:
        SettingsError: none fits, or it is of the kind that the other arm needs.
    """
    known = _classes()
    config = _config(encoder)
    named = given or next((one for one in config.get("architectures") or () if one in known), None)
    kind = "Bi" if one_vector_each else "Col"
    found = named or kind + _FAMILIES.get(str(config.get("model_type")), "")
    if found not in known:
        raise SettingsError(
            f"'{encoder.encoder_id}' is of no class of colpali-engine that is known here (model "
            f"type {config.get('model_type')}, class {named}); give options: vision: model_class: "
            f"one of {', '.join(sorted(known))}"
        )
    if not found.startswith(kind):
        gives = "many vectors" if one_vector_each else "one vector"
        raise SettingsError(
            f"'{encoder.encoder_id}' is a {found} model, which gives {gives} per page; "
            f"{'mm_dense' if one_vector_each else 'mm_late'} needs a {kind}… model, or ocr"
        )
    return found


def load_vision_model(
    encoder: ResolvedEncoder,
    class_name: str,
    dtype: str,
    device: str,
    max_visual_tokens: int | None = None,
) -> VisionModel:
    """Load model and processor.

    Raises:
        SettingsError: they can't be loaded, or the checkpoint lacks weights, which would leave a
            layer with random ones.
    """
    import colpali_engine.models as engine

    processor_name = _PROCESSORS.get(class_name, f"{class_name}Processor")
    limit = {"max_num_visual_tokens": max_visual_tokens} if max_visual_tokens else {}
    try:
        with quiet_loading():
            model, missing = _load_weights(getattr(engine, class_name), encoder, dtype)
            processor = getattr(engine, processor_name).from_pretrained(
                encoder.path,
                revision=encoder.hub_revision,
                local_files_only=encoder.is_folder,
                **limit,
            )
    except SettingsError:
        raise
    except Exception as error:  # safetensors, transformers and peft raise whatever they met
        if is_out_of_memory(error):
            raise out_of_memory(error, f"load the encoder '{encoder.encoder_id}'") from error
        raise SettingsError(
            f"the encoder '{encoder.encoder_id}' can't be loaded as {class_name}: {error}"
        ) from error
    if missing:
        raise SettingsError(
            f"the encoder '{encoder.encoder_id}' lacks {len(missing)} weights of {class_name}, "
            f"e.g. {missing[0]}, which would be random; is it a checkpoint of another class?"
        )
    return VisionModel(class_name, model.to(device).eval(), processor)


def _load_weights(model_class: Any, encoder: ResolvedEncoder, dtype: str) -> tuple[Any, list[str]]:
    """Load a model, or an adapter onto its base; also name the weights that nothing gave."""
    adapter = _read_json(encoder.path, encoder.hub_revision, _ADAPTER)
    base = adapter.get("base_model_name_or_path")
    place, revision = (str(base), adapter.get("revision")) if base else (encoder.path, None)
    model, info = model_class.from_pretrained(
        place,
        revision=revision or (None if base else encoder.hub_revision),
        local_files_only=Path(place).is_dir(),
        dtype=getattr(torch, dtype),
        output_loading_info=True,
    )
    missing = set(info["missing_keys"])
    if base:
        missing -= _add_adapter(model, encoder)
    return model, sorted(missing)


def _add_adapter(model: Any, encoder: ResolvedEncoder) -> set[str]:
    """Put an adapter's weights into ``model``; return the names of those it brings whole.

    Names are brought to the model's own first: transformers 5.3 leaves adapters of colpali-engine
    with random weights where they differ, and says so on the console alone.

    Raises:
        SettingsError: a weight has no place, or a place no weight.
    """
    from peft import PeftConfig, inject_adapter_in_model, set_peft_model_state_dict
    from safetensors.torch import load_file

    found = _file(encoder.path, encoder.hub_revision, "adapter_model.safetensors")
    if found is None:
        raise SettingsError(
            f"the adapter '{encoder.encoder_id}' holds no adapter_model.safetensors"
        )
    weights = {_own_name(model, key): value for key, value in load_file(found).items()}
    config = PeftConfig.from_pretrained(str(found.parent))
    config.inference_mode = True
    inject_adapter_in_model(config, model)
    result = set_peft_model_state_dict(model, weights)
    wrong = [*result.unexpected_keys, *(key for key in result.missing_keys if "lora_" in key)]
    if wrong:
        raise SettingsError(
            f"the adapter '{encoder.encoder_id}' doesn't fit {type(model).__name__}: {len(wrong)} "
            f"weights without their counterpart, e.g. {wrong[0]}"
        )
    return {key for key in weights if "lora_" not in key}


def _own_name(model: Any, key: str) -> str:
    name = key.removeprefix("base_model.model.")
    for pattern, target in getattr(model, "_checkpoint_conversion_mapping", {}).items():
        name = re.sub(pattern, target, name)
    return name


def _classes() -> set[str]:
    if find_spec("colpali_engine") is None:
        raise MissingExtraError("colpali_engine", "vision")
    import colpali_engine.models as engine

    return {
        name for name in dir(engine) if name.startswith(("Bi", "Col")) and "Processor" not in name
    }


def _config(encoder: ResolvedEncoder) -> dict[str, Any]:
    """The checkpoint's configuration; of an adapter, its base model's where it has none."""
    own = _read_json(encoder.path, encoder.hub_revision, _CONFIG)
    if own:
        return own
    adapter = _read_json(encoder.path, encoder.hub_revision, _ADAPTER)
    mapped = (adapter.get("auto_mapping") or {}).get("base_model_class")
    base = adapter.get("base_model_name_or_path")
    found = _read_json(str(base), None, _CONFIG) if base else {}
    return {**found, "architectures": [mapped, *(found.get("architectures") or ())]}


def _read_json(path: str, revision: str | None, name: str) -> dict[str, Any]:
    found = _file(path, revision, name)
    content: dict[str, Any] = json.loads(found.read_text(encoding="utf-8")) if found else {}
    return content


def _file(path: str, revision: str | None, name: str) -> Path | None:
    if Path(path).is_dir():
        return Path(path) / name if (Path(path) / name).is_file() else None
    from transformers.utils import cached_file

    found = cached_file(
        path,
        name,
        revision=revision,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    return Path(found) if found else None
