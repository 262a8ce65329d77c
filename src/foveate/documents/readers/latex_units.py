r"""Numbers and units of siunitx: \SI{3.5}{\kilo\watt} is 3.5 kW."""

import re


def pairs(text: str) -> dict[str, str]:
    """Return a dict of the words of a text, which are keys and values in turn."""
    words = text.split()
    return dict(zip(words[::2], words[1::2], strict=True))


_PREFIXES = pairs(
    """
    yocto y  zepto z  atto a  femto f  pico p  nano n  micro µ  milli m  centi c  deci d  deca
    da  deka da  hecto h  kilo k  mega M  giga G  tera T  peta P  exa E  zetta Z  yotta Y
    kibi Ki  mebi Mi  gibi Gi  tebi Ti
    """
)
_UNITS = pairs(
    """
    ampere A  candela cd  kelvin K  kilogram kg  metre m  meter m  mole mol  second s
    becquerel Bq  celsius °C  degreeCelsius °C  coulomb C  farad F  gray Gy  hertz Hz  henry H
    joule J  lumen lm  katal kat  lux lx  newton N  ohm Ω  pascal Pa  radian rad  siemens S
    sievert Sv  steradian sr  tesla T  volt V  watt W  weber Wb  day d  degree °  hectare ha
    hour h  litre l  liter l  arcminute ′  minute min  arcsecond ″  tonne t  astronomicalunit
    ua  atomicmassunit u  bohr a_0  dalton Da  electronvolt eV  hartree E_h  angstrom Å
    nauticalmile M  knot kn  bel B  decibel dB  neper Np  percent %  gram g  byte B  arcsec ″
    arcmin ′  um µm  us µs
    """
)
_POWERS = {"squared": "^2", "cubed": "^3", "square": "^2", "cubic": "^3"}
_TOKEN = re.compile(r"\\([A-Za-z]+)\s*(?:\{([^{}]*)\})?|([.~])|\^\{?(-?\d+)\}?|([^\\.~^]+)")
_NUMBER = re.compile(r"([+-]?[\d.,\s]*)[eEdD]([+-]?\d+)")
COMMANDS = {  # their arguments
    **dict.fromkeys(("SI", "qty", "SIrange", "qtyrange", "SIlist", "qtylist"), "quantity"),
    **dict.fromkeys(("num", "numproduct", "numrange", "numlist", "ang"), "number"),
    **dict.fromkeys(("si", "unit"), "unit"),
}


def write(name: str, arguments: list[str]) -> str:
    """Write a quantity: one of `COMMANDS` with the source of its arguments."""
    kind = COMMANDS[name]
    unit = _unit(arguments[-1]) if kind != "number" and arguments else ""
    numbers = arguments if kind == "number" else arguments[:-1]
    if name.endswith("list"):
        numbers = [number for written in numbers for number in written.split(";")]
    if name == "ang":
        parts = zip([*arguments, ""][0].split(";"), "°′″", strict=False)
        return "".join(_number(part) + sign for part, sign in parts if part.strip())
    shown = [_number(number) for number in numbers]
    joined = " to ".join(shown) if name.endswith("range") else ", ".join(shown)
    space = "" if unit in ("°", "′", "″") else " "
    return f"{joined}{space}{unit}" if joined and unit else joined or unit


def _number(written: str) -> str:
    written = (
        " ".join(written.replace("\\,", "").split()).replace("+-", " ± ").replace("\\pm", " ± ")
    )
    match = _NUMBER.fullmatch(written)
    if match:
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
