"""Formulas within a sentence, in a form that can be read: x_i, n/2, 10^-3."""

_BETWEEN = {  # what is written before each child of an element, after the first
    "msub": "_",
    "msup": "^",
    "msubsup": "_^",
    "munder": "_",
    "mover": "",
    "munderover": "_^",
    "mfrac": "/",
    "mroot": "^",
}
HIDDEN = frozenset({"annotation", "annotation-xml", "mphantom"})
INVISIBLE = dict.fromkeys(range(0x2061, 0x2065))  # operators, for `str.translate`


def sign_before(parent: str, index: int) -> str:
    """Return what is written before a child of an element of MathML.

    Args:
        parent: Name of the element.
        index: Number of the child, from 0.
    """
    return _BETWEEN.get(parent, "")[index - 1 : index] if index else ""
