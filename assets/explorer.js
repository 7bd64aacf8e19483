// What is clicked in the evaluation's tables and figures is asked of the studio; the keyboard stays where it was.
let last = null;

element.addEventListener('click', (event) => {
  const button = event.target.closest('[data-ask]');
  if (!button) return;
  last = button.dataset.ask;
  trigger('submit', {ask: JSON.parse(last)});
});

new MutationObserver(() => {
  if (last === null || document.activeElement !== document.body) return;
  const again = [`[data-ask='${CSS.escape(last)}']`, 'audio', '[data-ask]'].map((one) => element.querySelector(one));
  last = null;
  again.find(Boolean)?.focus({preventScroll: true});
}).observe(element, {childList: true, subtree: true});

// Figures are drawn anew now and then: whoever comes near one makes it listen.
const figures = element.querySelector('[data-figures]')?.dataset.figures;
if (figures) document.addEventListener('pointerover', (event) => {
  const plot = event.target.closest?.('.js-plotly-plot');
  if (!plot?.on || plot.dataset.asks || !plot.closest(figures)) return;
  plot.dataset.asks = true;
  plot.on('plotly_click', (clicked) => trigger('submit', {ask: clicked.points[0].customdata}));
});
