"""Measure, or write what was measured into the documentation.

python -m benchmarks                    # lists what there is
python -m benchmarks NAME --help
python -m benchmarks NAME --limit 1
python -m benchmarks tables             # writes all tables of the pages
python -m benchmarks pictures           # draws their pictures
"""

import sys
from importlib import import_module

from benchmarks import registry


def main() -> None:
    name, *arguments = sys.argv[1:] or [""]
    if name == "tables":
        registry.import_with("table")
        registry.write_tables()
    elif name == "pictures":
        registry.import_with("picture")
        registry.draw_pictures()
    else:
        modules = registry.modules_with("measurement")
        if (module := name.partition("-")[0]) in modules:
            import_module(f"benchmarks.{module}")
        if name not in registry.MEASUREMENTS:
            lines = (f"  {one}: {text.splitlines()[0][3:]}" for one, text in modules.items())
            sys.exit("\n".join([__doc__, *lines]))
        registry.run(name, arguments)


if __name__ == "__main__":
    main()
