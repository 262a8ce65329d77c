"""Vectors of sentences on a CPU: the default model beside MiniLM in every runtime it is served in.

    python -m benchmarks cpu
    python -m benchmarks cpu --dtypes float32 int8 --output benchmarks/results/cpu-avx2.json

The sentences and titles are those of a Python Enhancement Proposal and of a paper of ScisummNet
dev; each system encodes all of them by themselves. The systems are

- foveate: the default model, `Encoder.encode_texts`;
- MiniLM in Encoder: all-MiniLM-L6-v2, whose size the default model has;
- sentence-transformers: MiniLM in PyTorch;
- ONNX Runtime: MiniLM exported and fused by its optimizer for BERT; int8 weights per channel and
  dynamic activations (`quantize_dynamic`);
- OpenVINO: MiniLM exported; int8 by NNCF, calibrated on sentences of other papers.

All take strings and return float32 vectors of length 1, so the time includes tokenization. The
peers get sentences sorted by length and the options, such as the batch size, that were fastest on a
quarter of them; `Encoder` chooses its own. Every system runs in its own process. In each round, all
systems encode once, one after the other, so that whatever slows the machine down affects them all.
The table has the median over the rounds; the spread is the largest time less the smallest, as a
share of the median. Memory is the peak of the process beyond what it held before it imported the
system. The error is the relative norm of the difference from the same weights in float64 in
PyTorch.

The floor of a dtype is the time of the matrix products alone, those of a token's six layers, at the
rate that oneDNN reaches for 2,048 tokens at the model's shapes. A peer that is not installed is
left out and named in the result.
"""

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from importlib.util import find_spec
from itertools import product
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from benchmarks import report
from benchmarks.encoding import PAGE, PROPOSAL, anchors_with_text, count_tokens
from benchmarks.processes import in_new_process
from benchmarks.registry import measurement, table
from benchmarks.retrieval_systems import minilm_path
from benchmarks.structured_documents import papers
from benchmarks.timing import resident, spread, timed
from foveate import Document, Encoder
from foveate.inference import default_model_path
from foveate.inference.tree_runner import TreeRunner
from foveate.models.tree_bert_network import load_network

SYSTEMS = (
    ("foveate", "float32"),
    ("foveate", "bfloat16"),
    ("MiniLM in Encoder", "float32"),
    ("MiniLM in Encoder", "bfloat16"),
    ("sentence-transformers", "float32"),
    ("sentence-transformers", "bfloat16"),
    ("ONNX Runtime", "float32"),
    ("ONNX Runtime", "int8"),
    ("OpenVINO", "float32"),
    ("OpenVINO", "bfloat16"),
    ("OpenVINO", "int8"),
)
NEEDS = {
    "sentence-transformers": ("sentence_transformers",),
    "ONNX Runtime": ("onnxruntime", "onnx"),
    "OpenVINO": ("openvino", "onnx"),
}
BATCH_SIZES = (8, 16, 32, 64)
MAX_TOKENS = 254  # of a sentence, so that all systems read the whole of it
CALIBRATION = 300  # sentences
FLOOR_TOKENS = 2048

Encode = Callable[[list[str]], Any]
Dtype = Literal["float32", "bfloat16", "int8"]


