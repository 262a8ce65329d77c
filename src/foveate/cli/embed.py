"""`foveate embed`."""

from dataclasses import dataclass

from foveate.tasks.parameters import parameter

from . import common
from .command import JSON
from .models import LoadingOptions, prepare
from .reading import FILES, ReadingOptions


@dataclass(kw_only=True)
class EmbedCommand(ReadingOptions, LoadingOptions):
    """Write the vectors of documents, sections and sentences, with their texts and places.

    \b
    foveate embed paper.pdf contract.docx --output vectors.parquet
    foveate embed book.txt -o book.safetensors --dtype bfloat16
    """

    files: list[str] = parameter(FILES, metavar="FILE", is_argument=True)
    output: str = parameter(
        "Where to write the vectors: a .safetensors or .parquet file.", short="-o", metavar="FILE"
    )
    json: bool = parameter(JSON, False)

    def __call__(self) -> None:
        prepare()
        from foveate.tasks.embed import check_output, embed

        check_output(self.output)
        documents = self.read(self.files)
        encoder = self.load_encoder()
        embeddings = embed(documents, model=encoder)
        embeddings.save(self.output)
        counts = {
            level: sum(embedded.level == level for embedded in embeddings.spans)
            for level in ("document", "section", "sentence")
        }
        dimension = embeddings.vectors.shape[1]
        if self.json:
            common.print_json({"output": self.output, "encoder": encoder.describe(), **counts})
        else:
            numbers = ", ".join(common.count(number, level) for level, number in counts.items())
            common.console.print(f"{self.output}: {numbers}; {dimension} dimensions", markup=False)
