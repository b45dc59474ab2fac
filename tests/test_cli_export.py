"""``l2r export``: the whole command on a tiny encoder, and what it refuses."""

import pytest

import l2r
from router.artifact import Defaults, RouterRecord, write_router
from router.policies.encoder import EncoderPolicy
from router.policies.static import StaticPolicy
from tests.router.test_policies import ARMS, random_heads
from tests.router.tiny_encoders import save_tiny_bert


def called(capsys, *words: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        l2r.main([str(word) for word in words])
    return int(stopped.value.code or 0), *capsys.readouterr()


@pytest.fixture
def router(tmp_path):
    encoder = save_tiny_bert(tmp_path / "bert")
    heads = random_heads((0.0, 1.0))
    policies = [
        EncoderPolicy("router", ARMS, heads, str(encoder)),
        StaticPolicy("best_static", ARMS, "bm25"),
    ]
    write_router(tmp_path / "router", RouterRecord(ARMS, Defaults("router")), policies)
    return tmp_path / "router"


@pytest.mark.slow
def test_export_then_select(router, capsys):
    pytest.importorskip("onnxscript")
    code, printed, _ = called(capsys, "export", router, "--to", "onnx", "--int8")
    assert code == 0
    assert "router_onnx_int8" in printed
    assert "MB" in printed
    code, printed, _ = called(
        capsys, "select", router, "who painted", "--policy", "router_onnx_int8", "--lam", 0
    )
    assert code == 0
    assert printed.startswith("arm")


def test_what_export_refuses(router, capsys):
    code, _, told = called(capsys, "export", router, "--policy", "best_static")
    assert code == 1
    assert "'best_static' can't be exported: only policies made of one encoder and heads" in told
    assert told.endswith("name another with --policy: router\n")
    code, _, told = called(capsys, "export", router, "--to", "tensorrt")
    assert code == 2
    assert "expected onnx" in told
    code, _, told = called(capsys, "export", router.parent)
    assert code == 1
    assert "is not a router" in told
