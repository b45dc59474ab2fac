"""Organisations and their facts, drawn from a seed: what the pages will say."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Literal

from arms.corpora.page_demo.words import styles, words

PageKind = Literal["text", "table", "chart", "scan"]
Family = Literal["figures", "records", "reasons", "paperwork"]

PLACES: dict[Family, dict[PageKind, float]] = {
    "figures": {"chart": 0.90, "table": 0.05, "text": 0.05},
    "records": {"table": 0.90, "scan": 0.10},
    "reasons": {"text": 0.90, "scan": 0.10},
    "paperwork": {"scan": 0.90, "text": 0.10},
}
"""On which kind of page a fact of each family stands, and how often."""

YEARS = range(2012, 2024)
FIGURE_YEARS = 5
YEARS_ASKED_FOR = 3
TOPICS_OF_AN_ORGANISATION = {"figures": 2, "reasons": 5, "paperwork": 5}
ITEMS_OF_AN_ORGANISATION = 5
ITEMS_ON_A_LIST = 9


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing a page states and a question may ask for."""

    family: Family
    topic: str
    """The topic's label, or for records the column."""
    subject: str
    """Whom or what a question names: the organisation, or an item's code."""
    year: int
    value: str
    """As printed; the answer."""
    place: PageKind
    statement: str
    """One sentence, or one line of a paper, that states it."""


@dataclass(frozen=True, slots=True)
class Series:
    """One figure over consecutive years, as a chart or a table shows it."""

    topic: str
    unit: str
    years: tuple[int, ...]
    numbers: tuple[float, ...]

    def value(self, year: int) -> str:
        """Return the number of a year as it is printed, without its unit."""
        return f"{self.numbers[self.years.index(year)]:g}"


@dataclass(frozen=True, slots=True)
class Item:
    """One row of an item list: its code, its year, and a value for each column."""

    code: str
    year: int
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Organisation:
    """One organisation: its facts, and what its charts and lists show around them."""

    number: int
    name: str
    style: int
    """In which style its facts are asked for: 0 … ``styles() - 1``."""
    facts: tuple[Fact, ...]
    charts: tuple[Series, ...]
    table_series: tuple[Series, ...]
    items: tuple[Item, ...]
    """The rows of its item list."""

    def facts_on(self, place: PageKind) -> tuple[Fact, ...]:
        """Return the facts that stand on pages of this kind, in the order of drawing."""
        return tuple(fact for fact in self.facts if fact.place == place)


def draw_organisations(seed: int, count: int) -> tuple[Organisation, ...]:
    """Draw ``count`` organisations with different names and item codes; styles take turns."""
    rng = random.Random(f"names {seed}")
    names = words()["names"]
    stems = rng.sample([first + last for first in names["first"] for last in names["last"]], count)
    sectors = rng.sample(names["sectors"], len(names["sectors"]))
    codes = iter(rng.sample(range(10_000, 100_000), count * ITEMS_ON_A_LIST))
    return tuple(
        _draw_one(seed, number, f"{stem} {sector}", [next(codes) for _ in range(ITEMS_ON_A_LIST)])
        for number, (stem, sector) in enumerate(zip(stems, cycle(sectors), strict=False))
    )


def _draw_one(seed: int, number: int, name: str, codes: Sequence[int]) -> Organisation:
    rng = random.Random(f"organisation {seed} {number}")
    facts: list[Fact] = []
    charts: list[Series] = []
    table_series: list[Series] = []
    for topic in rng.sample(words()["figures"], TOPICS_OF_AN_ORGANISATION["figures"]):
        series = _draw_series(rng, topic)
        place = _draw_place(rng, "figures")
        if place != "text":
            (charts if place == "chart" else table_series).append(series)
        for year in sorted(rng.sample(series.years, YEARS_ASKED_FOR)):
            value = series.value(year)
            said = topic["sentence"].format(value=f"{value} {series.unit}", year=year)
            facts.append(Fact("figures", series.topic, name, year, value, place, said))
    for topic in rng.sample(words()["reasons"], TOPICS_OF_AN_ORGANISATION["reasons"]):
        facts.append(_draw_reason(rng, topic, name))
    for topic in rng.sample(words()["paperwork"], TOPICS_OF_AN_ORGANISATION["paperwork"]):
        facts.append(_draw_paper(rng, topic, name))
    records, rows = _draw_items(rng, codes)
    return Organisation(
        number,
        name,
        number % styles(),
        (*facts, *records),
        tuple(charts),
        tuple(table_series),
        rows,
    )


