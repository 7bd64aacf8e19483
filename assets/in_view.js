// What one starts is brought into view: on a telephone, and in a low window, it lies screens away from its button.
(() => {
  const PATIENCE_MS = 10_000;
  const LOW = 0.6; // of the window's height: what begins further down is out of sight
  const shows = {
    'train-start': 'run-status', 'distill-start': 'run-status', 'run-resume': 'run-status',
    'run-prune': 'run-prune-question', 'run-remove': 'run-remove-question',
    'transcribe-start': 'transcribe-status', 'many-start': 'many-status', 'compare-start': 'compare-status',
    'evaluate-start': 'evaluate-status', 'models-export': 'models-export-status',
    'data-doctor-start': 'data-doctor-status', 'runs-compare-start': 'compare-chart',
  };

  function show(id, until) {
    const place = document.getElementById(id);
    const box = place?.getBoundingClientRect();
    if (!box?.height) { // not drawn yet
      if (performance.now() < until) requestAnimationFrame(() => show(id, until));
      return;
    }
    if (box.top >= 0 && box.top < LOW * innerHeight) return;
    const isCalm = matchMedia('(prefers-reduced-motion: reduce)').matches;
    place.scrollIntoView({behavior: isCalm ? 'auto' : 'smooth', block: 'start'});
  }

  window.addEventListener('click', ({target}) => {
    const id = shows[target.closest?.('button[id]:not(:disabled)')?.id];
    if (id) requestAnimationFrame(() => show(id, performance.now() + PATIENCE_MS));
  });
})();
