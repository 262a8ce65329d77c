import copy
import gzip
import json
import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foveate.data import BENCHMARKS, read_benchmark
from foveate.preprocessing.text import plain_text
from tests.paths import shared


def written(path, *records):
    text = "".join(json.dumps(record) + "\n" for record in records)
    path.write_bytes(gzip.compress(text.encode())) if path.suffix == ".gz" else path.write_text(
        text
    )
    return path


def titles(example):
    return [section.title for section in example.document.sections]


def test_arxiv_and_pubmed(tmp_path):
    record = {
        "article_id": "1",
        "article_text": ["cod swim .", "they eat ."],
        "abstract_text": ["<S> on cod . </S>", "<S> they swim . </S>"],
        "labels": None,
        "section_names": ["introduction", "results"],
        "sections": [["cod swim ."], ["they eat .", ""]],
    }
    file = written(tmp_path / "test.txt", record)
    for name in ("arxiv", "pubmed"):
        [example] = read_benchmark(name, file)
        assert example.id == "1"
        assert titles(example) == ["introduction", "results"]
        assert example.references == ("on cod . they swim .",)


def test_cnn_dailymail(tmp_path):
    record = {"article": "Cod swim. They eat.", "highlights": "Cod swim .\nThey eat .", "id": "f0"}
    [example] = read_benchmark("cnn_dailymail", written(tmp_path / "test.jsonl", record))
    assert (example.id, example.references) == ("f0", ("Cod swim .\nThey eat .",))
    assert len(list(example.document.sentences())) == 2
    (tmp_path / "test.csv").write_text('id,article,highlights\nf0,"Cod swim, fast.",Cod swim .\n')
    [example] = read_benchmark("cnn_dailymail", tmp_path / "test.csv")
    assert (example.id, example.references) == ("f0", ("Cod swim .",))


INTERVIEW = {
    "id": "NPR-1",
    "program": "Fish",
    "title": "Of cod",
    "url": "",
    "summary": "A talk on cod.",
    "utt": ["Welcome. We talk.", "Mm-hmm.", "The cod swim."],
    "speaker": ["HOST", "Ms. EEL", "Ms. EEL"],
}


def test_mediasum(tmp_path):
    (tmp_path / "news_dialogue.json").write_text(json.dumps([INTERVIEW, INTERVIEW]))
    example, _ = read_benchmark("mediasum", tmp_path / "news_dialogue.json")
    assert (example.id, example.references) == ("NPR-1", ("A talk on cod.",))
    paragraphs = list(example.document.paragraphs())
    assert [paragraph.speaker for paragraph in paragraphs] == ["HOST", "Ms. EEL"]
    assert plain_text(example.document) == "Welcome. We talk.\nThe cod swim."


@pytest.mark.parametrize(
    ("benchmark", "record", "message"),
    [
        ("cnn_dailymail", {"article": "Cod."}, "'highlights' is missing"),
        ("mediasum", {**INTERVIEW, "utt": ["Hi."]}, "1 utterances have 3 speakers"),
        ("mediasum", {**INTERVIEW, "utt": [3]}, "utt must be a text or a list of texts"),
        ("mediasum", {**INTERVIEW, "speaker": None}, "speaker must be a text or a list"),
    ],
)
def test_a_damaged_record_is_named(benchmark, record, message, tmp_path):
    file = written(tmp_path / "a.jsonl", record)
    with pytest.raises(ValueError, match=rf"a\.jsonl, line 1 is not a record .*{message}"):
        list(read_benchmark(benchmark, file))


