"""The API reference page: the OpenAPI schema as HTML, without any script."""

import json
import re
from collections.abc import Iterator
from html import escape
from typing import Any

STYLE = """
:root { color-scheme: light dark; --line: #8885; --dim: #8a8a8a; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3 { line-height: 1.2; } h2 { margin-top: 3rem; }
details { border: 1px solid var(--line); border-radius: .4rem; margin: .6rem 0;
  padding: .5rem 1rem; }
summary { cursor: pointer; } summary code { font-weight: 600; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 1rem; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .6rem .3rem 0; text-align: left;
  vertical-align: top; }
code, pre { font: 14px/1.45 ui-monospace, monospace; overflow-wrap: anywhere; }
pre { overflow-x: auto; } .dim { color: var(--dim); }
"""

_MAX_DEPTH = 4


def render(schema: dict[str, Any]) -> str:
    """Render an OpenAPI schema as an HTML page."""
    return "".join(_page(schema))


def _page(schema: dict[str, Any]) -> Iterator[str]:
    info = schema["info"]
    title = escape(info["title"])
    yield (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width">'
        '<link rel="icon" href="favicon.svg">'
        f'<link rel="stylesheet" href="docs.css"></head><body><h1>{title} '
        f'<span class="dim">{escape(info["version"])}</span></h1>'
    )
    yield _paragraphs(info.get("description", ""))
    yield '<p>For programs: <a href="openapi.json">openapi.json</a>.</p>'
    tags: dict[str, list[str]] = {}
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            tag = operation.get("tags", ["other"])[0]
            tags.setdefault(tag, []).append("".join(_operation(schema, path, method, operation)))
    for tag, operations in tags.items():
        yield f"<h2>{escape(tag.capitalize())}</h2>{''.join(operations)}"
    yield "</body></html>"


def _operation(
    schema: dict[str, Any], path: str, method: str, operation: dict[str, Any]
) -> Iterator[str]:
    yield (
        f"<details><summary><code>{method.upper()} {escape(path)}</code> "
        f"{escape(operation.get('summary', ''))}</summary>"
    )
    yield _paragraphs(operation.get("description", ""))
    if parameters := operation.get("parameters"):
        rows = [
            (one["name"], _type(schema, one["schema"]), one["required"], _about(one, one["schema"]))
            for one in parameters
        ]
        yield f"<h3>Parameters</h3>{_table(rows)}"
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        body = _resolve(schema, content["schema"])
        yield f"<h3>Body: <code>{escape(kind)}</code></h3>{_table(_rows(schema, body))}"
    yield "<h3>Answers</h3>"
    for status, answer in operation["responses"].items():
        yield f"<p><code>{escape(status)}</code> {escape(answer.get('description', ''))}</p>"
        content = answer.get("content", {}).get("application/json", {}).get("schema")
        if content and status.startswith("2"):
            example = json.dumps(_example(schema, content), indent=1)
            yield f"<pre>{escape(example)}</pre>"
    yield "</details>"


def _table(rows: list[tuple[str, str, bool, str]]) -> str:
    cells = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(kind)}"
        f"{'' if is_required else ' <span class=dim>optional</span>'}</td>"
        f"<td>{_inline(about)}</td></tr>"
        for name, kind, is_required, about in rows
    )
    return f"<table>{cells}</table>"


def _rows(schema: dict[str, Any], body: dict[str, Any]) -> list[tuple[str, str, bool, str]]:
    required = body.get("required", [])
    return [
        (name, _type(schema, one), name in required, _about(one, one))
        for name, one in body.get("properties", {}).items()
    ]


def _about(described: dict[str, Any], value: dict[str, Any]) -> str:
    """Return a description, with the default and the bounds."""
    parts = [described.get("description", "")]
    if value.get("default") is not None:
        parts.append(f"Default: {value['default']}.")
    for bound, words in (("minimum", "At least"), ("maximum", "At most")):
        if bound in value:
            parts.append(f"{words} {value[bound]}.")
    return " ".join(filter(None, parts))


def _type(schema: dict[str, Any], value: dict[str, Any]) -> str:
    value = _resolve(schema, value)
    if "anyOf" in value:
        kinds = [_type(schema, one) for one in value["anyOf"]]
        return " or ".join(kind for kind in dict.fromkeys(kinds) if kind != "null")
    if "enum" in value:
        return " | ".join(map(str, value["enum"]))
    if value.get("type") == "array":
        return f"list of {_type(schema, value.get('items', {}))}"
    return str(value.get("const", value.get("format", value.get("type", "any"))))


def _example(schema: dict[str, Any], value: dict[str, Any], depth: int = 0) -> Any:
    """Return the form of a response: an object with the type of each value."""
    value = _resolve(schema, value)
    if depth < _MAX_DEPTH and "properties" in value:
        return {name: _example(schema, one, depth + 1) for name, one in value["properties"].items()}
    if depth < _MAX_DEPTH and value.get("type") == "array" and "items" in value:
        return [_example(schema, value["items"], depth + 1)]
    return _type(schema, value)


def _resolve(schema: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    reference = value.get("$ref")
    if reference is None:
        return value
    name = reference.rpartition("/")[2]
    found: dict[str, Any] = schema["components"]["schemas"][name]
    return found


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{_inline(part)}</p>" for part in text.split("\n\n") if part.strip())


def _inline(text: str) -> str:
    """Escape a text, and set what stands in backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
