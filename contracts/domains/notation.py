"""How texts write numbers and days, where the contract declares it: `decimal`, `grouping`, `format`, `time_zone`.

A declared notation is strict, so that every engine reads it alike: a text is wholly of the notation, or it is no
value. It concerns texts alone: what is stored as a number, a day or a moment is what it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from typing import Final

from contracts.reading.scalars import FieldPath, Problem, nearest, refuse, show

# --- Which spellings are one value.


NUMBER: Final = "^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)$"
"""A text that is a number: no exponent, so that codes such as 1E50 stay texts. Every engine reads this pattern."""
MOMENT: Final = "^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?)?$"
"""A text that is a day or a moment."""
_FLAGS: Final = {"true": 1.0, "false": 0.0}


def number_of(text: str) -> float | None:
    """Return the number that a text is, as a double; true is 1 and false is 0; None for any other text."""
    if re.fullmatch(NUMBER, text):
        number = float(text)
        return number + 0.0 if abs(number) < float("inf") else None
    return _FLAGS.get(text.lower())


def moment_of(text: str) -> datetime | None:
    """Return the moment that a text is; a day is its midnight; None for any other text."""
    if not re.fullmatch(MOMENT, text):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def value_key(text: str) -> str | None:
    """Return what all spellings of a text's value share, as DuckDB writes it; None for a text that is only itself."""
    number = number_of(text)
    if number is not None:
        return repr(number)
    moment = moment_of(text)
    return None if moment is None else re.sub(r"(\.[0-9]*?)0+$", r"\1", str(moment))


def by_value(texts: Iterable[str]) -> dict[str, str]:
    """Map the key of each value to the first text that spells it."""
    found: dict[str, str] = {}
    for text in texts:
        key = value_key(text)
        if key is not None:
            found.setdefault(key, text)
    return found


def one_value_problems(meanings: Mapping[str, object], at: FieldPath) -> list[Problem]:
    """Name the texts that spell one value and mean different things.

    Args:
        meanings: what each text means.
        at: the key under which they stand.
    """
    first: dict[str, str] = {}
    problems = []
    for text, meaning in meanings.items():
        key = value_key(text)
        other = None if key is None else first.setdefault(key, text)
        if other is not None and meanings[other] != meaning:
            found = (
                f"{text!r} beside {other!r}, which are one value once a writer stores the column as numbers or days"
            )
            remedy = "let both mean the same (kind: mapping), or spell one with a letter where the table is made"
            problems.append(Problem(found, "texts that differ as values", remedy, at))
    return problems


# --- The time zones that a contract may name.


