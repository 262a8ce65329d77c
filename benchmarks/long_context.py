"""Passkeys and needles: documents of 256 to 32,768 tokens that differ in one place.

At each length there are 100 documents and 50 questions, each about what stands in that place of one
of them. The score is how often that document is ranked first. They are made as Zhu et al. (2024,
https://github.com/dwzhu-pku/LongEmbed) describe. Lengths are in words, of which they count three
for four tokens. The place is a random sentence.

- passkey: a person's pass key, among five short sentences that are repeated over and over;
- needle: a fact about the world, in the first chapters of Moby-Dick. Zhu et al. take Paul Graham's
  essays, which are not free, and facts written by GPT-4; the facts here are our own.

    python benchmarks/long_context.py                   # BM25 and MiniLM
    python benchmarks/long_context.py --model model     # and an encoder of documents
"""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

import arguments
import report
from foveate import Document
from retrieval import FIFTHS
from retrieval_measures import SEED, hit, rank
from retrieval_systems import Systems, minilm_path, sentence_texts

RESULTS = report.RESULTS / "long_context.json"
LENGTHS = [2**n for n in range(8, 16)]
WORDS_PER_TOKEN = 0.75
DOCUMENTS = 100
QUERIES = 50
HAY_BEGINS = "Call me Ishmael."
GARBAGE = [
    "The grass is green.",
    "The sky is blue.",
    "The sun is yellow.",
    "Here we go.",
    "There and back again.",
]
# fmt: off
FIRST_NAMES = [
    "Ada", "Bela", "Cosima", "Davit", "Edda", "Farid", "Greta", "Hanno", "Ilse", "Jorge",
    "Kirsi", "Leif", "Mina", "Nils", "Oona", "Piet", "Quirin", "Rosa", "Sven", "Tilda",
]
LAST_NAMES = [
    "Abara", "Brandt", "Castell", "Dahl", "Ekman", "Ferrante", "Gupta", "Hollis", "Ivanova",
    "Jansen", "Kowal", "Lindt", "Moreau", "Novak", "Okafor", "Pereira", "Quist", "Rossi",
    "Sato", "Tamm",
]
# fmt: on
FACTS = """\
Who painted the Night Watch? | Rembrandt painted the Night Watch in 1642.
At what temperature does mercury freeze? | Mercury freezes at about minus 39 degrees Celsius.
Which river flows through Budapest? | Budapest lies on both banks of the Danube.
Who composed the opera Carmen? | Carmen is an opera by Georges Bizet.
How many bones does an adult human have? | The skeleton of an adult human has 206 bones.
What is the capital of Mongolia? | The capital of Mongolia is Ulaanbaatar.
Who proved that there are infinitely many primes? | Euclid proved that there are infinitely many prime numbers.
Which planet has the shortest year? | Mercury goes around the sun in 88 days, faster than any other planet.
In what year did the Berlin Wall fall? | The Berlin Wall fell in November 1989.
Who wrote One Hundred Years of Solitude? | Gabriel García Márquez wrote One Hundred Years of Solitude.
Which gas do plants take in for photosynthesis? | For photosynthesis, plants take in carbon dioxide.
What is the sum of the angles of a triangle? | The angles of a triangle in the plane add up to 180 degrees.
Which metal is the best conductor of electricity? | Of all metals, silver conducts electricity best.
Who discovered penicillin? | Alexander Fleming discovered penicillin in a dish of mould.
Which country has the most time zones? | With its overseas territories, France has twelve time zones, the most of any country.
What is the largest desert of the world? | Antarctica is the largest desert of the world.
Who designed the church of the Sagrada Família? | The Sagrada Família was designed by Antoni Gaudí.
How long does light need from the sun to the earth? | Sunlight takes a little over eight minutes to reach the earth.
Which vitamin prevents scurvy? | Scurvy comes from a lack of vitamin C.
Who was the first woman to win a Nobel Prize? | Marie Curie was the first woman who received a Nobel Prize.
What do the rings of Saturn consist of? | The rings of Saturn are made of ice and rock.
Which language has the most native speakers? | Mandarin Chinese is the mother tongue of more people than any other language.
What is the derivative of the sine? | The derivative of the sine function is the cosine.
In which city were the first modern Olympic Games held? | The first modern Olympic Games took place in Athens in 1896.
Which animal has three hearts? | An octopus has three hearts.
Who built the first practical telescope with mirrors? | Isaac Newton built the first reflecting telescope.
Which element has the symbol W? | Tungsten has the chemical symbol W.
What is the longest bone of the body? | The femur is the longest bone of the body.
Which treaty ended the Thirty Years' War? | The Thirty Years' War ended with the Peace of Westphalia.
Who wrote the play A Doll's House? | A Doll's House is a play by Henrik Ibsen.
What is the deepest lake on earth? | Lake Baikal in Siberia is the deepest lake on earth.
Which instrument did Niccolò Paganini play? | Niccolò Paganini was a virtuoso of the violin.
What does a seismograph measure? | A seismograph records the motion of the ground in earthquakes.
How many squares are on a chessboard? | A chessboard has 64 squares.
Who formulated the theory of general relativity? | Albert Einstein published the general theory of relativity in 1915.
Which sea has no coast? | The Sargasso Sea is the only sea without a coast.
What is the currency of Switzerland? | In Switzerland one pays in francs.
Which bird cannot fly but runs faster than a horse? | The ostrich cannot fly, but it outruns most horses.
Who painted the ceiling of the Sistine Chapel? | Michelangelo painted the ceiling of the Sistine Chapel.
What causes the tides? | Tides are caused chiefly by the pull of the moon.
In which country was the printing press with movable metal type first used? | Books were printed with movable metal type in Korea before Gutenberg was born.
What is the hardest natural mineral? | Diamond is the hardest mineral found in nature.
Who wrote the Critique of Pure Reason? | Immanuel Kant is the author of the Critique of Pure Reason.
Which organ makes insulin? | Insulin is made in the pancreas.
How many strings does a cello have? | A cello has four strings.
What is the tallest waterfall in the world? | Angel Falls in Venezuela is the tallest waterfall in the world.
Who invented dynamite? | Dynamite was invented by Alfred Nobel.
Which city was called Constantinople? | Istanbul was once called Constantinople.
What is the speed of sound in air? | Sound travels through air at about 343 metres a second.
Which king signed Magna Carta? | King John put his seal to Magna Carta at Runnymede.
What do bees collect from flowers? | Bees gather nectar and pollen from flowers.
Who wrote the first computer program? | Ada Lovelace wrote the first program for a computing machine.
Which country gave the Statue of Liberty to the United States? | The Statue of Liberty was a gift from France.
What is the ratio of a circle's circumference to its diameter called? | The circumference of a circle divided by its diameter is called pi.
Who was the first emperor of Rome? | Augustus was the first Roman emperor.
Which ocean is the smallest? | The Arctic is the smallest of the oceans.
What is the main ingredient of glass? | Glass is made mainly of silica sand.
Who composed the Brandenburg Concertos? | Johann Sebastian Bach composed the Brandenburg Concertos.
How many legs does a spider have? | Spiders have eight legs.
Which explorer first reached the South Pole? | Roald Amundsen was the first to reach the South Pole.
What is the national animal of Scotland? | Scotland's national animal is the unicorn.
Who developed the periodic table of elements? | Dmitri Mendeleev arranged the chemical elements in a periodic table.
Which mountain is the highest in Africa? | Kilimanjaro is the highest mountain of Africa.
What is the smallest country of the world? | Vatican City is the smallest country of the world.
Who directed the film Seven Samurai? | Seven Samurai is a film by Akira Kurosawa.
Which particle carries a negative charge in an atom? | In an atom, electrons carry the negative charge.
What is a group of lions called? | Lions live together in a pride.
In which year did the Titanic sink? | The Titanic sank in April 1912.
Which plant is linen made from? | Linen is made from flax.
Who wrote Don Quixote? | Don Quixote was written by Miguel de Cervantes.
What is the study of fungi called? | Mycology is the study of fungi.
Which planet is known for its Great Red Spot? | The Great Red Spot is a storm on Jupiter.
How many players does a volleyball team have on the court? | In volleyball, each team has six players on the court.
Who painted Guernica? | Guernica is a painting by Pablo Picasso.
What is the freezing point of water in Fahrenheit? | Water freezes at 32 degrees Fahrenheit.
Which strait separates Europe from Africa? | The Strait of Gibraltar separates Europe from Africa.
Who invented the World Wide Web? | Tim Berners-Lee invented the World Wide Web at CERN.
What is the largest organ of the human body? | The skin is the largest organ of the human body.
Which empire built Machu Picchu? | Machu Picchu was built by the Inca.
What is the square root of 289? | The square root of 289 is 17.
Who was the Greek goddess of wisdom? | Athena was the Greek goddess of wisdom.
Which country produces the most coffee? | Brazil grows more coffee than any other country.
What is the fear of heights called? | The fear of heights is called acrophobia.
Who wrote the novel Frankenstein? | Mary Shelley wrote the novel Frankenstein.
Which blood type can be given to everyone? | Blood of type O negative can be given to anyone.
What is the name of the force that slows moving objects on a surface? | Friction slows an object that slides over a surface.
In which museum does the Mona Lisa hang? | The Mona Lisa hangs in the Louvre.
Which dance comes from Buenos Aires? | The tango was born in Buenos Aires.
Who first measured the circumference of the earth? | Eratosthenes measured the circumference of the earth with shadows and a well.
What is the most abundant gas in the atmosphere? | Nitrogen makes up most of the atmosphere.
Which war was fought between the houses of Lancaster and York? | The houses of Lancaster and York fought the Wars of the Roses.
What do pandas mostly eat? | Pandas live almost entirely on bamboo.
Who composed The Rite of Spring? | The Rite of Spring is a ballet by Igor Stravinsky.
Which number system do computers use? | Computers calculate in the binary system.
What is the capital of New Zealand? | Wellington is the capital of New Zealand.
Who founded the Red Cross? | The Red Cross goes back to Henri Dunant.
Which metal is liquid at room temperature? | The one metal that is liquid at room temperature is quicksilver.
What is the name of the oldest known writing system? | Cuneiform is the oldest known writing.
Which scientist described the laws of heredity in peas? | Gregor Mendel found the laws of heredity by crossing peas.
How often does Halley's comet return? | Halley's comet comes back about every 76 years."""  # noqa: E501


