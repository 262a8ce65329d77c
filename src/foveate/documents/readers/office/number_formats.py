"""Numbers, dates and times as a sheet of Excel shows them, by the code of their format."""

import re
from datetime import datetime, timedelta

from foveate.documents.words import load_words

BUILT_IN = {int(key): code for key, code in load_words("office")["number_formats"].items()}
_SECTIONS = re.compile(r";(?=(?:[^\"]*\"[^\"]*\")*[^\"]*\Z)")
_TOKEN = re.compile(
    r"\"(?P<quoted>[^\"]*)\"|\\(?P<escaped>.)|[_*].|\[(?P<elapsed>h+|m+|s+)\]|\[\$(?P<sign>[^\]-]*)"
    r"[^\]]*\]|\[[^\]]*\]|(?P<half>AM/PM|A/P)|(?P<date>y+|m+|d+|h+|s+(?:\.0+)?)"
    r"|(?P<number>[0#?][0#?,]*(?:\.[0#?]*)?(?:E[+-]0+)?)|(?P<literal>.)",
    re.IGNORECASE,
)
_SECONDS = {"h": 3600, "m": 60, "s": 1}


def show(value: float, code: str, *, is_1904: bool = False) -> str:
    """Write a number.

    Args:
        value: The number; that of a date counts days.
        code: The code of its format, such as "0.0%" or "yyyy-mm-dd"; empty for any number.
        is_1904: Whether days count from 1904.
    """
    sections = _SECTIONS.split(code)
    if value < 0 and len(sections) > 1:
        value, section = -value, sections[1]
    else:
        section = sections[2] if len(sections) > 2 and not value else sections[0]
    tokens = list(_TOKEN.finditer(section))
    kinds = [token.lastgroup for token in tokens]
    try:
        if "date" in kinds or "elapsed" in kinds:
            return _date(value, tokens, is_1904).strip()
        if kinds.count("number") == 1:
            return _number(value, tokens).strip()
    except (OverflowError, ValueError):
        pass
    return format(value, ".15g")


def _number(value: float, tokens: list[re.Match[str]]) -> str:
    shown = ""
    value *= 100 ** sum(token["literal"] == "%" for token in tokens)
    for token in tokens:
        code = token["number"]
        if not code:
            shown += token["quoted"] or token["escaped"] or token["sign"] or token["literal"] or ""
        elif "E" in code.upper() or "/" in token.string:
            shown += format(value, ".15g")
        else:
            whole, _, fraction = code.partition(".")
            digits = whole.rstrip(",")
            written = f"{value / 1000 ** (len(whole) - len(digits)):,.{len(fraction)}f}"
            written = written if "," in digits else written.replace(",", "")
            for place in reversed(fraction):
                if place != "0" and written.endswith("0"):
                    written = written[:-1]
                else:
                    break
            shown += written.rstrip(".").zfill(
                digits.count("0") + len(fraction.rstrip("#?")) + bool(fraction.rstrip("#?"))
            )
    return shown


def _date(value: float, tokens: list[re.Match[str]], is_1904: bool) -> str:
    first = datetime(1904, 1, 1) if is_1904 else datetime(1899, 12, 30 + (value < 61))
    date = first + timedelta(milliseconds=round(value * 86_400_000))
    if not any("." in (token["date"] or "") for token in tokens):
        date = (date + timedelta(milliseconds=500)).replace(microsecond=0)
    dates = [token for token in tokens if token["date"] or token["elapsed"]]
    is_half = any(token["half"] for token in tokens)
    shown = ""
    for token in tokens:
        if token["half"]:
            shown += "AM" if date.hour < 12 else "PM"
        elif token["elapsed"]:
            shown += str(int(round(value * 86_400) // _SECONDS[token["elapsed"][0].lower()]))
        elif token["date"]:
            at = dates.index(token)
            is_minute = any(
                (one["date"] or one["elapsed"])[0].lower() == unit
                for unit, near in (("h", dates[max(at - 1, 0) : at]), ("s", dates[at + 1 : at + 2]))
                for one in near
            )
            shown += _part(date, token["date"].lower(), is_minute, is_half)
        else:
            shown += token["quoted"] or token["escaped"] or token["literal"] or ""
    return shown


def _part(date: datetime, code: str, is_minute: bool, is_half: bool) -> str:
    """Return what a code such as "yyyy" stands for."""
    length = len(code)
    if code[0] == "y":
        return f"{date:%Y}" if length > 2 else f"{date:%y}"
    if code[0] == "d" and length > 2:
        return f"{date:%a}" if length == 3 else f"{date:%A}"
    if code[0] == "m" and length > 2:
        return f"{date:%b}" if length == 3 else f"{date:%B}"
    if code[0] == "s":
        _, _, fraction = code.partition(".")
        seconds = f"{date.second:0{min(len(code.split('.')[0]), 2)}}"
        return (
            f"{seconds}.{date.microsecond:06}"[: len(seconds) + 1 + len(fraction)]
            if fraction
            else seconds
        )
    number = {
        "d": date.day,
        "h": (date.hour - 1) % 12 + 1 if is_half else date.hour,
        "m": date.minute if is_minute else date.month,
    }[code[0]]
    return f"{number:0{min(length, 2)}}"
