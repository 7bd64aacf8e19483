// A field whose value was refused is marked as long as the page says so: each remark that names a field (data-field)
// and what is wrong with it (its text). Gradio's own mark is gone with the next answer, be it about something else.
(() => {
  const told = () => new Map([...document.querySelectorAll('.note[data-field]')]
    .filter((remark) => remark.offsetParent !== null)
    .map((remark) => [remark.dataset.field, remark.textContent]));

  function mark(id, text) {
    const field = document.getElementById(id);
    if (!field || field.querySelector('.field-refused')) return;
    const said = document.createElement('p');
    said.className = 'field-refused';
    said.id = `${id}-refused`;
    said.dataset.of = id;
    said.textContent = text;
    field.append(said);
    for (const input of field.querySelectorAll('input, textarea')) {
      input.setAttribute('aria-invalid', 'true');
      input.setAttribute('aria-describedby', said.id);
    }
  }

  function unmark(said) {
    for (const input of said.parentElement.querySelectorAll('[aria-invalid]')) {
      input.removeAttribute('aria-invalid');
      input.removeAttribute('aria-describedby');
    }
    said.remove();
  }

  let isAsked = false;
  function look() {
    isAsked = false;
    const now = told();
    for (const said of document.querySelectorAll('.field-refused')) {
      if (now.get(said.dataset.of) !== said.textContent) unmark(said);
    }
    now.forEach((text, id) => mark(id, text));
  }

  new MutationObserver(() => {
    if (!isAsked) setTimeout(look, 0);
    isAsked = true;
  }).observe(document.documentElement, {childList: true, subtree: true, characterData: true});
})();
