"""The English that the demo model understands: a small grammar of spoken commands.

A sentence is drawn from a template whose `{slots}` name a table in `SLOTS`. Everything is written as it is
spoken: lower case, no digits, no punctuation.
"""

import random
import re
import zlib
from collections.abc import Callable

SLOTS: dict[str, str] = {
    "digit": "zero one two three four five six seven eight nine",
    "small": "two three four five six seven eight nine ten eleven twelve",
    "teen": "thirteen fourteen fifteen sixteen seventeen eighteen nineteen",
    "ten": "twenty thirty forty fifty sixty seventy eighty ninety",
    "unit": "one two three four five six seven eight nine",
    "hour": "one two three four five six seven eight nine ten eleven twelve",
    "quarter": "fifteen thirty forty|five",
    "timeunit": "seconds minutes hours",
    "room": "kitchen bedroom bathroom garden hall office garage living|room dining|room",
    "device": "light lamp fan heater television radio oven computer",
    "cover": "door window curtain gate blinds",
    "colour": "red blue green yellow orange purple pink white black brown",
    "thing": "apples pears books chairs cups plates pens boxes flowers keys bottles balls",
    "food": "milk bread butter cheese rice coffee tea sugar eggs water juice soup chicken fish salad",
    "city": "london paris berlin madrid tokyo beijing boston chicago sydney",
    "day": "monday tuesday wednesday thursday friday saturday sunday",
    "when": "today tomorrow tonight this|morning this|evening next|week",
    "weather": "rain snow sunny windy cloudy cold warm",
    "music": "jazz rock classical|music piano|music folk|songs dance|music my|favourite|songs",
    "person": "anna tom mary john peter lucy david my|mother my|father my|brother my|sister the|doctor",
    "action": "call|the|bank buy|flowers pay|the|bill feed|the|cat walk|the|dog take|my|medicine "
    "water|the|plants lock|the|door clean|the|kitchen book|a|table send|the|letter",
    "month": "january february march april may june july august september october november december",
    "order": "first second third fourth fifth sixth seventh eighth ninth tenth",
    "word": "cat dog sun box key map pen bus jam zoo fox van web yes quiz milk hand blue frog",
    "letter": "a b c d e f g h i j k l m n o p q r s t u v w x y z",
    "message": "i|am|late i|am|home see|you|soon dinner|is|ready the|train|is|late happy|birthday",
    "direction": "left right",
    "place": "the|station the|airport the|park the|school the|hospital the|market the|hotel",
    "level": "one two three four five six seven eight nine ten",
}

