import base64
import itertools
import mailbox
from email.message import EmailMessage

import pytest

from foveate.documents import Document, DocumentError, read_documents
from foveate.documents.files import read_data


def message(text, subject="Boats", sender="Ann Lee <ann@x.org>", day=1, **headers):
    made = EmailMessage()
    made["From"], made["Subject"] = sender, subject
    made["Date"] = f"{day:02} Jan 2026 10:00:00 +0100"
    for name, value in headers.items():
        made[name.replace("_", "-")] = value
    made.set_content(text)
    return made


def own_words(text):
    document = Document.from_bytes(message(text).as_bytes(), format="email")
    return [sentence.text for sentence in document.sentences()]


def test_a_message(tmp_path):
    path = tmp_path / "a.eml"
    path.write_bytes(message("Shall we buy boats?\n\nThe old one leaks.\n", "Re: Boats").as_bytes())
    document = Document.from_file(path)
    assert document.title == "Boats"
    [section] = document.sections
    assert section.title == "Ann Lee, 2026-01-01 10:00"
    assert [(s.text, s.speaker, s.place) for s in document.spans()] == [
        ("Shall we buy boats?", "Ann Lee", "message 1"),
        ("The old one leaks.", "Ann Lee", "message 1"),
    ]
    assert "Ann Lee, 2026" in document.text


@pytest.mark.parametrize(
    ("subject", "title"),
    [
        ("Re: Fwd: cod", "cod"),
        ("RE[2]: AW: cod", "cod"),
        ("The hardware: costs", "The hardware: costs"),
        ("Hawaii: who comes?", "Hawaii: who comes?"),
        ("Cod, re: herring", "Cod, re: herring"),
    ],
)
def test_replies_are_marked_at_the_beginning_of_a_subject(tmp_path, subject, title):
    path = tmp_path / "cod.eml"
    path.write_bytes(message("Cod swim in the sea.", subject).as_bytes())
    assert Document.from_file(path).title == title


@pytest.mark.parametrize(
    "quoted",
    [
        "> Shall we?\n> Really?",
        "On Mon, Jan 5, 2026 at 10:00 AM Ann <ann@x.org> wrote:\n> Shall we?",
        "On Mon, Jan 5, 2026 at 10:00 AM Ann Lee\n<ann@x.org> wrote:\n\n> Shall we?",
        "Ann wrote:\n> Shall we?",
        "Am 05.01.26 um 10:00 schrieb Ann Lee:\n> Sollen wir?",
        "Le lun. 5 janv. 2026 à 10:00, Ann <ann@x.org> a écrit :\n> On y va ?",
        "El lun, 5 ene 2026 a las 10:00, Ann (<ann@x.org>) escribió:\n> ¿Vamos?",
        "On 5 Jan 2026, at 10:00, Ann Lee wrote:\n\nShall we?",
        "-----Original Message-----\nFrom: Ann\n\nShall we?",
        "-------- Weitergeleitete Nachricht --------\nBetreff: Boote\n\nSollen wir?",
        "Begin forwarded message:\n\nShall we?",
        "From: Ann Lee <ann@x.org>\nSent: Monday\nTo: Bob\nSubject: Boats\n\nShall we?",
        "Von: Ann\nGesendet: Montag\nAn: Bob\nBetreff: Boote\n\nSollen wir?",
        "-- \nBob Miller\nFisheries",
        "Sent from my iPhone",
        "_______________________________________________\nboats mailing list\nboats@x.org\n",
    ],
)
def test_quoted_text_and_signatures_are_left_out(quoted):
    assert own_words(f"Yes, let us.\n\n{quoted}\n") == ["Yes, let us."]


def test_headings_of_a_message_are_sections_in_it():
    data = message("THE FLEET\n=========\n\nShall we buy boats?\n").as_bytes()
    document = Document.from_bytes(data)
    assert [span.path[1:] for span in document.spans()] == [("THE FLEET",)]
    assert document.title == "Boats"


def test_answers_between_quotations_are_kept():
    text = "Hi.\n\nOn Monday Ann wrote:\n> Boats?\nYes, two.\n> Nets?\nNo nets.\n\n-- \nBob\n"
    assert own_words(text) == ["Hi.", "Yes, two.", "No nets."]


@pytest.mark.parametrize(
    "text",
    [
        "As Ann wrote:\n\nBoats are long.",
        "On May 5 Ann wrote that we should see:\n\nBoats are long.",
        "On the 2nd\n\nFrom here on, boats:\n\nBoats are long.",
        "From: here we see the boats.\n\nBoats are long.",
        "Prices:\n\n--------------------------------\n\nBoats are long.",
    ],
)
def test_what_only_looks_like_a_quotation_is_kept(text):
    assert own_words(text)[-1] == "Boats are long."


def test_a_message_of_quotations_alone_is_read():
    assert own_words("> Shall we buy boats?\n") == ["> Shall we buy boats?"]


def test_html_alone_is_read():
    made = message("x")
    made.set_content(
        "<p>Lunch is at <b>noon</b>.</p><div>Am 5.1.2026 schrieb Ann:</div>"
        "<blockquote>Where is lunch?</blockquote>",
        subtype="html",
    )
    document = Document.from_bytes(made.as_bytes())
    assert [sentence.text for sentence in document.sentences()] == ["Lunch is at noon."]


