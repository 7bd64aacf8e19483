"""A Whisper tokenizer with few tokens: byte-level BPE, then Whisper's special tokens in Whisper's order."""

import json
import random

from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers
from transformers import WhisperTokenizer
from transformers.models.whisper.tokenization_whisper import LANGUAGES

from . import language

TEXT_TOKENS = 720
"""256 bytes and the merges. The empty string follows: by it CTranslate2 knows a multilingual model."""
TIMESTAMP_TOKENS = 1501
"""`<|0.00|>` to `<|30.00|>`, 20 ms apart."""
_CORPUS_SENTENCES = 8000
_CHARACTERS = (
    "一七三上下不两个么乐九书买二事五京今会你停八六关再冷几分包北医十南卧厅厨友变叫号吃后吗告喝四回园在天奶好妈客室家小州师帘广床库开"
    "怎成我户房扇打把提播放故新早时明星是晚曲朋期果样歌止气水津海灯点爸牛现生电白的睡码秒空窗红给绿置老脑色花苹药菜蓝蛋要见视觉设诉"
    "话请调谢起车醒钟门闭闹闻雨零面音风鸡黄黑"
)
"""Tokens of their own, so that text without spaces can be learned too, although the clips are English."""
_CHARACTER_WEIGHT = 300
"""How often each of them is shown, so that every one becomes a token."""


def special_tokens() -> list[str]:
    """Everything after the text tokens, in Whisper's order: id = number of text tokens + index."""
    languages = list(LANGUAGES)[:99]  # the hundredth came with large-v3
    tasks = ("translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps")
    names = ("endoftext", "startoftranscript", *languages, *tasks)
    return [f"<|{name}|>" for name in names] + [
        f"<|{index * 0.02:.2f}|>" for index in range(TIMESTAMP_TOKENS)
    ]


def token_id(tokenizer: WhisperTokenizer, text: str) -> int:
    """The id of one token, such as `<|en|>`."""
    found = tokenizer.convert_tokens_to_ids(text)
    assert isinstance(found, int)
    return found


def _merges(seed: int) -> Tokenizer:
    """BPE learned on sentences of the grammar; a Chinese character never merges with its neighbour."""
    rng = random.Random(seed)
    corpus = [" " + language.sentence(rng) for _ in range(_CORPUS_SENTENCES)]
    corpus += list(_CHARACTERS) * _CHARACTER_WEIGHT
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=TEXT_TOKENS, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


def build_tokenizer(seed: int = 0) -> WhisperTokenizer:
    """The demo model's tokenizer, the same for the same seed."""
    trained = json.loads(_merges(seed).to_str())["model"]
    vocabulary: dict[str, int] = dict(trained["vocab"])
    vocabulary[""] = len(vocabulary)
    vocabulary["<|endoftext|>"] = len(vocabulary)
    merges = [tuple(pair) if isinstance(pair, list) else tuple(pair.split(" ")) for pair in trained["merges"]]
    tokenizer = WhisperTokenizer(
        vocab=vocabulary, merges=merges, pad_token="<|endoftext|>", model_max_length=448
    )
    specials = special_tokens()
    extra = [AddedToken(text, normalized=False, special=True) for text in specials[1:-TIMESTAMP_TOKENS]]
    tokenizer.add_special_tokens({"additional_special_tokens": extra})
    times = [AddedToken(text, normalized=False, special=False) for text in specials[-TIMESTAMP_TOKENS:]]
    tokenizer.add_tokens(times)
    tokenizer.set_prefix_tokens()  # again: at construction the special tokens were not there yet
    tokenizer.english_spelling_normalizer = {}
    return tokenizer