NEW_RECORDS = {
    "cnn_dailymail": {"article": "Cod swim.", "highlights": "Cod .", "id": "1"},
    "ecthr_arg": {"case_id": "1", "paragraphs": ["He fished."], "labels": [["Application"]]},
    "mediasum": INTERVIEW,
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(benchmark=st.sampled_from(sorted(NEW_RECORDS)), data=st.data())
def test_any_change_to_a_record_is_read_or_named(benchmark, data, tmp_path):
    record = copy.deepcopy(NEW_RECORDS[benchmark])
    field = data.draw(st.sampled_from(sorted(record)))
    if data.draw(st.booleans()):
        record[field] = data.draw(JSON)
    else:
        del record[field]
    file = written(tmp_path / "a.jsonl", record)
    examples, message = [], ""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*line 1 is skipped: ")
        try:
            examples = list(read_benchmark(benchmark, file))
        except ValueError as error:
            message = str(error)
    assert not message or "a.jsonl, line 1 is not a record of this benchmark" in message
    for example in examples:
        labels = sum(example.section_labels, example.labels)
        texts = [example.id, example.document.title, *example.references, *labels]
        assert all(isinstance(text, str) for text in texts)


def section(title, *paragraphs, below=()):
    return {"section_title": title, "paragraphs": list(paragraphs), "subsections": list(below)}


def test_govreport(tmp_path):
    gao = {
        "id": "GAO-1",
        "title": "Fisheries",
        "highlight": [section("What", "Cod is cheap."), section("Why", "It swims.")],
        "report": [
            section("Background", "Cod swim.", "They eat.", below=[section("Law", "None.")])
        ],
    }
    crs = {"id": "R1", "title": "Seas", "summary": ["Seas are deep."]}
    crs["reports"] = section("", "", below=[section("Depth", "Seas are wet.")])
    (tmp_path / "GAO-1.json").write_text(json.dumps(gao))
    (tmp_path / "R1.json").write_text(json.dumps(crs, indent=1))
    first, second = read_benchmark("govreport", tmp_path)
    assert first.references == ("Cod is cheap.\nIt swims.",)
    assert plain_text(first.document).split("\n") == [
        "Fisheries",
        "Background",
        "Cod swim.",
        "They eat.",
        "Law",
        "None.",
    ]
    assert second.references == ("Seas are deep.",)
    assert "Seas are wet." in plain_text(second.document)


def test_multi_news(tmp_path):
    source = tmp_path / "val.src.cleaned"
    source.write_text("Cod swim. NEWLINE_CHAR They eat. ||||| Eels are long.\nOne story.\n")
    (tmp_path / "val.tgt").write_text("– Of cod and eels.\n– Of one.\n")
    first, second = read_benchmark("multi_news", source)
    assert len(first.document.sections) == 2
    assert first.references == ("– Of cod and eels.",)
    assert second.references == ("– Of one.",)
    with pytest.raises(ValueError, match=r"name the file that has \.src"):
        list(read_benchmark("multi_news", tmp_path / "val.tgt"))
    (tmp_path / "val.tgt").write_text("– Of cod and eels.\n")
    with pytest.raises(ValueError, match="differ in length: line 2 is in only one"):
        list(read_benchmark("multi_news", source))
    source.write_bytes("Café.\n".encode("latin1"))
    with pytest.raises(ValueError, match=r"val\.src.* is not valid UTF-8: convert"):
        list(read_benchmark("multi_news", source))
    (tmp_path / "val.tgt").unlink()
    with pytest.raises(FileNotFoundError, match=r"val\.tgt"):
        list(read_benchmark("multi_news", source))


def test_convosumm(tmp_path):
    mails = 'Name: "Ann"   Subject: "Cod"      Cod swim.   </s>Name: "Ben"   They eat.   </s>'
    source = tmp_path / "email.val.source.txt"
    source.write_text(f"{mails}\nOne comment.\n")
    (tmp_path / "email.val.target.txt").write_text("Ann and Ben talk of cod.\nOf one.\n")
    first, second = read_benchmark("convosumm", source)
    assert len(first.document.sections) == 2
    assert "They eat." in plain_text(first.document).split("\n")[-1]
    assert first.references == ("Ann and Ben talk of cod.",)
    assert second.references == ("Of one.",)


def test_wcep(tmp_path):
    articles = [{"title": "Cod", "text": "Cod swim."}, {"title": None, "text": "Eels are long."}]
    record = {"id": 7, "summary": "Fish.", "articles": articles}
    [example] = read_benchmark("wcep", written(tmp_path / "test.jsonl.gz", record))
    assert (example.id, titles(example), example.references) == ("7", ["Cod", ""], ("Fish.",))


def test_facetsum(tmp_path):
    names = ["Purpose", "Design/methodology/approach", "Findings", "Originality/value", "Keywords"]
    record = {
        "id": "x",
        "title": "Of cod",
        "section_names": ["__NO_TITLE__", "1. Introduction"],
        "sections": [["Preface."], ["Cod swim.", "They eat."]],
        "abstract_sections_names": names,
        "abstract_sections": [["To know."], ["By looking."], ["They", "swim."], ["New."], ["cod"]],
    }
    examples = list(read_benchmark("facetsum", written(tmp_path / "emerald.jsonl", record)))
    assert [example.query for example in examples] == ["Purpose", "Method", "Findings", "Value"]
    assert examples[2].references == ("They swim.",)
    assert titles(examples[0]) == ["", "1. Introduction"]


FACETS = ["Purpose", "Design/methodology/approach", "Findings", "Originality/value"]


def emerald(*sections):
    return {
        "id": "x",
        "title": "Of cod",
        "section_names": [title for title, _ in sections],
        "sections": [paragraphs for _, paragraphs in sections],
        "abstract_sections_names": FACETS,
        "abstract_sections": [["To know."], ["By looking."], ["They", "swim."], ["New."]],
    }


def test_facetsum_with_the_sections_of_each_facet(tmp_path):
    record = emerald(
        ("__NO_TITLE__", ["Preface."]),
        ("1. INTRODUCTION", ["Cod are fish."]),
        ("2. Related work", ["Others looked."]),
        ("3. Research methodology", ["We look.", "Twice."]),
        ("4. Findings and conclusions", ["They swim."]),
        ("5. Future research", [" "]),
    )
    file = written(tmp_path / "emerald.jsonl", record)
    examples = list(read_benchmark("facetsum_sections", file))
    assert {example.query: titles(example) for example in examples} == {
        "Purpose": ["1. INTRODUCTION"],
        "Method": ["3. Research methodology"],
        "Findings": ["4. Findings and conclusions"],
        "Value": ["4. Findings and conclusions"],
    }
    assert len(list(examples[1].document.paragraphs())) == 2
    assert [example.labels for example in examples] == [(example.query,) for example in examples]
    some = read_benchmark("facetsum_zero_shot", file)
    assert [example.query for example in some] == ["Findings", "Value"]
    whole = list(read_benchmark("facetsum", file))
    assert [example.references for example in examples] == [example.references for example in whole]
    assert [example.id for example in examples] == [example.id for example in whole]


def test_facets_without_a_section_of_their_own(tmp_path):
    record = emerald(("Cod", ["They swim."]), ("Eels", ["They glide."]), ("Rays", ["So."]))
    examples = read_benchmark("facetsum_sections", written(tmp_path / "e.jsonl", record))
    assert {example.query: titles(example) for example in examples} == {
        "Purpose": ["Cod"],
        "Method": ["Cod", "Eels", "Rays"],
        "Findings": ["Cod", "Eels", "Rays"],
        "Value": ["Rays"],
    }


def test_scisummnet(tmp_path):
    folder = tmp_path / "A00-1"
    (folder / "Documents_xml").mkdir(parents=True)
    (folder / "summary").mkdir()
    xml = folder / "Documents_xml" / "A00-1.xml"
    xml.write_text(
        '<PAPER><S sid="0">Of Cod</S><ABSTRACT><S sid="1">We look.</S></ABSTRACT>'
        '<SECTION title="1 Introduction" number="1"><S sid="2">Cod swim.</S><S sid="3">Yes.</S>'
        "</SECTION></PAPER>"
    )
    summary = folder / "summary" / "A00-1.gold.txt"
    summary.write_text("Of Cod\nThey look at cod.\nCod swim.\n")
    [example] = read_benchmark("scisummnet", tmp_path)
    assert example.document.title == "Of Cod"
    assert [sentence.text for sentence in example.document.sentences()] == ["Cod swim.", "Yes."]
    assert example.references == ("They look at cod. Cod swim.",)
    with pytest.raises(NotADirectoryError, match="is not a folder"):
        list(read_benchmark("scisummnet", xml))
    xml.write_text('<!DOCTYPE a [<!ENTITY b "c">]><PAPER>&b;</PAPER>')
    with pytest.raises(ValueError, match="declares its own entities"):
        list(read_benchmark("scisummnet", tmp_path))
    xml.write_text("<PAPER>")
    with pytest.raises(ValueError, match="not well-formed XML"):
        list(read_benchmark("scisummnet", tmp_path))


def test_scrolls_puts_references_together(tmp_path):
    records = [
        {
            "id": "a",
            "pid": "a_0",
            "input": "What swims?\n\nCod swim.\n\nEels too.",
            "output": "cod",
        },
        {"id": "b", "pid": "b_0", "input": "Who?\n\nNobody.", "output": None},
        {
            "id": "a",
            "pid": "a_1",
            "input": "What swims?\n\nCod swim.\n\nEels too.",
            "output": "eels",
        },
    ]
    file = written(tmp_path / "validation.jsonl", *records)
    asked, other = read_benchmark("scrolls_questions", file)
    assert (asked.query, asked.references) == ("What swims?", ("cod", "eels"))
    assert plain_text(asked.document) == "Cod swim.\nEels too."
    assert other.references == ()
    untold, _ = read_benchmark("scrolls", file)
    assert (untold.query, untold.references) == ("", ("cod", "eels"))
    assert plain_text(untold.document).startswith("What swims?")


def test_scrolls_quality_has_choices(tmp_path):
    text = "What swims?\n\n (A) a cow\n (B) a cod\n\n\nCod swim. Cows do not."
    record = {"id": "q", "pid": "q_0", "input": text, "output": "a cod"}
    [example] = read_benchmark("scrolls_questions", written(tmp_path / "dev.jsonl", record))
    assert (example.query, example.choices) == ("What swims?", ("a cow", "a cod"))
    assert plain_text(example.document) == "Cod swim. Cows do not."


def test_qmsum_as_published(tmp_path):
    record = {
        "topic_list": [{"topic": "Buttons", "relevant_text_span": [["1", "2"]]}],
        "general_query_list": [{"query": "Summarize the meeting.", "answer": "Buttons."}],
        "specific_query_list": [
            {"query": "How many?", "answer": "Two.", "relevant_text_span": [["1", "1"]]}
        ],
        "meeting_transcripts": [
            {"speaker": "A", "content": "{vocalsound} Hello ."},
            {"speaker": "B", "content": "Two {disfmarker} two buttons ."},
            {"speaker": "A", "content": "{pause}"},
        ],
    }
    general, specific = read_benchmark("qmsum", written(tmp_path / "val.jsonl", record))
    assert (general.labels, specific.labels) == (("general",), ("specific",))
    assert (specific.query, specific.references) == ("How many?", ("Two.",))
    assert plain_text(general.document) == "Hello .\nButtons\nTwo two buttons ."


def test_qmsum_with_its_domains():
    examples = list(read_benchmark("qmsum", shared("data/qmsum/val.jsonl.gz")))
    whole = [example for example in examples if example.labels[0] == "general"]
    assert len(whole) == 35
    assert {example.labels[1] for example in whole} == {"academic", "product", "committee"}
    assert all(example.references[0] for example in examples)


def test_qasper(tmp_path):
    nothing = {"unanswerable": False, "extractive_spans": [], "yes_no": None}
    nothing |= {"free_form_answer": "", "evidence": [], "highlighted_evidence": []}
    answers = [
        {"extractive_spans": ["cod", "eels"]},
        {"free_form_answer": "Fish do."},
        {"yes_no": False},
        {"yes_no": True},
        {"unanswerable": True},
    ]
    question = {"question": "Who swims?", "question_id": "q1", "nlp_background": ""}
    question["answers"] = [{"answer": nothing | answer, "worker_id": "w"} for answer in answers]
    paper = {"title": "Fish", "abstract": "On cod.", "qas": [question, {**question, "answers": []}]}
    paper["full_text"] = [
        {"section_name": "Cod ::: Food", "paragraphs": ["They eat.", "They swim."]},
        {"section_name": None, "paragraphs": [""]},
    ]
    paper["figures_and_tables"] = []
    (tmp_path / "qasper-dev-v0.3.json").write_text(json.dumps({"1909.1": paper, "1909.2": paper}))
    first, second, *others = read_benchmark("qasper", tmp_path / "qasper-dev-v0.3.json")
    assert len(others) == 2
    assert (first.id, first.query, first.document.title) == ("q1", "Who swims?", "Fish")
    assert titles(first) == ["Abstract", "Cod ::: Food"]
    assert first.references == ("cod, eels", "Fish do.", "No", "Yes", "Unanswerable")
    assert first.labels == ("abstractive", "boolean", "extractive", "unanswerable")
    assert (second.references, second.labels) == ((), ())


def test_quality(tmp_path):
    question = {"question": "What swims?", "question_unique_id": "1_1", "options": ["cow", "cod"]}
    record = {"article_id": "1", "title": "Sea", "article": "Cod swim."}
    record["questions"] = [
        {**question, "gold_label": 2, "difficult": 1},
        {**question, "difficult": 0},
    ]
    first, second = read_benchmark("quality", written(tmp_path / "dev", record))
    assert (first.choices, first.references) == (("cow", "cod"), ("cod",))
    assert second.references == ()
    assert (first.labels, second.labels) == (("hard",), ())
    assert first.document.title == "Sea"


def test_hotpotqa(tmp_path):
    record = {"_id": "5a", "question": "Who swims?", "answer": "cod", "type": "bridge"}
    record |= {"context": [["Cod", ["Cod swim.", " They eat."]], ["Cow", ["Cows walk."]]]}
    record |= {"supporting_facts": [["Cod", 0]], "level": "hard"}
    (tmp_path / "dev.json").write_text(json.dumps([record, {**record, "_id": "5b"}]))
    first, second = read_benchmark("hotpotqa", tmp_path / "dev.json")
    assert (first.id, second.id) == ("5a", "5b")
    assert titles(first) == ["Cod", "Cow"]
    assert first.references == ("cod",)


def test_the_support_of_hotpotqa(tmp_path):
    """Blank sentences count in the published numbers, but are none of a document."""
    record = {"_id": "5a", "question": "Who swims?", "answer": "cod"}
    record |= {"context": [["Cod", ["Dr. Cod. He eats.", " ", " Cod swim."]], ["No", [""]]]}
    record["context"].append(["Cow", ["Cows walk."]])
    record |= {"supporting_facts": [["Cod", 2], ["Cow", 0], ["Cow", 7]]}
    (tmp_path / "dev.json").write_text(json.dumps([record]))
    [example] = read_benchmark("hotpotqa", tmp_path / "dev.json")
    sentences = [sentence.text for sentence in example.document.sentences()]
    [query] = example.queries
    assert query.text == "Who swims?"
    assert [sentences[i] for i in query.sentence_ids] == ["Cod swim.", "Cows walk."]


def test_ecthr(tmp_path):
    record = {"case_id": "001-1", "facts": ["1. He fished.", "2. He was fined."]}
    record |= {"violated_articles": ["6", "10"], "allegedly_violated_articles": ["6"]}
    lexglue = {"text": ["1. He fished."], "labels": []}
    first, second = read_benchmark("ecthr", written(tmp_path / "dev.jsonl", record, lexglue))
    assert first.labels == ("6", "10")
    assert len(list(first.document.paragraphs())) == 2
    assert second.labels == ()
    assert second.id.endswith("dev.jsonl, line 2")


def argument_table(path, *rows):
    lines = [f"{tokens!r}\t{labels!r}\n" for tokens, labels in rows]
    path.write_text("tokens\tlabels\n" + "".join(lines))
    return path


ARGUMENTS = [
    (["1", ".", "He", "fished", "(", "cod", ")", "."], ["O"] * 2 + ["B-A law"] + ["I-A law"] * 5),
    (["He", "was", "fined", "."], ["O", "B-A law", "B-Decision", "I-Decision"]),
    (["The", "Court"], ["O", "O"]),
]


def test_ecthr_arg_as_published(tmp_path):
    argument_table(tmp_path / "001-2.csv", *ARGUMENTS)
    argument_table(tmp_path / "001-1.csv", *ARGUMENTS[:1])
    first, second = read_benchmark("ecthr_arg", tmp_path)
    assert (first.id, second.id) == ("001-1", "001-2")
    texts = [sentence.text for sentence in second.document.sentences()]
    assert " ".join(texts) == "1. He fished (cod). He was fined. The Court"
    assert second.section_labels == (("A law",), ("A law", "Decision"), ())
    assert len(second.document.sections) == 3
    [alone] = read_benchmark("ecthr_arg", tmp_path / "001-1.csv")
    assert alone == first


def test_ecthr_arg_as_hat_has_it(tmp_path):
    record = {"case_id": "001-1", "paragraphs": ["He fished.", " ", "He\n\nwas fined."]}
    record |= {"labels": [["Application", "O", "Application"], ["O"], ["O"]], "data_type": "dev"}
    hub = {"text": ["He fished."], "labels": [None]}
    first, second = read_benchmark("ecthr_arg", written(tmp_path / "a.jsonl", record, hub))
    assert (first.id, first.section_labels) == ("001-1", (("Application",), ()))
    assert len(first.document.sections) == 2
    assert second.section_labels == ((),)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((["He"], ["O", "O"]), r"001-1\.csv, record 2 is not a record .*1 tokens have 2 labels"),
        (("He'", ["O"]), "record 2"),
        (([1], ["O"]), "tokens must be a text or a list of texts"),
    ],
)
def test_a_damaged_table_of_arguments_is_named(row, message, tmp_path):
    file = argument_table(tmp_path / "001-1.csv", ARGUMENTS[0], row)
    with pytest.raises(ValueError, match=message):
        list(read_benchmark("ecthr_arg", file))