@measurement(
    "cpu.json",
    *("transformers", "tokenizers", "sentence-transformers", "onnxruntime", "openvino", "nncf"),
)
def sentences(
    data: Path = report.DATA,
    minilm: str | None = None,
    dtypes: Sequence[Dtype] = ("float32", "bfloat16", "int8"),
    rounds: int = 9,
) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Let all systems encode the sentences.

    Options:
        dtypes: of the systems
        rounds: how often each system encodes
    """
    minilm = minilm or minilm_path()
    chosen = [(system, dtype) for system, dtype in SYSTEMS if dtype in dtypes]
    present = [one for one in chosen if all(map(find_spec, NEEDS.get(one[0], ())))]
    if ("OpenVINO", "int8") in present and not find_spec("nncf"):
        present.remove(("OpenVINO", "int8"))
    texts = read_texts(data)
    tokens = sum(count_tokens(texts))
    print(f"{len(texts)} sentences, {tokens} tokens", flush=True)
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name), texts, present, data, minilm)
        results = {
            "setting": {"rounds": rounds, "sentences": len(texts), "tokens": tokens},
            "floors": floors(dtypes),
            "rows": measure(present, Path(name), minilm, rounds),
        }
    yield results, [" ".join(one) for one in chosen if one not in present]


# Texts and references


def read_texts(data: Path) -> list[str]:
    """Read the sentences that are encoded."""
    documents = [
        Document.from_file(PROPOSAL),
        next(iter(papers(data / "scisummnet" / "dev.jsonl.gz"))).document,
    ]
    return short_texts(documents)


def calibration_texts(data: Path) -> list[str]:
    """Read sentences of papers that are not encoded."""
    documents = [paper.document for paper in papers(data / "scisummnet" / "train.jsonl.gz")][:20]
    texts = short_texts(documents)
    return texts[:: len(texts) // CALIBRATION][:CALIBRATION]


def short_texts(documents: list[Document]) -> list[str]:
    """List the sentences and titles of documents that all systems read to the end."""
    texts = [anchor.text for anchor in anchors_with_text(documents)]
    sizes = count_tokens(texts)
    return [text for text, size in zip(texts, sizes, strict=True) if size <= MAX_TOKENS]


@cache
def tokenizer() -> Tokenizer:
    """Load the default model's tokenizer, whose vocabulary is MiniLM's."""
    loaded = Tokenizer.from_file(str(default_model_path() / "tokenizer.json"))
    loaded.no_padding()
    loaded.no_truncation()
    return loaded


def prepare(
    folder: Path, texts: list[str], systems: list[tuple[str, str]], data: Path, minilm: str
) -> None:
    """Write what the processes read: sentences, their vectors in float64, and exported models."""
    bert = load_bert(minilm)
    if ("ONNX Runtime", "float32") in systems or ("OpenVINO", "float32") in systems:
        export(bert, folder / "exported-float32.onnx")
    if ("ONNX Runtime", "int8") in systems:
        export_onnxruntime(folder)
    if ("OpenVINO", "int8") in systems:
        export_openvino(folder, calibration_texts(data))
    (folder / "texts.json").write_text(json.dumps(texts))
    bert = bert.double()
    with torch.inference_mode():
        vectors = {
            "foveate": exact_encoder().encode_texts(texts),
            "MiniLM": in_batches(lambda *batch: bert(*map(torch.from_numpy, batch)), 16)(texts),
        }
    save_file(vectors, folder / "vectors.safetensors")


def exact_encoder() -> Encoder:
    """Load the default model so that it computes in float64."""
    encoder = Encoder.from_pretrained(device="cpu", dtype="float32")
    network = load_network(default_model_path())
    assert network is not None
    network.double().register_forward_hook(
        lambda _, __, output: output._replace(
            embeddings=output.embeddings.float(), salience=output.salience.float()
        )
    )
    return Encoder(TreeRunner(network, encoder.processor))


class Bert(nn.Module):
    """BERT and the normalized mean of its hidden states, as plain products that can be traced.

    Args:
        weights: Those of a `BertModel`.
        heads: Number of attention heads.
    """

    def __init__(self, weights: dict[str, Tensor], heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.names = {name: name.replace(".", "_") for name in weights}
        for name, weight in weights.items():
            self.register_buffer(self.names[name], weight.float())
        self.head_size = weights["embeddings.LayerNorm.weight"].shape[0] // heads
        self.layers = 1 + max(int(name.split(".")[2]) for name in weights if ".layer." in name)

    def get(self, name: str) -> Tensor:
        """Look a weight up by its name in `BertModel`."""
        return getattr(self, self.names[name])

    def linear(self, name: str, x: Tensor) -> Tensor:
        """Apply a linear layer."""
        return F.linear(x, self.get(f"{name}.weight"), self.get(f"{name}.bias"))

    def norm(self, name: str, x: Tensor) -> Tensor:
        """Apply a layer norm."""
        weight, bias = (self.get(f"{name}.LayerNorm.{part}") for part in ("weight", "bias"))
        return F.layer_norm(x, weight.shape, weight, bias, 1e-12)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Encode padded sentences `(batch, length)`: `(batch, hidden_size)`."""
        words = F.embedding(input_ids, self.get("embeddings.word_embeddings.weight"))
        places = self.get("embeddings.position_embeddings.weight")[: input_ids.shape[1]]
        kind = self.get("embeddings.token_type_embeddings.weight")[0]
        x = self.norm("embeddings", words + places + kind)
        mask = attention_mask.to(x.dtype)
        bias = (mask[:, None, None] - 1) * 1e4
        for i in range(self.layers):
            layer = f"encoder.layer.{i}"
            q, k, v = (
                self.linear(f"{layer}.attention.self.{name}", x)
                .view(x.shape[0], x.shape[1], self.heads, self.head_size)
                .transpose(1, 2)
                for name in ("query", "key", "value")
            )
            scores = q @ k.transpose(2, 3) / self.head_size**0.5 + bias
            attended = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
            attended = self.linear(f"{layer}.attention.output.dense", attended)
            x = self.norm(f"{layer}.attention.output", attended + x)
            inner = F.gelu(self.linear(f"{layer}.intermediate.dense", x))
            x = self.norm(f"{layer}.output", self.linear(f"{layer}.output.dense", inner) + x)
        return F.normalize((x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True), dim=-1)


