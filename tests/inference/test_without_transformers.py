"""A TreeBert in a folder is read without transformers, and gives what transformers' model gives."""

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel

from foveate import Document, Encoder
from foveate.inference import default_model_path
from foveate.models.tree_bert import TreeBertModel
from foveate.models.tree_bert_network import TreeBertNetwork, load_network
from foveate.preprocessing import TreeBertProcessor, load_tokenizer
from foveate.preprocessing.tree_builder import TreeTokenizer, load_tree_tokenizer
from tests.tree_bert import save_bert, save_tree_bert

TEXTS = [
    "",
    "Cod swim.",
    "Größe: 3 µm — naïve [SEP] tokens, [MASK]ed or not.",
    "鯨が泳ぐ。 Où est la baleine ?\t\u200b x",
    "antidisestablishmentarianism " * 80,
    "whale " * 700,
]


def documents_of(texts):
    return [
        Document.from_sections("Texts", [("All", texts, [("Deep", texts[1:3])])]),
        Document.from_sections("", [("", ["One."])]),
    ]


COMMANDS = {
    "search": ("search", "cod"),
    "ask": ("ask", "What do cod eat?"),
    "summarize": ("summarize",),
    "keywords": ("keywords",),
    "inspect": ("inspect",),
    "embed": ("embed", "--output", "vectors.safetensors"),
}
SCRIPT = """
import contextlib, io, json, sys
from foveate.cli import main
text, commands = sys.argv[1], json.loads(sys.argv[2])
for name, command in commands.items():
    sys.argv = ["foveate", *command, text]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            main()
        except SystemExit as stopped:
            assert not stopped.code, name
    assert printed.getvalue(), name
    loaded = {"torch._dynamo", "transformers"} & sys.modules.keys()
    assert not loaded, (name, loaded)

from foveate import Encoder
from foveate.service.app import create_app
encoder = Encoder.from_pretrained()
create_app(encoder)
loaded = {"torch._dynamo", "transformers"} & sys.modules.keys()
assert not loaded, ("serve", loaded)
"""


def test_commands_do_without_transformers_and_the_compiler(tmp_path):
    text = tmp_path / "cod.md"
    text.write_text("# Fish\n\nCod swim in the sea. They eat herring and shrimps.\n")
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, text, json.dumps(COMMANDS)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stderr
    assert "model of type" not in run.stderr


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_default_model_gives_what_it_gives_in_transformers(dtype, monkeypatch):
    encoder = Encoder.from_pretrained(dtype=dtype, device="cpu")
    assert isinstance(encoder.model, TreeBertNetwork)
    monkeypatch.setattr("foveate.inference.tree_runner.load_network", lambda folder: None)
    stock = Encoder.from_pretrained(dtype=dtype, device="cpu")
    assert isinstance(stock.model, TreeBertModel)
    assert isinstance(stock.processor, TreeBertProcessor)
    assert (encoder.context, encoder.dimension) == (stock.context, stock.dimension)
    # In bfloat16, most processors take ten times as long: long texts are for float32.
    texts = TEXTS if dtype == "float32" else TEXTS[:4]
    documents = documents_of(texts)
    for found, expected in zip(encoder.encode(documents), stock.encode(documents), strict=True):
        for name in ("document", "sections", "sentences", "salience"):
            assert torch.equal(getattr(found, name), getattr(expected, name)), name
    assert torch.equal(encoder.encode_texts(texts), stock.encode_texts(texts))


def test_tokens_are_those_of_transformers():
    texts = [*TEXTS, *(chr(i) + "a" + chr(i) for i in range(0, 0x3000, 7))]
    found = load_tree_tokenizer(default_model_path())
    tokenizer = load_tokenizer(default_model_path())
    expected = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
    assert found.token_ids(texts) == expected
    assert [*map(found.offsets, TEXTS)] == [*map(TreeBertProcessor(tokenizer).offsets, TEXTS)]
    lengths = [sum(map(len, found.pieces([text])[1])) for text in TEXTS]
    assert [len(found.offsets(text)) for text in TEXTS] == lengths


def test_a_network_has_the_weights_of_the_checkpoint():
    network = load_network(default_model_path())
    model = AutoModel.from_pretrained(default_model_path())
    expected = dict(model.named_parameters())
    found = dict(network.named_parameters())
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name].float()) for name in expected)
    assert not network.training


def change_json(name, **values):
    def change(folder):
        content = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps({**content, **values}))

    return change


def cut_a_weight(folder):
    weights = load_file(folder / "model.safetensors")
    weights["pooling.sentence"] = weights["pooling.sentence"][:-1].clone()
    (folder / "model.safetensors").unlink()
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def damage(name):
    return lambda folder: (folder / name).write_bytes(b"{")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (cut_a_weight, "do not have the sizes in its config.json"),
        (damage("model.safetensors"), "weights of .* are damaged"),
        (change_json("config.json", hidden_size=24), "do not have the sizes"),
        (change_json("processor_config.json", depth=3), "has no option 'depth'"),
        (change_json("processor_config.json", levels=2), "levels must be at least 3"),
        (damage("processor_config.json"), "processor_config.json of .* is damaged"),
    ],
)
def test_what_is_damaged_is_named_by_what_loads_all_checkpoints(
    change, message, tmp_path, tokenizer
):
    save_tree_bert(tmp_path, tokenizer)
    assert isinstance(Encoder.from_pretrained(tmp_path).processor, TreeTokenizer)
    change(tmp_path)
    with pytest.raises(ValueError, match=message):
        Encoder.from_pretrained(tmp_path)


def test_an_activation_of_transformers(tmp_path, tokenizer):
    model = save_tree_bert(tmp_path, tokenizer, hidden_act="gelu_new")
    batch = TreeBertProcessor(tokenizer)(documents_of(TEXTS))
    assert torch.equal(load_network(tmp_path)(**batch).embeddings, model(**batch).embeddings)


def test_other_checkpoints_are_left_to_transformers(tmp_path, tokenizer):
    save_bert(tmp_path, tokenizer)
    assert load_network(tmp_path) is None
    assert load_tree_tokenizer(tmp_path) is None
    assert load_network(tmp_path / "nothing") is None