def test_paragraphs_without_their_labels_are_named(tmp_path):
    file = written(tmp_path / "a.jsonl", {"paragraphs": ["He fished."], "labels": []})
    with pytest.raises(ValueError, match=r"line 1 .*its 1 paragraphs need a list of as many"):
        list(read_benchmark("ecthr_arg", file))
    (tmp_path / "001-1.csv").write_text("tokens\tlabels\n['He\t['O']\n")
    with pytest.raises(ValueError, match=r"record 1 is not a record .*not a list of tokens"):
        list(read_benchmark("ecthr_arg", tmp_path / "001-1.csv"))


def test_mimic(tmp_path):
    file = tmp_path / "dev.csv"
    note = "admitted with cough. " * 10_000
    file.write_text(f'SUBJECT_ID,HADM_ID,TEXT,LABELS\n1,100,"{note}\n\nsent home.",038.9;518.81\n')
    [example] = read_benchmark("mimic", file)
    assert (example.id, example.labels) == ("100", ("038.9", "518.81"))


def test_a_record_of_another_form_is_named(tmp_path):
    file = written(tmp_path / "dev.jsonl", {"id": "1"})
    with pytest.raises(
        ValueError, match=r"dev\.jsonl, line 1 is not a record .*'input' is missing"
    ):
        list(read_benchmark("scrolls", file))
    file.write_text('{"document": ["Cod."], "summary": "Cod."}\n{"id"\n')
    with pytest.raises(ValueError, match=r"dev\.jsonl, line 2 is not valid JSON"):
        list(read_benchmark("wcep", file))


