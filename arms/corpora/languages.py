"""Names of languages, so that a misspelt one isn't taken for a language without a stemmer."""

from __future__ import annotations

import difflib

_NAMES = """
abkhazian afar afrikaans akan albanian amharic arabic aragonese armenian assamese avaric aymara
azerbaijani bambara bashkir basque belarusian bengali bislama bosnian breton bulgarian burmese
catalan chamorro chechen chichewa chinese chuvash cornish corsican cree croatian czech danish
divehi dutch dzongkha english esperanto estonian ewe faroese fijian filipino finnish french fulah
gaelic galician ganda georgian german greek guarani gujarati haitian hausa hebrew herero hindi
hungarian icelandic ido igbo indonesian interlingua inuktitut irish italian japanese javanese
kannada kanuri kashmiri kazakh khmer kikuyu kinyarwanda komi kongo korean kurdish kyrgyz lao latin
latvian limburgish lingala lithuanian luxembourgish macedonian malagasy malay malayalam maltese
manx maori marathi marshallese mongolian navajo nepali norwegian occitan odia ojibwa oromo
ossetian pali pashto persian polish portuguese punjabi quechua romanian romansh rundi russian
samoan sango sanskrit sardinian serbian sesotho shona sindhi sinhala slovak slovenian somali
spanish sundanese swahili swati swedish tagalog tahitian tajik tamil tatar telugu thai tibetan
tigrinya tongan tsonga tswana turkish turkmen twi ukrainian urdu uyghur uzbek venda vietnamese
walloon welsh wolof xhosa yiddish yoruba zhuang zulu
"""

OTHER = "other"
"""Stands for a language that isn't listed, and for mixtures: no stemmer, no stop words."""

LANGUAGES = frozenset(_NAMES.split()) | {OTHER}
"""English names, in lower case: the living languages of ISO 639-1, as far as they are one word."""


def check_language(name: str) -> str:
    """Return ``name``; raise ``ValueError`` that names the nearest language where it is none."""
    if name in LANGUAGES:
        return name
    near = difflib.get_close_matches(name.lower(), sorted(LANGUAGES), n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    raise ValueError(
        f"no language is called '{name}'; {hint}expected its English name in lower case, e.g. "
        f"english, german, chinese, or '{OTHER}' (words aren't stemmed, none is a stop word)"
    )