# Kind, weight, templates between semicolons; a slot named twice in one template is drawn twice.
GRAMMAR_TABLE: tuple[tuple[str, int, str], ...] = (
    (
        "lights",
        12,
        "turn on the {room} {device}; turn off the {room} {device}; switch on the {device}; switch off "
        "the {device} in the {room}; turn on the {device} in the {room} please; turn the {device} off; "
        "please turn on the {room} {device}; dim the {room} light",
    ),
    (
        "covers",
        5,
        "open the {cover}; close the {room} {cover}; open the {cover} in the {room}; lock the {room} "
        "{cover}; is the {room} {cover} open",
    ),
    (
        "timers",
        9,
        "set a timer for {number} {timeunit}; cancel the timer; start a timer for {number} minutes; set a "
        "{food} timer for {number} minutes; how much time is left on the timer",
    ),
    (
        "alarms",
        6,
        "wake me up at {time}; set an alarm for {time} {when}; set an alarm for {day} at {time}; cancel "
        "my {day} alarm",
    ),
    (
        "weather",
        9,
        "what is the weather in {city}; what is the weather like {when}; will it {rainy} in {city} "
        "{when}; is it {weather} in {city}; how cold is it in {city} {when}; will it be {weather} on "
        "{day}",
    ),
    (
        "music",
        8,
        "play some {music}; play {music} in the {room}; play the next song; stop the music; turn the "
        "volume {updown}; set the volume to {number}; pause the music in the {room}",
    ),
    (
        "reminders",
        9,
        "remind me to {action}; remind me to {action} at {time}; remind me to {action} on {day}; remind "
        "me {when} to {action}; did i {action}",
    ),
    (
        "colours",
        7,
        "make the {room} {device} {colour}; the {room} is {colour} and {colour}; change the {device} to "
        "{colour}; paint the {cover} {colour}; i like {colour} {thing}",
    ),
    (
        "counts",
        9,
        "{small} {colour} {thing}; {number} {thing} and {number} {thing}; there are {number} {thing}; i "
        "have {small} {thing} and {small} {colour} {thing}; how many {thing} are in the {room}",
    ),
    (
        "digits",
        10,
        "{digit} {digit} {digit}; {digit} {digit} {digit} {digit}; the code is {digit} {digit} {digit} "
        "{digit}; call {digit} {digit} {digit} {digit} {digit} {digit}; my number is {digit} {digit} "
        "{digit} {digit} {digit}; {digit} {digit}",
    ),
    (
        "spelling",
        6,
        "spell {spelled}; {spelled}; my name is spelled {letter} {letter} {letter}; {letter} {letter} "
        "{digit} {digit}",
    ),
    (
        "sums",
        6,
        "what is {number} plus {number}; what is {number} minus {small}; {small} times {small}; {number} "
        "divided by {small}",
    ),
    (
        "dates",
        6,
        "today is {day}; {day} the {order} of {month}; my birthday is on the {order} of {month}; what day "
        "is the {order} of {month}; the meeting is on {day} at {time}",
    ),
    (
        "shopping",
        7,
        "add {food} to the shopping list; add {food} and {food} to the list; buy {small} {thing}; we need "
        "{food} {food} and {food}; remove {food} from the list; i would like some {food} please",
    ),
    (
        "people",
        7,
        "call {person}; send a message to {person}; tell {person} {message}; where is {person}; call "
        "{person} at {time}; send {person} a message {message}",
    ),
    (
        "places",
        5,
        "take me to {place}; how far is {place}; turn {direction} at {place}; go to {place} {when}; how "
        "do i get from {place} to {place}",
    ),
    (
        "short",
        4,
        "yes; no; stop; go; hello; good morning; good night; thank you; help; start; yes please; no thank "
        "you; what time is it; go back; next page; cancel; repeat that",
    ),
)
_WORDS = {name: [word.replace("|", " ") for word in text.split()] for name, text in SLOTS.items()}
_KINDS = [kind for kind, _, _ in GRAMMAR_TABLE]
_WEIGHTS = [weight for _, weight, _ in GRAMMAR_TABLE]
_TEMPLATES = {kind: templates.split("; ") for kind, _, templates in GRAMMAR_TABLE}
VOCABULARY = sorted(
    {
        word
        for templates in _TEMPLATES.values()
        for text in templates
        for word in re.sub(r"\{\w+\}", "", text).split()
    }
    | {word for values in _WORDS.values() for value in values for word in value.split()}
    | {"up", "down"}
)
"""The words of sentences, but for the few of times such as `half past`."""
HELD_OUT_SHARE = 12
"""Of every hundred sentences, these many are never trained on."""


def number(rng: random.Random) -> str:
    """A number from two to ninety nine, in words."""
    roll = rng.random()
    if roll < 0.45:
        return rng.choice(_WORDS["small"])
    if roll < 0.6:
        return rng.choice(_WORDS["teen"])
    return rng.choice(_WORDS["ten"]) + (" " + rng.choice(_WORDS["unit"]) if rng.random() < 0.6 else "")


def time_of_day(rng: random.Random) -> str:
    """A time such as `seven`, `seven thirty` or `half past seven`."""
    hour = rng.choice(_WORDS["hour"])
    return rng.choice(
        (hour, f"{hour} {rng.choice(_WORDS['quarter'])}", f"half past {hour}", f"{hour} o'clock")
    )


def spelled(rng: random.Random) -> str:
    """A short word and its letters: `cat c a t`."""
    word = rng.choice(_WORDS["word"])
    return f"{word} {' '.join(word)}"


def fill(template: str, rng: random.Random) -> str:
    """Replace each `{slot}` of a template by a drawn value."""
    special: dict[str, Callable[[random.Random], str]] = {
        "number": number,
        "time": time_of_day,
        "spelled": spelled,
        "updown": lambda r: r.choice(("up", "down")),
        "rainy": lambda r: r.choice(("rain", "snow")),
    }

    def draw(match: re.Match[str]) -> str:
        slot = match.group(1)
        return special[slot](rng) if slot in special else rng.choice(_WORDS[slot])

    return re.sub(r"\{(\w+)\}", draw, template)


def sentence(rng: random.Random) -> str:
    """One sentence of the grammar, kinds drawn by their weights."""
    kind = rng.choices(_KINDS, _WEIGHTS)[0]
    return fill(rng.choice(_TEMPLATES[kind]), rng)


def loose_words(rng: random.Random) -> str:
    """Two to six words of the vocabulary in no order: who learns from these too must listen, not guess."""
    return " ".join(rng.choice(VOCABULARY) for _ in range(rng.randint(2, 6)))


def is_held_out(text: str) -> bool:
    """Whether a sentence belongs to the test set: three words or more, chosen by a checksum of the text."""
    return len(text.split()) >= 3 and zlib.crc32(text.encode()) % 100 < HELD_OUT_SHARE