def test_damaged_gzip(tmp_path):
    file = tmp_path / "dev.jsonl.gz"
    file.write_bytes(gzip.compress(b'{"id": "1", "input": "Cod.", "output": "x"}\n' * 99)[:-20])
    with pytest.raises(ValueError, match=r"dev\.jsonl\.gz is not a whole gzip file"):
        list(read_benchmark("scrolls", file))


def test_a_record_without_text_is_skipped_with_a_warning(tmp_path):
    records = [{"id": "1", "input": "", "output": "x"}, {"id": "2", "input": "Cod.", "output": "x"}]
    with pytest.warns(UserWarning, match="line 1 is skipped"):
        [example] = read_benchmark("scrolls", written(tmp_path / "dev.jsonl", *records))
    assert example.id == "2"


def test_no_such_benchmark_or_file(tmp_path):
    with pytest.raises(ValueError, match="unknown benchmark 'glue': name one of ami, arxiv"):
        read_benchmark("glue", tmp_path)
    for name in set(BENCHMARKS) - {"convosumm", "multi_news", "scisummnet"}:
        with pytest.raises(FileNotFoundError):
            list(read_benchmark(name, tmp_path / "nowhere.jsonl"))


def test_a_byte_order_mark_is_not_part_of_the_header(tmp_path):
    file = tmp_path / "notes.csv"
    file.write_bytes(b"\xef\xbb\xbfTEXT,LABELS\r\nCod swim.,a;b\r\n")
    [example] = read_benchmark("mimic", file)
    assert example.document.text == "Cod swim."
    assert example.labels == ("a", "b")


