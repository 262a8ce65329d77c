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
    model: common.Model = None,
    json: common.Json = False,
    *,
    loading: common.Loading,
    reading: Reading,
) -> None:
    """Write the vectors of documents, sections and sentences, with their texts and places.

    \b
    foveate embed paper.pdf contract.docx --output vectors.parquet
    foveate embed book.txt -o book.safetensors --dtype bfloat16
    """
    common.prepare()
    from foveate.tasks.embed import check_output, embed

    check_output(output)
    documents = reading.documents(files)
    encoder = common.load_encoder(model, loading)
    embeddings = embed(documents, model=encoder)
    embeddings.save(output)
    counts = {
        level: sum(embedded.level == level for embedded in embeddings.spans)
        for level in ("document", "section", "sentence")
    }
    dimension = embeddings.vectors.shape[1]
    if json:
        common.print_json({"output": output, "encoder": encoder.describe(), **counts})
    else:
        numbers = ", ".join(common.count(number, level) for level, number in counts.items())
        common.console.print(f"{output}: {numbers}; {dimension} dimensions", markup=False)
