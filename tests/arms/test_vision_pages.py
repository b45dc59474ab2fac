"""Page arms with vision models: tiny ones of colpali-engine's real classes and processors."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

pytest.importorskip("colpali_engine")

import l2r
from arms.arm import ArmSpec
from arms.catalogue import build_arm, open_arm
from arms.contract import QUERIES, ArmContract, contract_corpus
from arms.corpora.beir import write_beir
from arms.corpora.corpus import Dataset, MemoryCorpus
from arms.encoders.resolve import resolve
from arms.encoders.vision_model import load_vision_model, model_class_of
from arms.encoders.vision_pages import VisionPages, laid_on_white
from arms.errors import SettingsError
from arms.indexes.folder import read_record
from arms.records import Document, Page, Query, Unit
from tests.arms.pages import document
from tests.arms.tiny_vision import save_tiny

CLASSES = (
    "BiQwen2_5",
    "ColQwen2_5",
    "BiIdefics3",
    "ColIdefics3",
    "BiModernVBert",
    "ColModernVBert",
)
SIZES = ((100, 60), (60, 200), (130, 130))
ODD_SIZES = ((1, 1), (3, 20_000), (2000, 7))

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),  # transformers' own, while loading
]


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Class name → a saved checkpoint, made when it is asked for."""
    made = {}

    def checkpoint(class_name):
        if class_name not in made:
            made[class_name] = save_tiny(class_name, tmp_path_factory.mktemp(class_name))
        return made[class_name]

    return checkpoint


def noise(size, seed=0):
    pixels = np.random.default_rng(seed).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def unit_of(picture, folder, name):
    path = folder / f"{name}.png"
    picture.save(path)
    page = Page(path, None, hashlib.sha256(path.read_bytes()).hexdigest())
    return Unit(name, name, "", page)


def loaded(folder, class_name):
    return load_vision_model(resolve(str(folder)), class_name, "float32", "cpu")


@pytest.mark.parametrize("class_name", CLASSES)
def test_vectors_are_those_of_colpali_engine(checkpoints, class_name, tmp_path):
    found = loaded(checkpoints(class_name), class_name)
    encoder, is_dense = VisionPages(found), class_name.startswith("Bi")
    units = [unit_of(noise(size), tmp_path, f"p{n}") for n, size in enumerate(SIZES)]
    encoded = encoder.encode_units(units)
    assert not encoded.problems
    for size, ours in zip(SIZES, encoded.vectors, strict=True):
        with torch.no_grad():
            theirs = found.model(**found.processor.process_images([noise(size)]))[0]
        np.testing.assert_allclose(ours, theirs.reshape(-1, encoder.dimension), atol=1e-5)
    texts = ["operating margin in 2019", "tides"]
    for text, ours in zip(texts, encoder.encode_queries(texts), strict=True):
        with torch.no_grad():
            theirs = found.model(**found.processor.process_queries(texts=[text]))[0]
        np.testing.assert_allclose(ours, theirs.reshape(-1, encoder.dimension), atol=1e-5)
        assert len(ours) == 1 or not is_dense
        np.testing.assert_allclose(np.linalg.norm(ours, axis=1), 1, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "class_name"), [("mm_dense", "BiQwen2_5"), ("mm_late", "ColQwen2_5")]
)
def test_the_arm_scores_as_the_processor_does(checkpoints, tmp_path, name, class_name):
    """Pages of one size, so that colpali-engine pads nothing."""
    folder = checkpoints(class_name)
    found = loaded(folder, class_name)
    pictures = [noise((120, 120), seed) for seed in range(5)]
    units = [unit_of(one, tmp_path, f"d{n}") for n, one in enumerate(pictures)]
    corpus = MemoryCorpus("noise", [Document(u.doc_id, "", "", pages=(u.page,)) for u in units])
    spec = ArmSpec(name, "page", str(folder))
    build_arm(spec, corpus, tmp_path / "index")
    rankings = open_arm(spec, corpus, tmp_path / "index").rank(QUERIES, 5)
    with torch.no_grad():  # queries first: the model keeps positions of the last pictures
        queries = [found.model(**found.processor.process_queries(texts=[q]))[0] for q in QUERIES]
        pages = list(found.model(**found.processor.process_images(pictures)))
    theirs = found.processor.score(queries, pages, device="cpu").numpy()
    for row, ranking in zip(theirs, rankings, strict=True):
        scores = dict(zip(ranking.doc_ids, ranking.scores, strict=True))
        ours = [scores[f"d{n}"] for n in range(5)]
        tolerance = 1e-4 if name == "mm_dense" else 2e-2  # float16 vectors, of many tokens
        np.testing.assert_allclose(ours, row, atol=tolerance)
    record = read_record(tmp_path / "index" / spec.folder_name)
    assert record.encoder_id == str(folder) and record.encoder_dtype == "float32"
    assert record.options["vision"] == {"model_class": None, "max_visual_tokens": None}