def test_a_file_in_another_encoding_is_named(tmp_path):
    file = tmp_path / "notes.csv"
    file.write_bytes("TEXT,LABELS\nCafé,a\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"notes\.csv is not valid UTF-8: convert it to UTF-8"):
        list(read_benchmark("mimic", file))


NITE = 'xmlns:nite="http://nite.sourceforge.net/"'


def write_nxt(folder, meeting, words, segments, segment_suffix):
    """Write the words and segments of each speaker as AMI and ICSI publish them."""
    for speaker, tokens in words.items():
        name = f"{meeting}.{speaker}"
        elements = "".join(
            f'<w nite:id="{name}.words{i}" starttime="1">{token}</w>'
            if token
            else f'<vocalsound nite:id="{name}.words{i}" type="laugh"/>'
            for i, token in enumerate(tokens)
        )
        head = f'<?xml version="1.0" encoding="ISO-8859-1"?><nite:root {NITE}>'
        (folder / "words").mkdir(exist_ok=True, parents=True)
        (folder / "words" / f"{name}.words.xml").write_text(f"{head}{elements}</nite:root>")
        elements = "".join(
            f'<segment nite:id="s{i}" {attributes}><nite:child href="{name}.words.xml'
            f'#id({name}.words{first})..id({name}.words{last})"/></segment>'
            for i, (attributes, first, last) in enumerate(segments[speaker])
        )
        (folder / "segments").mkdir(exist_ok=True)
        path = folder / "segments" / f"{name}.{segment_suffix}.xml"
        path.write_text(f"{head}{elements}</nite:root>")


SUMMARY = f"""<?xml version="1.0" encoding="ISO-8859-1"?><nite:root {NITE}>
<abstract nite:id="a"><sentence nite:id="a.1">They talk of
 cod.</sentence></abstract><decisions nite:id="d"><sentence nite:id="d.1">Buy a net.</sentence>
</decisions></nite:root>"""


@pytest.mark.parametrize(
    ("name", "suffix", "attributes", "speakers"),
    [
        ("ami", "segments", 'channel="0" transcriber_start="{}"', ["A", "B", "A"]),
        ("icsi", "segs", 'starttime="{}" participant="me01"', ["me01"] * 3),
    ],
)
def test_ami_and_icsi(name, suffix, attributes, speakers, tmp_path):
    words = {"A": ["Cod", "swim", ".", "", "It", "'s", "so", "."], "B": ["Yes", ",", "they", "do"]}
    first, second, third = (attributes.format(time) for time in ("1.5", "3.25", "10.0"))
    segments = {"A": [(first, 0, 3), (third, 4, 7)], "B": [(second, 0, 3)]}
    write_nxt(tmp_path, "ES2002a", words, segments, suffix)
    write_nxt(tmp_path, "ES2002ab", {"A": ["No", "."]}, {"A": [(first, 0, 1)]}, suffix)
    (tmp_path / "abstractive").mkdir()
    (tmp_path / "abstractive" / "ES2002a.abssumm.xml").write_text(SUMMARY)
    [example] = read_benchmark(name, tmp_path)
    assert (example.id, example.references) == ("ES2002a", ("They talk of cod. Buy a net.",))
    paragraphs = list(example.document.paragraphs())
    assert plain_text(example.document) == "Cod swim.\nYes, they do\nIt's so."
    assert [paragraph.speaker for paragraph in paragraphs] == speakers


def test_a_folder_without_summaries_of_meetings_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no summaries"):
        list(read_benchmark("ami", tmp_path))