class Task(NamedTuple):
    """Documents that differ in one place, and questions about that place.

    Attributes:
        documents: The documents.
        places: Where in each it is: 0 at the beginning, up to 1.
        questions: The questions, about the first documents in their order.
    """

    documents: list[Document]
    places: list[float]
    questions: list[str]


def main() -> None:
    parser = arguments.parser(
        __doc__,
        "data",
        "model",
        "minilm",
        "device",
        "dtype",
        lengths=LENGTHS,
        output=RESULTS,
    )
    options = parser.parse_args()
    systems = Systems(options.minilm or minilm_path(), options.model, options.device, options.dtype)
    hay = {"passkey": GARBAGE, "needle": book(options.data / "books" / "moby_dick.txt.gz")}
    facts = {"passkey": passkeys(), "needle": needles()}
    results: dict[str, Any] = {}
    for name in facts:
        first = {
            length: measure(make(hay[name], facts[name], length), systems)
            for length in options.lengths
        }
        results[name] = {
            system: {
                "by length": {
                    length: round(100 * float(np.mean([one for one, _ in of_system[system]])), 1)
                    for length, of_system in first.items()
                },
                "by fifth": by_fifth([pair for one in first.values() for pair in one[system]]),
            }
            for system in first[options.lengths[0]]
        }
    print(f"\n{table(results)}")
    setting = {
        "model": options.model and Path(options.model).name,
        "dtype": options.dtype,
        "documents": DOCUMENTS,
        "queries": QUERIES,
        "seed": SEED,
    }
    report.save(options.output, {"setting": setting, "tasks": results}, "transformers", "numpy")


