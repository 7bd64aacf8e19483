// A field for recordings takes nothing that is no sound, and says so with a list of types, in English. What is dropped
// there, or chosen, goes where it is taken: of many files those that are sound, a film to the button for films beside a
// field of one recording (`<field>-film`). What nobody takes is said to be neither (`<field>-neither`).
(() => {
  const fieldOf = (target) => target.closest?.('.block[id]');
  const endings = (input) => input.accept.split(',').map((one) => one.trim()).filter(Boolean);
  const takes = (input) => (file) => endings(input).some((ending) => file.name.toLowerCase().endsWith(ending));

  function give(input, files) {
    const given = new DataTransfer();
    for (const file of files) given.items.add(file);
    input.files = given.files;
    input.dispatchEvent(new Event('change', {bubbles: true}));
  }

  function tell(neither, names) {
    const text = neither.querySelector('.prose');
    const named = text.querySelector('span') ?? text.appendChild(document.createElement('span'));
    named.textContent = names.map((name) => ` ${name}`).join();
    neither.role = 'alert';
    neither.classList.add('told');
  }

  function take(event, files) {
    const field = fieldOf(event.target);
    const neither = field && document.getElementById(`${field.id}-neither`);
    if (!neither || !files?.length) return;
    neither.classList.remove('told');
    const film = document.getElementById(`${field.id}-film`)?.previousElementSibling;
    const input = film ?? field.querySelector('input[type=file]');
    const given = film ? [files[0]] : [...files];
    const isOwn = film ? (file) => file.type.startsWith('audio/') : takes(input);
    if (given.every(isOwn)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    const taken = given.filter(takes(input));
    const left = given.filter((file) => !taken.includes(file));
    if (taken.length) give(input, taken);
    if (left.length) tell(neither, film ? [] : left.map((file) => file.name));
  }

  window.addEventListener('drop', (event) => take(event, event.dataTransfer?.files), true);
  window.addEventListener('change', (event) => {
    if (event.target.type === 'file') take(event, event.target.files);
  }, true);
})();
