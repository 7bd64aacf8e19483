"""Numbers that are the same in every Whisper, and that its files do not say."""

ENGLISH_VOCABULARY, MULTILINGUAL_VOCABULARY, V3_VOCABULARY = 51864, 51865, 51866
"""Tokens of a model that knows English alone (all others have more), of the others, and from large-v3 on."""
TEXT_POSITIONS = 448
"""Of the decoder: prompt and text together; the longest label."""
WINDOW_TOKENS = TEXT_POSITIONS // 2
"""Text of a window, unless told: as OpenAI limits it, and more than anybody says in half a minute."""
