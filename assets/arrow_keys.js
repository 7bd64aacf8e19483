// The Tab key stops once at a group of tabs, at a transcript and at its picture; arrows, Home and End move within.
// Arrows at a tab open it, too. Of a transcript the server says which button comes first; while it is corrected, each
// time is a stop beside its field. The list that hangs below a field is none: browsers stop at what scrolls, and it goes.
(() => {
  const GROUPS = '[role="tablist"], .segment-list:not([data-correcting]) .segments, .wave';
  const ITEMS = '[role="tab"], [data-seek]';
  const places = {ArrowLeft: (at) => at - 1, ArrowRight: (at) => at + 1, Home: () => 0, End: () => -1};

  function around(item) {
    const group = item.matches?.(ITEMS) ? item.closest(GROUPS) : null;
    return group && [...group.querySelectorAll(ITEMS)].filter((each) => !each.disabled);
  }

  window.addEventListener('keydown', (event) => {
    const items = places[event.key] && around(event.target);
    if (!items || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const next = items.at(places[event.key](items.indexOf(event.target)) % items.length);
    event.preventDefault();
    next.focus();
    if (next.role === 'tab') next.click();
  });

  window.addEventListener('focusin', ({target}) => {
    if (target.role !== 'tab') around(target)?.forEach((item) => { item.tabIndex = item === target ? 0 : -1; });
  });

  new MutationObserver(() => {
    for (const tab of document.querySelectorAll('[role="tab"]')) {
      const at = tab.ariaSelected === 'true' ? 0 : -1;
      if (tab.tabIndex !== at) tab.tabIndex = at;
    }
    for (const list of document.querySelectorAll('[role="listbox"]:not([tabindex])')) list.tabIndex = -1;
  }).observe(document.documentElement, {childList: true, subtree: true, attributeFilter: ['aria-selected']});
})();
