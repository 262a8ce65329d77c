import pytest

from foveate.documents import Document, DocumentError

VTT = """\
WEBVTT - A talk

NOTE
A comment --

STYLE
::cue { color: lime }

intro
00:00:01.000 --> 00:00:03.000 align:start
<v.loud Ann Lee>Hello, um, everybody. We will</v>
talk about <i>boats</i> &amp; nets.

00:03.500 --> 00:05.000
<v Bob>Mm-hmm.

01:12:05.500 --> 01:12:08.000
<v Bob>Boats [laughter] are <00:12:06.000>expensive.
"""
SRT = """\
1
00:00:01,000 --> 00:00:03,000
JOHN: We are <font color="red">going</font>
to the {\\an8}harbour.

2
00:00:03,100 --> 00:00:04,000
[door slams]

3
00:00:04,100 --> 00:00:05,000
♪ - Who is it?
- It's me, and

4
00:00:05,100 --> 00:00:06,000
nobody else. Open!

5
00:10:00,000 --> 00:10:01,000
The sea is calm.
"""


def spans(text, format):
    document = Document.from_text(text, format=format)
    assert document.text == text
    return [(span.place, span.speaker, span.text) for span in document.spans()]


def test_webvtt():
    assert spans(VTT, "vtt") == [
        ("0:00:01", "Ann Lee", "Hello, everybody."),
        ("0:00:01", "Ann Lee", "We will talk about boats & nets."),
        ("1:12:05", "Bob", "Boats are expensive."),
    ]


def test_subrip():
    document = Document.from_text(SRT, format="srt")
    assert spans(SRT, "srt") == [
        ("0:00:01", "JOHN", "We are going to the harbour."),
        ("0:00:04", None, "Who is it?"),
        ("0:00:04", None, "It's me, and nobody else."),
        ("0:00:05", None, "Open!"),
        ("0:10:00", None, "The sea is calm."),
    ]
    assert len(list(document.paragraphs())) == 4
    span = document.spans()[2]
    assert SRT[span.start : span.end].startswith("It's me, and\n\n4\n")


def test_names_in_front_recur():
    cues = ["Ann Lee: Hello there.", "Note: only once.", "Ann Lee: We buy boats."]
    text = "WEBVTT\n" + "".join(
        f"\n00:{i:02}.000 --> 00:{i + 1:02}.000\n{cue}\n" for i, cue in enumerate(cues)
    )
    assert [(speaker, said) for _, speaker, said in spans(text, "vtt")] == [
        ("Ann Lee", "Hello there."),
        ("Ann Lee", "Note: only once."),
        ("Ann Lee", "We buy boats."),
    ]


def test_names_after_dashes():
    cues = [">> ANN: We meet here.", ">> So we do.", "- BOB: And often."]
    text = "".join(
        f"{i}\n00:00:0{i},000 --> 00:00:0{i + 1},000\n{cue}\n\n" for i, cue in enumerate(cues, 1)
    )
    assert [(speaker, said) for _, speaker, said in spans(text, "srt")] == [
        *(("ANN", "We meet here."), (None, "So we do."), ("BOB", "And often.")),
    ]


def test_captions_that_roll_up_are_read_once():
    lines = ["so we went down", "to the harbour and", "bought two boats"]
    cues = [f"{lines[0]}", f"{lines[0]}\n{lines[1]}", f"{lines[1]}\n{lines[2]}"]
    text = "WEBVTT\n" + "".join(
        f"\n00:{i:02}.000 --> 00:{i + 1:02}.000\n{cue}\n" for i, cue in enumerate(cues)
    )
    assert spans(text, "vtt") == [("0:00:00", None, " ".join(lines))]


@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
def test_line_breaks(line_break):
    text = SRT.replace("\n", line_break)
    assert [text for *_, text in spans(text, "srt")] == [text for *_, text in spans(SRT, "srt")]


def test_refusals():
    for text in ("WEBVTT\n\nHello.\n", "Hello there."):
        with pytest.raises(DocumentError, match="has no subtitles"):
            Document.from_text(text, format="vtt")
    with pytest.raises(DocumentError, match="has no sentence"):
        Document.from_text("WEBVTT\n\n00:01.000 --> 00:02.000\n[music]\n", format="vtt")


def test_captions_that_grow_word_by_word():
    cues = ["So", "So today", "So today we repair", "a pump.", "a pump. It is old."]
    text = "\n\n".join(
        f"{n}\n00:00:{n:02},000 --> 00:00:{n + 1:02},000\n{cue}" for n, cue in enumerate(cues, 1)
    )
    document = Document.from_text(text, format="srt")
    assert [one.text for one in document.sentences()] == [
        "So today we repair a pump.",
        "It is old.",
    ]
    assert [span.place for span in document.spans()] == ["0:00:01", "0:00:05"]
    later = text.replace("00:00:02,000 --> 00:00:03", "00:00:02,900 --> 00:00:03")
    assert "So So today" in " ".join(
        one.text for one in Document.from_text(later, format="srt").sentences()
    )


@pytest.mark.parametrize(("start", "gap"), [("WEBVTT\n\n", " \n"), ("", "\n")])
def test_cues_that_begin_with_an_empty_line(start, gap):
    cues = ("00:01.000 --> 00:02.000", "Cod swim."), ("00:02.000 --> 00:03.000", "They eat.")
    text = start + "\n\n".join(f"{timing}\n{gap}{words}" for timing, words in cues)
    document = Document.from_text(text, format="vtt" if start else "srt")
    assert [one.text for one in document.sentences()] == ["Cod swim.", "They eat."]


def test_times_without_fractions_and_numbers_that_are_said():
    text = (
        "1\n00:00:04 --> 00:00:06\nHow many?\n\n2\n00:00:07 --> 00:00:09\n\n1500\n\n3\n\n"
        "3\n00:00:10 --> 00:00:12\n\n42\n\n00:00:13 --> 00:00:15\nThat is all.\n"
    )
    assert " ".join(shown for *_, shown in spans(text, "srt")) == "How many? 1500 42 That is all."


def test_speakers_in_brackets():
    text = (
        "1\n00:00:01,000 --> 00:00:02,000\n[SPEAKER_00]: Cod swim.\n\n"
        "2\n00:00:02,000 --> 00:00:03,000\n[SPEAKER_01]: [sighs] They eat.\n"
    )
    document = Document.from_text(text, format="srt")
    assert [(one.speaker, one.text) for one in document.spans()] == [
        ("SPEAKER_00", "Cod swim."),
        ("SPEAKER_01", "They eat."),
    ]


def test_ruby_of_webvtt():
    text = "WEBVTT\n\n00:01.000 --> 00:02.000\n東<ruby>京<rt>きょう</rt></ruby>に行く。\n"
    [sentence] = Document.from_text(text, format="vtt").sentences()
    assert sentence.text == "東京に行く。"
