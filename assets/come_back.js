// Another language needs the page to be loaded again. What the visitor has before them is kept in the tab meanwhile:
// the values of all fields, the tabs that are open, and under which name the server holds the rest. What is at work for
// them ends with the page, and begins again on the next one; only who speaks is heard to the end before.
window.comeBack = (() => {
  const KEY = 'studio-kept';
  const LEAVES_MS = 60_000; // so long quick_page.py takes it that the page is being left; a download does not leave it
  const DRAWN_MS = 30_000; // a page that takes longer is not waited for
  const kept = JSON.parse(sessionStorage.getItem(KEY) ?? 'null');
  sessionStorage.removeItem(KEY);
  const stays = {__type__: 'update'};
  // A button that starts something has one beside it that can be pressed as long as it is at work.
  const atWork = () => [...document.querySelectorAll('button[id$="-cancel"]:not([disabled]):not(.outlives)')]
    .map((cancel) => cancel.id.replace(/-cancel$/, ''))
    .map((name) => [`${name}-start`, name].find((id) => document.getElementById(id)));
  const isOpen = (id) => document.getElementById(`tab-${id}-button`)?.ariaSelected === 'true';

  window.addEventListener('beforeunload', () => { window.leavesUntil = performance.now() + LEAVES_MS; });

  return {
    // `tabs`: for each group of tabs the ids of its panels, in the order of the page.
    async keep(tabs, session, ...values) {
      const open = tabs.map((group) => group.find(isOpen));
      sessionStorage.setItem(KEY, JSON.stringify({open, session, values, started: atWork()}));
      await window.studio.endLive?.();
      location.reload();
      return [];
    },
    values: (count) => kept?.values.length === count ? kept.values.map((value) => value ?? stays) : Array(count).fill(stays),
    tabs: (count) => Array.from({length: count}, (_, at) => kept?.open[at] ? {...stays, selected: kept.open[at]} : stays),
    session: () => kept?.session ?? '',
    begin() {
      const press = (id, until) => {
        const button = document.querySelector(`button[id="${id}"]:not([disabled])`);
        if (button) button.click();
        else if (performance.now() < until) requestAnimationFrame(() => press(id, until));
      };
      for (const id of kept?.started ?? []) press(id, performance.now() + DRAWN_MS);
      return [];
    },
  };
})();
