// What is clicked in the evaluation's tables and figures is asked of the studio; the keyboard stays where it was.
window.explorer = (element, trigger) => {
  let last = null;

  element.addEventListener('click', (event) => {
    const edit = event.target.closest('[data-edit]');
    if (edit) open(+edit.dataset.edit);
    const button = event.target.closest('[data-ask]');
    if (!button) return;
    last = button.dataset.ask;
    trigger('submit', {ask: JSON.parse(last)});
  });

  // References that are being corrected: clip → text and state. An `open` one is being written, a `done` one waits, and
  // the studio is asked to keep those that are `sent`. Each answer hides all fields again, whatever is open in them.
  const edits = new Map();
  let back = null;  // the clip whose button the keyboard goes back to
  let before = '';  // the refusal that stood there when it was sent
  const refused = document.querySelector('#evaluate-refused');
  const told = () => refused?.querySelector('.note')?.textContent ?? '';
  const field = (place) => element.querySelector(`textarea[data-place="${place}"]`);
  const pencil = (place) => element.querySelector(`[data-edit="${place}"]`);

  function show(area, text) {
    area.closest('.clip-reference').setAttribute('data-editing', '');
    area.hidden = false;
    area.value = text;
    area.style.height = `${area.scrollHeight + 2}px`;
  }

  function open(place, text) {
    const area = field(place);
    show(area, text ?? area.defaultValue);
    edits.set(place, {text: area.value, state: 'open'});
    area.focus({preventScroll: true});
  }

  function leave(area) {
    edits.delete(+area.dataset.place);
    area.hidden = true;
    area.closest('.clip-reference').removeAttribute('data-editing');
  }

  function keep(area) {
    const place = +area.dataset.place;
    if (area.value.trim() === area.defaultValue.trim()) leave(area);
    else edits.set(place, {text: area.value, state: 'done'});
    send();
  }

  function send() {
    if ([...edits.values()].some((edit) => edit.state === 'sent')) return;
    const done = [...edits].filter(([, edit]) => edit.state === 'done');
    if (!done.length) return;
    for (const [, edit] of done) edit.state = 'sent';
    before = told();
    trigger('submit', {ask: {correct: done.map(([place, edit]) => [place, edit.text])}});
  }

  element.addEventListener('input', (event) => {
    if (!event.target.matches('textarea.correction')) return;
    event.target.style.height = `${event.target.scrollHeight + 2}px`;
    edits.set(+event.target.dataset.place, {text: event.target.value, state: 'open'});
  });

  element.addEventListener('keydown', (event) => {
    const area = event.target;
    if (!area.matches('textarea.correction') || event.isComposing || event.shiftKey) return;
    if (event.key !== 'Enter' && event.key !== 'Escape') return;
    event.preventDefault();
    event.stopPropagation();
    back = +area.dataset.place;
    if (event.key === 'Enter') keep(area);
    else leave(area);
    if (area.hidden) pencil(back).focus();
  });

  element.addEventListener('focusout', (event) => {
    const area = event.target;
    // A field that an answer has hidden is open again by then.
    setTimeout(() => {
      const isLeft = document.hasFocus() && document.activeElement !== area;
      if (isLeft && edits.get(+area.dataset.place)?.state === 'open') keep(area);
    });
  });

  // After an answer: what was sent is kept, and what is still being written stays open.
  function reopen() {
    for (const [place, {text, state}] of [...edits]) {
      const area = field(place);
      if (!area) edits.delete(place);
      else if (!area.hidden) continue;
      else if (state === 'sent') edits.delete(place);
      else if (state === 'done') show(area, text);
      else open(place, text);
    }
    if (!edits.size && back !== null && document.activeElement === document.body) pencil(back)?.focus({preventScroll: true});
    if (!edits.size) back = null;
    send();
  }

  new MutationObserver(() => {
    if (edits.size) reopen();
    if (last === null || document.activeElement !== document.body) return;
    const again = [`[data-ask='${CSS.escape(last)}']`, 'audio', '[data-ask]'].map((one) => element.querySelector(one));
    last = null;
    again.find(Boolean)?.focus({preventScroll: true});
  }).observe(element, {childList: true, subtree: true, attributeFilter: ['hidden', 'data-place']});

  // Figures are drawn anew now and then: whoever comes near one makes it listen.
  const clips = element.querySelector('[data-figures]');
  if (clips) document.addEventListener('pointerover', (event) => {
    const plot = event.target.closest?.('.js-plotly-plot');
    if (!plot?.on || plot.dataset.asks || !plot.closest(clips.dataset.figures)) return;
    plot.dataset.asks = true;
    plot.on('plotly_click', (clicked) => {
      trigger('submit', {ask: clicked.points[0].customdata});
      window.bringIntoView('evaluate-utterances');
    });
  });

  // What is refused stays open.
  if (refused) new MutationObserver(() => {
    if (!told() || told() === before) return;
    for (const edit of edits.values()) if (edit.state === 'sent') edit.state = 'open';
  }).observe(refused, {childList: true, subtree: true});
};