def test_odd_pages_have_vectors_and_unreadable_ones_a_reason(checkpoints, tmp_path):
    encoder = VisionPages(loaded(checkpoints("ColQwen2_5"), "ColQwen2_5"))
    pictures = {str(size): Image.new("RGB", size, "grey") for size in ODD_SIZES}
    pictures |= {
        "grey": noise((90, 90)).convert("L"),
        "clear": noise((90, 90)).convert("RGBA"),
        "bits": noise((90, 90)).convert("1"),
    }
    units = [unit_of(one, tmp_path, name) for name, one in pictures.items()]
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    units.append(Unit("broken", "broken", "", Page(broken, None, "0" * 64)))
    encoded = encoder.encode_units(units)
    assert list(encoded.problems) == ["broken"]
    assert [len(one) > 0 for one in encoded.vectors] == [True] * 6 + [False]
    assert all(np.isfinite(one).all() for one in encoded.vectors)


@pytest.mark.parametrize("size", ODD_SIZES)
def test_odd_pages_suit_the_other_processors(checkpoints, tmp_path, size):
    encoder = VisionPages(loaded(checkpoints("ColIdefics3"), "ColIdefics3"))
    encoded = encoder.encode_units([unit_of(Image.new("RGB", size, "grey"), tmp_path, "a")])
    assert len(encoded.vectors[0]) > 0


def test_laid_on_white():
    assert laid_on_white(noise((28, 900))).size == (28, 900)
    assert laid_on_white(noise((1, 1))).size == (28, 28)
    wide = laid_on_white(Image.new("RGB", (20_000, 3)))
    assert wide.size == (20_000, 400)
    assert wide.getpixel((0, 2)) == (0, 0, 0) and wide.getpixel((0, 3)) == (255, 255, 255)


def test_batches_are_bounded_in_pixels(checkpoints, tmp_path):
    found = loaded(checkpoints("BiQwen2_5"), "BiQwen2_5")
    encoder = VisionPages(found, batch_pixels=2 * 50 * 50)
    units = [unit_of(noise((50, 50), n), tmp_path, f"s{n}") for n in range(5)]
    units.append(unit_of(noise((300, 300)), tmp_path, "large"))
    seen = []
    original = found.processor.process_images
    try:
        found.processor.process_images = lambda images: (
            seen.append(len(images)),
            original(images),
        )[1]
        together = encoder.encode_units([*units, units[0]]).vectors
        assert seen == [2, 2, 1, 1]  # a page of equal content isn't encoded again
        np.testing.assert_array_equal(together[0], together[-1])
        seen.clear()
        encoder.encode_units(units[:3], batch_size=1)
        assert seen == [1, 1, 1]
    finally:
        del found.processor.process_images


def test_marks_of_the_model_in_a_query_are_words_like_others(checkpoints):
    encoder = VisionPages(loaded(checkpoints("ColQwen2_5"), "ColQwen2_5"), max_query_tokens=8)
    plain, marked = encoder.encode_queries(["a   b", "a <|image_pad|> b"])
    np.testing.assert_allclose(plain, marked, atol=1e-6)
    short, long = encoder.encode_queries(["12345678", "12345678 and so on"])
    np.testing.assert_allclose(short, long, atol=1e-6)
    assert len(encoder.encode_queries(["<|image_pad|>"])[0]) > 0


