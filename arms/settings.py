"""The base of every settings class, and the settings of corpora and arms."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from string import Formatter
from typing import Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from arms.corpora.languages import check_language
from arms.errors import SettingsError
from arms.records import Granularity
from arms.text_form import composed


class Settings(BaseModel):
    """Immutable settings; an unknown key is refused with the nearest known one named."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _name_unknown_keys(cls, given: Any) -> Any:
        if isinstance(given, dict):
            known = list(cls.model_fields)
            for key in given:
                if key not in known:
                    near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.6)
                    hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(known)}"
                    raise ValueError(f"unknown key '{key}'; {hint}")
        return given


def problem_lines(error: ValidationError) -> list[str]:
    """Return one line per problem: its path in the file, what is wrong, and what came."""
    lines = []
    for one in error.errors():
        place = ".".join(map(str, one["loc"])) or "(top level)"
        message = one["msg"].removeprefix("Value error, ")
        if one["type"] == "tuple_type":
            given = one["input"]
            example = f", e.g. [{given}]" if isinstance(given, str | int | float) else ""
            message = f"should be a list{example}"
        came = "" if one["type"] == "value_error" else f", got {one['input']!r:.80}"
        lines.append(f"  {place}: {message}{came}")
    return lines


TableName = Literal["corpus", "queries", "qrels", "rows"]
"""``rows``: one table whose every row is a query with its page."""
FieldName = Literal[
    "document_id", "text", "title", "image", "pdf", "page",
    "query_id", "query", "grade", "positives", "positive_id",
]  # fmt: skip
"""What a table of a page collection may hold, by our names."""


CAPTION_PROMPT = (
    "Write one caption for each figure, chart, table and photograph on this page: what it shows, "
    "its axes or columns, and its main values. Write nothing else. If there is none, write nothing."
)


class CaptionSettings(Settings):
    """How figures are described in words, by any OpenAI-compatible vision endpoint."""

    base_url: str | None = Field(
        default=None, description="e.g. http://localhost:8000/v1; default: $OPENAI_BASE_URL"
    )
    model: str | None = Field(default=None, description="default: $L2R_CAPTION_MODEL")
    api_key: SecretStr | None = Field(
        default=None, description="better left to $OPENAI_API_KEY; never written anywhere"
    )
    prompt: str = Field(default=CAPTION_PROMPT, min_length=1)
    min_density: float = Field(
        default=0.05, ge=0, le=1, description="visual density from which a page is described"
    )
    max_side_px: int = Field(default=1600, ge=64, description="larger pictures are scaled down")
    max_tokens: int = Field(default=400, ge=1, description="of one page's captions")
    workers: int = Field(default=4, ge=1, description="requests at a time")
    timeout_s: float = Field(default=120, gt=0, description="for one request")
    retries: int = Field(default=2, ge=0, description="after a timeout, a 429 or a server's error")
    backoff_s: float = Field(default=1, ge=0, description="before the first retry; then doubled")


