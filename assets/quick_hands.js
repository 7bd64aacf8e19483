// What was done last counts. Who clicks a sample and at once "Transcribe", or types a number and at once "Start", is
// quicker than the studio's answer, and Gradio would send what stood there before. So a button's click waits until all
// answers and uploads have arrived that fill what it sends or shows; if one of them fails, the click is forgotten.
(() => {
  const SETTLE_MS = 50;
  const BUSY_MS = 5_000; // a browser that is busy for longer is not waited for
  const LOST_MS = 10_000; // a recording that cannot be decoded is never sent
  const FIELDS_OF_FILES = ['audio', 'file', 'uploadbutton'];
  const SHOWN = ['html', 'plot'];
  const NO_FIELDS = ['button', 'tab', 'tabitem', 'timer'];
  const underWay = new Set();
  const losses = new Set(); // for each click that waits, what failed meanwhile
  const events = new Map(); // the queue's number → what is under way, or what was said of its end if that came first
  const recordings = new Set();
  const waiting = new Map(); // a button → its click that is held, null once it is cancelled
  const clicked = new Map(); // a button's id → the place of its last click that counted
  const given = new Map(); // a button's id → the fields that were filled while its click waited, and with what
  const released = new WeakSet();
  const known = new Map();
  let count = 0;
  const config = () => window.gradio_config;
  const component = (id) => config().components.find((one) => one.id === id);
  const kind = (id) => component(id)?.type;
  const isQuick = (asked) => !asked.types.generator || asked.targets.some(([id]) => kind(id) === 'file');
  const outputs = (asked) => asked.filter(isQuick).flatMap((one) => one.outputs);

  // `fills` is what fields it will fill, or null for any; a `click` waits only for other clicks that were before it.
  // What a click asks for has the place of that click, not of the request that Gradio sends later.
  function begin(fills, asked = null, isClick = false, place = count++) {
    const one = {fills, asked, isClick, place};
    one.done = new Promise((done) => {
      one.end = (well) => {
        if (!well && underWay.has(one)) for (const lost of losses) lost.add(one);
        underWay.delete(one);
        done(well);
      };
    });
    underWay.add(one);
    return one;
  }

  // What an answer will change says at once that it is under way.
  function told(one) {
    const isComing = (id) => [...underWay].some((other) => other.fills?.includes(id));
    for (const id of one.fills.filter((id) => SHOWN.includes(kind(id)))) {
      const place = document.getElementById(component(id).props.elem_id);
      if (!place) continue;
      place.ariaBusy = 'true';
      one.done.then(settled).then(() => { if (!isComing(id)) place.ariaBusy = null; });
    }
    return one;
  }

  // The page has taken in what came, and what follows from it has been asked.
  async function settled() {
    await new Promise((done) => setTimeout(done, SETTLE_MS));
    const idle = window.requestIdleCallback ?? ((done) => setTimeout(done, SETTLE_MS));
    await new Promise((done) => idle(done, {timeout: BUSY_MS}));
  }

  const beginUpload = () => begin(
    config().components.filter((one) => FIELDS_OF_FILES.includes(one.type)).map((one) => one.id)
  );

  // A handler that goes on answering is at work and does not fill a form, unless it takes in what was dropped; a timer's
  // answer is nobody's doing. Gradio asks the handlers of one event in turn, each when the one before has answered.
  function beginAnswer({fn_index, trigger_id}) {
    const all = config().dependencies;
    const asked = all.find((one) => one.id === fn_index);
    if (!asked || !isQuick(asked) || kind(trigger_id) === 'timer') return begin([], asked);
    const names = asked.targets.filter(([id]) => id === trigger_id).map(([, name]) => name);
    const isNext = (one) => one.targets.some(([id, name]) => id === trigger_id && names.includes(name));
    const coming = new Set([asked, ...all.filter(isNext)]);
    for (const one of coming) all.filter((next) => next.trigger_after === one.id).forEach((next) => coming.add(next));
    return told(begin(outputs([...coming]), asked, false, clicked.get(component(trigger_id)?.props.elem_id)));
  }

  // An answer that is nothing but a refusal (`told_in`) has filled nothing.
  const isStill = (value) => value?.__type__ === 'update' && Object.keys(value).length === 1;
  const isRefusal = (value) => /^<div class="note note-bad"/.test(value?.value ?? value);
  function isWell({success, error, output, data}) {
    const changed = (output?.data ?? data)?.filter((value) => !isStill(value));
    return success !== false && !error && !output?.error && !(changed?.length === 1 && isRefusal(changed[0]));
  }

  // What an answer fills: fields and their values, but for files, which the page sends otherwise than it gets them.
  function filledBy({asked}, data) {
    if (!data || asked?.types.generator !== false) return [];
    const fields = asked.outputs.map((field, at) => [field, data[at]]).filter(([, value]) => !isStill(value));
    const values = fields.filter(([, value]) => value?.__type__ !== 'update' || 'value' in value)
      .map(([field, value]) => [field, value?.__type__ === 'update' ? value.value : value]);
    return values.filter(([, value]) => typeof value !== 'object' || Array.isArray(value));
  }

  // An answer counts when Gradio reads it: a copy of it might be read before.
  async function follow(one, answer, isQueued) {
    try {
      const response = await answer;
      const read = response.json.bind(response);
      if (!response.ok) one.end(false);
      response.json = async () => {
        const said = await read().catch((error) => { one.end(false); throw error; });
        const id = said.event_id;
        if (!response.ok || said.error) one.end(false);
        else if (!isQueued) answered(one, said, said.data);
        else if (events.has(id)) { answered(one, events.get(id), events.get(id).output?.data); events.delete(id); }
        else events.set(id, one);
        return said;
      };
    } catch { one.end(false); }
  }

  function answered(one, message, data) {
    one.values = filledBy(one, data);
    one.end(isWell(message));
  }

  function finished(message) {
    const one = events.get(message.event_id);
    if (one) { events.delete(message.event_id); answered(one, message, message.output?.data); }
    else events.set(message.event_id, message);
  }

  async function listen(answer, signal) {
    try {
      const response = await answer;
      const decoder = new TextDecoder();
      let rest = '';
      const {readable, writable} = new TransformStream({transform(chunk, next) {
        next.enqueue(chunk);
        const lines = (rest + decoder.decode(chunk, {stream: true})).split('\n');
        rest = lines.pop();
        const last = lines.filter((line) => line.includes('"process_completed"'));
        const ended = last.map((line) => JSON.parse(line.slice(5)));
        ended.filter((one) => one.msg === 'process_completed').forEach(finished);
      }});
      const passed = response.body.pipeTo(writable);
      Object.defineProperty(response, 'body', {value: readable});
      await passed;
    } catch (error) {
      if (signal?.aborted || error?.name === 'AbortError') return; // nothing is left to be answered for now
      for (const [id, one] of events) if (one.end) { events.delete(id); one.end(false); }
    }
  }

  // Gradio gathers what a click sends when the click comes to it, on a busy page before it has taken in what was waited
  // for. So what was filled meanwhile is sent as it was filled, and what comes late is waited for once more.
  function send(resource, options, own) {
    const {trigger_id: trigger, fn_index: asked} = JSON.parse(options.body);
    const id = component(trigger)?.props.elem_id;
    const inputs = id ? seen(id).asks.find((one) => one.id === asked)?.inputs : null;
    if (!inputs || !clicked.has(id)) return fetched(resource, options);
    const values = given.get(id) ?? new Map();
    const go = () => {
      own.isHeld = false;
      const body = JSON.parse(options.body);
      const data = body.data.map((value, at) => values.has(inputs[at]) ? values.get(inputs[at]) : value);
      return fetched(resource, values.size ? {...options, body: JSON.stringify({...body, data})} : options);
    };
    const place = clicked.get(id);
    own.isHeld = before(id, place).length > 0;
    return own.isHeld ? filled(id, place, values).then(go) : go();
  }

  // The studio answers side by side, and what was asked last must be answered last: a request waits for the answers to
  // those before it that fill one of its own fields. But a click has waited already (`hold`), and what a timer asks, or
  // what may be given up, is waited for by nobody.
  const isInTurn = (asked) => isQuick(asked) && !asked.targets.some(([id]) => kind(id) === 'timer')
    && !config().dependencies.some((one) => one.cancels.includes(asked.id));
  function ahead({fn_index, trigger_id}) {
    const asked = config().dependencies.find((one) => one.id === fn_index);
    if (!asked || !isInTurn(asked) || clicked.has(component(trigger_id)?.props.elem_id)) return [];
    const fills = (one) => one.asked.outputs.some((field) => asked.outputs.includes(field));
    return [...underWay].filter((one) => one.asked && !one.isHeld && isInTurn(one.asked) && fills(one));
  }

  const fetched = window.fetch.bind(window);
  window.fetch = (resource, options) => {
    const path = new URL(resource.url ?? resource, document.baseURI).pathname;
    const isQueued = path.endsWith('/queue/join');
    const isAsked = (isQueued || path.includes('/run/')) && typeof options?.body === 'string';
    const body = isAsked ? JSON.parse(options.body) : null;
    const before = body ? ahead(body) : [];
    const own = body ? beginAnswer(body) : null;
    const turn = Promise.all(before.map((one) => one.done));
    const answer = !body ? fetched(resource, options)
      : before.length ? turn.then(() => send(resource, options, own)) : send(resource, options, own);
    if (path.endsWith('/queue/data')) listen(answer, resource.signal);
    else if (body) follow(own, answer, isQueued);
    else if (path.endsWith('/upload')) {
      follow(beginUpload(), answer, false);
      recordings.forEach((one) => one.end(true));
    }
    return answer;
  };

  // Between a recorder's Stop and the upload, the browser decodes what was recorded.
  const stop = window.MediaRecorder?.prototype.stop;
  if (stop) window.MediaRecorder.prototype.stop = function () {
    if (this.state !== 'inactive') {
      const one = beginUpload();
      recordings.add(one);
      setTimeout(one.end, LOST_MS, true);
      one.done.then(() => recordings.delete(one));
    }
    return stop.call(this);
  };

  // What a click asks for, what fields that shows its answer in, and those that decide what it sends: its inputs, what
  // may fill those, and so on.
  function look(id) {
    const named = config().components.filter((one) => one.props.elem_id === id);
    const ids = named.filter((one) => one.type === 'button' || one.type === 'html').map((one) => one.id);
    const asks = config().dependencies.filter((one) => one.backend_fn && one.targets.some(([at]) => ids.includes(at)));
    const fields = new Set(asks.flatMap((one) => one.inputs));
    for (let size = -1; size !== fields.size;) {
      size = fields.size;
      for (const one of config().dependencies.filter((one) => one.outputs.some((field) => fields.has(field)))) {
        for (const [field] of one.targets) if (kind(field) && !NO_FIELDS.includes(kind(field))) fields.add(field);
      }
    }
    return {asks, fields, shows: new Set(asks.flatMap((one) => one.outputs))};
  }

  function seen(id) {
    if (!known.has(id)) known.set(id, look(id));
    return known.get(id);
  }

  function before(id, place = count, among = underWay) {
    const {asks, fields, shows} = seen(id);
    const isOwn = (one) => asks.includes(one.asked) || one.isClick && one.place >= place;
    const concerns = (field, one) => fields.has(field) || one.place < place && shows.has(field);
    const isWaitedFor = (one) => !isOwn(one) && (!one.fills || one.fills.some((field) => concerns(field, one)));
    return fields.size || shows.size ? [...among].filter(isWaitedFor) : [];
  }

  // What begins and fails while the page is busy with something else counts, too.
  async function filled(id, place, values = new Map()) {
    const lost = new Set();
    losses.add(lost);
    for (let now; !before(id, place, lost).length && (now = before(id, place)).length;) {
      await Promise.all(now.map((one) => one.done));
      now.sort((a, b) => a.place - b.place);
      now.forEach((one) => one.values?.forEach(([field, value]) => values.set(field, value)));
      await settled();
    }
    losses.delete(lost);
    return !before(id, place, lost).length;
  }
  window.studio = {filled};

  const cancelOf = (start) => start.id.replace(/-start$|$/, '-cancel');

  async function hold(button, event) {
    const own = told(begin(outputs(seen(button.id).asks), null, true));
    const cancel = document.getElementById(cancelOf(button));
    if (cancel) cancel.disabled = false;
    waiting.set(button, event);
    button.setAttribute('aria-busy', 'true');
    const values = new Map();
    const isFilled = await filled(button.id, own.place, values);
    const wanted = waiting.get(button);
    waiting.delete(button);
    button.removeAttribute('aria-busy');
    const counts = Boolean(isFilled && wanted && button.isConnected && !button.disabled);
    if (counts) {
      const again = new MouseEvent('click', wanted);
      released.add(again);
      clicked.set(button.id, own.place);
      given.set(button.id, values);
      button.dispatchEvent(again);
    }
    else if (cancel) cancel.disabled = true;
    own.end(isFilled); // a button that has gone, or a press that was taken back, is no failure
  }

  window.addEventListener('click', (event) => {
    const button = event.target.closest?.('button[id]');
    if (!button || released.has(event)) return;
    for (const one of waiting.keys()) if (button.id === cancelOf(one)) waiting.set(one, null);
    const isHeld = waiting.has(button);
    if (!isHeld && !(underWay.size && before(button.id).length)) {
      clicked.set(button.id, count++);
      given.delete(button.id);
      return;
    }
    event.preventDefault();
    event.stopImmediatePropagation();
    if (isHeld) waiting.set(button, event);
    else hold(button, event);
  }, true);

  // What is touched may ask for something in a moment. A button's own press is no reason for its click to wait.
  for (const name of ['mousedown', 'input', 'change', 'focusout', 'click']) {
    window.addEventListener(name, (event) => {
      if (name === 'mousedown' && event.target.closest?.('button')) return;
      const touch = begin(null, null, true);
      settled().then(() => touch.end(true));
    }, true);
  }
})();
