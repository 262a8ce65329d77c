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
        (r"We use $x^2 + \alpha_i \leq \frac{1}{2}$ here", "We use x^2+α_i ≤ 1/2 here"),
        (r"costs \(n\) steps", "costs n steps"),
        (r"Call \verb|a_b%c{| twice", "Call a_b%c{ twice"),
        (r"A \iffalse{} x \ifx\a\b y\else z\fi\fi B", "A B"),
        (r"\def\l{en}\def\en{en}\ifx\l\en Mill\else Mühle\fi.", "Mill."),
        (r"\def\l{de}\def\en{en}\ifx\l\en Mill\else Mühle\fi.", "Mühle."),
        (r"\ifx\l\undefined One\else Two\fi.", "One."),
        (r"\ifpdf Pdf\else Dvi\fi{} and \ifdraft\else final\fi.", "Pdf and final."),
        (r"\def\n{3}\ifnum\n>2 Many\else Few\fi; \ifnum 1=2 a\else b\fi.", "Many; b."),
        (r"\ifcase 1 zero\or one\or two\else many\fi, \ifodd 2 odd\else even\fi.", "one, even."),
        (r"\newboolean{long}\ifthenelse{\boolean{long}}{Long}{Short}.", "Short."),
        (
            r"\newtoggle{a}\toggletrue{a}\iftoggle{a}{Yes}{No}. \ifthenelse{\equal{a}{b}}{c}{d}.",
            "Yes. d.",
        ),
        ("A\\begin{comment} \\fi x \\end{comment} B", "A B"),
        ("\\excludecomment{teacher}A\\begin{teacher}x\\end{teacher} B", "A B"),
        ("one % comment\ntwo\n% a line\nthree", "one two three"),
        (r"\input{/etc/passwd} \vspace{3cm} See Section~\ref{sec:x}.", "See Section."),
        (r"\iffalse hidden \fi shown", "shown"),
        (r"\newcommand{\of}[2][x]{#2(#1)}\of{f} $\of[y]{g}$", "f(x) g(y)"),
        (r"\def\eg{e.g.,\ }\newcommand{\two}[2]{#2 before #1}\eg \two{b}{a}", "e.g., a before b"),
        (r"It costs 5$ and no more", "It costs 5$ and no more"),
        (
            r"\SI{3.5}{\kilo\watt}, \qty{20}{\celsius}, \num{1.2e-3}, \si{m.s^{-1}}",
            "3.5 kW, 20 °C, 1.2 × 10^-3, m s^-1",
        ),
        (
            r"\qty{9.81}{\metre\per\second\squared} \SIrange{1}{5}{\mm} \ang{45}",
            "9.81 m/s^2 1 to 5 mm 45°",
        ),
        (r"\DeclareSIUnit{\px}{px}\qty{4}{\mega\px}\todo{Ask.} \numproduct{3 x 4}", "4 Mpx 3 × 4"),
        (r"\newcommand{\p}[2][EUR]{#1 #2}\p{99} or \p[USD]{110}", "EUR 99 or USD 110"),
        (r"\newcommand{\p}[2][a]{#1+#2}$\p{b}$ or $\p[c]{d}$", "a+b or c+d"),
        (
            r"\NewDocumentCommand\p{O{EUR} m}{#1 #2}\p{99} or \p[USD]{110}",
            "EUR 99 or USD 110",
        ),
        (r"\NewDocumentCommand{\p}{m}{ripe #1}\p{pears} only", "ripe pears only"),
        (
            r"\newcommand{\p}{Pump~X\xspace}The \p is quiet, \p, \p.",
            "The Pump X is quiet, Pump X, Pump X.",
        ),
        (
            r"\newcommand{\v}[1]{\mathbf{#1}}\DeclareMathOperator{\am}{arg\,max}$\am \v{x}$",
            "arg max x",
        ),
        (r"\newif\ifx\ifx A\else B\fi \xtrue\ifx, C\iffalse D \fi\else E\fi", "B, C"),
        (r"\def\begun{\iffalse} A \begun B", "A B"),
        (
            r"\texorpdfstring{$\alpha$}{alpha} \enquote{a \enquote{b}} \ensuremath{\times}",
            "α “a ‘b’” ×",
        ),
        ("unclosed { brace } } and \\begin{center} more", "unclosed brace and more"),
    ],
)
def test_what_is_shown(source, text):
    assert " ".join(words for _, words in shown(source)) == text


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("\\begin{pyconsole}[frame=single]\n", "\\end{pyconsole}"),
        ("\\begin{SVerbatim*}\n", "\\end{SVerbatim*}"),
        ("\\begin{minted}[x=1]{python}\n", "\\end{minted}"),
        ("\\begin{verbatim}", "\\end{verbatim}"),
    ],
)
def test_verbatim_environments_are_code(begin, end):
    code = "a_b = {1 % 2}\n    $x & y # \\section{No}"
    document = Document.from_text(
        f"\\section{{One}}\nText.\n\n{begin}{code}\n{end}\n", format="latex"
    )
    assert [(one.kind, one.sentences[0].text) for one in document.paragraphs()] == [
        ("prose", "Text."),
        ("code", code),
    ]


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
        ("item", "1. Inner item"),
        ("formula", "E = mc^2"),
        ("prose", "Between."),
        ("formula", "a = b"),
        ("caption", "Figure 1: A long caption."),
        ("code", "int main() { return 0; }  % kept\n\n  \\section{no heading}"),
    ]