def test_parts():
    made = message("Grüße aus Köln.")
    made.add_alternative("<p>The same in HTML.</p>", subtype="html")
    made.add_attachment("Not this.", filename="notes.txt")
    made.add_attachment(message("Nor this."))
    document = Document.from_bytes(made.as_bytes())
    assert [sentence.text for sentence in document.sentences()] == ["Grüße aus Köln."]


def test_wrong_and_missing_encodings():
    for declared in ("", "; charset=klingon", "; charset=utf-8", "; charset=a\0b"):
        data = f"From: a@b.c\nSubject: x\nContent-Type: text/plain{declared}\n\n".encode()
        document = Document.from_bytes(data + "Grüße.\n".encode("cp1252"), format="email")
        assert [sentence.text for sentence in document.sentences()] == ["Grüße."]


def test_not_a_message():
    for data in (b"", b"Hello.", b"\n\n", b"From: a@b.c\n\n", b"\xff\xfe" * 9):
        with pytest.raises(DocumentError, match="The data"):
            Document.from_bytes(data, format="email")


MESSAGES = [
    message("Shall we buy boats?", message_id="<1@x>"),
    message("Hello there.", "Hello", "Carl <c@x.org>", 2, message_id="<2@x>"),
    message("Which ones?", "AW: Boats", "Bob <b@x.org>", 4, message_id="<4@x>", references="<3@x>"),
    message("Yes.", "Re: Boats", "Bob <b@x.org>", 3, message_id="<3@x>", in_reply_to="<1@x>"),
    message("From here on, I agree.", "Re: Hello", "Eve <e@x.org>", 5, message_id="<5@x>"),
    message("Hello again.", "Hello", "Carl <c@x.org>", 6, message_id="<6@x>"),
]
THREADS = {
    "Boats": ["Shall we buy boats?", "Yes.", "Which ones?"],
    "Hello": ["Hello there.", "From here on, I agree."],
}


def threads(path):
    documents = list(read_documents(path))
    spans = [[(span.place, span.text) for span in document.spans()] for document in documents]
    assert all(
        place == f"message {number}" for one in spans for number, (place, _) in enumerate(one, 1)
    )
    return [
        (document.source, document.title, [text for _, text in one])
        for document, one in zip(documents, spans, strict=True)
    ]


def test_threads_of_a_mailbox(tmp_path):
    path = tmp_path / "a.mbox"
    box = mailbox.mbox(path)
    for one in MESSAGES:
        box.add(one)
    box.close()
    expected = [
        (f"{path}:1", "Boats", THREADS["Boats"]),
        (f"{path}:2", "Hello", THREADS["Hello"]),
        (f"{path}:6", "Hello", ["Hello again."]),
    ]
    assert threads(path) == expected
    path.rename(tmp_path / "inbox")
    assert [found[1:] for found in threads(tmp_path / "inbox")] == [one[1:] for one in expected]


def test_threads_of_a_maildir(tmp_path):
    path = tmp_path / "mail"
    box = mailbox.Maildir(path)
    for one in MESSAGES:
        box.add(one)
    box.close()
    (path / "notes.txt").write_text("Cod swim.")
    documents = [(document.title, texts_of(document)) for document in read_documents(path)]
    assert sorted(documents) == [  # in the order of the files, whose names are made of the time
        ("", ["Cod swim."]),
        ("Boats", THREADS["Boats"]),
        ("Hello", ["Hello again."]),
        ("Hello", THREADS["Hello"]),
    ]


def texts_of(document):
    return [sentence.text for sentence in document.sentences()]


def threads_of(messages):
    data = b"".join(b"From a@b.c\n" + one.as_bytes() + b"\n" for one in messages)
    return [texts_of(document) for document in read_data(data, "a.mbox", format="mbox")]


@pytest.mark.parametrize("order", list(itertools.permutations((1, 4, 5))))
def test_threads_do_not_depend_on_the_order_of_the_messages(order):
    stored = [MESSAGES[number] for number in order]
    assert sorted(threads_of(stored)) == [["Hello again."], THREADS["Hello"]]


def test_replies_without_a_date_belong_to_the_message_stored_before_them():
    undated = message("Which ones?", "Re: Boats")
    del undated["Date"]
    stored = (MESSAGES[0], undated, message("New boats!", day=7))
    assert threads_of(stored) == [["Shall we buy boats?", "Which ones?"], ["New boats!"]]


def test_headers_without_end_are_shortened():
    quotes = '"' * 500_000  # the parser of the standard library would take hours
    part = f"--b\nContent-Type: text/plain; x={quotes}\n\nCod swim.\n--b--\n"
    head = "From: a@b.c\nSubject: Cod\nMIME-Version: 1.0\n"
    data = f'{head}X-Y: {quotes}\nContent-Type: multipart/mixed; boundary="b"\n\n{part}'
    document = Document.from_bytes(data.encode(), format="email")
    assert document.title == "Cod"
    assert [sentence.text for sentence in document.sentences()] == ["Cod swim."]