def passkeys() -> list[tuple[str, list[str]]]:
    """Invent pass keys: for each person a question, and the sentences that answer it."""
    draw = random.Random(SEED)
    people = [f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES]
    keys = draw.sample(range(10_000, 100_000), DOCUMENTS)
    return [
        (
            f"What is the pass key for {person}?",
            [
                f"{person}'s pass key is {key}.",
                "Remember it.",
                f"{key} is the pass key for {person}.",
            ],
        )
        for person, key in zip(draw.sample(people, DOCUMENTS), keys, strict=True)
    ]


def needles() -> list[tuple[str, list[str]]]:
    """Return the facts in random order: for each a question, and the sentence that answers it."""
    pairs = [line.split(" | ") for line in FACTS.splitlines()]
    return random.Random(SEED).sample([(question, [fact]) for question, fact in pairs], len(pairs))


def book(path: Path) -> list[str]:
    """Return the sentences of a book from where its story begins."""
    sentences = sentence_texts(Document.from_file(path, language="en"))
    return sentences[sentences.index(HAY_BEGINS) :]


def make(hay: Sequence[str], facts: Sequence[tuple[str, list[str]]], length: int) -> Task:
    """Hide each fact at a random place of the hay.

    Args:
        hay: Sentences, which are repeated if they are too few.
        facts: Each question with its answer.
        length: Longest document in tokens.

    Raises:
        ValueError: A fact does not fit into the length.
    """
    draw = random.Random(SEED + length)
    documents, places = [], []
    for _, fact in facts:
        before = [*fill(hay, length * WORDS_PER_TOKEN - sum(map(num_words, fact)))]
        place = draw.randint(0, len(before))
        sentences = [*before[:place], *fact, *before[place:]]
        documents.append(Document.from_sections("", [("", sentences)], language="en"))
        places.append(place / len(before))
    return Task(documents, places, [question for question, _ in facts[:QUERIES]])


