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
        # questions and answers of a page, with a colon or a full stop
        "Q: What is a cod?\nA: A fish.\n\nQ: Is it big?\nA: It may be.\n\nQ: Is it?\nA: It is.\n",
        "Q. What is a cod?\nA. A fish.\n\nQ. Is it big?\nA. It may be.\n\nQ. Is it?\nA. It is.\n",
        # records, minutes by item, and notes among paragraphs
        "Form: A book.\nMaker: Quay & Sons.\nShelf: Nine.\n\n" * 4,
        "Package: boat\nArchitecture: all\nVersion: 1\n\n" * 4,
        "Files: *\nCopyright: 2001 Ann Lee\nFiles: debian/*\nCopyright: 2002 Bob Ray\n" * 3,
        "Discussion: Ann said that it is late.\n\nDecision: We wait until May.\n\n" * 4,
        # logs, lists of changes and schedules
        "14:05:01 INFO: the boat left.\n14:05:02 ERROR: it sank.\n" * 4,
        "[2024-03-12, 14:05:01] INFO: it left.\n[2024-03-12, 14:05:02] ERROR: it sank.\n" * 4,
        "2022/04/11: A new boat has come.\n2022/04/07: An old boat has gone.\n" * 4,
        "New in 1.12\n- more boats\n\nNew in 1.13\n- no boats\n\nOld in 1.14\n- a boat\n\n" * 3,
        "10:00 News\nWhat has happened.\n10:30 Weather\nRain.\n11:00 News\nMore.\n"
        "11:30 Weather\nSun.\n",
        "".join(f"Boats {n // 40}:{n % 40 + 10}\nA verse.\n" for n in range(40, 80))
        + "".join(f"Nets {n // 40}:{n % 40 + 10}\nA verse.\n" for n in range(80, 120)),
        # a judgment that quotes what was said
        "The facts are as follows.\n\nMR. ORD: Did you?\n\nMS. LEE: I did.\n\nMR. ORD: Twice?\n\n"
        "MS. LEE: Once.\n\n" + "The court finds that this is so.\n\n" * 9,
    ],
)
def test_other_texts_are_no_transcripts(tmp_path, text):
    path = tmp_path / "text.txt"
    path.write_text(text)
    assert {speaker for speaker, _ in turns(Document.from_file(path))} == {None}


MEET = """\
Budget

Attendees
Ann Lee, Bob Ray

Transcript

Ann Lee: Good morning.
Bob Ray: Good day.

00:05:00

Ann Lee: The budget is late.
Bob Ray: So it is.
"""
TIMED = [
    "{name}  0:{time}\n{said}\n\n",
    "{name} | 0:{time}\n{said}\n",
    "[{name}] 14:05:{time}\n{said}\n\n",
    "00:05:{time} {name}\n{said}\n",
    "{name}\n  2:{time} PM\n{said}\n",
    "{name} [2:{time} PM]\n{said}\n",
    "{name} — Today at 2:{time} PM\n{said}\n",
    "{name} (00:05:{time}):\n{said}\n\n",
    "[00:05:{time}] {name}: {said}\n",
]


def read_file(tmp_path, text):
    """What is read of a text file whose format is not named."""
    path = tmp_path / "talk.txt"
    path.write_text(text)
    return turns(Document.from_file(path))


@pytest.mark.parametrize("form", TIMED)
def test_names_with_times(tmp_path, form):
    said = ["We buy two boats.", "They are blue: both.", "Why so?", "I like it."]
    names = ["Ann Lee", "Bob"] * 2
    text = "".join(
        form.format(name=name, time=10 + 7 * n, said=one)
        for n, (name, one) in enumerate(zip(names, said, strict=True))
    )
    assert read_file(tmp_path, text) == [
        (name, [one]) for name, one in zip(names, said, strict=True)
    ]


def test_what_stands_above_a_transcript_and_times_within(tmp_path):
    assert read_file(tmp_path, MEET)[-4:] == [
        *(("Ann Lee", ["Good morning."]), ("Bob Ray", ["Good day."])),
        *(("Ann Lee", ["The budget is late."]), ("Bob Ray", ["So it is."])),
    ]


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
        assert in_source(document) == ["Hi , all ."]

    def test_the_place_of_a_turn_is_its_number(self, in_source):
        data = {"turns": [{"speaker": speaker, "text": text} for speaker, text in self.turns]}
        document = Document.from_text(json.dumps(data), format="json")
        assert in_source(document) == ["Hi.", "Yo.", "So?", 'Say "é😀" now.', "Bye."]
        places = [span.place for span in document.spans()]
        assert places == ["turn 1", "turn 2", "turn 2", "turn 3", "turn 4"]

    @pytest.mark.parametrize(
        "text", ["[]", "3", '{"a": 1}', '{"turns": [3]}', "[" * 10**5, '{"turns": {"a": "b"}}']
    )
    def test_other_json_is_refused(self, text):
        with pytest.raises(DocumentError, match=r"is JSON, but n(either|ot) a meeting"):
            Document.from_text(text, format="json")

    def test_malformed_json_is_refused(self):
        with pytest.raises(DocumentError, match=r"not valid JSON .*line 1 column 2"):
            Document.from_text("{oops}", format="json")
