// A field for recordings takes nothing that is no sound, and says so with a list of types, in English. What is dropped
// there, or chosen, goes where it is taken: a film to the button for films beside the field (`<field>-film`). Of all else
// the field says that it is neither (`<field>-neither`).
(() => {
  const fieldOf = (target) => target.closest?.('.block[id]');
  const endings = (input) => input.accept.split(',').map((one) => one.trim()).filter(Boolean);

  function take(event, files) {
    const field = fieldOf(event.target);
    const neither = field && document.getElementById(`${field.id}-neither`);
    const [file] = files ?? [];
    if (!neither || !file) return;
    neither.classList.remove('told');
    if (file.type.startsWith('audio/')) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    const input = document.getElementById(`${field.id}-film`).previousElementSibling;
    if (!endings(input).some((ending) => file.name.toLowerCase().endsWith(ending))) {
      neither.role = 'alert';
      neither.classList.add('told');
      return;
    }
    const given = new DataTransfer();
    given.items.add(file);
    input.files = given.files;
    input.dispatchEvent(new Event('change', {bubbles: true}));
  }

  window.addEventListener('drop', (event) => take(event, event.dataTransfer?.files), true);
  window.addEventListener('change', (event) => {
    if (event.target.type === 'file') take(event, event.target.files);
  }, true);
})();
