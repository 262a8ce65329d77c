r"""Numbers and units of siunitx: \SI{3.5}{\kilo\watt} is 3.5 kW."""

import re

_PREFIXES = dict(
    zip(
        "yocto zepto atto femto pico nano micro milli centi deci deca deka hecto kilo mega giga tera "
        "peta exa zetta yotta kibi mebi gibi tebi".split(),
        "y z a f p n µ m c d da da h k M G T P E Z Y Ki Mi Gi Ti".split(),
        strict=True,
    )
)
_UNITS = dict(
    zip(
        "ampere candela kelvin kilogram metre meter mole second becquerel celsius degreeCelsius "
        "coulomb farad gray hertz henry joule lumen katal lux newton ohm pascal radian siemens "
        "sievert steradian tesla volt watt weber day degree hectare hour litre liter arcminute minute "
        "arcsecond tonne astronomicalunit atomicmassunit bohr dalton electronvolt hartree bar "
        "mmHg angstrom nauticalmile knot bel decibel neper percent gram byte bit arcsec arcmin "
        "kg km cm mm um nm m s ms us ns h kW W MW A mA V mV kV Hz kHz MHz GHz K N kN Pa kPa MPa J kJ "
        "eV keV MeV GeV g mg ml L l dB mol T C F pF".split(),
        "A cd K kg m m mol s Bq °C °C C F Gy Hz H J lm kat lx N Ω Pa rad S Sv sr T V W Wb d ° ha h l l "
        "′ min ″ t ua u a_0 Da eV E_h bar mmHg Å M kn B dB Np % g B bit ″ ′ "
        "kg km cm mm µm nm m s ms µs ns h kW W MW A mA V mV kV Hz kHz MHz GHz K N kN Pa kPa MPa J kJ "
        "eV keV MeV GeV g mg ml L l dB mol T C F pF".split(),
        strict=True,
    )
)
_POWERS = {"squared": "^2", "cubed": "^3", "square": "^2", "cubic": "^3"}
_TOKEN = re.compile(r"\\([A-Za-z]+)\s*(?:\{([^{}]*)\})?|([.~])|\^\{?(-?\d+)\}?|([^\\.~^]+)")
_NUMBER = re.compile(r"([+-]?[\d.,\s]*)[eEdD]([+-]?\d+)")
COMMANDS = {  # their arguments
    **dict.fromkeys(("SI", "qty", "SIrange", "qtyrange", "SIlist", "qtylist"), "quantity"),
    **dict.fromkeys(("num", "numrange", "numlist", "ang", "complexnum"), "number"),
    **dict.fromkeys(("si", "unit"), "unit"),
}


def write(name: str, arguments: list[str], declared: dict[str, str]) -> str:
    """Write a quantity.

    Args:
        name: One of `COMMANDS`.
        arguments: The source of its arguments.
        declared: The units that the document declares.
    """
    kind = COMMANDS[name]
    unit = _unit(arguments[-1], declared) if kind != "number" and arguments else ""
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


def _unit(written: str, declared: dict[str, str]) -> str:
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
            unit = declared.get(macro) or _UNITS.get(macro, macro)
            shown += (sign or " " * bool(shown)) + prefix + unit + power
            prefix = power = sign = ""
        elif exponent:
            shown += f"^{exponent}"
        elif gap:
            shown += " "
        else:
            shown += literal
    return " ".join(shown.split())
