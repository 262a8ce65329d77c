"""Sentences in the languages that people try first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.documents.sentences import MAX_LENGTH, split_sentences


def sentences(text, language="en"):
    return [text[start:end] for start, end in split_sentences(text, language)]


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("en", ["See Eq. (2) and Figs. 2-4, vs. others.", "It was so."]),
        ("en", ["He lives in the U.S. and met J. R. R. Tolkien at 5 p.m. in Ch. 3.", "They left."]),
        ("en", ["Smith et al. showed it in vol. 3, no. 4 of it.", "He said no.", "They left."]),
        ("en", ["Visit https://example.com/a.b?c=d.", "Then go to version 3.2.1."]),
        ("en", ["See README.Debian, changelog.Debian.gz or foo/../bar.", "They say how."]),
        ("en", ["(2) The rooms may be used as an office.", "A change needs consent."]),
        ("en", ["It held so (see Hadley v. Baxendale (1854) 9 Exch. 341).", "It was right."]),
        ("en", ["It cost approx. $12,400, see Amdt. 4 and N.C. Code Ann. § 12-3.", "It was paid."]),
        ("fr", ["Selon l'article L. 1111-2, il vote.", "Le décret suit."]),
        ("es", ["De una parte, D. Juan Pérez y Dña. María López.", "Firman ambas partes."]),
        ("en", ["Rolls of the 14th cent. and later list wool, &c. as goods.", "Cllr. Webb left."]),
        (
            "en",
            ["Mangu et al. [18], Ito et al. [3] and Tur et al. (2004) propose it.", "It works."],
        ),
        ("en", ["Run pip install '.[ocr]' first, or '.' alone.", "It reads."]),
        ("en", ["He cites Fed. R. Civ. P. 12(b)(6) and Pub. L. No. 104-1.", "It failed."]),
        (
            "en",
            ["See Pet. App. 3a; Resp. Br. 4; App. to Pet. for Cert. 9a, Ex. A at 4.", "It is."],
        ),
        (
            "en",
            ["He denies it.", "Compl. ¶ 12; Tr. of Oral Arg. 14; Dkt. No. 12.", "It lost."],
        ),
        ("en", ["U.S. Const. amend. XIV, § 1, and art. I, § 8, cl. 3, bind it.", "So it pays."]),
        ("en", ["Ass'n of Profs. v. Bd. of Regents, 12 So. 2d 34, 5 L. Ed. 2d 6.", "It is old."]),
        ("en", ["N.Y. Gen. Bus. Law § 349 and Tex. Bus. & Com. Code § 2.314 apply.", "We agree."]),
        ("en", ["He denied the pet.", "I agree with his rep.", "They settled."]),
        ("de", ["Vgl. BGH, Urt. v. 12.03.2014 – Az. I ZR 12/13, Rn. 14.", "So auch das OLG."]),
        ("fr", ["Voir Cass. civ. 1re, 12 mars 2014, Bull. civ. I, n° 5.", "La cour a jugé."]),
        ("en", ["The State, ex rel. Roy Cooper, appealed to the 9th Cir. in May.", "It won."]),
        ("en", ["110 Stat. 3 amended 3d Cir. L.A.R. 113.", "He left the pub.", "Later he slept."]),
        ("en", ["<p>MR. KAGWIMA: Thank you, Sir.", "I rise."]),
        ("de", ["(2) Miete ist zu zahlen, insb. am 3. Werktag.", "Sie ist fällig."]),
        ("de", ["Das ist z. B. ein Test nach § 3 Abs. 2 Satz 1 BGB, d. h. es geht.", "Ja."]),
        ("de", ["Siehe Nr. 5 und Art. 3 Abs. 2 GG.", "Am 3. Oktober 1990 war es so."]),
        ("de", ["Im 19. Jahrhundert lebte Dr. Müller.", "Danach nicht mehr."]),
        ("de", ["Er sagte: „Das ist gut.", "Wir gehen.“", "Dann ging er."]),
        ("fr", ["Il a dit, p. ex. que M. Dupont et Mme. Curie viendront.", "Puis il partit."]),
        ("fr", ["Voir l'art. 3 et p. 5.", "« C'est bien.", "Nous partons. »", "C'est bon !"]),
        ("fr", ["M. J.-P. Martin est présent.", "Mme A. Leroy aussi."]),
        ("es", ["El Dr. Pérez et al. dicen que sí.", "¿Qué es esto?", "¡Es bueno!"]),
        ("es", ["Véase el art. 3, pág. 5.", "«Es así.", "Nos vamos.»", "Luego se fue."]),
        ("zh", ["他说：“我们走吧。", "去哪里？”", "然后他走了。", "价格是3.5元。"]),
        ("ja", ["「行きましょう。", "どこへ？」と彼は言った。", "そうですね！"]),
        ("ja", ["『本を読む。", "楽しい。』と書いた。", "価格は3.5円です。"]),
    ],
)
def test_sentences(language, expected):
    separator = "" if language in ("zh", "ja") else " "
    assert sentences(separator.join(expected), language) == expected


@pytest.mark.parametrize(
    "item",
    [
        "1. The Developers, by election;",
        "b) Amend this constitution.",
        "iv. Nothing else.",
        "• A bullet.",
        "Table 4.2. Ports and services",
        "（一）第一项。",
        "§ 3. Everyone may leave.",
    ],
)
def test_the_marker_of_an_item_belongs_to_its_first_sentence(item):
    assert sentences(item) == [item]


def test_a_number_that_ends_a_sentence_is_no_marker():
    assert sentences("There are 3. They are good.") == ["There are 3.", "They are good."]


def test_who_writes_no_capitals_still_ends_sentences():
    assert sentences("we saw it. and then it fell.") == ["we saw it.", "and then it fell."]


def test_long_sentences_are_cut_at_clauses():
    clause = "and so it went on for a while; "
    found = sentences(clause * 100)
    assert all(one.endswith("while;") for one in found)
    assert max(map(len, found)) <= MAX_LENGTH


@pytest.mark.parametrize("text", ["x" * 5000, "文" * 5000, "word " * 5000, "a,b" * 3000])
def test_nothing_is_lost_where_a_sentence_is_cut(text):
    found = sentences(text)
    assert "".join(found).replace(" ", "") == text.replace(" ", "")
    assert max(map(len, found)) <= MAX_LENGTH


@given(st.text(max_size=60), st.sampled_from(["en", "de", "fr", "ja", "xx"]))
def test_sentences_cover_everything_but_space(text, language):
    end = 0
    covered = []
    for start, stop in split_sentences(text, language):
        assert end <= start < stop <= len(text)
        covered.append(text[start:stop])
        end = stop
    assert "".join("".join(covered).split()) == "".join(text.split())


def test_names_in_programs_are_whole():
    text = "Call dict.__len__ and list.__iter__ first. Then go on."
    assert [text[start:end] for start, end in split_sentences(text)] == [
        "Call dict.__len__ and list.__iter__ first.",
        "Then go on.",
    ]


@pytest.mark.parametrize(
    ("language", "sentences"),
    [
        ("en", ["The dam broke in May.", "Nobody was hurt."]),
        ("en", ["He said no.", "Then he left."]),
        (
            "ru",
            ["Он родился в 1950 г. в Москве, на ул. Ленина.", "См. рис. 5 и т. д.", "Дальше идёт."],
        ),
        ("ru", ["Это было в 1950 г.", "Потом г. Москва росла."]),
        ("pl", ["Od 1990 r. w domu, tj. 10 proc. normy.", "Tak było w 1990 r.", "Potem nie."]),
        ("pl", ["Zob. rys. 5 i por. prof. Kowalski.", "To jest np. pompa przy ul. Długiej."]),
        ("nl", ["Sinds 1990 o.a. in Utrecht."]),
        ("nl", ["Zie blz. 5 en dhr. Jansen.", "Dat is o.a. duur."]),
        ("sv", ["Bygd av Ek m.fl. på ön.", "Ingen vet."]),
        ("hu", ["Az 5. sz. ház stb. eltűnt.", "Senki sem tudja."]),
        ("it", ["Lo disse l’ing. Bianchi.", "Poi tacque."]),
        ("sv", ["Se s. 5 och t.ex. Anna.", "Dr. Ek bor på nr. 3."]),
        ("it", ["Vedi pag. 5 e sig. Rossi.", "Il dott. Bianchi cita l'art. 3."]),
        ("tr", ["Köprü M.Ö. 200 yılında yapıldı.", "Hâlâ duruyor."]),
        ("tr", ["Bkz. s. 5 ve Sn. Yılmaz.", "Atatürk Cad. No. 5, 19. yüzyıl."]),
        ("hu", ["A 12. fejezet hosszú.", "Dr. Kovács pl. a 3. oldalon van."]),
        ("ar", ["قال د. أحمد ذلك.", "انظر ص. 5 من الكتاب."]),
        ("hi", ["डॉ. शर्मा आए।", "पृ. 5 देखें।"]),
        ("es", ["Vea la pág. 5 y el Sr. López.", "Vive en la Av. Bolívar núm. 3."]),
        ("pt", ["Ver pág. 5 e o Sr. Silva.", "Mora na Av. Brasil, n.º 3."]),
        ("km", ["ខ្ញុំស្រឡាញ់ភាសាខ្មែរ។", "វាស្អាតណាស់។"]),
    ],
)
def test_abbreviations_of_languages(language, sentences):
    text = " ".join(sentences)
    assert [text[start:end] for start, end in split_sentences(text, language)] == sentences