def load_bert(folder: str) -> Bert:
    """Load MiniLM in float32."""
    weights = load_file(Path(folder) / "model.safetensors")
    heads = json.loads((Path(folder) / "config.json").read_text())["num_attention_heads"]
    kept = {
        name: x for name, x in weights.items() if x.is_floating_point() and "pooler" not in name
    }
    return Bert(kept, heads).eval()


# Systems


def in_batches(
    run: Callable[[np.ndarray, np.ndarray], Tensor | np.ndarray], size: int
) -> Callable[[list[str]], Tensor]:
    """Make a function of texts from one of `input_ids` and `attention_mask`, sorted by length."""

    def encode(texts: list[str]) -> Tensor:
        vectors = torch.empty(len(texts), 384)
        for indices, *batch in padded(texts, size):
            vectors[indices] = torch.as_tensor(run(*batch)).float()
        return vectors

    return encode


def padded(texts: list[str], size: int) -> Iterator[tuple[list[int], np.ndarray, np.ndarray]]:
    """Tokenize texts into padded batches of similar lengths, with the indices of their texts."""
    ids = [one.ids for one in tokenizer().encode_batch(texts)]
    by_length = sorted(range(len(texts)), key=lambda i: len(ids[i]))
    for start in range(0, len(texts), size):
        indices = by_length[start : start + size]
        length = len(ids[indices[-1]])
        input_ids = np.zeros((len(indices), length), dtype=np.int64)
        for row, i in zip(input_ids, indices, strict=True):
            row[: len(ids[i])] = ids[i]
        yield indices, input_ids, (input_ids != 0).astype(np.int64)  # 0 is [PAD]


def forms(system: str, dtype: str, folder: Path, minilm: str) -> dict[str, Callable[[], Encode]]:
    """Name the forms that a system is tried in, and how each is loaded."""
    if system in ("foveate", "MiniLM in Encoder"):
        path = None if system == "foveate" else minilm
        return {
            "its own batches": lambda: (
                Encoder.from_pretrained(path, device="cpu", dtype=dtype).encode_texts
            )
        }
    if system == "sentence-transformers":
        return {
            f"batches of {size}": partial(load_sentence_transformers, dtype, size, minilm)
            for size in BATCH_SIZES
        }
    if system == "ONNX Runtime":
        return {
            f"{graph} graph, batches of {size}": partial(
                load_onnxruntime, folder / f"{graph}-{dtype}.onnx", size
            )
            for graph, size in product(("exported", "fused"), BATCH_SIZES)
        }
    return {
        f"{hint.lower()} hint, batches of {size}": partial(load_openvino, dtype, folder, hint, size)
        for hint, size in product(("LATENCY", "THROUGHPUT"), BATCH_SIZES)
    }


def load_sentence_transformers(dtype: str, size: int, minilm: str) -> Encode:
    """Load sentence-transformers in PyTorch."""
    from sentence_transformers import SentenceTransformer

    kwargs = {"dtype": getattr(torch, dtype)}
    model = SentenceTransformer(minilm, device="cpu", model_kwargs=kwargs)
    return lambda texts: model.encode(texts, batch_size=size, convert_to_tensor=True)


