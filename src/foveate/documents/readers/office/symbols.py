"""The characters of fonts that show symbols in place of letters: Symbol and Wingdings."""

_SYMBOL = (
    " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾"
    "αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼"
    + " " * 34
    + "ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…|—↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊⟨®©™∑"
)  # from U+0020 on
_WINGDINGS = dict(
    zip(
        map(ord, "JLlnoqrst\x76\x78\x9f\xa7\xa8\xdf\xe0\xe1\xe2\xe8\xf0\xfb\xfc\xfd\xfe"),
        "☺☹●■□❑❒⬧⧫❖⌧•▪◻←→↑↓➔⇨✗✓☒☑",
        strict=True,
    )
)


def translate(text: str, font: str) -> str:
    """Return the characters that a font shows for a text; the text itself for other fonts."""
    codes = [ord(character) & 0xFF for character in text]
    if font == "Symbol":
        return "".join(_SYMBOL[code - 32 : code - 31] if code >= 32 else " " for code in codes)
    if font.startswith("Wingdings"):
        return "".join(_WINGDINGS.get(code, "") if font == "Wingdings" else "" for code in codes)
    return text