def test_the_class_is_found_and_must_suit_the_arm(checkpoints, tmp_path):
    def found(folder, given=None, one=False):
        return model_class_of(resolve(str(folder)), given, one_vector_each=one)

    late = checkpoints("ColQwen2_5")
    assert found(late) == "ColQwen2_5"
    with pytest.raises(SettingsError, match=r"many vectors per page; mm_dense needs a Bi… model"):
        found(late, one=True)
    with pytest.raises(SettingsError, match=r"one vector per page; mm_late needs a Col… model"):
        found(late, given="BiQwen2_5")
    with pytest.raises(SettingsError, match=r"model_class: one of BiGemma3, .*ColQwen2_5"):
        found(late, given="ColNothing")
    # An adapter over a plain model: the family is the base's, the kind is what the arm needs.
    base, adapter = tmp_path / "base", tmp_path / "adapter"
    for folder in (base, adapter):
        folder.mkdir()
    plain = {"model_type": "qwen2_5_vl", "architectures": ["Qwen2_5_VLForConditionalGeneration"]}
    (base / "config.json").write_text(json.dumps(plain))
    (adapter / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(base)}))
    (adapter / "adapter_model.safetensors").write_bytes(b"x")
    assert (found(adapter), found(adapter, one=True)) == ("ColQwen2_5", "BiQwen2_5")
    (base / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(SettingsError, match="model type bert"):
        found(adapter)


def test_a_checkpoint_without_a_layer_is_refused(checkpoints, tmp_path):
    from safetensors.torch import load_file, save_file

    for path in checkpoints("ColQwen2_5").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    weights = load_file(tmp_path / "model.safetensors")
    del weights["custom_text_proj.weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(
        SettingsError, match=r"lacks 1 weights of ColQwen2_5, e.g. custom_text_proj"
    ):
        loaded(tmp_path, "ColQwen2_5")
    (tmp_path / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(SettingsError, match="can't be loaded as ColQwen2_5"):
        loaded(tmp_path, "ColQwen2_5")


def test_an_adapter_is_loaded_onto_its_base(checkpoints, tmp_path):
    from peft import LoraConfig, get_peft_model

    base = checkpoints("ColQwen2_5")
    model = loaded(base, "ColQwen2_5").model
    torch.manual_seed(1)
    wrapped = get_peft_model(
        model, LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False)
    )
    wrapped.peft_config["default"].base_model_name_or_path = str(base)
    wrapped.save_pretrained(tmp_path)
    for path in base.iterdir():
        if path.name not in ("config.json", "model.safetensors"):
            (tmp_path / path.name).write_bytes(path.read_bytes())
    unit = unit_of(noise((90, 90)), tmp_path, "a")
    assert model_class_of(resolve(str(tmp_path)), None, one_vector_each=False) == "ColQwen2_5"
    with torch.no_grad():
        features = loaded(base, "ColQwen2_5").processor.process_images([noise((90, 90))])
        expected = wrapped.eval()(**features)[0]
    (ours,) = VisionPages(loaded(tmp_path, "ColQwen2_5")).encode_units([unit]).vectors
    np.testing.assert_allclose(ours, expected, atol=1e-4)
    (plain,) = VisionPages(loaded(base, "ColQwen2_5")).encode_units([unit]).vectors
    assert np.abs(ours - plain).max() > 1e-3
    rename_weights(tmp_path / "adapter_model.safetensors", "language_model.layers", "model.layers")
    (older,) = VisionPages(loaded(tmp_path, "ColQwen2_5")).encode_units([unit]).vectors
    np.testing.assert_allclose(older, ours, atol=1e-6)  # names of earlier releases
    rename_weights(tmp_path / "adapter_model.safetensors", "layers.1", "layers.7")
    with pytest.raises(SettingsError, match=r"doesn't fit ColQwen2_5: 4 weights"):
        loaded(tmp_path, "ColQwen2_5")


def rename_weights(path, before, after):
    from safetensors.torch import load_file, save_file

    weights = {key.replace(before, after): value for key, value in load_file(path).items()}
    save_file(weights, path, metadata={"format": "pt"})


class VisionContract(ArmContract):
    fills_k = True

    @pytest.fixture(autouse=True)
    def _drawing_folder(self, tmp_path_factory):
        type(self)._pictures = tmp_path_factory.mktemp("pictures")

    def document(self, doc_id, title, text):
        return document(doc_id, title, text, self._pictures)


@pytest.mark.slow
class TestDense(VisionContract):
    @pytest.fixture
    def spec(self, checkpoints):
        return ArmSpec("mm_dense", "page", str(checkpoints("BiQwen2_5")))


@pytest.mark.slow
class TestLate(VisionContract):
    @pytest.fixture
    def spec(self, checkpoints):
        options = {"storage": "int8", "pool_factor": 2}
        return ArmSpec("mm_late", "page", str(checkpoints("ColQwen2_5")), options)


@pytest.mark.slow
class TestRerank(VisionContract):
    @pytest.fixture
    def spec(self, checkpoints):
        dense, late = (str(checkpoints(one)) for one in ("BiQwen2_5", "ColQwen2_5"))
        options = {"dense": {"encoder": dense}, "late": {"encoder": late}}
        return ArmSpec("mm_rerank", "page", options=options)


@pytest.mark.slow
def test_the_whole_command_line_on_a_saved_colqwen(checkpoints, tmp_path, capsys):
    """l2r index, oracle, train, report on pictures alone; nothing of it knows that it is tiny."""
    (tmp_path / "drawn").mkdir()
    made = [
        document(one.doc_id, one.title, one.text, tmp_path / "drawn") for one in contract_corpus()
    ]
    texts = [f"{text} {n}" for n in range(5) for text in QUERIES]
    queries = tuple(Query(f"q{n}", text) for n, text in enumerate(texts))
    qrels = {f"q{n}": {made[n % 10].doc_id: 1} for n in range(len(texts))}
    data = tmp_path / "pages"
    pictures = [replace(one, pages=one.pages[:1]) for one in made]  # a folder's pictures are single
    write_beir(Dataset("pages", MemoryCorpus("pages", pictures), queries, qrels), data)
    late, dense = (str(checkpoints(one)) for one in ("ColQwen2_5", "BiQwen2_5"))
    run = {
        "corpus": str(data),
        "arms": [
            {"arm": "mm_dense", "encoder": dense},
            {"arm": "mm_late", "encoder": late},
            {
                "arm": "mm_rerank",
                "options": {"dense": {"encoder": dense}, "late": {"encoder": late}},
            },
        ],
        "oracle": {"latency": {"repeats": 1}},
        "training": {"lams": [0], "cross_validation_folds": 0},
        "output": str(tmp_path / "run"),
    }
    (tmp_path / "run.yaml").write_text(json.dumps(run))
    for command in ("index", "oracle", "train", "report"):
        with pytest.raises(SystemExit) as ended:
            l2r.main([command, str(tmp_path / "run.yaml")])
        assert not ended.value.code, f"{command}\n{capsys.readouterr().err}"
    report = (tmp_path / "run" / "report" / "report.md").read_text()
    assert "mm_rerank" in report