def fill(hay: Sequence[str], words: float) -> Iterator[str]:
    """Repeat the hay as long as the next sentence fits into the number of words."""
    i = 0
    while (words := words - num_words(hay[i % len(hay)])) >= 0:
        yield hay[i % len(hay)]
        i += 1


def num_words(sentence: str) -> int:
    return len(sentence.split())


def measure(task: Task, systems: Systems) -> dict[str, list[tuple[float, float]]]:
    """Return for each system whether it answered each question, and where the answer stands."""
    relevant = F.one_hot(torch.arange(len(task.questions)), len(task.documents)).bool()
    return {
        system: [
            (hit(rank(row, marks), 1), place)
            for row, marks, place in zip(scores, relevant, task.places, strict=False)
        ]
        for system, scores in systems.among(task.documents, [[q] for q in task.questions])
    }


def by_fifth(pairs: Sequence[tuple[float, float]]) -> list[float | None]:
    """Return the percentage of answers found in each fifth of the documents."""
    fifths = [min(int(FIFTHS * place), FIFTHS - 1) for _, place in pairs]
    found = [
        [found for (found, _), fifth in zip(pairs, fifths, strict=True) if fifth == i]
        for i in range(FIFTHS)
    ]
    return [round(100 * float(np.mean(of_fifth)), 1) if of_fifth else None for of_fifth in found]


def table(results: dict[str, Any]) -> str:
    """Format the mean over lengths, and the greatest length, of each task."""
    header, columns = [""], []
    for name, of_systems in results.items():
        lengths = [*next(iter(of_systems.values()))["by length"]]
        header += [f"{name}: mean", f"{int(lengths[-1]):,} tokens"]
        columns.append({s: [*its["by length"].values()] for s, its in of_systems.items()})
    rows = [
        [system, *(f"{x:.0f}" for c in columns for x in (np.mean(c[system]), c[system][-1]))]
        for system in columns[0]
    ]
    return report.table(header, rows)


if __name__ == "__main__":
    main()
