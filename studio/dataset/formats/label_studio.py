"""Label Studio's export: a task a recording, with what an annotator has written of it or of its regions."""

from collections.abc import Iterator, Mapping
from typing import Any

from studio.dataset.written import in_one, is_tight
from studio.errors import ManifestError
from studio.messages import Joined


def is_task(row: Mapping[str, Any]) -> bool:
    """Whether a row of JSON is one, about a sound."""
    data = row.get("data")
    return isinstance(row.get("annotations"), list) and isinstance(data, Mapping) and "audio" in data


def clips_of(task: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What is written of each region of the recording, or of all of it.

    Raises:
        ManifestError: if nothing is, or nobody can know which of several texts counts.
    """
    done = [
        each for each in task["annotations"] if isinstance(each, Mapping) and not each.get("was_cancelled")
    ]
    done = [each for each in done if each.get("ground_truth")] or done
    if len(done) > 1:
        raise ManifestError(
            "The task has {count} annotations: mark the one that counts as ground truth.", count=len(done)
        )
    written = [each for annotation in done for each in _texts_in(annotation)]
    if not written:
        raise ManifestError("The task is not labelled: no annotation of it has a text.")
    names = sorted({str(each.get("from_name")) for each in written})
    if len(names) > 1:
        raise ManifestError(
            "The task has texts of several kinds ({names}): keep the one with what is said.",
            names=Joined(tuple(names)),
        )
    for value in (each["value"] for each in written):
        text, times = value["text"], {"start_time": value.get("start"), "end_time": value.get("end")}
        if isinstance(text, list) and all(isinstance(part, str) for part in text):
            text = in_one(text, tight=is_tight("".join(text)))
        yield {"audio": task["data"]["audio"], "text": text, **times}


def _texts_in(annotation: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    results = annotation.get("result")
    for each in results if isinstance(results, list) else []:
        value = each.get("value") if isinstance(each, Mapping) and each.get("type") == "textarea" else None
        if isinstance(value, Mapping) and value.get("text"):
            yield each
