r"""Numbers and units of siunitx: \SI{3.5}{\kilo\watt} is 3.5 kW."""

import re

from foveate.documents.words import load_words

_WORDS = load_words("siunitx")
_PREFIXES, _UNITS, _POWERS = _WORDS["prefixes"], _WORDS["units"], _WORDS["powers"]
_TOKEN = re.compile(r"\\([A-Za-z]+)\s*(?:\{([^{}]*)\})?|([.~])|\^\{?(-?\d+)\}?|([^\\.~^]+)")
_NUMBER = re.compile(r"([+-]?[\d.,\s]*)[eEdD]([+-]?\d+)")
COMMANDS = {  # with the number of their arguments
    **{"SI": 2, "qty": 2, "SIrange": 3, "qtyrange": 3, "SIlist": 2, "qtylist": 2},
    **{"num": 1, "numproduct": 1, "numrange": 2, "numlist": 1, "ang": 1, "si": 1, "unit": 1},
}


def write(name: str, arguments: list[str]) -> str:
    """Write a quantity: one of `COMMANDS` with the source of its arguments."""
    if name == "ang":
        parts = zip([*arguments, ""][0].split(";"), "°′″", strict=False)
        return "".join(_number(part) + sign for part, sign in parts if part.strip())
    has_unit = not name.startswith("num") and bool(arguments)
    unit = _unit(arguments[-1]) if has_unit else ""
    numbers = arguments[:-1] if has_unit else arguments
    if name.endswith("list"):
        numbers = [number for written in numbers for number in written.split(";")]
    joined = (" to " if name.endswith("range") else ", ").join(map(_number, numbers))
    space = "" if unit in ("°", "′", "″") else " "
    return f"{joined}{space}{unit}" if joined and unit else joined or unit


def _number(written: str) -> str:
    written = " ".join(written.replace("\\,", "").split())
    written = written.replace("+-", " ± ").replace("\\pm", " ± ")
    if match := _NUMBER.fullmatch(written):
        power = f"10^{match[2].removeprefix('+')}"
        return f"{match[1].strip()} × {power}" if match[1].strip() else power
    return re.sub(r"(?<=\d)\s*x\s*(?=\d)", " × ", written)


def _unit(written: str) -> str:
    shown = ""
    prefix = power = sign = ""
    for macro, argument, gap, exponent, literal in _TOKEN.findall(written.strip().strip("{}")):
        if macro == "per":
            sign = "/"
        elif macro in ("square", "cubic"):
            power = _POWERS[macro]
        elif macro in ("squared", "cubed"):
            shown += _POWERS[macro]
        elif macro in ("tothe", "raiseto"):
            shown += f"^{argument}"
        elif macro in ("of", "text", "mathrm"):
            shown += f" {argument}" if macro == "of" else argument
        elif macro in _PREFIXES:
            prefix = _PREFIXES[macro]
        elif macro:
            shown += (sign or " " * bool(shown)) + prefix + _UNITS.get(macro, macro) + power
            prefix = power = sign = ""
        elif exponent:
            shown += f"^{exponent}"
        elif gap:
            shown += " "
        else:
            shown += literal
    return " ".join(shown.split())
