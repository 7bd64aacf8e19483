"""Flags of other programs that do nothing here: a sentence for each; the others are options."""

from studio.options.foreign import Foreign, switch, value

_COPIED = "the dataset is copied to the cache"
_NOT_COMPILED = "the model is not compiled"
_SDPA = "attention is sdpa, which writes the same text"
_LOOPS = "a text that repeats itself is searched again at the next temperature"
_SILERO = "speech is found with Silero VAD's own bounds"

INFER: dict[str, Foreign] = {
    "use_compile": switch(_NOT_COMPILED),
    "assistant_model_path": value("the model writes by itself, and the same text"),
    "use_flash_attention_2": switch(_SDPA),
    "use_bettertransformer": switch(_SDPA),
}
"""`infer.py` of Whisper-Finetune, for `transcribe`."""

WHISPER: dict[str, Foreign] = {
    "model_dir": value("models lie in the Hub's cache, which HF_HOME names"),
    "verbose": switch("texts are shown unless files are written, and progress always is", usual=True),
    "best_of": value("one text is sampled at each temperature", "1"),
    "patience": value("a search ends when it has as many texts as beams", "1"),
    "length_penalty": value("beams are ranked by their mean log-probability per token", "1"),
    "carry_initial_prompt": switch("what each window is to be told are --hotwords"),
    "prepend_punctuations": value("a mark goes with the word that it stands at"),
    "append_punctuations": value("a mark goes with the word that it stands at"),
    "highlight_words": switch("captions mark no words; --format json has the times of each"),
    "max_words_per_line": value("--max_line_width says how wide a line may be"),
    "clip_timestamps": value("a recording is transcribed whole", "0"),
    "hallucination_silence_threshold": value("what lies in silence is left out by --vad"),
    # whisper-ctranslate2
    "batched": switch("--batch_size says how many windows are decoded together"),
    "device_index": value("CUDA_VISIBLE_DEVICES says which GPU", "0"),
    "multilingual": switch("with --language auto each part is heard in its own language"),
    "no_repeat_ngram_size": value(_LOOPS, "0"),
    "pretty_json": switch("JSON is written as it is"),
    "print_colors": switch("--format json has the probability of each word"),
    "repetition_penalty": value(_LOOPS, "1"),
    "vad_threshold": value(_SILERO),
    "vad_min_speech_duration_ms": value(_SILERO),
    "vad_max_speech_duration_s": value(_SILERO),
    "vad_min_silence_duration_ms": value(_SILERO),
}
"""`whisper` of openai-whisper and `whisper-ctranslate2`, for `transcribe`."""

EVALUATION: dict[str, Foreign] = {
    "metric": value("WER, CER and MER are always told", "cer", "wer", "mer"),
    "batch_size": value("clips are decoded in batches of the studio's own size, with the same text"),
    "num_workers": value("clips are read while the model writes"),
    "timestamps": switch("texts are compared without times"),
    "device": value("a GPU is used if there is one, and CUDA_VISIBLE_DEVICES says which", "0", "auto"),
    "streaming": switch(_COPIED, usual=True),
    "no_streaming": switch(_COPIED),
    "torch_compile": switch(_NOT_COMPILED),
    "warmup_steps": value("each clip is heard once"),
}
"""`evaluation.py` of Whisper-Finetune, `run_eval_whisper_streaming.py` of the Whisper event and `run_eval.py`
of the Open ASR Leaderboard, for `evaluate`."""