def test_items_of_enumerations_have_their_numbers():
    body = r"""
\begin{enumerate}
\item One. One more.

It goes on.
\item[Own:] label
\item Two\footnote{A note. \begin{itemize}\item A point.\end{itemize}}
  \begin{enumerate}
  \item Inner
    \begin{itemize} \item Bullet \begin{enumerate} \item Third \end{enumerate}\end{itemize}
  \item Last
  \end{enumerate}
\item
\item Four
\item \[ x = 1 \] where x is.
\begin{multicols}{2}\item Six \item Seven\end{multicols}
\end{enumerate}
Between.
\begin{enumerate}\item Again\end{enumerate}
\begin{description}\item[Cod] swims. \item[Eel] hides.\end{description}
"""
    assert [words for _, words in shown(body)] == [
        "1. One. One more.",
        "It goes on.",
        "Own: label",
        "2. Two",
        "A note. A point.",
        "(a) Inner",
        "Bullet",
        "i. Third",
        "(b) Last",
        "4. Four",
        "x = 1",
        "where x is.",
        "6. Six",
        "7. Seven",
        "Between.",
        "1. Again",
        "Cod swims.",
        "Eel hides.",
    ]


def test_a_number_is_part_of_the_first_sentence_of_its_item():
    document = read("First.\n\n\\begin{enumerate}\n\\item Cod swim. They eat.\n\\end{enumerate}")
    assert [span.text for span in document.spans()] == ["First.", "1. Cod swim.", "They eat."]


def test_items_know_their_lines():
    body = (
        "First.\n\\begin{enumerate}\n\\item One\n\\item[Two:] two\n\\item Three\n\\end{enumerate}"
    )
    assert [span.place for span in read(body).spans()] == ["line 1", "line 3", "line 4", "line 5"]


