"""Give every public name of the reference a page of its own.

The pages of `docs/reference` name modules: `::: foveate.data`, with `members` where not all names
of `__all__`, or without one all that are documented, are meant. In their place stand the module's
description and a table of its names, whose pages are generated.
"""

import re
from collections.abc import Iterator
from typing import Any

import griffe
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

DIRECTIVE = re.compile(r"^::: (\S+)(?:\n {4}options:\n {6}members: \[(.*)\])?$", re.MULTILINE)
PAGE = """---
title: {name}
---

[{title}]({source})

::: {path}
    options:
      heading_level: 1
"""

pages: dict[str, str] = {}
"""The page of each name, by where it is defined."""
_package: Any = None


def on_files(files: Files, config: Any) -> Files:
    """Generate the pages."""
    global _package
    _package = griffe.load("foveate", search_paths=["src"])
    pages.clear()
    for file in files.documentation_pages():
        if not file.src_uri.startswith("reference/"):
            continue
        source = file.src_uri.removeprefix("reference/")
        title = file.content_string.removeprefix("# ").partition("\n")[0]
        for module, members in DIRECTIVE.findall(file.content_string):
            for name, one in _members(module, members):
                if one.canonical_path in pages:
                    continue
                path = f"{module}.{name}"
                pages[one.canonical_path] = f"{path}.md"
                content = PAGE.format(name=name, title=title, source=source, path=path)
                files.append(File.generated(config, f"reference/{path}.md", content=content))
    return files


def on_page_markdown(markdown: str, *, page: Page, **kwargs: Any) -> str:
    """Put tables in the place of modules."""
    if not page.file.src_uri.startswith("reference/") or page.file.generated_by:
        return markdown
    return DIRECTIVE.sub(_table, markdown)


def _table(found: re.Match[str]) -> str:
    """Describe a module, and list its names with the first sentence of each."""
    module, members = found.groups(default="")
    rows = [
        f"| [`{name}`]({pages[one.canonical_path]}){{ #{module}.{name} }} | {_summary(one)} |"
        for name, one in _members(module, members)
    ]
    about = f"::: {module}\n    options:\n      members: false\n" if module != "foveate" else ""
    return "\n".join([about, "| name | |", "|---|---|", *rows])


def _members(module: str, members: str) -> Iterator[tuple[str, Any]]:
    """Visit the names of a module that are meant, with what they stand for."""
    found = _package[module.removeprefix("foveate.")] if module != "foveate" else _package
    names = members.split(", ") if members else found.exports
    for name in names or found.members:
        one = found[name]
        if names or not (one.is_alias or name.startswith("_") or one.docstring is None):
            yield name, one.final_target if one.is_alias else one


def _summary(one: Any) -> str:
    """Return the first paragraph of a docstring, on one line."""
    text = one.docstring.value if one.docstring else ""
    return " ".join(text.partition("\n\n")[0].split()).replace("|", "\\|")
