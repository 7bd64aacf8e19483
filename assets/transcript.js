// The recording beside its transcript: a click plays from a word's time, the word lights up while it is heard,
// and what a person corrects goes back to the studio.
const stopAt = {until: Infinity};
const player = () => element.querySelector('audio');
const SPEEDS = [1, 0.75, 0.5, 1.5];
let speed = 0;

function play(from, until) {
  const sound = player();
  if (!sound) return;
  sound.currentTime = from;
  sound.playbackRate = SPEEDS[speed];
  stopAt.until = until;
  sound.play().catch((error) => {
    if (player() && player() !== sound) play(from, until);  // drawn anew before it began
    else if (error.name !== 'AbortError') throw error;
  });
}

function playOrPause() {
  const sound = player();
  if (sound.paused) play(sound.ended ? 0 : sound.currentTime, Infinity);
  else sound.pause();
}

function changeSpeed() {
  speed = (speed + 1) % SPEEDS.length;
  player().playbackRate = SPEEDS[speed];
  tellPlayed(player());
}

function clock(seconds) {
  const parts = [seconds / 3600, seconds / 60 % 60, seconds % 60].slice(seconds < 3600 ? 1 : 0);
  return parts.map((part) => String(Math.floor(part)).padStart(2, '0')).join(':');
}

function tellPlayed(sound) {
  const button = element.querySelector('[data-play]');
  if (!button || !sound.duration) return;
  element.querySelector('[data-speed]').textContent = SPEEDS[speed] + '×';
  button.textContent = sound.paused ? button.dataset.play : button.dataset.pause;
  element.querySelector('.played').textContent = `${clock(sound.currentTime)} / ${clock(sound.duration)}`;
}

function texts() {
  return [...element.querySelectorAll('textarea.correction')].map((field) => field.value);
}

function fit(field) {
  field.style.height = 'auto';
  field.style.height = field.scrollHeight + 'px';
}

function toggleCorrections(button) {
  const list = element.querySelector('.segment-list');
  const begins = list.toggleAttribute('data-correcting');
  button.setAttribute('aria-pressed', begins);
  button.textContent = begins ? button.dataset.end : button.dataset.begin;
  element.querySelectorAll('.time').forEach((time, at) => { time.tabIndex = begins || at === 0 ? 0 : -1; });
  clearTimeout(waiting);
  if (begins) element.querySelectorAll('textarea.correction').forEach(fit);
  else trigger('submit', {texts: texts()});
}

element.addEventListener('click', (event) => {
  const toggle = event.target.closest('[data-correct]');
  if (toggle) { toggleCorrections(toggle); return; }
  if (event.target.closest('[data-play]')) { playOrPause(); return; }
  if (event.target.closest('[data-speed]')) { changeSpeed(); return; }
  const button = event.target.closest('[data-seek]');
  if (button) {
    const from = parseFloat(button.dataset.seek);
    play(from, Math.max(parseFloat(button.dataset.until), from + 0.3));
    return;
  }
  const wave = event.target.closest('.wave');
  if (wave && player()?.duration) {
    const box = wave.getBoundingClientRect();
    play(player().duration * (event.clientX - box.left) / box.width, Infinity);
  }
});

let waiting = 0;
// Read as it is sent: what was told while an earlier one was answered, Gradio sends once more as it was told first.
const written = {get texts() { return texts(); }};
element.addEventListener('input', (event) => {
  if (!event.target.matches('textarea.correction')) return;
  fit(event.target);
  clearTimeout(waiting);
  waiting = setTimeout(() => trigger('edit', written), 400);
});

// Corrections go on that were not finished when the page was loaded again.
let drawn = '';
function correctAgain() {
  const fields = [...element.querySelectorAll('textarea.correction')];
  const mark = element.querySelector('.segment-list')?.dataset.mark;
  const now = JSON.stringify([mark, ...fields.map((field) => field.defaultValue)]);
  // What was typed stays in a field that is drawn anew, whichever segment that has now. What the studio refuses stays.
  const isAnother = now !== drawn && !element.querySelector('[data-correcting]');
  if (isAnother) for (const field of fields) field.value = field.defaultValue;
  drawn = now;
  if (!window.comeBack.correct(fields)) return;
  toggleCorrections(element.querySelector('[data-correct]'));
  fields[0].dispatchEvent(new Event('input', {bubbles: true}));
}
new MutationObserver(correctAgain).observe(element, {childList: true, characterData: true, subtree: true});
correctAgain();

for (const what of ['play', 'pause', 'loadedmetadata']) {
  element.addEventListener(what, (event) => tellPlayed(event.target), true);
}

element.addEventListener('timeupdate', (event) => {
  const sound = event.target;
  tellPlayed(sound);
  if (sound.currentTime >= stopAt.until) { sound.pause(); stopAt.until = Infinity; }
  const needle = element.querySelector('.needle');
  if (needle && sound.duration) needle.style.left = 100 * sound.currentTime / sound.duration + '%';
  for (const button of element.querySelectorAll('[data-seek]')) {
    const on = sound.currentTime >= +button.dataset.seek && sound.currentTime < +button.dataset.until;
    button.toggleAttribute('data-playing', on && !sound.paused);
  }
}, true);
