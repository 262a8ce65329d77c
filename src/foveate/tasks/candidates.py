"""Selection of the sentences that may appear in a summary, and tests of what kind a document is."""

import re
from collections.abc import Iterable, Iterator
from unicodedata import east_asian_width

from foveate.documents import Document
from foveate.documents.structure import Kind

_READ_ALOUD: tuple[Kind, ...] = ("prose", "item")

# Anything shorter is a label rather than a sentence, and would only fill up the budget. Characters
# of double width, such as Chinese ones, count twice.
_MIN_WIDTH = 20
# Anything longer, some 65 words, takes up the budget of several sentences. (Found on ScisummNet's
# training part, where leaving it out gains 0.1 points of ROUGE-1; a limit of 350 gains 0.3, but
# costs contracts the sentence that says their purpose.)
_MAX_WIDTH = 400
# In speech, an utterance with fewer different words mostly shows that someone is listening ("yeah,
# OK"): a backchannel, as close to the centre of this meeting as to that of any other. (Found on
# QMSum's training part.)
_MIN_UTTERANCE_WORDS = 10
_MIN_LETTERS = 0.8  # share of letters and spaces; formulas and tables have less
_MIN_WHOLE = 0.2  # share of standalone sentences needed for the others to be left out

_NUMBERING = re.compile(
    r"(?:(?:appendix|annex|chapter|section|part|anhang|kapitel|annexe|chapitre|anexo|capítulo)\s+)?"
    r"(?:[\divxlc]+[.)]|[a-z][.)]|[\d./]+|§\s*\d+|第.{1,3}[章节節])?[\s:.–—-]*"
)

# Sections that list or thank rather than say something, as they are headed in the languages that
# the documentation names.
_LISTINGS = frozenset(
    name
    for names in (
        "references|reference list|list of references|references and notes|notes and references",
        "bibliography|annotated bibliography|works cited|literature cited|further reading|see also",
        "external links|footnotes|endnotes|notes|acknowledgments|acknowledgements|acknowledgment",
        "acknowledgement|contents|table of contents|list of figures|list of tables",
        "list of abbreviations|index|general index|concept index|command index|function index",
        "variable index|option index|subject index|author index|changelog|change log",
        "change history|revision history|version history|document history|copyright",
        "copyright notice|copyright and license|copyright and licence|copying this manual",
        "gnu free documentation license|about the author|definitions|glossary|colophon",
        "about the authors|about this document|author contributions|competing interests",
        "conflict of interest|conflicts of interest|declaration of competing interest|funding",
        "data availability|supporting information|supplementary material|transcriber's note",
        "transcriber's notes|the full project gutenberg license|navigation",
        "literatur|literaturverzeichnis|quellen|quellenverzeichnis|danksagung|inhalt",
        "inhaltsverzeichnis|stichwortverzeichnis|sachregister|abbildungsverzeichnis",
        "tabellenverzeichnis|abkürzungsverzeichnis|einzelnachweise|weblinks|fußnoten|impressum",
        "definitions and interpretation|interpretation|apologies|apologies for absence|attendance"
        "|attendees|date of next meeting|next meeting|declarations of interest|approval of minutes"
        "|approval of the minutes|minutes of the last meeting|minutes of the previous meeting",
        "begriffsbestimmungen|begriffsdefinitionen|glossar",
        "références|références bibliographiques|bibliographie|remerciements|table des matières",
        "sommaire|liste des figures|liste des tableaux|notes et références|voir aussi",
        "liens externes|mentions légales|définitions|glossaire",
        "referencias|bibliografía|agradecimientos|índice|índice general|tabla de contenidos",
        "contenido|véase también|enlaces externos|notas|definiciones|glosario",
        "参考文献|参考資料|参考资料|參考文獻|致谢|致謝|謝辞|目录|目錄|目次|索引|脚注|外部链接",
        "外部リンク|関連項目",
    )
    for name in names.split("|")
)

# The marker of a list's item.
_MARKER = re.compile(r"(?:(?:\d[\d.]*|[^\W\d_]|[ivxlc]+)[.)]|\([^\W_]{1,4}\)|[*•◦▪-])\s+")
_END = re.compile(r"[.!?…。！？][”\"’'’)\]»」』]*$")
# Openings that refer back to the previous sentence.
_POINTS_BACK = re.compile(
    r"(?:and|but|or|so|yet|thus|hence|therefore|however|moreover|furthermore|otherwise|instead"
    r"|consequently|accordingly|also|such|these|they|he|she|his|her|their|its|for example"
    r"|for instance|in addition|in other words|on the other hand|as a result"
    r"|(?:with )?the (?:latter|former)"
    r"|(?:this|that) (?:is|was|will|would|can|could|may|might|must|should|means|has|had|does|allows"
    r"|makes|gives|lets|leads|requires|causes)"
    r"|aber|jedoch|deshalb|daher|mais|cependant|donc|pero|sin embargo|por lo tanto)\b"
    r"|但是|因此|しかし|したがって",
    re.IGNORECASE,
)
_LEADS_OR_ASKS = re.compile(r"(?:[:：]|\b(?:as follows|the following)\.|[?？][”\"’')\]»」』]*)$")
_QUOTATION_MARK = re.compile(r"[\"“”„«»「」『』]")
# Spanish and French dialogue begins with dashes. In 8 English novels, 40 to 65 % of the paragraphs
# begin with speech; in 80 proposals, 60 papers and 20 manuals, laws and contracts, at most 6 %.
_SPEECH = re.compile(r"[\"“„«»「『]|—\s*[¡¿]?[A-ZÀ-ÖØ-Þ]")
_MIN_SPEECH = 0.2  # share of a story's paragraphs that begin with speech

