"""The licence that a release states, as dataset cards name it.

The names are those that the Hugging Face Hub's cards know and that fit data.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from arms.errors import SettingsError

KNOWN = (
    "apache-2.0",
    "bsd-3-clause",
    "c-uda",
    "cc0-1.0",
    "cc-by-3.0",
    "cc-by-4.0",
    "cc-by-nc-3.0",
    "cc-by-nc-4.0",
    "cc-by-nc-nd-4.0",
    "cc-by-nc-sa-3.0",
    "cc-by-nc-sa-4.0",
    "cc-by-nd-4.0",
    "cc-by-sa-3.0",
    "cc-by-sa-4.0",
    "cdla-permissive-1.0",
    "cdla-permissive-2.0",
    "cdla-sharing-1.0",
    "etalab-2.0",
    "gfdl",
    "mit",
    "odbl",
    "odc-by",
    "other",
    "pddl",
    "unlicense",
)


@dataclass(frozen=True, slots=True)
class Licence:
    """A known name, or ``other`` with the address of its text."""

    name: str
    link: str | None = None


def parse_licence(name: str | None, link: str | None) -> Licence:
    """Check what the user states.

    Raises:
        SettingsError: no licence, an unknown one, or ``other`` without a link.
    """
    if not name or not name.strip():
        raise SettingsError(
            "a release needs a licence, and nobody but you can choose it: expected --license NAME, "
            "e.g. --license cc-by-4.0; where queries came from other collections, their licences "
            "bind you too"
        )
    known = name.strip().lower()
    if known not in KNOWN:
        near = difflib.get_close_matches(known, KNOWN, n=1, cutoff=0.6)
        hint = f"did you mean '{near[0]}'? Known: " if near else "known: "
        raise SettingsError(
            f"--license {name!r} isn't a licence that dataset cards know; {hint}"
            f"{', '.join(KNOWN)}. For another: --license other --license-link ADDRESS"
        )
    if known == "other" and not link:
        raise SettingsError(
            "--license other says nothing by itself; expected --license-link with the address of "
            "the licence's text"
        )
    return Licence(known, link)
