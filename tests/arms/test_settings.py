"""Settings of datasets: patterns and templates are checked when they are read."""

import pytest
from pydantic import ValidationError

from arms.settings import DatasetSettings


def refused(**options) -> str:
    with pytest.raises(ValidationError) as caught:
        DatasetSettings(path="pages", format="vidore", **options)
    return str(caught.value)


@pytest.mark.parametrize("glob", ["", "/data/*.parquet", "**x/*.parquet"])
def test_a_table_that_is_no_glob_below_the_folder(glob):
    assert "is no glob below the folder" in refused(tables={"corpus": glob})


@pytest.mark.parametrize("template", ["{file", "{file}::p{page", "}{"])
def test_a_field_that_is_no_template(template):
    assert "is no template" in refused(fields={"document_id": template})


@pytest.mark.parametrize("template", ["{}", "{0}::p{page}"])
def test_a_template_without_names(template):
    assert "braces without a column's name" in refused(fields={"document_id": template})


def test_globs_and_templates_that_are_fine():
    settings = DatasetSettings(
        path="pages",
        format="vidore",
        tables={"corpus": "data/**/*.parquet"},
        fields={"document_id": "{file_name}::p{page:03d}", "text": "{{braces}}", "title": "a}b"},
    )
    assert settings.fields["title"] == "a}b"


def test_names_take_the_composed_form():
    settings = DatasetSettings(path="pages", name="Zu\u0308rich")
    assert settings.dataset_name == "Zürich"
