"""Questions that a language model made from passages: which are good, and which sentences answer.

A file has a document a line, as make_questions.py writes them: its `kind` (the name of its file in
the corpus), `title`, the `first` 80 characters of its first sentence, and `questions`: each a list
of the text, the first sentence of the passage, the end of the passage, and the rank of the passage
in its document by BM25. Sentences are counted as in the corpus.
"""

import gzip
import json
import lzma
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

FIRST = 80
"""Characters of the first sentence by which a document is found."""


def words(text: str) -> set[str]:
    """Return the different words of a text, in lower case."""
    return set(re.findall(r"\w+", text.lower()))


_FUNCTION_WORDS = words(
    "a about after all an and any are as at be been before being by can could did do does "
    "done for from had has have he how if in into is it its many may might much must no not "
    "of on or s she should so some such t than that the their them then there these they "
    "this those to used was we were what when where which who whom whose why will with "
    "would you your"
)
_EXAMPLE = words("1911 Alvbridge flood flour mill mills millstone millstones quarry")
"""Words of the example in the prompt of made.jsonl.xz, which leaked into some questions."""
_UNCLEAR = re.compile(
    r"\b(?:this|these|above|below|following|(?:the|our|their) (?:given |proposed )?(?:authors?|"
    r"articles?|chapters?|documents?|documentation|KEP|manual|method|page|paper|passage|PEP|"
    r"proposal|RFC|section|speaker|statement|study|text|work))\b",
    re.IGNORECASE,
)
_TELLING = 50  # how many documents the words that a question shares with its passage tell apart
_COPIED = 0.6  # share of a question that may repeat the passage word by word,
_COPIED_WORDS = 8  # if it is as many words
_OPTIONS = 3  # sentences of a passage that share the most with the question: these are encoded
_MIN_SCORE = 1.0  # of a sentence that answers
_NEAR = 0.1  # how much less the score of a second sentence may be


class Question(NamedTuple):
    """A question about the sentences from `first` to `end` of a document."""

    document: int
    text: str
    first: int
    end: int


class Documents:
    """The documents of one file of a corpus.

    Args:
        records: The documents, whose sections have `sentences`.
    """

    def __init__(self, records: Sequence[dict[str, Any]]) -> None:
        self.sentences = [list(sentences_of(record["sections"])) for record in records]
        self._counts = Counter(
            word for sentences in self.sentences for word in words(" ".join(sentences))
        )
        self._places = defaultdict(list)
        for index, (record, sentences) in enumerate(zip(records, self.sentences, strict=True)):
            if sentences:
                self._places[record["title"], sentences[0][:FIRST]].append(index)

    def passage(self, question: Question) -> str:
        return " ".join(self.sentences[question.document][question.first : question.end])

    def is_clear(self, question: Question) -> bool:
        """Return whether a question says what it is about, in words that are not all copied.

        It must have words of the passage that few documents have, and none that stood in the prompt
        only.
        """
        asked, passage = words(question.text), self.passage(question)
        known = words(passage)
        about = asked & known - _FUNCTION_WORDS
        rarity = sum(math.log(len(self.sentences) / self._counts[word]) for word in about)
        return (
            not _UNCLEAR.search(question.text)
            and not asked & _EXAMPLE - known
            and rarity >= math.log(min(_TELLING, len(self.sentences)))
            and not _is_copied(question.text, passage)
        )

    def matching(self, made: dict[str, Any]) -> list[Question]:
        """Return the questions of one line of a file.

        Of several documents with the same beginning, that is chosen whose passages have the most of
        the questions' words.
        """
        candidates = [
            [Question(index, *question[:3]) for question in made["questions"]]
            for index in self._places[made["title"], made["first"]]
        ]
        return max(candidates, key=self._num_shared, default=[])

    def _num_shared(self, questions: list[Question]) -> int:
        return sum(len(words(one.text) & words(self.passage(one))) for one in questions)