# What contracts and laws begin with: "Work" shall mean …
_DEFINITION = re.compile(
    r"(?:(?:The|An?|To) )?[\"“„«'‘].{1,60}?[\"”“»'’](?: \([^)]*\))?,? "
    r"(?:(?:of|for) .{1,60}? )?"
    r"(?:shall mean|means?|is|are|includes?|refers to|has the meaning|bedeutet|bezeichnet|désigne"
    r"|significa)\b"
)
_COPYRIGHT = re.compile(
    r".{0,80}free software[;,] you (?:can|may) redistribute|copyright (?:\(c\)|©|\d)|©"
    r"|permission is (?:hereby )?granted to (?:copy|make)"
    r"|(?:copying and distribution|redistribution) of this (?:file|document)"
    r"|everyone is permitted to copy|all rights reserved"
    r"|no part of this (?:book|document|publication|work) may be",
    re.IGNORECASE,
)
# What all minutes say, whatever the meeting was about.
_FORMALITY = re.compile(
    r"(?:the )?(?:meeting|session|sitting) (?:was )?(?:adjourned|called to order|closed|opened)"
    r"|(?:.{0,40}\b)?minutes of .{0,80}\b(?:approved|confirmed|held)\b"
    r"|apologies .{0,20}\breceived\b"
    r"|die sitzung (?:wird|wurde) .{0,60}(?:eröffnet|geschlossen)"
    r"|.{0,60}\bprocès-verbal .{0,80}\bapprouvé|.{0,60}\bla séance est (?:levée|ouverte)",
    re.IGNORECASE,
)

# Headings of the summary that a document begins with.
_ABSTRACT = re.compile(
    r"(?:abstract|(?:executive )?summary|synopsis|tl;dr|zusammenfassung|kurzfassung|résumé|synthèse"
    r"|resumen(?: ejecutivo)?|摘要|概要|要旨|要約)$"
)
_MAX_BEFORE_ABSTRACT = 0.2  # share of the document's sentences

_OPENING = re.compile(
    r"(?:abstract|introduction|einleitung|zusammenfassung|résumé|resumen|introducción|摘要|引言|绪论"
    r"|はじめに|序論|要旨)$"
)
_CLOSING = re.compile(
    r"conclusions?\b|concluding remarks|discussion|related work|results\b|experiments?\b"
    r"|materials and methods|schluss|fazit|ergebnisse|conclusión|conclusiones|结论|結論|おわりに"
    r"|まとめ"
)
_THIS_PAPER = re.compile(
    r"\bin this (?:paper|article|thesis)\b"
    r"|\bthis (?:paper|article|thesis) (?:describes|presents|proposes|introduces|reports|shows)\b"
    r"|\bin (?:dieser arbeit|diesem artikel|diesem beitrag)\b|\bdans cet article\b"
    r"|\ben este (?:artículo|trabajo)\b|本文提出|本論文|本稿",
    re.IGNORECASE,
)


def candidates(document: Document, *, skip_backchannels: bool) -> list[int]:
    """Select the sentences that may appear in a summary.

    They are sentences of running text and lists. Left out are code, tables, formulas, captions,
    footnotes and references; sections that list or thank, by their headings ("References", "Table
    of contents", "Danksagung"); questions; definitions ('"Work" shall mean …'); copyright notices
    and the formalities of minutes; text that ends in a colon or "as follows", is shorter than 20
    characters or less than four fifths letters; and, provided that at least a fifth of the document
    then remains, sentences that cannot stand alone: those that are part of a quotation, begin in
    lower case (unless with the first word of the document's title, such as a program's name), with
    a symbol or with a word that refers back ("But", "These"), do not end in a full stop, are in
    capitals, or are longer than 400 characters.

    Args:
        document: The document.
        skip_backchannels: Also leave out utterances with fewer than ten different words.

    Returns:
        Indices in the order of `Document.sentences`. If no sentence is left, those of running text
        and lists or, failing these, all.
    """
    running: list[int] = []
    said: list[int] = []  # those that say something
    whole: list[int] = []  # those of them that can be read by themselves
    name = document.title.partition(" ")[0]
    index = 0
    for path, section in document.walk():
        is_listing = any(is_listed(title) for title in path)
        for paragraph in section.paragraphs:
            is_running = paragraph.kind in _READ_ALOUD
            texts = [sentence.text for sentence in paragraph.sentences]
            for text, is_quoted in zip(texts, _are_quoted(texts), strict=True):
                if is_running:
                    running.append(index)
                    if not (
                        is_listing
                        or _is_fragment(text)
                        or (skip_backchannels and paragraph.speaker and _is_backchannel(text))
                    ):
                        said.append(index)
                        if not is_quoted and _is_whole(text, name):
                            whole.append(index)
                index += 1
    if len(whole) >= _MIN_WHOLE * len(said):
        said = whole
    return said or running or list(range(index))


