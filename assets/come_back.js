// Another language needs the page to be loaded again. What the visitor has before them is kept in the tab meanwhile:
// the values of all fields, the tabs that are open, and under which name the server holds the rest.
window.comeBack = (() => {
  const KEY = 'studio-kept';
  const kept = JSON.parse(sessionStorage.getItem(KEY) ?? 'null');
  sessionStorage.removeItem(KEY);
  const stays = {__type__: 'update'};
  const isOpen = (id) => document.getElementById(`tab-${id}-button`)?.ariaSelected === 'true';

  return {
    // `tabs`: for each group of tabs the ids of its panels, in the order of the page.
    keep(tabs, session, ...values) {
      const open = tabs.map((group) => group.find(isOpen));
      sessionStorage.setItem(KEY, JSON.stringify({open, session, values}));
      location.reload();
      return [];
    },
    values: (count) => kept?.values.length === count ? kept.values.map((value) => value ?? stays) : Array(count).fill(stays),
    tabs: (count) => Array.from({length: count}, (_, at) => kept?.open[at] ? {...stays, selected: kept.open[at]} : stays),
    session: () => kept?.session ?? '',
  };
})();