def read_made(paths: Iterable[Path]) -> dict[str, list[dict[str, Any]]]:
    """Read files of questions, and group their lines by the kind of document."""
    found = defaultdict(list)
    for path in paths:
        opened = {".xz": lzma.open, ".gz": gzip.open}.get(path.suffix, open)
        with opened(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                record = json.loads(line)
                found[record["kind"]].append(record)
    return found


def with_made_questions(
    records: Iterable[dict[str, Any]],
    made: Iterable[dict[str, Any]],
    encode: Callable[[Sequence[str]], Tensor],
) -> list[dict[str, Any]]:
    """Add the clear questions to the queries of the documents of one file.

    The sentence of the passage that answers is that with the largest sum of the cosine with the
    question and of the share of the question's words that it has, weighted by their rarity in the
    document. A second one that is nearly as good is found as well. A question whose best sentence
    has a low sum is left out.

    Args:
        records: The documents.
        made: Lines of files of questions.
        encode: Returns vectors `(texts, dimension)`, of unit length.
    """
    records = list(records)
    documents = Documents(records)
    overlaps_of: dict[Question, dict[int, float]] = {}
    for line in made:
        clear = [one for one in documents.matching(line) if documents.is_clear(one)]
        if clear:
            overlaps_of |= _overlaps(clear, documents.sentences[clear[0].document])
    texts = {question.text for question in overlaps_of} | {
        documents.sentences[question.document][i]
        for question, overlaps in overlaps_of.items()
        for i in overlaps
    }
    ordered = sorted(texts)
    vectors = dict(zip(ordered, encode(ordered), strict=True))
    found: dict[int, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for question, overlaps in overlaps_of.items():
        sentences = documents.sentences[question.document]
        scores = {
            i: overlap + float(vectors[question.text] @ vectors[sentences[i]])
            for i, overlap in overlaps.items()
        }
        best = sorted(scores, key=scores.__getitem__, reverse=True)[:2]
        if scores[best[0]] >= _MIN_SCORE:
            answers = (i for i in best if scores[i] >= scores[best[0]] - _NEAR)
            found[question.document][question.text].update(answers)
    for index, queries in found.items():
        records[index]["queries"] += [
            {"text": text, "sentence_ids": sorted(answers)} for text, answers in queries.items()
        ]
    return records


def sentences_of(sections: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Return the sentences of sections in the order of `Document.sentences()`."""
    for section in sections:
        yield from section["sentences"]
        yield from sentences_of(section["sections"])


def _overlaps(
    questions: Iterable[Question], sentences: Sequence[str]
) -> dict[Question, dict[int, float]]:
    """Find the sentences of each passage that have the most of its question's words.

    Args:
        questions: Questions about one document.
        sentences: Its sentences.

    Returns:
        For each question, the share of its words that is in a sentence, by rarity, by the index of
        the sentence.
    """
    of_sentences = [words(sentence) for sentence in sentences]
    counts = Counter(word for one in of_sentences for word in one)
    weights = {word: math.log(1 + len(sentences) / count) for word, count in counts.items()}
    found = {}
    for question in questions:
        asked = (words(question.text) - _FUNCTION_WORDS) & weights.keys()
        total = sum(weights[word] for word in asked)
        overlaps = {
            i: sum(weights[word] for word in asked & of_sentences[i]) / total
            for i in range(question.first, question.end)
        }
        best = sorted(overlaps, key=overlaps.__getitem__, reverse=True)[:_OPTIONS]
        found[question] = {i: overlaps[i] for i in best}
    return found


def _is_copied(question: str, passage: str) -> bool:
    """Return whether most of a question stands in the passage, word by word."""
    asked = re.findall(r"\w+", question.lower())
    size = max(_COPIED_WORDS, math.ceil(_COPIED * len(asked)))
    text = " ".join(["", *re.findall(r"\w+", passage.lower()), ""])
    runs = (asked[i : i + size] for i in range(len(asked) - size + 1))
    return any(" ".join(["", *run, ""]) in text for run in runs)
