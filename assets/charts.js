// A chart is asked for when somebody looks at it: what draws it is the heaviest part of the page, and whoever goes on to
// another tab, or does not scroll so far, is spared it. Gradio then asks once more if the form has changed meanwhile.
(() => {
  const PAUSE_MS = 100;
  const PAUSES = 4; // who came for another tab is there by then
  const BUSY_MS = 1_000; // a pause begins no later
  const NEAR = '50% 0%'; // half a window further down is near enough
  let isFirst = true;

  // Where the answer is drawn, if it is nothing but charts that are on the page.
  function placesOf({fn_index}) {
    const {components, dependencies} = window.gradio_config;
    const fills = dependencies.find((one) => one.id === fn_index)?.outputs ?? [];
    const plots = fills.map((id) => components.find((one) => one.id === id)).filter((one) => one?.type === 'plot');
    const places = plots.map((one) => document.getElementById(one.props.elem_id)).filter((place) => place);
    return places.length === fills.length ? places : [];
  }

  const comesNear = (places) => new Promise((done) => {
    const watch = new IntersectionObserver((seen) => {
      if (!seen.some((one) => one.isIntersecting)) return;
      watch.disconnect();
      done();
    }, {rootMargin: NEAR});
    places.forEach((place) => watch.observe(place));
  });

  async function pause() {
    const idle = window.requestIdleCallback ?? ((done) => setTimeout(done));
    await new Promise((done) => idle(done, {timeout: BUSY_MS}));
    await new Promise((done) => setTimeout(done, PAUSE_MS));
  }

  async function isLookedAt(places) {
    do {
      await comesNear(places);
      for (let pauses = isFirst ? PAUSES : 0; pauses > 0; pauses -= 1) await pause();
    } while (!places.some((place) => place.getClientRects().length));
    isFirst = false;
  }

  const fetched = window.fetch;
  window.fetch = (resource, options) => {
    const isAsked = typeof options?.body === 'string' && /\/(run|queue\/join)\b/.test(resource.url ?? resource);
    const places = isAsked ? placesOf(JSON.parse(options.body)) : [];
    return places.length ? isLookedAt(places).then(() => fetched(resource, options)) : fetched(resource, options);
  };
})();
