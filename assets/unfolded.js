// What was unfolded in an answer stays so when the answer is written anew, as a run's is every second.
(() => {
  const unfolded = new Set();
  const named = (one) => `${one.closest('[id]')?.id} ${one.querySelector('summary')?.textContent}`;

  document.addEventListener('toggle', ({target}) => {
    if (target.isConnected && target.matches('details')) unfolded[target.open ? 'add' : 'delete'](named(target));
  }, true);
  new MutationObserver((changes) => {
    if (!unfolded.size) return;
    for (const one of changes.flatMap(({target}) => [...target.querySelectorAll('details:not([open])')])) {
      if (unfolded.has(named(one))) one.open = true;
    }
  }).observe(document, {childList: true, subtree: true});
})();
