"""What was written of a test set outlives the process that wrote it, whenever that is killed."""

import signal
import subprocess
import sys
from pathlib import Path

from studio.evaluation.kept_texts import KeptClip, KeptTexts
from tests.studio_process import ROOT

WRITER = """
import itertools, pathlib, sys
from studio.evaluation.kept_texts import KeptClip, KeptTexts
kept = KeptTexts(pathlib.Path(sys.argv[1]), "list", "model")
for place in itertools.count(step=2):
    kept.add([KeptClip(place + n, "what was said " * 99, 2.0, -20.0) for n in (0, 1)], 0.5)
"""


def test_a_killed_process_leaves_whole_batches_and_the_next_goes_on_behind_them(tmp_path: Path) -> None:
    for _ in range(3):
        kept = KeptTexts(tmp_path, "list", "model")
        before = len(kept.read().clips)
        # Each begins anew: what it writes again takes the place of what it was, and is no clip more.
        with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], cwd=ROOT) as writer:
            while len(kept.read().clips) <= before + 4:
                assert writer.poll() is None
            writer.kill()
        assert writer.returncode == -signal.SIGKILL
        left = kept.read()
        places = [clip.place for clip in left.clips]
        assert places == [*range(len(places))] and len(places) % 2 == 0 and not left.model
        assert {clip.text for clip in left.clips} == {"what was said " * 99}
    kept.add([KeptClip(len(places), "the last", 1.0, -20.0)], 0.5)
    kept.close("demo")
    assert len(KeptTexts(tmp_path, "other references", "model").read().clips) == len(places) + 1
    assert KeptTexts(tmp_path, "list", "model").read().clips == (), "asked for again, it is heard again"
