// Who loads the page again, goes back to it or takes another language, comes back to what they had before them. It is
// kept in the tab of the browser meanwhile: the values of all fields, the tabs that are open, corrections that are not
// finished, and under which name the server holds the rest. It is kept when the page is left or goes out of sight, after
// which a browser may drop it, and counts for this server alone. Another tab begins anew, and so does who follows a link.
// What is at work for the visitor ends with the page; if they chose a language, it begins again, and who speaks is heard
// out.
window.comeBack = (() => {
  const KEY = 'studio-kept';
  const LEAVES_MS = 60_000; // so long quick_page.py takes it that the page is being left; a download does not leave it
  const [arrival] = performance.getEntriesByType('navigation');
  const server = () => window.gradio_config.app_id;
  const store = storage();
  const found = JSON.parse(store?.getItem(KEY) ?? 'null');
  store?.removeItem(KEY);
  const isAgain = ['reload', 'back_forward'].includes(arrival?.type) || document.wasDiscarded;
  const isBack = isAgain && found?.server === server();
  const kept = isBack ? found : null;
  const DRAWN_MS = 30_000; // a page that takes longer is not waited for
  const stays = {__type__: 'update'};
  let isChosen = false; // another language
  let isThere = !kept; // all that was kept
  let arrive;
  const arrived = new Promise((done) => { arrive = done; });

  // A browser that lets a page within another keep nothing refuses the very question; then nothing comes back.
  function storage() {
    try { return window.sessionStorage; }
    catch { return null; }
  }

  // A button that starts something has one beside it that can be pressed as long as it is at work.
  const atWork = () => [...document.querySelectorAll('button[id$="-cancel"]:not([disabled]):not(.outlives)')]
    .map((cancel) => cancel.id.replace(/-cancel$/, ''))
    .map((name) => [`${name}-start`, name].find((id) => document.getElementById(id)));
  const isOpen = (id) => document.getElementById(`tab-${id}-button`)?.ariaSelected === 'true';
  // What stood in each segment of the transcript and stands there now, while it is corrected. A section that has not
  // been opened has what it had before.
  let unfinished = kept?.unfinished ?? [];
  function corrections() {
    if (!document.querySelector('#transcript-segments .segment-list')) return unfinished;
    const fields = document.querySelectorAll('#transcript-segments [data-correcting] textarea.correction');
    return [...fields].map((field) => [field.defaultValue, field.value]);
  }

  const press = () => document.getElementById('studio-keep')?.click(); // is answered at once, without the server
  function keepAll() {
    if (!isThere) store?.setItem(KEY, JSON.stringify(kept));
    else if (!isChosen) press();
  }
  document.addEventListener('visibilitychange', () => { if (document.hidden) keepAll(); });

  return {
    leave() { // called before Gradio hears of it (`add_locale`), which then answers no more
      window.leavesUntil = performance.now() + LEAVES_MS;
      keepAll();
    },
    inLanguage() {
      isThere = isChosen = true;
      press();
    },
    // `tabs`: for each group of tabs the ids of its panels, in the order of the page.
    async keep(tabs, session, ...values) {
      const open = tabs.map((group, at) => group.find(isOpen) ?? kept?.open[at]); // some have not been drawn yet
      const started = isChosen ? atWork() : [];
      const spoken = window.studio.spoken?.() ?? null;
      const all = {server: server(), open, session, values, started, spoken, unfinished: corrections()};
      store?.setItem(KEY, JSON.stringify(all));
      if (!isChosen) return [];
      await window.studio.endLive?.();
      location.reload();
      return [];
    },
    values: (count) => kept?.values.length === count ? kept.values.map((value) => value ?? stays) : Array(count).fill(stays),
    tabs: (count) => Array.from({length: count}, (_, at) => kept?.open[at] ? {...stays, selected: kept.open[at]} : stays),
    session: () => kept?.session ?? '',
    // Puts corrections that were not finished into the fields of the same texts, which the studio may have taken down
    // already; says whether it did.
    correct(fields) {
      const isSame = fields.length && unfinished.length === fields.length
        && unfinished.every((texts, at) => texts.includes(fields[at].defaultValue));
      if (isSame) fields.forEach((field, at) => { field.value = unfinished[at][1]; });
      if (isSame) unfinished = [];
      return Boolean(isSame);
    },
    // The live transcription that the page was left in, once the server holds what else it held; told once.
    async spoken() {
      await arrived;
      const id = kept?.spoken;
      if (kept) kept.spoken = null;
      return id;
    },
    begin() {
      isThere = true;
      arrive();
      const start = (id, until) => {
        const button = document.querySelector(`button[id="${id}"]:not([disabled])`);
        if (button) button.click();
        else if (performance.now() < until) requestAnimationFrame(() => start(id, until));
      };
      for (const id of kept?.started ?? []) start(id, performance.now() + DRAWN_MS);
      return [];
    },
  };
})();
