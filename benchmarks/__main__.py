"""Measure, or write what was measured into the documentation.

python -m benchmarks                    # lists what there is
python -m benchmarks NAME --help
python -m benchmarks NAME --limit 1
python -m benchmarks tables             # writes all tables of the pages
python -m benchmarks pictures           # draws their pictures
"""

import sys
from importlib import import_module

from benchmarks import registry, report

MODULES = {
    path.stem: text
    for path in sorted(report.ROOT.glob("benchmarks/*.py"))
    if "\n@measurement(" in (text := path.read_text(encoding="utf-8"))
}
"""The text of each module that registers measurements."""


def main() -> None:
    name, *arguments = sys.argv[1:] or [""]
    if name in ("tables", "pictures"):
        for module in MODULES:
            import_module(f"benchmarks.{module}")
        {"tables": registry.write_tables, "pictures": registry.draw_pictures}[name]()
        return
    module = name.partition("-")[0]
    if module in MODULES:
        import_module(f"benchmarks.{module}")
    if name not in registry.MEASUREMENTS:
        lines = (f"  {one}: {text.splitlines()[0][3:]}" for one, text in MODULES.items())
        sys.exit("\n".join([__doc__, *lines]))
    registry.run(name, arguments)


if __name__ == "__main__":
    main()