def abstract(document: Document) -> list[int]:
    """Find the summary that a document begins with.

    It is the text of the first section or subsection with a heading such as "Abstract" or
    "Executive summary", and is preceded by at most a fifth of the document.

    Returns:
        The indices of its sentences of running text and lists, in the order of
        `Document.sentences`, without fragments. Empty if there is none.
    """
    sentences = [
        (path, paragraph.kind, sentence.text)
        for path, section in document.walk()
        for paragraph in section.paragraphs
        for sentence in paragraph.sentences
    ]
    for path, _, _ in sentences[: 1 + int(_MAX_BEFORE_ABSTRACT * len(sentences))]:
        for depth in (1, 2):
            if depth <= len(path) and _ABSTRACT.match(_plain(path[depth - 1])):
                return [
                    i
                    for i, (its_path, kind, text) in enumerate(sentences)
                    if its_path[:depth] == path[:depth]
                    and kind in _READ_ALOUD
                    and not _is_fragment(text)
                ]
    return []


def is_listed(title: str) -> bool:
    """Return whether a heading is that of references, acknowledgements or another list."""
    return _plain(title) in _LISTINGS


def is_paper(document: Document) -> bool:
    """Return whether a document is a scientific paper, which ends with its findings.

    Papers say "in this paper", or begin with an abstract or introduction and have a section of
    results, related work or conclusions. That holds for 93 % of ScisummNet's papers and for 2 % of
    technical proposals.
    """
    titles = [_plain(section.title) for _, section in document.walk()]
    if any(map(_OPENING.match, titles)) and any(map(_CLOSING.match, titles)):
        return True
    return any(_THIS_PAPER.search(sentence.text) for sentence in document.sentences())


def is_story(document: Document) -> bool:
    """Return whether a document tells a story, judging by how many paragraphs begin with speech."""
    paragraphs = [paragraph for paragraph in document.paragraphs() if paragraph.kind == "prose"]
    openings = [paragraph.sentences[0].text for paragraph in paragraphs]
    speeches = sum(
        bool(_SPEECH.match(opening)) and not _DEFINITION.match(opening) for opening in openings
    )
    return speeches > _MIN_SPEECH * len(openings)


def _plain(title: str) -> str:
    """Return a heading in lower case, without its number."""
    lowered = title.lower().replace("’", "'")
    return lowered[_NUMBERING.match(lowered).end() :].strip(" .:¶")  # type: ignore[union-attr]


def _is_fragment(text: str) -> bool:
    if _width(text) < _MIN_WIDTH:
        return True
    if _LEADS_OR_ASKS.search(text) or any(
        pattern.match(text) for pattern in (_DEFINITION, _COPYRIGHT, _FORMALITY)
    ):
        return True
    return sum(c.isalpha() or c.isspace() for c in text) < _MIN_LETTERS * len(text)


def _are_quoted(sentences: Iterable[str]) -> Iterator[bool]:
    """Yield whether each sentence of a paragraph begins or ends inside a quotation."""
    is_open = False
    for sentence in sentences:
        was_open = is_open
        is_open ^= len(_QUOTATION_MARK.findall(sentence)) % 2 == 1
        yield was_open or is_open


def _is_whole(text: str, name: str) -> bool:
    """Return whether a sentence can stand alone; a name may begin it in lower case."""
    marker = _MARKER.match(text)
    said = (text[marker.end() :] if marker else text).lstrip("¡¿")
    is_lower = said[:1].islower() and said.split()[0] != name
    if not said[:1].isalnum() or is_lower or said.isupper() or _POINTS_BACK.match(said):
        return False
    return bool(_END.search(said)) and _width(said) <= _MAX_WIDTH


def _width(text: str) -> int:
    return sum(2 if east_asian_width(c) in "WF" else 1 for c in text)


def _is_backchannel(utterance: str) -> bool:
    words = {word for word in utterance.lower().split() if any(map(str.isalpha, word))}
    return len(words) < _MIN_UTTERANCE_WORDS
