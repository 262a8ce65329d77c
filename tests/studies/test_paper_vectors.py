import pytest
import torch

from foveate import Document, Encoder
from foveate.inference.tree_runner import TreeRunner
from foveate.models.hdt import HDTConfig, HDTModel
from foveate.models.vcc import VccBertConfig
from foveate.preprocessing import HDTProcessor
from paper_vectors import FirstTokens, WholePapers, encode_papers
from scirepeval_data import parse_papers
from tests.numerics import relative_error
from tests.studies.papers import paper
from tests.t5 import save_t5
from tests.tree_bert import save_bert

TINY = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2}


@pytest.fixture
def papers():
    return dict(parse_papers((str(i), paper(i)) for i in range(5)))


@pytest.fixture(scope="module")
def bert(tmp_path_factory, tokenizer):
    folder = tmp_path_factory.mktemp("bert")
    save_bert(folder, tokenizer, max_position_embeddings=24)
    return FirstTokens.from_pretrained(folder, device="cpu")


def test_papers_and_queries_are_encoded_by_themselves(papers, encoder, monkeypatch):
    monkeypatch.setattr("paper_vectors.PAPERS_AT_ONCE", 2)
    vectors = encode_papers(WholePapers(encoder), papers.items(), queries={"3"})
    assert set(vectors) == set(papers)
    for name in "124":
        assert relative_error(vectors[name], encoder.encode(papers[name]).document) < 1e-5
    assert relative_error(vectors["3"], encoder.encode_queries(papers["3"].text)) < 1e-5


def test_hdt_reads_papers_and_queries_as_documents(papers, small_tokenizer):
    torch.manual_seed(0)
    model = HDTModel(HDTConfig(vocab_size=len(small_tokenizer), **TINY)).eval()
    processor = HDTProcessor(small_tokenizer)
    hdt = WholePapers(Encoder(TreeRunner(model, processor)))

    def first_token(document):
        batch = processor([document])
        with torch.no_grad():
            return model(**batch).last_hidden_state[0, 0]

    expected = torch.stack([first_token(document) for document in papers.values()])
    assert relative_error(hdt.encode_papers(list(papers.values())), expected) < 1e-5
    query = first_token(Document.from_text("fish of the sea"))
    assert relative_error(hdt.encode_queries(["fish of the sea"])[0], query) < 1e-5


def test_first_tokens_of_title_abstract_and_text(papers, bert, tokenizer):
    texts = {
        "0": "Study 0 [SEP] Cod swim in cold seas.",
        "1": "Study 1 [SEP] The telescope saw a galaxy. Introduction A supernova is brighter than "
        "its galaxy. Planets orbit small stars. Results Spectra show how far quasars are.",
    }
    found = bert.encode_papers([papers[name] for name in texts])
    for vector, text in zip(found, texts.values(), strict=True):
        inputs = tokenizer(text, truncation=True, max_length=24, return_tensors="pt")
        with torch.no_grad():
            expected = bert.model(**inputs).last_hidden_state[0, 0]
        assert relative_error(vector, expected) < 1e-5
    assert len(tokenizer(texts["1"])["input_ids"]) > 24


def test_a_title_is_read_once_where_nothing_else_is_known(bert):
    [(_, title)] = parse_papers([("", {"doc_id": "1", "title": "Of cod", "abstract": None})])
    found = bert.encode_papers([title])
    assert relative_error(found, bert.encode_queries(["Of cod"])) < 1e-6


def test_first_tokens_do_not_depend_on_batch_mates(papers, bert):
    several = [*papers.values()] * 5
    together = bert.encode_papers(several)
    for i in (0, 7, 24):
        assert relative_error(together[i], bert.encode_papers([several[i]])[0]) < 1e-5
    assert bert.encode_papers([]).shape == (0, 16)


def test_models_that_give_no_first_token(tmp_path, encoder):
    VccBertConfig().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="which reads with a question and gives no vectors"):
        FirstTokens.from_pretrained(tmp_path)
    save_t5(tmp_path, "whale")
    with pytest.raises(ValueError, match="is a t5 model, which writes text and gives no vectors"):
        FirstTokens.from_pretrained(tmp_path)
    with pytest.raises(ValueError, match="is a tree_bert model, which reads documents as trees"):
        FirstTokens.from_pretrained(encoder.model.config._name_or_path)
