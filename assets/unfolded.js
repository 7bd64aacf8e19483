// What was unfolded in an answer stays so when the answer is told anew, as a run's is every second.
(() => {
  const unfolded = new Set();
  const named = (one) => `${one.closest('[id]')?.id} ${one.querySelector('summary')?.textContent}`;

  document.addEventListener('click', ({target}) => {
    const one = target.closest?.('summary')?.parentElement;
    if (one) unfolded[one.open ? 'delete' : 'add'](named(one));
  }, true);
  new MutationObserver((changes) => {
    if (!unfolded.size) return;
    const told = changes.flatMap(({target}) => [target, ...target.querySelectorAll('details')]);
    for (const one of told) if (one.open === false && unfolded.has(named(one))) one.open = true;
  }).observe(document, {childList: true, subtree: true, attributeFilter: ['open']});
})();
