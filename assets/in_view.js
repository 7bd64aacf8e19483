// What one starts is brought into view: on a telephone, and in a low window, it lies screens away from its button.
(() => {
  const PATIENCE_MS = 10_000;
  const LOOK_MS = 500;
  const LOW = 0.6; // of the window's height: what begins further down is out of sight
  const shows = {
    'train-start': 'run-status', 'distill-start': 'run-status', 'run-resume': 'run-status',
    'run-prune': 'run-prune-question', 'run-remove': 'run-remove-question',
    'transcribe-start': 'transcribe-status', 'many-start': 'many-status', 'compare-start': 'compare-status',
    'evaluate-start': 'evaluate-status', 'evaluate-save': 'evaluate-status', 'evaluate-words': 'evaluate-utterances',
    'models-export': 'models-export-status', 'models-ask': 'models-question',
    'data-doctor-start': 'data-doctor-status', 'runs-compare-start': 'compare-chart',
    'models-publish': 'models-publish-status', 'models-publish-show': 'models-publish-status',
    'models-table': 'models-choice', 'run-history': 'run-status',
    'data-check': 'data-preview', 'memory-trace': 'memory-step', 'memory-measure': 'memory-measured',
    'models-forms': 'models-forms-status', 'live-again': 'live-status',
    'oom-text': 'oom-answer',
    // What is filled in lies above, or in another tab.
    'record-use': 'train-train_data',
    'run-reuse': 'train-preset', 'run-gentler': 'train-preset', 'run-explain': 'oom-answer',
    'run-transcribe': 'transcribe-model', 'run-compare': 'evaluate-models', 'run-export': 'models-choice',
    'memory-to-train': 'train-filled', 'fit-use': 'train-filled', 'oom-use': 'train-filled',
  };

  let began = 0; // a newer press, or a hand that moves the page, ends what an older one began
  let glidesUntil = 0; // what is pressed while the page glides away from under the hand would not be pressed

  function show(id, mine, until) {
    if (mine !== began || performance.now() > until) return;
    const place = document.getElementById(id);
    const box = place?.getBoundingClientRect();
    if (!box?.height) { // not drawn yet: what comes of a traced step, say, on a slow machine
      const changes = new MutationObserver(() => {
        changes.disconnect();
        setTimeout(() => show(id, mine, Infinity), LOOK_MS / 5);
      });
      changes.observe(document.body, {subtree: true, childList: true, attributes: true});
      return;
    }
    if (box.top < -1 || box.top >= LOW * innerHeight) {
      const isCalm = matchMedia('(prefers-reduced-motion: reduce)').matches;
      glidesUntil = performance.now() + 2 * LOOK_MS;
      place.scrollIntoView({behavior: isCalm ? 'auto' : 'smooth', block: 'start'});
    }
    // What stands above it may go as the answers come. While the first is awaited, time does not run out.
    const isAnswered = !place.querySelector('[data-testid="status-tracker"] .progress-text');
    const end = isAnswered ? Math.min(until, performance.now() + PATIENCE_MS) : until;
    setTimeout(() => show(id, mine, end), LOOK_MS);
  }

  function begin({type, target}) {
    const isOfBlock = type === 'paste' || target.closest?.('[data-pick], .word-tables [data-ask]');
    bringIntoView(shows[target.closest?.(isOfBlock ? '.block' : 'button:not(:disabled)')?.id]);
  }
  function bringIntoView(id) {
    if (!id) return;
    const mine = (began += 1);
    requestAnimationFrame(() => show(id, mine, Infinity));
  }
  window.bringIntoView = bringIntoView;
  window.addEventListener('click', begin);
  window.addEventListener('paste', begin);
  for (const hand of ['wheel', 'touchmove', 'keydown', 'pointerdown']) {
    window.addEventListener(hand, () => {
      began += 1;
      if (performance.now() < glidesUntil) window.scrollTo({top: scrollY, behavior: 'instant'});
    }, {passive: true});
  }
})();
