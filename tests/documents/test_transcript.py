import json

import pytest

from foveate.documents import Document, DocumentError

TALK = """\
Ann: Hello. How are you?
Bob Lee (chair): Fine:
and you?

Still fine.
[00:01:02] Ann: Good.
Bob Lee (chair): Let us start.
"""


def turns(document):
    return [(p.speaker, [one.text for one in p.sentences]) for p in document.paragraphs()]


def test_turns_have_speakers():
    document = Document.from_text(TALK, format="transcript")
    assert turns(document) == [
        ("Ann", ["Hello.", "How are you?"]),
        ("Bob Lee (chair)", ["Fine: and you?"]),
        ("Bob Lee (chair)", ["Still fine."]),
        ("Ann", ["Good."]),
        ("Bob Lee (chair)", ["Let us start."]),
    ]


def test_a_text_file_of_turns_is_a_transcript(tmp_path):
    path = tmp_path / "talk.txt"
    path.write_text("Ann: Hello.\nBob: Hi.\nAnn: So?\nBob: Well.\n")
    assert [speaker for speaker, _ in turns(Document.from_file(path))] == ["Ann", "Bob"] * 2
    assert {speaker for speaker, _ in turns(Document.from_file(path, format="text"))} == {None}


@pytest.mark.parametrize(
    "text",
    [
        "Name: Ann\nAge: 3\nTown: Ulm\nJob: none\nPet: cat\n",
        "Note: this.\n\nMuch text follows.\n\nNote: that.\n\nAnd more text.\n\nHint: x.\n",
        "Ann: Hello.\nBob: Hi.\n",
    ],
)
def test_a_few_colons_make_no_transcript(tmp_path, text):
    path = tmp_path / "text.txt"
    path.write_text(text)
    assert {speaker for speaker, _ in turns(Document.from_file(path))} == {None}


def said(*utterances):
    """What is read of these utterances by two speakers in turn."""
    lines = (f"{'AB'[i % 2]}: {text}\n" for i, text in enumerate(utterances))
    document = Document.from_text("".join(lines), format="transcript")
    return [" ".join(one.text for one in p.sentences) for p in document.paragraphs()]


@pytest.mark.parametrize(
    ("spoken", "read"),
    [
        ("So, um, we buy boats.", "So, we buy boats."),
        ("Um, we uh buy , erm , boats , uh .", "we buy , boats ."),
        ("Um. We buy boats. Uh.", "We buy boats."),
        ("We buy [laughter] boats (inaudible 00:12:03).", "We buy boats ."),
        ("We {vocalsound} buy <laughs> boats *coughs*.", "We buy boats ."),
        ("Boats (Wales) [the minister] cost 5 mm.", "Boats (Wales) [the minister] cost 5 mm."),
        ("He said uh-huh and the umbrella.", "He said uh-huh and the umbrella."),
    ],
)
def test_sounds_and_fillers_are_left_out(spoken, read):
    assert said("We meet.", spoken) == ["We meet.", read]


def test_um_is_a_word_in_german():
    text = "Wir treffen uns um acht Uhr, ähm, am Hafen und sprechen über die neuen Boote."
    assert said(text, text) == [text.replace(", ähm,", ",")] * 2


def test_backchannels_are_left_out_unless_they_answer():
    turns = ["We buy boats.", "Mm - hmm .", "Two of them.", "Yeah, okay, right.", "Agreed?"]
    assert said(*turns, "Yeah.", "Yeah.", "Right?", "No.") == [
        *("We buy boats.", "Two of them.", "Agreed?", "Yeah.", "Right?", "No."),
    ]
    assert said("Yeah.", "Mm-hmm.") == ["Yeah.", "Mm-hmm."]


class TestMeeting:
    turns = (("A", "Hi."), ("B", "Yo. So?"), ("A", 'Say "é😀"\n now.'), ("B", "Bye."), ("A", ""))

    def test_topics_are_sections(self, outline):
        meeting = {
            "turns": [{"speaker": speaker, "text": text} for speaker, text in self.turns],
            "topics": [
                {"topic": "Talk", "relevant_text_span": [["1", "2"]]},
                {"topic": "Overlap", "relevant_text_span": [["2", "2"]]},
            ],
        }
        document = Document.from_text(json.dumps(meeting), format="json")
        assert outline(document) == [
            ("", ["Hi."]),
            ("Talk", ["Yo.", "So?", 'Say "é😀" now.']),
            ("", ["Bye."]),
        ]
        assert [speaker for speaker, _ in turns(document)] == ["A", "B", "A", "B"]

    def test_qmsum_as_published(self, outline):
        meeting = {
            "meeting_transcripts": [{"speaker": s, "content": text} for s, text in self.turns],
            "topic_list": [{"topic": "All", "relevant_text_span": [["0", "4"]]}],
        }
        document = Document.from_text(json.dumps(meeting), format="json")
        assert [path for path, _ in outline(document)] == ["All"]

    def test_marks_are_left_out(self, outline, in_source):
        turns = [("A", "{vocalsound} Hi , {disfmarker} all . {gap}"), ("B", "{pause}")]
        data = {"turns": [{"speaker": speaker, "text": text} for speaker, text in turns]}
        document = Document.from_text(json.dumps(data), format="json")
        assert outline(document) == [("", ["Hi , all ."])]
        assert in_source(document) == ["Hi , {disfmarker} all ."]

    @pytest.mark.parametrize("ascii", [True, False])
    def test_spans_point_into_the_json(self, in_source, ascii):
        data = {"turns": [{"speaker": speaker, "text": text} for speaker, text in self.turns]}
        document = Document.from_text(json.dumps(data, ensure_ascii=ascii), format="json")
        said = "\\u00e9\\ud83d\\ude00" if ascii else "é😀"
        assert in_source(document)[3] == f'Say \\"{said}\\"\\n now.'

    @pytest.mark.parametrize(
        "text", ["[]", "3", '{"a": 1}', '{"turns": [3]}', "[" * 10**5, '{"turns": {"a": "b"}}']
    )
    def test_other_json_is_refused(self, text):
        with pytest.raises(DocumentError, match=r"is JSON, but n(either|ot) a meeting"):
            Document.from_text(text, format="json")

    def test_malformed_json_is_refused(self):
        with pytest.raises(DocumentError, match=r"not valid JSON .*line 1 column 2"):
            Document.from_text("{oops}", format="json")
