// Words while somebody speaks: the microphone's samples go to the studio as soon as it has answered the last
// ones, so none is lost however long a hearing takes, and what comes back is shown.
const CODE = `registerProcessor('tap', class extends AudioWorkletProcessor {
  process(inputs) { if (inputs[0][0]) this.port.postMessage(inputs[0][0].slice()); return true; }
});`;
const LEAST_SECONDS = 0.2;
const MOST_SECONDS = 20;
const TELLS_MS = 250; // so often is said how long somebody speaks
const LATE_SECONDS = 3; // a text so far behind is said to be
const MOST_UNKNOWN = 60; // answers of a studio that was not asked for this session, a second each
const ENDS_MS = 10_000; // a text that comes later than that is not waited for
let session = null;
let leftIn = null; // the session that the page was left in

const part = (name) => element.querySelector(`[data-live=${name}]`);
const words = (name) => part('words').dataset[name];

function say(text) {
  part('status').textContent = text;
}

// What was recorded counts, whatever has been heard of it: who speaks sees at once that they are listened to.
function tell(own) {
  const recorded = Math.round(own.samples / own.rate);
  const late = Math.round(own.samples / own.rate - own.heard);
  const name = own.stopping ? 'rest' : late > LATE_SECONDS ? 'late' : 'listening';
  say(words(name).replace(/[01]/g, (digit) => [recorded, late][digit]));
}

function reason(error) {
  if (!navigator.mediaDevices || error?.name === 'NotFoundError') return words('missing');
  if (error?.name === 'NotAllowedError') return words('refused');
  return words('failed') + ' ' + (error?.message ?? '');
}

function encoded(chunks) {
  const count = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
  const pcm = new Int16Array(count);
  let at = 0;
  for (const chunk of chunks) {
    for (const value of chunk) pcm[at++] = Math.round(32767 * Math.max(-1, Math.min(1, value)));
  }
  const bytes = new Uint8Array(pcm.buffer);
  let text = '';
  for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return btoa(text);
}

// The next samples in their order, no more than the studio takes at once.
function taken(own) {
  let [count, length] = [0, 0];
  while (count < own.chunks.length && length < MOST_SECONDS * own.rate) length += own.chunks[count++].length;
  return own.chunks.splice(0, count);
}

// The model is loaded for each who speaks; faster-whisper may need an export first, which takes a while: who
// is told so waits, and what was said before it listens is not kept.
async function isReady(own) {
  for (let unknown = 0, shown = ''; unknown < MOST_UNKNOWN;) {
    const answer = await server.wait_for({session: own.id, shown});
    if (answer.ready) return true;
    if (answer.error) { say(answer.error); return false; }
    unknown = answer.is_known ? 0 : unknown + 1;
    shown = answer.doing;
    if (!shown) continue;
    if (own.stopping) { say(''); return false; }
    [own.chunks, own.samples] = [[], 0];
    say(shown);
  }
  say(words('unready'));
  return false;
}

async function pump(own) {
  while (!own.ended && !own.left) {
    if (own.stopping) await own.hush();
    const length = own.chunks.reduce((sum, chunk) => sum + chunk.length, 0);
    if (length < LEAST_SECONDS * own.rate && !own.stopping) {
      await new Promise((done) => setTimeout(done, 20));
      continue;
    }
    const chunks = taken(own);
    own.ended = own.stopping && !own.chunks.length;
    const answer = await server.feed({session: own.id, rate: own.rate, sound: encoded(chunks), ends: own.ended});
    if (own.left) break;
    if (answer.error) { say(answer.error); break; }
    part('settled').textContent = answer.settled;
    part('tentative').textContent = answer.tentative ? ' ' + answer.tentative : '';
    own.heard = answer.seconds;
    if (own.ended) say(words('heard').replace('0', Math.round(answer.seconds))); else tell(own);
  }
}

// Opens the microphone. `own.hush` closes it at once and for good, however much is still to be heard of what it
// took until then, and answers when the last of that is here.
async function listen(own) {
  const stream = await navigator.mediaDevices.getUserMedia({audio: true});
  const sound = new AudioContext();
  const source = sound.createMediaStreamSource(stream);
  own.hush = () => {
    stream.getTracks().forEach((track) => track.stop());
    source.disconnect();
    const closed = sound.close();
    own.hush = () => closed;
    return closed;
  };
  await sound.audioWorklet.addModule(URL.createObjectURL(new Blob([CODE], {type: 'text/javascript'})));
  const tap = new AudioWorkletNode(sound, 'tap');
  tap.port.onmessage = (event) => { own.chunks.push(event.data); own.samples += event.data.length; };
  source.connect(tap);
  own.rate = sound.sampleRate;
}

function close(own) {
  own.hush();
  clearInterval(own.teller);
  part('toggle').textContent = words('begin');
  session = null;
}

// Once: the microphone is closed, and the rest is heard. Once more: the rest is given up.
function stop(own) {
  if (own.stopping) { own.chunks = []; return; }
  own.stopping = true;
  own.hush();
  part('toggle').textContent = words('cancel');
  say(words('rest'));
}

async function start() {
  if (!window.isSecureContext) { say(words('insecure')); return; }
  const nothing = {chunks: [], samples: 0, heard: 0, stopping: false, ended: false, left: false, hush: () => {}};
  leftIn = null;
  const own = session = {id: crypto.randomUUID(), ...nothing};
  try {
    await window.studio.filled('live'); // with what was said before, which a tab that opens shows
    part('settled').textContent = part('tentative').textContent = '';
    if (!own.stopping) await listen(own);
  } catch (error) { say(own.stopping ? '' : reason(error)); close(own); return; }
  if (own.stopping) { say(''); close(own); return; }
  part('toggle').textContent = words('end');
  say(words('loading'));
  await window.studio.filled('live');
  trigger('start_recording', {session: own.id});
  try {
    if (await isReady(own)) {
      tell(own);
      own.teller = setInterval(() => { if (!own.ended) tell(own); }, TELLS_MS);
      await pump(own);
    }
  } catch (error) { say(words('failed') + ' ' + error.message); }
  close(own);
  if (!own.left) trigger('stop_recording', {session: own.id});
}

element.addEventListener('click', (event) => {
  if (!event.target.closest('[data-live=toggle]')) return;
  if (session) stop(session); else start();
});

// Nobody is listened to who has left the tab or the page.
const leave = () => { if (session && !session.stopping) stop(session); };
new ResizeObserver(() => { if (!element.getClientRects().length) leave(); }).observe(element);
window.addEventListener('pagehide', () => {
  leftIn = session?.id;
  if (session) session.left = true;
  leave();
});

// Who loads the page again while they speak has what the studio has heard until then.
window.comeBack.spoken().then((id) => { if (id) trigger('stop_recording', {session: id, again: true}); });

// For a page that goes and comes back: answers when the studio holds what was said.
window.studio.spoken = () => session?.id ?? leftIn;
window.studio.endLive = async () => {
  if (!session) return;
  leave();
  for (let until = performance.now() + ENDS_MS; performance.now() < until;) {
    if (!session && document.querySelector('#live-downloads a')) return;
    await new Promise((done) => setTimeout(done, 50));
  }
};
