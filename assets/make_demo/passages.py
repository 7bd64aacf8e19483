"""Passages in several languages that come with the studio: a run rehearses what the base reads in them."""

import json
import random
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .clips import draw_sentence
from .speech import write_opus
from .voices import SAMPLE_RATE, Samples, Voice, espeak

SEED = 3
"""Decides which sentences the last passages have, and how all are said."""
SECONDS = 28.0
"""At most: a passage is one window."""
_PAUSES = (0.25, 0.6)


@dataclass(frozen=True)
class Passage:
    """Sentences that one voice says."""

    language: str
    """Code, as Whisper has it."""
    voice: str
    """espeak-ng's."""
    text: str


PASSAGES = (
    Passage(
        "en",
        "en-us+m1",
        "The old lighthouse stands at the end of the harbour. For two hundred years it has shown ships "
        "the way home. Last winter a storm broke three of its windows, and the town collected money to "
        "repair them. Now children visit it every Sunday. From the top you can see the islands, the "
        "fishing boats, and, on a clear day, the mountains behind the coast.",
    ),
    Passage(
        "en",
        "en-gb-x-rp+f2",
        "Good morning, and welcome to the meeting. We have four points on the list today. First, the "
        "budget for next year. Second, the new office in Manchester. Dr. Wilson will then talk about the "
        "results of the survey, which about sixty percent of our customers answered. Please keep your "
        "questions until the end.",
    ),
    Passage(
        "en",
        "en-us+Annie",
        "I never really liked cooking until I moved to Boston. My neighbor, who was from Naples, taught "
        "me how to make bread. You need flour, water, salt, and patience, she used to say. Today I bake "
        "twice a week, and my brother claims he can smell it from the train station. What would you like "
        "to try first?",
    ),
    Passage(
        "de",
        "de+m2",
        "Im Sommer fahren wir oft an den See. Das Wasser ist klar, und am Ufer stehen alte Bäume. Meine "
        "Großmutter erzählt gern, wie sie dort schwimmen gelernt hat. Abends machen wir ein Feuer und "
        "kochen Kartoffeln mit Quark. Wenn es regnet, spielen wir Karten oder lesen. Nächstes Jahr wollen"
        " wir eine ganze Woche bleiben.",
    ),
    Passage(
        "es",
        "es+f1",
        "La biblioteca del barrio abre todos los días a las nueve. Tiene más de veinte mil libros y una "
        "sala para los niños. Los jueves por la tarde, una actriz lee cuentos en voz alta. Mi hijo no se "
        "pierde ninguno. Después vamos a la plaza, compramos un helado y volvemos a casa caminando junto "
        "al río.",
    ),
    Passage(
        "fr",
        "fr+m5",
        "Le marché commence très tôt le samedi matin. Les marchands installent leurs tables avant le "
        "lever du soleil. On y trouve des légumes, du fromage, du poisson et des fleurs. Ma tante vend du"
        " miel depuis trente ans. Elle connaît tous ses clients par leur prénom, et elle leur demande "
        "toujours des nouvelles.",
    ),
    Passage(
        "it",
        "it+f5",
        "Ogni anno, a settembre, il paese festeggia la vendemmia. Le strade si riempiono di musica e di "
        "profumo di pane. I ragazzi portano i cesti d'uva fino alla piazza, dove gli anziani raccontano "
        "storie di una volta. Quando cala la sera, tutti si siedono alla stessa tavola. Noi restiamo "
        "quasi sempre fino a mezzanotte.",
    ),
    Passage(
        "pt",
        "pt-br+m6",
        "O trem para o litoral sai às sete e meia da manhã. A viagem dura quatro horas e passa por "
        "montanhas e pontes antigas. Muitos turistas preferem sentar à direita, porque dali se vê o mar. "
        "Eu levo sempre um livro, mas quase nunca leio. Gosto de olhar pela janela e de conversar com as "
        "pessoas.",
    ),
    Passage(
        "ru",
        "ru+m7",
        "Мой дедушка всю жизнь работал учителем в маленькой школе. Он преподавал историю и географию. По "
        "вечерам он читал нам вслух старые книги о путешествиях. Зимой мы катались на лыжах, а летом "
        "собирали грибы. Теперь я сам рассказываю эти истории своим детям, и они слушают очень "
        "внимательно.",
    ),
    Passage(
        "nl",
        "nl+m8",
        "Op zaterdag fietsen we altijd naar de markt. Mijn zus koopt daar kaas en vers brood, en ik neem "
        "bloemen mee voor onze moeder. Als het mooi weer is, drinken we koffie aan het water. Vorige week"
        " zagen we een oude boot die helemaal blauw geschilderd was. De eigenaar woont er al twintig jaar"
        " op.",
    ),
    Passage(
        "pl",
        "pl+m1",
        "Nasza szkoła stoi obok dużego parku. Wiosną lekcje przyrody odbywają się na dworze. Dzieci "
        "rysują drzewa, liczą ptaki i zapisują wszystko w zeszytach. W zeszłym roku posadziliśmy tam "
        "trzydzieści małych brzóz. Dyrektor obiecał, że za dziesięć lat będziemy mogli usiąść w ich "
        "cieniu.",
    ),
    Passage(
        "tr",
        "tr+f2",
        "Her sabah erkenden kalkıp deniz kenarında yürüyorum. Balıkçılar o saatte teknelerini hazırlıyor."
        " Küçük bir kahvede çay içip gazete okuyorum. Kahvenin sahibi bana eski günleri anlatıyor. Yazın "
        "burası çok kalabalık olur, ama kışın yalnızca biz kalırız. Ben en çok sonbaharı severim.",
    ),
    Passage(
        "id",
        "id+m3",
        "Ayah saya bekerja di sebuah toko buku di pusat kota. Setiap hari Minggu kami membantu menyusun "
        "buku baru di rak. Banyak mahasiswa datang untuk membaca dan minum kopi. Bulan lalu seorang "
        "penulis terkenal berbicara di sana selama dua jam. Kami semua pulang dengan senang dan membawa "
        "buku yang ditandatangani.",
    ),
)


