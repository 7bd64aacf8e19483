// Gradio reads all answers from one stream, which the server ends once nothing is left to be answered. What is asked at
// that very moment, and taken in by Gradio before it reads of the end, would never be answered: a page that follows a
// run would say "Waiting" for ever. So the stream goes on, in a further request, while an answer is owed.
(() => {
  const HANDED_OVER_MS = 1_000; // at most, until Gradio has read of the end
  const AGAIN_MS = 1_000; // after an end that the server has not told of
  const asking = new Set(); // requests that have no number yet
  const owed = new Set(); // numbers of what was asked and is not answered
  const early = new Set(); // numbers of what was answered before the request had its number
  let ended = Promise.resolve(); // Gradio has read of the last end, and will open a new stream
  const fetched = window.fetch.bind(window);
  const pause = (ms) => new Promise((done) => setTimeout(done, ms));

  async function joined(answer) {
    const response = await answer;
    const {event_id: id} = await response.clone().json().catch(() => ({}));
    if (id && !early.delete(id)) owed.add(id);
    return response;
  }

  async function ask(resource, options) {
    const answer = joined(fetched(resource, options));
    asking.add(answer);
    try { await answer; } finally { asking.delete(answer); }
    await ended;
    return answer;
  }

  // Passes messages on, but for that of the end, which is given back; null if the stream ended without it.
  async function passed(body, writer) {
    const encoder = new TextEncoder();
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = '', next; !(next = await reader.read()).done;) {
      const messages = (rest + next.value).split('\n\n');
      rest = messages.pop();
      for (const message of messages) {
        const whole = encoder.encode(`${message}\n\n`);
        if (message.startsWith('data: {"msg":"close_stream"')) return whole;
        if (message.startsWith('data: {"msg":"process_completed"')) {
          const id = JSON.parse(message.slice(5)).event_id;
          if (!owed.delete(id)) early.add(id);
        }
        if (message.startsWith('data: {"msg":"unexpected_error"')) owed.clear(); // the server knows of none
        await writer.write(whole);
      }
    }
    return null;
  }

  async function goOn(response, request, writer) {
    try {
      for (let now = response; ; now = await fetched(request)) {
        if (!now.ok) throw new TypeError(`The stream of answers cannot go on: ${now.status}`);
        const end = await passed(now.body, writer);
        await Promise.allSettled(asking);
        if (owed.size && !end) await pause(AGAIN_MS);
        if (owed.size) continue;
        const read = new Promise((done) => request.signal.addEventListener('abort', done));
        ended = Promise.race([read, pause(HANDED_OVER_MS)]);
        if (end) await writer.write(end);
        return await writer.close();
      }
    } catch (error) {
      if (request.signal.aborted) owed.clear(); // the page is left, or another stream follows
      await writer.abort(error);
    }
  }

  async function stream(request) {
    const response = await fetched(request);
    if (!response.ok) return response;
    const {readable, writable} = new TransformStream();
    goOn(response, request, writable.getWriter()).catch(() => {}); // nobody reads it any more
    return new Response(readable, response);
  }

  window.fetch = (resource, options) => {
    const path = new URL(resource.url ?? resource, document.baseURI).pathname;
    if (path.endsWith('/queue/join')) return ask(resource, options);
    return path.endsWith('/queue/data') && resource.url ? stream(resource) : fetched(resource, options);
  };
})();