def load_onnxruntime(path: Path, size: int) -> Encode:
    """Load a graph in ONNX Runtime."""
    import onnxruntime

    session_options = onnxruntime.SessionOptions()
    session_options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(
        str(path), session_options, providers=["CPUExecutionProvider"]
    )
    return in_batches(
        lambda ids, mask: session.run(None, {"input_ids": ids, "attention_mask": mask})[0], size
    )


def load_openvino(dtype: str, folder: Path, hint: str, size: int) -> Encode:
    """Load a model in OpenVINO, whose hint says how many requests run beside each other."""
    import openvino

    file = "openvino-int8.xml" if dtype == "int8" else "exported-float32.onnx"
    settings = {
        "INFERENCE_PRECISION_HINT": "f32" if dtype == "float32" else "bf16",
        "PERFORMANCE_HINT": hint,
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
    }
    model = openvino.Core().compile_model(str(folder / file), "CPU", settings)
    queue = openvino.AsyncInferQueue(model)

    def encode(texts: list[str]) -> Tensor:
        vectors = torch.empty(len(texts), 384)

        def keep(request: Any, indices: list[int]) -> None:
            vectors[indices] = torch.from_numpy(request.get_output_tensor().data)

        queue.set_callback(keep)
        for indices, *batch in padded(texts, size):
            queue.start_async(batch, indices)
        queue.wait_all()
        return vectors

    return encode


# Exported models


def export(bert: Bert, path: Path) -> None:
    """Write a model as ONNX with a free batch size and length."""
    ids = torch.randint(1000, 2000, (3, 17))
    free = {0: "batch", 1: "length"}
    torch.onnx.export(
        bert,
        (ids, torch.ones_like(ids)),
        str(path),
        input_names=["input_ids", "attention_mask"],
        output_names=["vectors"],
        dynamic_axes={"input_ids": free, "attention_mask": free},
        opset_version=17,
        dynamo=False,
    )


def export_onnxruntime(folder: Path) -> None:
    """Fuse the exported graph, and quantize weights per channel, activations when it runs."""
    from onnx import TensorProto
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.transformers.optimizer import optimize_model

    exported, fused = (folder / f"{graph}-float32.onnx" for graph in ("exported", "fused"))
    optimize_model(
        str(exported), model_type="bert", num_heads=12, hidden_size=384, opt_level=0
    ).save_model_to_file(str(fused))
    for path in (exported, fused):
        quantize_dynamic(
            str(path),
            str(path).replace("float32", "int8"),
            per_channel=True,
            weight_type=QuantType.QInt8,
            extra_options={"DefaultTensorType": TensorProto.FLOAT},  # of what fusing made
        )


def export_openvino(folder: Path, texts: list[str]) -> None:
    """Quantize weights and activations for OpenVINO, with activations as in these texts."""
    import nncf
    import openvino

    batches = [batch for _, *batch in padded(texts, 1)]
    model = nncf.quantize(
        openvino.convert_model(str(folder / "exported-float32.onnx")),
        nncf.Dataset(batches),
        model_type=nncf.ModelType.TRANSFORMER,
        subset_size=len(batches),
    )
    openvino.save_model(model, str(folder / "openvino-int8.xml"), compress_to_fp16=False)


# Measurements


def measure(
    systems: list[tuple[str, str]], folder: Path, minilm: str, rounds: int
) -> list[dict[str, Any]]:
    """Let all systems encode in turn, round after round, each in its own process."""
    rows, workers = [], []
    context = get_context("spawn")
    for system, dtype in systems:
        form = in_new_process(fastest, system, dtype, folder, minilm)
        worker, other = context.Pipe()
        job = other, system, dtype, form, folder, minilm, torch.get_num_threads()
        context.Process(target=work, args=job, daemon=True).start()
        other.close()  # so that a process that ends is noticed
        workers.append(worker)
        rows.append({"system": system, "dtype": dtype, "form": form, "error": worker.recv()})
        print(json.dumps(rows[-1]), flush=True)
    times = [[ask(worker, "again") for worker in workers] for _ in range(rounds)]
    for row, worker, one in zip(rows, workers, zip(*times, strict=True), strict=True):
        row |= {name: [time[name] for time in one] for name in ("seconds", "processor")}
        row |= ask(worker, "end")
    return rows


def ask(worker: Connection, what: str) -> Any:
    """Send something to a process, and return its answer."""
    worker.send(what)
    return worker.recv()