COMMANDS = ("en-us+f1", "en+m7")
"""Voices that say sentences of the demo model, which reads nothing else."""


def written_passages(rng: random.Random) -> list[Passage]:
    """All that are said."""
    commands = [
        Passage(
            "en", voice, ". ".join(draw_sentence(False, rng).strip().capitalize() for _ in range(12)) + "."
        )
        for voice in COMMANDS
    ]
    return [*PASSAGES, *commands]


def write_passages(folder: Path, seed: int = SEED) -> None:
    """Writes each passage as a file, and `passages.jsonl` with their languages; not what is said in them:
    a base is to read them as it does.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rng, rows = random.Random(seed), []
    for number, passage in enumerate(written_passages(rng)):
        name = f"{number:02d}-{passage.language}.ogg"
        sound = _said(passage, rng)
        write_opus(folder / name, sound)
        seconds = round(len(sound) / SAMPLE_RATE, 2)
        rows.append({"audio": {"path": name}, "language": passage.language, "duration": seconds})
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "passages.jsonl").write_text(lines, encoding="utf-8")


def _said(passage: Passage, rng: random.Random) -> Samples:
    """The sentences with pauses between them over faint noise; what is longer than a window is left out."""
    voice = Voice(passage.voice, words_per_minute=rng.randint(145, 180), pitch=rng.randint(35, 65))
    pieces = [np.zeros(int(0.3 * SAMPLE_RATE), np.float32)]
    for sentence in _sentences(passage.text):
        pause = np.zeros(int(rng.uniform(*_PAUSES) * SAMPLE_RATE), np.float32)
        spoken = [espeak().say(sentence, voice).samples, pause]
        if sum(map(len, (*pieces, *spoken))) > SECONDS * SAMPLE_RATE:
            break
        pieces += spoken
    samples = np.concatenate(pieces)
    noise = np.random.default_rng(rng.randint(0, 2**31)).standard_normal(len(samples))
    return (samples + 5e-4 * noise).astype(np.float32)


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.?!]) (?=\w)(?<!Dr\. )", text)
