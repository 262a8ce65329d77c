"""`foveate cache`."""

import typer

from foveate.cache import MAX_BYTES, Cache

from . import common

app = typer.Typer(
    no_args_is_help=True,
    help="Show or empty the cache, in which documents that have been read are kept with their "
    "vectors, so that a second question about a file is answered at once.",
)

_MB = 10**6


@app.command("show")
def show(json: common.Json = False) -> None:
    """Say where the cache is, and how much it holds.

    \b
    foveate cache show
    """
    cache = Cache()
    files = cache.files()
    num_bytes = sum(stat.st_size for _, stat in files)
    if json:
        common.print_json(
            {
                "folder": str(cache.folder),
                "files": len(files),
                "bytes": num_bytes,
                "max_bytes": MAX_BYTES,
            }
        )
        return
    common.console.print(
        f"{cache.folder}: {common.count(len(files), 'file')}, {num_bytes / _MB:,.0f} of "
        f"{MAX_BYTES / _MB:,.0f} MB",
        markup=False,
    )


@app.command("clear")
def clear() -> None:
    """Remove everything from the cache.

    \b
    foveate cache clear
    """
    cache = Cache()
    print(f"{cache.folder}: removed {cache.clear() / _MB:,.0f} MB")