def work(
    asked: Connection, system: str, dtype: str, form: str, folder: Path, minilm: str, threads: int
) -> None:
    """Be the process of a system: send its error, and encode as often as is asked."""
    torch.set_num_threads(threads)
    texts = json.loads((folder / "texts.json").read_text())
    found = forms(system, dtype, folder, minilm)
    before = resident("VmRSS")
    encode = found[form]()
    vectors = torch.as_tensor(encode(texts)).float()
    owner = "foveate" if system == "foveate" else "MiniLM"
    expected = load_file(folder / "vectors.safetensors")[owner]
    asked.send(float((vectors - expected).norm() / expected.norm()))
    while asked.recv() == "again":
        used = time.process_time()
        seconds, _ = timed(partial(encode, texts))
        asked.send({"seconds": seconds, "processor": time.process_time() - used})
    asked.send({"peak MiB": (resident("VmHWM") - before) / 2**20})


def fastest(system: str, dtype: str, folder: Path, minilm: str) -> str:
    """Find the form of a system that takes the least time for a quarter of the texts."""
    found = forms(system, dtype, folder, minilm)
    if len(found) == 1:
        return next(iter(found))
    texts = json.loads((folder / "texts.json").read_text())[::4]
    seconds = {}
    for form, load in found.items():
        encode = load()
        encode(texts)  # kernels are chosen for these shapes
        seconds[form] = min(timed(partial(encode, texts))[0] for _ in range(2))
    return min(seconds, key=seconds.__getitem__)


# Floors


def floors(dtypes: Sequence[str]) -> dict[str, dict[str, float]]:
    """Measure how fast the matrix products of the layers are by themselves, by dtype."""
    config = json.loads((default_model_path() / "config.json").read_text())
    size, inner = config["hidden_size"], config["intermediate_size"]
    shapes = ((size, 3 * size), (size, size), (size, inner), (inner, size))
    seconds = dict.fromkeys(dtypes, 0.0)
    with torch.inference_mode():
        for dtype, (k, n) in product(dtypes, shapes):
            seconds[dtype] += least_seconds(product_of(dtype, k, n))
    flops = 2 * sum(k * n for k, n in shapes)
    return {
        dtype: {
            "GFLOP/s": flops * FLOOR_TOKENS / taken / 1e9,
            "tokens/s": FLOOR_TOKENS / taken / config["num_hidden_layers"],
        }
        for dtype, taken in seconds.items()
    }


def product_of(dtype: str, k: int, n: int) -> Callable[[], Tensor]:
    """Prepare the product of 2,048 states of `k` with a weight of `k` x `n`."""
    x, weight = torch.randn(FLOOR_TOKENS, k), torch.randn(n, k)
    if dtype == "int8":
        quantized = (x * 30).to(torch.int8)
        packed = torch.ops.onednn.qlinear_prepack((weight * 30).to(torch.int8), list(x.shape))
        scales, zeros = torch.ones(n), torch.zeros(n, dtype=torch.long)
        return lambda: torch.ops.onednn.qlinear_pointwise(
            quantized, 1.0, 0, packed, scales, zeros, None, 1.0, 0, torch.bfloat16, "none", [], ""
        )
    x, weight = x.to(getattr(torch, dtype)), weight.to(getattr(torch, dtype))
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, None)
    return lambda: torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], "")


def least_seconds(run: Callable[[], Any]) -> float:
    """Measure the least time of up to 30 calls, which take seconds without the instructions."""
    times: list[float] = []
    while len(times) < 30 and sum(times) < 3:
        times.append(timed(run)[0])
    return min(times)


# Tables


@table(PAGE, "sentences", "cpu.json")
@table(PAGE, "sentences, AVX2", "cpu-avx2.json")
def table_of(results: dict[str, Any]) -> str:
    """Format the results."""
    tokens, sentences = (results["setting"][name] for name in ("tokens", "sentences"))
    cells = [
        [
            f"{row['system']}, {row['dtype']}",
            round(tokens / median(row["seconds"])),
            round(sentences / median(row["seconds"])),
            spread(row["seconds"]),
            row["error"],
            round(row["peak MiB"]),
            row["form"],
        ]
        for row in results["rows"]
    ]
    header = ["system", "tokens/s", "sentences/s", "spread %", "error", "peak MiB", "form"]
    return report.table(header, cells)