def written(body, subject="Boats", sender="Ann Lee <ann@x.org>", type="text/plain; charset=utf-8"):
    """A message as bytes, with headers as they are given."""
    head = f"From: {sender}\nSubject: {subject}\nDate: Mon, 6 May 2024 10:00:00 +0000\n"
    content = body if isinstance(body, bytes) else body.encode()
    return f"{head}MIME-Version: 1.0\nContent-Type: {type}\n".encode() + b"\n" + content


def read(*args, **options):
    return Document.from_bytes(written(*args, **options), format="email")


def test_flowed_lines_are_joined_without_their_spaces():
    body = (
        "It was deli \nvered to the wrong place sin \nce then.\n\n> quoted text \n> that flows.\n\n"
        " From here.\n-- \nAnn\n"
    )
    document = read(body, type="text/plain; charset=utf-8; format=flowed; delsp=yes")
    assert texts_of(document) == ["It was delivered to the wrong place since then.", "From here."]


@pytest.mark.parametrize(
    ("subject", "title"),
    [
        ("=?utf-8?q?Bo?= =?utf-8?q?ats?=", "Boats"),
        ("=?utf-8?B?w6TD?=\n =?utf-8?B?tg==?= here", "äö here"),  # divided within a character
        ("=?ISO-2022-JP?B?GyRCLSElXSVzJVcbKEI=?=", "①ポンプ"),
        ("=?iso-8859-1?q?5_=80_=96_x?=", "5 € – x"),
        ("=?utf-8?q?a?= b =?utf-8?q?c?=", "a b c"),
        ("=?nothing?q?a?=", "a"),
        ("Grüße", "Grüße"),
    ],
)
def test_encoded_words(subject, title):
    assert read("Text.", subject).title == title


def test_a_comma_in_the_name_of_a_sender():
    assert read("Text.", sender="=?utf-8?q?Lee=2C_Ann?= <ann@x.org>").authors == ("Lee, Ann",)


@pytest.mark.parametrize(
    ("encoding", "label"),
    [("utf-16", "utf-16"), ("utf-16-le", "utf-16le"), ("utf-8", "us-ascii"), ("cp1252", "latin1")],
)
def test_the_encoding_of_a_body(encoding, label):
    encoded = base64.encodebytes("It costs 5 € today.".encode(encoding))
    kind = f"text/plain; charset={label}\nContent-Transfer-Encoding: base64"
    assert texts_of(read(encoded, type=kind)) == ["It costs 5 € today."]


@pytest.mark.parametrize("label", ["; charset=ISO-2022-JP", ""])
def test_japanese_with_characters_of_nec(label):
    body = b"\x1b$B%]%s%W$O\x1b(B OK \x1b$B-!!#\x1b(B\x1b(I1\x1b(B\n"
    assert texts_of(read(body, type=f"text/plain{label}")) == ["ポンプは OK ①。", "ｱ"]


QUOTE = "<blockquote {}><p>The seal is broken.</p></blockquote>"


@pytest.mark.parametrize(
    ("body", "read_as"),
    [
        (f"<p>We agree.</p>{QUOTE.format('class=gmail_quote')}", ["We agree."]),
        (
            "<p>We agree.</p><div>Am 6. Mai 2024 um 10:00 schrieb Ann Lee &lt;ann@x.org&gt;:</div>"
            "<p>The seal is broken.</p>",
            ["We agree."],
        ),
        (
            f"<div class=moz-cite-prefix>On 5 May 2024 Ann wrote:</div>{QUOTE.format('type=cite')}"
            f"<p>Not so.</p>{QUOTE.format('type=cite')}<p>Nor so.</p>",
            ["Not so.", "Nor so."],
        ),
        (
            f"<p>Am 6. Mai 2024 schrieb Ann Lee:</p>{QUOTE.format('')}<p>Doch nicht.</p>",
            ["Doch nicht."],
        ),
        ("<p>We agree.</p><p>---- Replied message ----</p><p>The seal.</p>", ["We agree."]),
        (
            f"<p>As the poet says:</p>{QUOTE.format('')}",
            ["As the poet says:", "The seal is broken."],
        ),
    ],
)
def test_quotations_of_html(body, read_as):
    assert texts_of(read(body, type="text/html; charset=utf-8")) == read_as


def test_a_forwarded_message_alone():
    inner = written("The seal is broken.", "The seal").decode()
    document = read(inner, type="message/rfc822")
    assert texts_of(document) == ["The seal is broken."]
    body = f"--b\nContent-Type: message/rfc822\n\n{inner}\n--b--\n"
    document = read(body, type='multipart/mixed; boundary="b"')
    assert texts_of(document) == ["The seal is broken."]
    said = f"--b\nContent-Type: text/plain\n\nFor you.\n{body}"
    document = read(said, type='multipart/mixed; boundary="b"')
    assert texts_of(document) == ["For you.", "The seal is broken."]


def test_a_sender_in_thousands_of_parentheses():
    assert texts_of(read("Cod swim.", sender="(" * 3_000 + " a@b.c")) == ["Cod swim."]