_PLACES: Final = {
    "Africa": """
        Abidjan Accra Addis_Ababa Algiers Asmara Asmera Bamako Bangui Banjul Bissau Blantyre Brazzaville Bujumbura
        Cairo Casablanca Ceuta Conakry Dakar Dar_es_Salaam Djibouti Douala El_Aaiun Freetown Gaborone Harare
        Johannesburg Juba Kampala Khartoum Kigali Kinshasa Lagos Libreville Lome Luanda Lubumbashi Lusaka Malabo
        Maputo Maseru Mbabane Mogadishu Monrovia Nairobi Ndjamena Niamey Nouakchott Ouagadougou Porto-Novo Sao_Tome
        Timbuktu Tripoli Tunis Windhoek
    """,
    "America": """
        Adak Anchorage Anguilla Antigua Araguaina Argentina/Buenos_Aires Argentina/Catamarca
        Argentina/ComodRivadavia Argentina/Cordoba Argentina/Jujuy Argentina/La_Rioja Argentina/Mendoza
        Argentina/Rio_Gallegos Argentina/Salta Argentina/San_Juan Argentina/San_Luis Argentina/Tucuman
        Argentina/Ushuaia Aruba Asuncion Atikokan Atka Bahia Bahia_Banderas Barbados Belem Belize Blanc-Sablon
        Boa_Vista Bogota Boise Buenos_Aires Cambridge_Bay Campo_Grande Cancun Caracas Catamarca Cayenne Cayman
        Chicago Chihuahua Ciudad_Juarez Coral_Harbour Cordoba Costa_Rica Coyhaique Creston Cuiaba Curacao
        Danmarkshavn Dawson Dawson_Creek Denver Detroit Dominica Edmonton Eirunepe El_Salvador Ensenada Fort_Nelson
        Fort_Wayne Fortaleza Glace_Bay Godthab Goose_Bay Grand_Turk Grenada Guadeloupe Guatemala Guayaquil Guyana
        Halifax Havana Hermosillo Indiana/Indianapolis Indiana/Knox Indiana/Marengo Indiana/Petersburg
        Indiana/Tell_City Indiana/Vevay Indiana/Vincennes Indiana/Winamac Indianapolis Inuvik Iqaluit Jamaica Jujuy
        Juneau Kentucky/Louisville Kentucky/Monticello Knox_IN Kralendijk La_Paz Lima Los_Angeles Louisville
        Lower_Princes Maceio Managua Manaus Marigot Martinique Matamoros Mazatlan Mendoza Menominee Merida
        Metlakatla Mexico_City Miquelon Moncton Monterrey Montevideo Montreal Montserrat Nassau New_York Nipigon
        Nome Noronha North_Dakota/Beulah North_Dakota/Center North_Dakota/New_Salem Nuuk Ojinaga Panama Pangnirtung
        Paramaribo Phoenix Port-au-Prince Port_of_Spain Porto_Acre Porto_Velho Puerto_Rico Punta_Arenas Rainy_River
        Rankin_Inlet Recife Regina Resolute Rio_Branco Rosario Santa_Isabel Santarem Santiago Santo_Domingo
        Sao_Paulo Scoresbysund Shiprock Sitka St_Barthelemy St_Johns St_Kitts St_Lucia St_Thomas St_Vincent
        Swift_Current Tegucigalpa Thule Thunder_Bay Tijuana Toronto Tortola Vancouver Virgin Whitehorse Winnipeg
        Yakutat Yellowknife
    """,
    "Antarctica": "Casey Davis DumontDUrville Macquarie Mawson McMurdo Palmer Rothera South_Pole Syowa Troll Vostok",
    "Arctic": "Longyearbyen",
    "Asia": """
        Aden Almaty Amman Anadyr Aqtau Aqtobe Ashgabat Ashkhabad Atyrau Baghdad Bahrain Baku Bangkok Barnaul Beirut
        Bishkek Brunei Calcutta Chita Choibalsan Chongqing Chungking Colombo Dacca Damascus Dhaka Dili Dubai
        Dushanbe Famagusta Gaza Harbin Hebron Ho_Chi_Minh Hong_Kong Hovd Irkutsk Istanbul Jakarta Jayapura Jerusalem
        Kabul Kamchatka Karachi Kashgar Kathmandu Katmandu Khandyga Kolkata Krasnoyarsk Kuala_Lumpur Kuching Kuwait
        Macao Macau Magadan Makassar Manila Muscat Nicosia Novokuznetsk Novosibirsk Omsk Oral Phnom_Penh Pontianak
        Pyongyang Qatar Qostanay Qyzylorda Rangoon Riyadh Saigon Sakhalin Samarkand Seoul Shanghai Singapore
        Srednekolymsk Taipei Tashkent Tbilisi Tehran Tel_Aviv Thimbu Thimphu Tokyo Tomsk Ujung_Pandang Ulaanbaatar
        Ulan_Bator Urumqi Ust-Nera Vientiane Vladivostok Yakutsk Yangon Yekaterinburg Yerevan
    """,
    "Atlantic": """
        Azores Bermuda Canary Cape_Verde Faeroe Faroe Jan_Mayen Madeira Reykjavik South_Georgia St_Helena Stanley
    """,
    "Australia": """
        ACT Adelaide Brisbane Broken_Hill Canberra Currie Darwin Eucla Hobart LHI Lindeman Lord_Howe Melbourne NSW
        North Perth Queensland South Sydney Tasmania Victoria West Yancowinna
    """,
    "Brazil": "Acre DeNoronha East West",
    "Canada": "Atlantic Central East-Saskatchewan Eastern Mountain Newfoundland Pacific Saskatchewan Yukon",
    "Chile": "Continental EasterIsland",
    "Etc": """
        GMT GMT+0 GMT+1 GMT+10 GMT+11 GMT+12 GMT+2 GMT+3 GMT+4 GMT+5 GMT+6 GMT+7 GMT+8 GMT+9 GMT-0 GMT-1 GMT-10
        GMT-11 GMT-12 GMT-13 GMT-14 GMT-2 GMT-3 GMT-4 GMT-5 GMT-6 GMT-7 GMT-8 GMT-9 GMT0 Greenwich UCT UTC Universal
        Zulu
    """,
    "Europe": """
        Amsterdam Andorra Astrakhan Athens Belfast Belgrade Berlin Bratislava Brussels Bucharest Budapest Busingen
        Chisinau Copenhagen Dublin Gibraltar Guernsey Helsinki Isle_of_Man Istanbul Jersey Kaliningrad Kiev Kirov
        Kyiv Lisbon Ljubljana London Luxembourg Madrid Malta Mariehamn Minsk Monaco Moscow Nicosia Oslo Paris
        Podgorica Prague Riga Rome Samara San_Marino Sarajevo Saratov Simferopol Skopje Sofia Stockholm Tallinn
        Tirane Tiraspol Ulyanovsk Uzhgorod Vaduz Vatican Vienna Vilnius Volgograd Warsaw Zagreb Zaporozhye Zurich
    """,
    "Indian": "Antananarivo Chagos Christmas Cocos Comoro Kerguelen Mahe Maldives Mauritius Mayotte Reunion",
    "Mexico": "BajaNorte BajaSur General",
    "Pacific": """
        Apia Auckland Bougainville Chatham Chuuk Easter Efate Enderbury Fakaofo Fiji Funafuti Galapagos Gambier
        Guadalcanal Guam Honolulu Johnston Kanton Kiritimati Kosrae Kwajalein Majuro Marquesas Midway Nauru Niue
        Norfolk Noumea Pago_Pago Palau Pitcairn Pohnpei Ponape Port_Moresby Rarotonga Saipan Samoa Tahiti Tarawa
        Tongatapu Truk Wake Wallis Yap
    """,
    "US": """
        Alaska Aleutian Arizona Central East-Indiana Eastern Hawaii Indiana-Starke Michigan Mountain Pacific
        Pacific-New Samoa
    """,
}
_NAMES: Final = (f"{area}/{place}" for area, places in _PLACES.items() for place in places.split())
TIME_ZONES: Final = frozenset(("UTC", *_NAMES))