@pytest.mark.parametrize(
    ("source", "numbers"),
    [
        (r"\begin{enumerate}[start=3]\item x\item x\end{enumerate}", "3. 4."),
        (
            r"\begin{enumerate}[label=(\roman*), ref=\roman*]\item x\item x\end{enumerate}",
            "(i) (ii)",
        ),
        (r"\begin{enumerate}[label={\textbf{Q\arabic*:}}]\item x\end{enumerate}", "Q1:"),
        (r"\begin{enumerate}[label=\textbullet]\item x\end{enumerate}", ""),
        (r"\begin{enumerate}[a)]\item x\item x\end{enumerate}", "a) b)"),
        (r"\begin{enumerate}[(H1)]\item x\end{enumerate}", "(H1)"),
        (r"\begin{enumerate}[<+->]\item x\end{enumerate}", "1."),
    ],
)
def test_numbers_follow_labels(source, numbers):
    items = [words.rpartition("x")[0].strip() for _, words in shown(source)]
    assert " ".join(items) == numbers


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
        r"\begin{enumerate}[label*=\arabic*.]\item x" * 2_000 + " word",
        r"\setcounter{enumi}{9}"
        + r"\addtocounter{enumi}{\value{enumi}}" * 20_000
        + r"\begin{enumerate}[resume]\item word\end{enumerate}",
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


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        (r"\ref{s}", "2.1"),
        (r"\eqref{e} \eqref{f} \ref{f}", "(1) (3) 3"),
        (r"\cref{s,c} \Cref{s} \autoref{c}", "section 2.1 and Figure 1 Section 2.1 Figure 1"),
        (r"\cref{s,t}", "sections 2.1 and 2"),
        (r"\cref{th} \nameref{s} \ref{i} \ref{tab} \ref{ap}", "theorem 2.1 Inner 2 1 A"),
        (r"\ref{elsewhere}", ""),
    ],
)
def test_references_have_their_numbers(reference, text):
    body = r"""\newtheorem{thm}{Theorem}[section]
\section{One}\section{Two}\label{t}\section*{Unnumbered}
\subsection{Inner}\label{s}
\begin{equation}\label{e} a = b \end{equation}
\begin{align} a &= b \notag \\ b &= c \\ c &= d \label{f} \end{align}
\begin{figure}\caption{A cod.\label{c}}\end{figure}
\begin{table}\caption{Prices.}\label{tab}\end{table}
\begin{thm}[Lee]\label{th} It swims.\end{thm}
\begin{enumerate}\item a \item\label{i} b\end{enumerate}
\appendix\section{Data}\label{ap}
"""
    *_, (_, words) = shown(f"{body} See: {reference}.")
    assert words == f"See: {text}.".replace(": .", ":.")
    assert ("prose", "Theorem 2.1 (Lee). It swims.") in shown(f"{body} See: {reference}.")


def test_numbers_within_chapters():
    body = r"""\chapter{Cod}\chapter{Nets}
\begin{equation}\label{e} a = b \end{equation}
\begin{figure}\caption{A net.}\label{f}\end{figure}
By \eqref{e} and \cref{f}."""
    assert shown(body)[1:] == [
        ("caption", "Figure 2.1: A net."),
        ("prose", "By (2.1) and Figure 2.1."),
    ]


def test_rules_and_spans_of_tables():
    body = r"""
\begin{tabular}{l|rr}\toprule
Item & \multicolumn{2}{c}{Price}\\ \cmidrule(l){2-3}
 & EUR & USD\\ \midrule
Hose & 5 & 6\\ \addlinespace[2pt]
\multirow{2}{*}{Valve} & 7 & 8\\
 & 9 & 10\\ \bottomrule
\end{tabular}
"""
    (table,) = read(body).paragraphs()
    assert [row.text for row in table.sentences] == [
        "Item: Hose; Price EUR: 5; Price USD: 6",
        "Item: Valve; Price EUR: 7; Price USD: 8",
        "Item: Valve; Price EUR: 9; Price USD: 10",
    ]


def test_heads_of_long_tables_are_read_once():
    body = r"""
\begin{longtable}{lr}
\caption{Prices.}\label{p}\\
\toprule Item & Price \\ \midrule \endfirsthead
\multicolumn{2}{c}{Continued} \\ \toprule Item & Price \endhead
\multicolumn{2}{r}{Goes on} \\ \endfoot
\bottomrule \endlastfoot
Hose & 5 \\
Valve & 7 \\
\end{longtable}
See Table~\ref{p}.
"""
    assert shown(body) == [
        ("caption", "Table 1: Prices."),
        ("table", "Item: Hose; Price: 5 Item: Valve; Price: 7"),
        ("prose", "See Table 1."),
    ]


def test_environments_that_the_document_defines():
    text = r"""\documentclass{article}
\newenvironment{task}[2][easy]{\begin{quote}\textbf{Task #2} (#1): }{\end{quote}}
\begin{document}
\begin{task}{7} Count the cod. \end{task}
\begin{itemize}\item One \begin{task}[hard]{8} Count. \end{task} \item Two\end{itemize}
After.
\end{document}"""
    assert shown(text) == [
        ("prose", "Task 7 (easy): Count the cod."),
        ("item", "One"),
        ("item", "Task 8 (hard): Count."),
        ("item", "Two"),
        ("prose", "After."),
    ]