class DatasetSettings(Settings):
    """One dataset of the suite: a corpus, its queries and its judgements."""

    path: Path = Field(
        default=Path(),
        description="folder of the files; beir: corpus.jsonl, queries.jsonl and qrels/; pdf, "
        "images: the files, perhaps queries.jsonl and qrels/ beside them; vidore: tables",
    )
    hub: str | None = Field(
        default=None,
        pattern=r"^[\w.-]+/[\w.-]+(@[\w./-]+)?$",
        description="in place of 'path': Hugging Face dataset to download, owner/name[@revision]",
    )
    name: str | None = Field(default=None, description="default: the folder's name")
    format: Literal["beir", "pdf", "images", "vidore"] = "beir"
    strict: bool = Field(default=True, description="refuse a corpus with problems; else drop them")
    language: str = Field(default="english", description="of the text; picks BM25's stemmer")
    dpi: int = Field(default=144, ge=18, le=1200, description="at which PDF pages are drawn")
    documents: Literal["page", "file"] = Field(
        default="page", description="of format pdf: what a document is"
    )
    tables: dict[TableName, str] = Field(
        default={}, description="of format vidore: globs of tables with other names"
    )
    fields: dict[FieldName, str] = Field(
        default={},
        description="of format vidore: columns with other names, or templates: '{file}::p{page}'",
    )
    density: str = Field(
        default="page-objects",
        description="visual density of pages: from the PDF's page-objects; none; or the "
        "package.module:attribute of a layout model",
    )

    exclude_query_id: bool | Literal["auto"] = Field(
        default="auto",
        description="leave the document whose id is the query's out of its ranking, unless it is "
        "judged relevant; auto: where most such documents have their query's text (ArguAna)",
    )
    captions: CaptionSettings | None = Field(
        default=None, description="append captions of figures to the text; default: none"
    )

    @model_validator(mode="after")
    def _needs_a_path(self) -> DatasetSettings:
        given = {"path", "hub"} & self.model_fields_set
        if not given:
            raise ValueError(
                f"a dataset of format {self.format} needs 'path', its folder, or 'hub'"
            )
        if len(given) > 1:
            raise ValueError("a dataset has a 'path' or a 'hub' to be downloaded from, not both")
        return self

    @field_validator("tables")
    @classmethod
    def _check_globs(cls, tables: dict[TableName, str]) -> dict[TableName, str]:
        for table, glob in tables.items():
            try:
                next(Path("no such folder").glob(glob), None)
            except (ValueError, NotImplementedError, IndexError) as error:
                raise ValueError(
                    f"{table}: {glob!r} is no glob below the folder, e.g. 'data/*.parquet': {error}"
                ) from error
        return tables

    @field_validator("fields")
    @classmethod
    def _check_templates(cls, fields: dict[FieldName, str]) -> dict[FieldName, str]:
        for field, template in fields.items():
            try:
                parts = list(Formatter().parse(template)) if "{" in template else []
            except ValueError as error:
                raise ValueError(
                    f"{field}: {template!r} is no template, e.g. '{{file}}::p{{page}}': {error}"
                ) from error
            if any(name == "" or (name or "").isdigit() for _, name, _, _ in parts):
                raise ValueError(
                    f"{field}: {template!r} has braces without a column's name; write "
                    "'{column}', or '{{' for a brace"
                )
        return fields

    @field_validator("name")
    @classmethod
    def _is_one_folder(cls, name: str | None) -> str | None:
        if name is not None and (name in ("", ".", "..") or set(name) & set("/\\\0")):
            raise ValueError(f"a dataset's name becomes a folder; it can't be {name!r}")
        return name

    _check_language = field_validator("language")(check_language)

    @property
    def dataset_name(self) -> str:
        """The name used in labels, indexes and reports."""
        if self.name is None and self.hub is not None:
            return self.hub.partition("@")[0].partition("/")[2]
        return composed(self.name or self.path.name or self.path.resolve().name)


class ArmSettings(Settings):
    """One arm: which pipeline, over which view, with which options.

    ``options`` are the pipeline's own settings and are checked by it (``l2r arms`` lists them).
    """

    arm: str = Field(
        description="a name of the catalogue, e.g. bm25, text_dense, or code of your own: "
        "package.module:attribute"
    )
    name: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$",
        description="what labels, routers and reports call it, so that a run may hold several arms "
        "of one kind; default: arm@granularity#encoder, short where that is plain",
    )
    granularity: Granularity | None = Field(
        default=None, description="default: document, or page for arms over page pictures"
    )
    encoder: str | None = Field(default=None, description="a Hugging Face id or folder")
    only: tuple[str, ...] | None = Field(default=None, description="datasets that have this arm")
    options: dict[str, Any] = Field(default_factory=dict)

    @field_validator("only")
    @classmethod
    def _compose(cls, only: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if only is None else tuple(map(composed, only))

    @model_validator(mode="before")
    @classmethod
    def _accept_a_bare_name(cls, given: Any) -> Any:
        """``bm25``, or a whole identity: ``text_dense@paragraph#encoder``."""
        if not isinstance(given, str):
            return given
        if ":" in given.partition("#")[0]:  # code of one's own: package.module:attribute
            return {"arm": given}
        view, _, encoder = given.partition("#")
        arm, _, granularity = view.partition("@")
        parts = {"arm": arm, "granularity": granularity, "encoder": encoder}
        return {name: part for name, part in parts.items() if part}


SettingsT = TypeVar("SettingsT", bound=Settings)


def parse_options(settings: type[SettingsT], given: Any, owner: str) -> SettingsT:
    """Check options, e.g. a pipeline's own; raise ``SettingsError`` naming ``owner`` and each
    problem."""
    try:
        return settings.model_validate(dict(given) if isinstance(given, Mapping) else given)
    except ValidationError as error:
        problems = "; ".join(
            ": ".join(
                part
                for part in (
                    ".".join(str(step) for step in problem["loc"]),
                    problem["msg"].removeprefix("Value error, "),
                )
                if part
            )
            for problem in error.errors()
        )
        raise SettingsError(f"options of '{owner}': {problems}") from error
