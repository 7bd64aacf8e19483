"""Everything that can go wrong because of what the user or their machine gave us.

    StudioError                 one clear sentence: what was given, what is accepted, what to do
    ├── ConfigError             an option or a setting has a value that cannot be used
    ├── DataError
    │   ├── ManifestError       the list of clips cannot be used
    │   └── AudioError          a sound file cannot be used
    ├── ModelError
    │   ├── ModelNotFoundError  no model of that name
    │   ├── ModelBrokenError    the folder is there, but something in it is wrong
    │   ├── ModelInUseError     it cannot be renamed or deleted now
    │   └── AdapterMismatchError  an adapter of another base model
    ├── HubUnreachableError     the model hub did not answer
    ├── StorageError            no space, no permission
    └── RunError                a training run cannot do what was asked

An error is a message (`studio.messages`) that is raised: the page shows it in the visitor's language.
`str(error)` is the English sentence.
"""

from studio.messages import Message


def in_brief(error: BaseException, most: int = 300) -> Message | str:
    """What an error says, as a value of a sentence: the message that it is or was raised with, which can be
    translated; of a library's, one line of at most so many characters."""
    return _message_of(error) or " ".join(str(error).split())[:most]


def _message_of(error: BaseException) -> Message | None:
    words = error.message() if isinstance(error, StudioError) else next(iter(error.args), None)
    return words if isinstance(words, Message) else None


def in_short(value: object, most: int = 60) -> object:
    """A value for a sentence that quotes it: of a long one, the first characters."""
    return value if len(repr(value)) <= most else f"{str(value)[:most]} …"


def first_line(error: BaseException) -> Message | str:
    """What an error says, as `in_brief` has it; but of a library's error the first line alone, or the name of
    its class if it says nothing.
    """
    return _message_of(error) or (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


class StudioError(Message, Exception):
    """A sentence for the user. The page shows it as an error; the command line prints it and exits with 2."""

    def message(self) -> Message:
        """What it says, without where it was raised: to be kept."""
        return Message(self.template, **self.values)


class ConfigError(StudioError):
    """An option or a setting has a value that cannot be used."""


class DataError(StudioError):
    """Something about the data."""


class ManifestError(DataError):
    """The list of clips cannot be used."""


class AudioError(DataError):
    """A sound file cannot be used."""


class ModelError(StudioError):
    """Something about a model."""


class ModelNotFoundError(ModelError):
    """No model of that name."""


class ModelBrokenError(ModelError):
    """The folder is there, but something in it is wrong."""


class ModelInUseError(ModelError):
    """It cannot be renamed or deleted now."""


class AdapterMismatchError(ModelError):
    """An adapter that belongs to another base model."""


class HubUnreachableError(StudioError):
    """The model hub did not answer."""


class StorageError(StudioError):
    """No space or no permission."""


class RunError(StudioError):
    """A training run cannot do what was asked."""
