"""Arms that would overwrite one another's index are refused before anything is built."""

import pytest

from arms.errors import SettingsError
from arms.settings import ArmSettings
from oracle.collisions import check_collisions
from oracle.runner import build_indexes
from tests.oracle.fakes import dataset

SUITE = [dataset("one")]


def arm(name, **options):
    return ArmSettings(arm=name, options=options)


def part(name, **options):
    return {"arm": name, "options": options}


def test_a_part_with_other_options_than_the_arm_is_refused(tmp_path):
    arms = [arm("bm25", k1=0.9), arm("fusion", arms=[part("bm25"), "text_dense"])]
    with pytest.raises(SettingsError) as raised:
        build_indexes(SUITE, arms, tmp_path / "index")
    assert str(raised.value).startswith(
        "the arm 'bm25' and 'bm25' as a part of 'fusion' need the same index folder, made from "
        "different things: k1 0.9 and 1.5. Give both the same ones"
    )
    assert not list(tmp_path.iterdir())


def test_all_collisions_are_named_at_once():
    arms = [
        arm("text_dense", dtype="bfloat16"),
        arm("text_rerank", late={"tokens": {"max_document_tokens": 64}}),
        arm("fusion", arms=[part("bm25", b=0.1), "text_late"]),
        arm("bm25"),
    ]
    with pytest.raises(SettingsError) as raised:
        check_collisions([*SUITE, dataset("two")], arms)
    first, second, third = str(raised.value).splitlines()
    assert "'text_dense' as a part of 'text_rerank'" in first
    assert "encoder_dtype 'bfloat16' and 'float32'" in first
    assert "'text_late' as a part of 'text_rerank' and 'text_late' as a part of 'fusion'" in second
    assert "'bm25' as a part of 'fusion' and the arm 'bm25'" in third


def test_folder_names_that_coincide_are_refused():
    arms = [ArmSettings(arm="text_dense", encoder=one) for one in ("a/b", "a--b")]
    with pytest.raises(SettingsError, match="the encoders' names 'a/b' and 'a--b'"):
        check_collisions(SUITE, arms)


def test_what_only_steers_a_search_and_what_is_spelt_out_may_differ():
    arms = [
        arm("bm25", k1=1.5),
        arm("text_dense", batch_size=8),
        arm("text_rerank", dense={"n_probe": 4}, candidates=20),
        arm("fusion", arms=["bm25", part("text_rerank", dense={"n_probe": 4}, candidates=50)]),
    ]
    check_collisions(SUITE, arms)


def test_arms_of_different_datasets_do_not_meet():
    arms = [
        ArmSettings(arm="bm25", only=("one",), options={"k1": 0.9}),
        ArmSettings(arm="fusion", only=("two",), options={"arms": ["bm25", "text_dense"]}),
    ]
    check_collisions([*SUITE, dataset("two")], arms)
