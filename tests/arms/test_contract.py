"""Every arm of this package's own back ends passes the contract."""

from __future__ import annotations

import json

import pytest

from arms.arm import ArmSpec
from arms.contract import QUERIES, ArmContract, FakeArm, contract_corpus

BFLOAT16 = {"dtype": "bfloat16"}


class TestFake(ArmContract):
    @pytest.fixture(params=["document", "paragraph"])
    def spec(self, request):
        return ArmSpec("fake", request.param)

    def arm_type(self, spec):
        return FakeArm


class TestBm25(ArmContract):
    @pytest.fixture(
        params=[
            ArmSpec("bm25"),
            ArmSpec("bm25", "paragraph"),
            ArmSpec("bm25", options={"method": "bm25+"}),
            ArmSpec("bm25", "paragraph", options={"method": "bm25l"}),
        ],
        ids=lambda spec: f"{spec.identity}{dict(spec.options)}",
    )
    def spec(self, request):
        return request.param


class TestDense(ArmContract):
    fills_k = True

    @pytest.fixture(
        params=[
            ArmSpec("text_dense"),
            ArmSpec("text_dense", "paragraph", options=BFLOAT16),
            ArmSpec("text_dense", options={"index": "hnsw"}),
            ArmSpec("text_dense", "paragraph", options={"index": "ivf"}),
        ],
        ids=lambda spec: f"{spec.identity}{dict(spec.options)}",
    )
    def spec(self, request):
        return request.param


class TestFusion(ArmContract):
    @pytest.fixture
    def spec(self):
        return ArmSpec("fusion", options={"arms": ["bm25", "text_dense"]})


class TestNone(ArmContract):
    finds = False

    @pytest.fixture
    def spec(self):
        return ArmSpec("none")


class TestRunFile(ArmContract):
    answers_any_query = False
    reads_texts = False

    @pytest.fixture(scope="class")
    def spec(self, tmp_path_factory):
        folder = tmp_path_factory.mktemp("run")
        doc_ids = [document.doc_id for document in contract_corpus()]
        rows = [
            f"q{number} Q0 {doc_id} 0 {1 + (number + place) % 4} tag\n"
            for number in range(len(QUERIES))
            for place, doc_id in enumerate(doc_ids)
        ]
        (folder / "run.trec").write_text("".join(rows))
        lines = [
            json.dumps({"_id": f"q{number}", "text": text}) for number, text in enumerate(QUERIES)
        ]
        (folder / "queries.jsonl").write_text("\n".join(lines))
        return ArmSpec(
            "run_file",
            options={
                "path": str(folder / "run.trec"),
                "queries_path": str(folder / "queries.jsonl"),
                "latency_ms": 12.5,
            },
        )
