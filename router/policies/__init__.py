"""Policies, one file each; a policy's ``kind`` names its module, loaded when it is needed."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from arms.errors import RouterError
from router.policies.files import read_policy_json
from router.policy import Policy

KINDS: dict[str, str] = {
    "static": "router.policies.static:StaticPolicy",
    "tfidf": "router.policies.tfidf:TfidfPolicy",
    "encoder": "router.policies.encoder:EncoderPolicy",
    "gated": "router.policies.gated:GatedPolicy",
    "guarded": "router.policies.guarded:GuardedPolicy",
    "activations": "router.policies.activations:ActivationsPolicy",
    "static_embedding": "router.policies.static_embedding:StaticEmbeddingPolicy",
    "onnx": "router.policies.onnx:OnnxPolicy",
    "knn": "router.policies.knn:KnnPolicy",
    "quality": "router.policies.quality:QualityPolicy",
    "merging": "router.policies.merging:MergingPolicy",
    "list_fusion": "router.policies.list_fusion:ListFusionPolicy",
    "arabzadeh": "router.policies.arabzadeh:ArabzadehPolicy",
    "multi_label": "router.policies.multi_label:MultiLabelPolicy",
    "bandit": "router.policies.bandit:BanditPolicy",
    "ensemble": "router.policies.ensemble:EnsemblePolicy",
    "prompted": "router.policies.prompted:PromptedPolicy",
}
"""Kind → module and class."""


_own: dict[str, type[Policy]] = {}


def register_policy(policy_class: type[Policy]) -> None:
    """Let this process load policies of ``policy_class.kind``, a class of one's own.

    An artifact names a policy's kind, never its code: a serving process registers the class before
    it loads the router.

    Raises:
        RouterError: one of ours has this kind.
    """
    if policy_class.kind in KINDS:
        raise RouterError(f"there is a kind of policy '{policy_class.kind}'; give yours another")
    _own[policy_class.kind] = policy_class


def load_policy(folder: Path, device: str = "cpu") -> Policy:
    """Load the policy in ``folder``; raise ``RouterError`` when it is damaged or of unknown kind.

    Its back end (scikit-learn, torch) is loaded by ``Policy.prepare`` or by the first call.
    """
    kind = read_policy_json(folder)["kind"]
    if kind not in KINDS and kind not in _own:
        raise RouterError(
            f"{folder} holds a policy of kind '{kind}', known are {', '.join([*KINDS, *_own])}; "
            "register its class (router.policies.register_policy), or install the release that "
            "wrote it"
        )
    policy = (_own.get(kind) or _class(KINDS[kind])).load(folder)
    policy.device = device
    return policy


def _class(place: str) -> type[Policy]:
    module, _, name = place.partition(":")
    found: type[Policy] = getattr(import_module(module), name)
    return found
