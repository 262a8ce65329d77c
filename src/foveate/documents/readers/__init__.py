"""A module or package for each format, with a function `read` that returns a `ParsedText`.

Modules of formats that hold several documents have a function `split` instead, which yields a
`Member` for each of them.
"""