DECIMAL_MARKS: Final = (",", ".")
GROUPING_MARKS: Final[Mapping[str, str]] = {".": ".", ",": ",", " ": " \u00a0\u2009\u202f", "'": "'\u2019"}
"""The letters that each declared mark stands for: a space that does not break is a space, a typographic ' is one."""
TIME_OF_DAY: Final = "([ T][0-9][0-9]?:[0-9][0-9](:[0-9][0-9]([.,][0-9]+)?)?( ?[AaPp][Mm])?)?"
"""What may stand behind a day: the day alone counts, as of every moment."""
COMPACT: Final = "%Y%m%d"
"""The one format without marks between its parts. It is a whole number too, so it may be stored as one."""
FORMATS: Final = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y-%m-%d", "%Y.%m.%d", "%Y/%m/%d"),
    *("%Y%m%d", "%d. %m. %Y", "%Y年%m月%d日"),
)
"""Formats in which texts often write days."""
FIRST_COMPACT, LAST_COMPACT = 10000101, 99991231
INSTANT: Final = (
    "[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}[ T][0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?"
    " ?([Zz]|UTC|[+-][0-9]{2}(:?[0-9]{2})?)"
)
"""A text that is a moment of a known offset from UTC."""
BETWEEN: Final = " .,/-_'"
"""What may stand between the parts of a day, beside letters."""
_PARTS: Final[Mapping[str, str]] = {"Y": "([1-9][0-9][0-9][0-9])", "m": "([0-9][0-9]?)", "d": "([0-9][0-9]?)"}
_REFUSED: Final[Mapping[str, str]] = {
    **dict.fromkeys("yg", "a year of two digits, which is of two centuries"),
    **dict.fromkeys("bBhaAcxX", "a name, which depends on a language"),
    **dict.fromkeys("HIMSfpTR", "a time of day: what stands behind the day is read over without it"),
    **dict.fromkeys("zZ", "an offset: of moments that have one, `time_zone` says which day they are of"),
}


@dataclass(frozen=True)
class NumberNotation:
    """How texts write numbers: an optional sign, digits, and decimals behind the mark; digits on both of its sides.

    Args:
        decimal: the mark before the decimals.
        grouping: the mark between groups of three digits, which may all be left out; None where there is none.
    """

    decimal: str
    grouping: str | None

    @cached_property
    def pattern(self) -> str:
        """A regular expression that every engine reads alike; no exponents, infinities, currencies."""
        digits = "[0-9]+"
        if self.grouping is not None:
            digits = f"([0-9]+|[0-9][0-9]?[0-9]?([{self._groupings}][0-9][0-9][0-9])+)"
        return f"^[+-]?{digits}([{self.decimal}][0-9]+)?$"

    @property
    def replaced(self) -> tuple[tuple[str, str], ...]:
        """Which letters are replaced by which, in order, so that the number is spelled with a point."""
        return (*((letter, "") for letter in self._groupings), (self.decimal, "."))

    @property
    def _groupings(self) -> str:
        return "" if self.grouping is None else GROUPING_MARKS[self.grouping]

    def read(self, text: str) -> float | None:
        """Return the number that a text is, as a double; None for a text that is none."""
        text = text.strip(" ")
        if not re.fullmatch(self.pattern, text):
            return None
        for letter, other in self.replaced:
            text = text.replace(letter, other)
        return float(text)