def _draw_place(rng: random.Random, family: Family) -> PageKind:
    places = PLACES[family]
    return rng.choices(list(places), list(places.values()))[0]


def _draw_series(rng: random.Random, topic: dict[str, Any]) -> Series:
    low, high, divisor = topic["range"]
    first = rng.choice(YEARS[: len(YEARS) - FIGURE_YEARS + 1])
    numbers = rng.sample(range(low, high), FIGURE_YEARS)
    return Series(
        topic["label"],
        topic["unit"],
        tuple(range(first, first + FIGURE_YEARS)),
        tuple(number / divisor for number in numbers),
    )


def _draw_reason(rng: random.Random, topic: dict[str, Any], name: str) -> Fact:
    value, year, place = rng.choice(topic["values"]), rng.choice(YEARS), _draw_place(rng, "reasons")
    said = topic["sentence"].format(value=value, year=year, town=_town(rng))
    return Fact("reasons", topic["label"], name, year, value, place, said)


def _draw_paper(rng: random.Random, topic: dict[str, Any], name: str) -> Fact:
    value, year = _paper_value(rng, topic["kind"]), rng.choice(YEARS)
    place = _draw_place(rng, "paperwork")
    form = topic["line"] if place == "scan" else topic["sentence"]
    said = form.format(value=value, year=year, town=_town(rng))
    return Fact("paperwork", topic["label"], name, year, value, place, said)


def _paper_value(rng: random.Random, kind: str) -> str:
    if kind == "money":
        return f"{rng.randrange(1_200, 98_000):,} euros"
    if kind == "person":
        return person(rng)
    if kind == "file":
        return f"{rng.choice('BCDFG')} {rng.randrange(100, 999)}/{rng.randrange(10, 99)}"
    return f"{rng.randrange(1, 29)} {rng.choice(['March', 'June', 'August', 'November'])} 2026"


def _draw_items(
    rng: random.Random, codes: Sequence[int]
) -> tuple[tuple[Fact, ...], tuple[Item, ...]]:
    """Return the facts asked for, one of each of some items, and the rows of the list.

    An item whose fact stands elsewhere (on a scanned note) is not on the list.
    """
    records, names = words()["records"], words()["names"]
    year = rng.choice(YEARS)
    letters = "".join(rng.sample("BCDFGHKLMNPRTVWX", 2))
    facts: list[Fact] = []
    rows: list[Item] = []
    for place_in_list, number in enumerate(codes):
        code = f"{letters}-{number}"
        cells = (
            rng.choice(names["items"]),
            f"{rng.randrange(110, 9_900) / 100:.2f}",
            rng.choice(names["suppliers"]),
            f"{rng.choice('ABCDEFGH')}{rng.randrange(10, 60)}",
            f"{rng.randrange(30, 2_000)} g",
            f"{rng.randrange(2, 90) * 10}",
        )
        place = _draw_place(rng, "records") if place_in_list < ITEMS_OF_AN_ORGANISATION else "table"
        if place_in_list < ITEMS_OF_AN_ORGANISATION:
            column = rng.randrange(1, len(cells))
            topic = records["columns"][column]
            said = records["sentences"][topic].format(code=code, value=cells[column], year=year)
            facts.append(Fact("records", topic, code, year, cells[column], place, said))
        if place == "table":
            rows.append(Item(code, year, cells))
    return tuple(facts), tuple(sorted(rows, key=lambda row: row.code))


def _town(rng: random.Random) -> str:
    return str(rng.choice(words()["names"]["towns"]))


def person(rng: random.Random) -> str:
    """Return a given and a family name."""
    names = words()["names"]
    return f"{rng.choice(names['given'])} {rng.choice(names['family'])}"
