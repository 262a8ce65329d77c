"""LaTeX: what is shown of a source, and what is not."""

import pytest

from foveate.documents import Document, DocumentError


def read(body):
    return Document.from_text(body, format="latex")


def shown(body):
    return [(p.kind, " ".join(s.text for s in p.sentences)) for p in read(body).paragraphs()]


PAPER = r"""
\documentclass{article}
\usepackage[utf8]{inputenc}
\newcommand{\method}{Fast\-Reader}
\title{A Study of \method\thanks{Funded by nobody.}}
\author{Ann Lee}
This preamble is not shown.
\begin{document}
\maketitle
\begin{abstract}
We study reading. % not this
\end{abstract}
\section{Introduction}\label{sec:intro}
Long texts are long~\cite{lee2020}.
\subsection*{Scope of \emph{this} work}
Only texts.

\section[Short]{Results}
They are good.
\begin{thebibliography}{9}
\bibitem{lee2020} A. Lee. \newblock Reading. 2020.
\bibitem[Ode]{ode} B. Ode. Writing.
\end{thebibliography}
\end{document}
Nor is this.
"""


def test_a_paper():
    document = Document.from_bytes(PAPER.encode())  # recognized by its content
    assert document.title == "A Study of FastReader"
    assert [" > ".join(path) for path, _ in document.walk()] == [
        "Abstract",
        "Introduction",
        "Introduction > Scope of this work",
        "Results",
        "References",
    ]
    assert [one.text for one in document.sentences()] == [
        "We study reading.",
        "Long texts are long [lee2020].",
        "Only texts.",
        "They are good.",
        "A. Lee. Reading. 2020.",
        "B. Ode. Writing.",
    ]
    assert [p.kind for p in document.paragraphs()][-1] == "reference"
    assert document.spans()[1].place == "line 14"


def test_sections_written_in_plain_text_files_are_recognized():
    source = b"\\section{One}\nA text.\n\n\\section{Two}\nAnother text."
    document = Document.from_bytes(source)
    assert [section.title for section in document.sections] == ["One", "Two"]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (
            r"M\"uller, \'Elan, na\"{\i}ve, fa\c{c}ade, Erd\H{o}s",
            "Müller, Élan, naïve, façade, Erdős",
        ),
        (r"5\,\% of \$3 \& more\_less", "5 % of $3 & more_less"),
        (r"``Quoted'' pages 3--5 --- all~of them\dots", "“Quoted” pages 3–5 — all of them…"),
        (r"Stra\ss e and \S~3", "Straße and § 3"),
        (r"\textbf{bold \emph{and} slanted} \unknown[option]{kept}", "bold and slanted kept"),
        (r"\href{https://example.org}{a link} and \textcolor{red}{red}", "a link and red"),
        (r"We use $x^2 + \alpha_i \leq \frac{1}{2}$ here", "We use x^2 + α_i ≤ 1/2 here"),
        (r"costs \(n\) steps", "costs n steps"),
        (r"Call \verb|a_b%c{| twice", "Call a_b%c{ twice"),
        ("one % comment\ntwo\n% a line\nthree", "one two three"),
        (r"\input{/etc/passwd} \vspace{3cm} See Section~\ref{sec:x}.", "See Section."),
        (r"\iffalse hidden \fi shown", "shown"),
        (r"\def\eg{e.g.,\ }\newcommand{\two}[2]{#2 before #1}\eg \two{b}{a}", "e.g., a before b"),
        (r"It costs 5$ and no more", "It costs 5$ and no more"),
        ("unclosed { brace } } and \\begin{center} more", "unclosed brace and more"),
    ],
)
def test_what_is_shown(source, text):
    assert " ".join(words for _, words in shown(source)) == text


def test_kinds():
    body = r"""
Prose with a note\footnote{The \emph{note}. It has two sentences.} in it.
\begin{itemize}
\item First item
\item[Term] Second item.
\begin{enumerate}\item Inner item\end{enumerate}
\end{itemize}
\begin{equation}\label{e} E = mc^2 \end{equation}
Between. \[ a = b \]
\begin{figure}\includegraphics{x.png}\caption[Short]{A long caption.}\end{figure}
\begin{lstlisting}[language=C]
int main() { return 0; }  % kept

  \section{no heading}
\end{lstlisting}
"""
    assert shown(body) == [
        ("prose", "Prose with a note in it."),
        ("footnote", "The note. It has two sentences."),
        ("item", "First item"),
        ("item", "Term Second item."),
        ("item", "Inner item"),
        ("formula", "E = mc^2"),
        ("prose", "Between."),
        ("formula", "a = b"),
        ("caption", "A long caption."),
        ("code", r"int main() { return 0; } % kept \section{no heading}"),
    ]


def test_rows_of_tables_have_their_heads():
    body = r"""
\begin{tabular}{l|r}
\hline
Item & Price \\ \hline
Support & 450 euros \\[2pt]
Meals \& drinks & \multicolumn{1}{c}{\textbf{30} euros} \\
\end{tabular}
"""
    (table,) = read(body).paragraphs()
    assert table.kind == "table"
    assert [row.text for row in table.sentences] == [
        "Item: Support; Price: 450 euros",
        "Item: Meals & drinks; Price: 30 euros",
    ]


@pytest.mark.parametrize(
    "source",
    [
        r"\def\a{\a\a}\a word",
        r"\newcommand{\a}[1]{#1#1#1#1#1#1#1#1}" + r"\a{" * 30 + "x" + "}" * 30 + " word",
        r"\textbf{" * 20_000 + "x" + "}" * 20_000 + " word",
        r"\footnote{" * 2_000 + "x" + "}" * 2_000 + " word",
        r"\begin{tabular}{l}" * 2_000 + " word",
        "$" * 20_001 + " word",
        r"\begin{verbatim} " * 20_000 + " word",
        "[" * 50_000 + " word",
    ],
)
def test_recursive_and_unclosed_sources_are_read_within_bounds(source):
    document = read(source)
    assert "word" in document.text
    assert len(document.text) < 1_000_000


def test_a_source_that_shows_nothing():
    with pytest.raises(DocumentError, match="no sentence"):
        read(r"\documentclass{article}\begin{document}\maketitle\end{document}")


def test_the_bibliography_of_a_book_is_beside_its_chapters(outline):
    references = r"\begin{thebibliography}{9}\bibitem{a} A. Lee, Cod, 1999.\end{thebibliography}"
    document = read(
        r"\documentclass{report}\begin{document}\chapter{Cod}They swim.\section{Food}They eat."
        rf"{references}\end{{document}}"
    )
    assert [path for path, _ in outline(document)] == ["Cod", "Cod > Food", "References"]