def number_notation(decimal: str | None, grouping: str | None) -> NumberNotation | None:
    """Return the notation that a contract declares, None where it declares none; refuse what would be ambiguous."""
    problems = []
    if decimal not in (None, *DECIMAL_MARKS):
        problems.append(Problem(show(decimal), '"," or "."', "write the mark before the decimals", ("decimal",)))
    if grouping not in (None, *GROUPING_MARKS):
        allowed = """one of ".", ",", " " and "'\""""
        problems.append(Problem(show(grouping), allowed, "leave it out if digits stand together", ("grouping",)))
    if not problems and grouping == (decimal or "."):
        remedy = f'write decimal: "{"," if grouping == "." else "."}", or another mark'
        found = f"{grouping!r} between groups of digits and before the decimals"
        problems.append(Problem(found, "two marks that differ", remedy, ("grouping",)))
    if problems:
        refuse(problems)
    return None if decimal is None and grouping is None else NumberNotation(decimal or ".", grouping)


@dataclass(frozen=True)
class DayNotation:
    """How texts write days: %d, %m and %Y, each once, with the same letters between them in every text.

    Days and months have one digit or two, years four (1000 to 9999). A time of day may follow.

    Args:
        written: the format as declared.
    """

    written: str

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The parts in their order: Y, m, d."""
        return tuple(re.findall("%(.)", self.written))

    @property
    def compact(self) -> bool:
        """Whether it is the format of eight digits."""
        return self.written == COMPACT

    @cached_property
    def pattern(self) -> str:
        """A regular expression that every engine reads alike, one group for each part in order.

        Eight digits may be followed by noughts behind a point: where one is missing, writers make 20241231.0 of all.
        """
        if self.compact:
            return "^([1-9][0-9][0-9][0-9])([0-9][0-9])([0-9][0-9])([.]0*)?$"
        spelled = re.sub(
            "%(.)|(.)", lambda found: _PARTS[found[1]] if found[1] else _verbatim(found[2]), self.written
        )
        return f"^{spelled}{TIME_OF_DAY}$"

    def group(self, part: str) -> int:
        """Return the number of the group of a part."""
        return self.parts.index(part) + 1

    def read(self, text: str) -> date | None:
        """Return the day that a text is; None for a text that is none."""
        found = re.fullmatch(self.pattern, text.strip(" "))
        try:
            return date(*(int(found[self.group(part)]) for part in "Ymd")) if found else None
        except ValueError:
            return None


def _verbatim(letter: str) -> str:
    """Write a letter that stands for itself so that no engine takes it for an operator."""
    return letter if letter.isalpha() else f"[{letter}]"


def check_format(written: str) -> str:
    """Refuse a format in which a text could be two days, or that is not read."""
    problem = _format_problem(written)
    if problem is not None:
        refuse([problem])
    return written


def format_of_java(pattern: str) -> str | None:
    """Return the format that a pattern of Java's DateTimeFormatter is (dd.MM.yyyy); None for what is none of ours."""
    if "%" in pattern:
        return None
    form = re.sub("d{1,2}", "%d", re.sub("M{1,2}", "%m", re.sub("yyyy|uuuu", "%Y", pattern)))
    return form if sorted(re.findall("%(.)", form)) == sorted("Ymd") and _format_problem(form) is None else None


def _format_problem(written: str) -> Problem | None:
    allowed = "%d, %m and %Y, each once, with marks or letters between them; or %Y%m%d"
    example = 'write for instance "%d.%m.%Y", "%m/%d/%Y" or "%Y%m%d"'
    for found in re.finditer("%(.?)", written):
        if found[1] not in _PARTS or not found[1]:
            why = _REFUSED.get(found[1], "which is not read")
            return Problem(f"{found[0]} in {show(written)}: {why}", allowed, example)
    other = format_of_java(written)
    if other is not None:
        return Problem(f"{show(written)}, a pattern of Java", allowed, f'write "{other}"')
    parts, between = re.findall("%(.)", written), re.split("%.", written)
    if sorted(parts) != sorted("Ymd"):
        lacking = [f"%{part}" for part in "dmY" if part not in parts]
        found_words = (
            f"{show(written)} without {' and '.join(lacking)}" if lacking else f"{show(written)}, a part twice"
        )
        return Problem(found_words, allowed, example)
    if written == COMPACT:
        return None
    if not all(between[1:-1]):
        return Problem(f"{show(written)}, whose parts touch", allowed, example)
    if not all(letter.isalpha() or letter in BETWEEN for letter in "".join(between)):
        return Problem(f"{show(written)}, with other marks than {BETWEEN!r}", allowed, example)
    if written != written.strip():
        return Problem(f"{show(written)}, with a space at its end", allowed, "spaces around a text do not count")
    return None


def check_zone(written: str) -> str:
    """Refuse what is no time zone of the IANA database."""
    if written not in TIME_ZONES:
        allowed = "UTC or a zone of the IANA database, such as Europe/Berlin or Asia/Tokyo"
        remedy = nearest(written, TIME_ZONES) or "an abbreviation (CET) or an offset (+01:00) is none"
        refuse([Problem(show(written), allowed, remedy)])
    return written
