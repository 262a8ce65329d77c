"""`foveate embed`."""

from typing import Annotated

import typer

from . import common
from .reading import Files, Reading, takes_options


@takes_options
def command(
    files: Files,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where to write the vectors: a .safetensors or .parquet file.",
        ),
    ],
    shard: Annotated[
        str,
        typer.Option(
            metavar="I/N",
            help="Encode only this shard of the documents, from 1/N to N/N, so that each of "
            "several jobs writes a file.",
        ),
    ] = "1/1",
    model: common.Model = None,
    device: common.Device = None,
    dtype: common.DType = None,
    json: common.Json = False,
    *,
    reading: Reading,
) -> None:
    """Write the vectors of documents, sections and sentences, with their texts and places.

    \b
    foveate embed paper.pdf contract.docx --output vectors.parquet
    foveate embed book.txt -o book.safetensors --dtype bfloat16

    Several jobs can share the work. All of them read the files, and each one
    encodes its shard:

    \b
    foveate embed papers/ -o vectors-2.parquet --shard 2/8
    """
    number, total = _parse(shard)
    common.prepare()
    from foveate.tasks.embed import check_output, check_shard, embed

    check_shard(number, total)
    check_output(output)
    documents = reading.documents(files)
    encoder = common.load_encoder(model, device, dtype)
    embeddings = embed(documents, model=encoder, shard=(number, total))
    embeddings.save(output)
    counts = {
        level: sum(embedded.level == level for embedded in embeddings.spans)
        for level in ("document", "section", "sentence")
    }
    dimension = embeddings.vectors.shape[1]
    if json:
        common.print_json({"output": output, "dimension": dimension, **counts})
    else:
        numbers = ", ".join(common.count(number, level) for level, number in counts.items())
        common.console.print(f"{output}: {numbers}; {dimension} dimensions", markup=False)


def _parse(shard: str) -> tuple[int, int]:
    """Parse the number of a shard and the number of shards."""
    number, slash, total = shard.partition("/")
    if not (slash and number.isdecimal() and total.isdecimal()):
        raise ValueError(f"--shard takes a shard and the number of shards, as in 2/8, got {shard}")
    return int(number), int(total)
