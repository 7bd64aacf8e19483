// A press on what says `data-copied` copies: of a link its address, of a button the text of the field that it names.
// Where the browser has no clipboard for the page (http, a frame without the right), a link opens and the field shows.
(() => {
  const without = () => document.documentElement.classList.add('no-clipboard');
  if (!navigator.clipboard) without();

  document.addEventListener('click', (event) => {
    const pressed = event.target.closest?.('[data-copied]');
    if (!pressed || !navigator.clipboard || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const name = pressed.dataset.name ??= pressed.textContent; // it may say so still from the press before
    const text = pressed.href ?? document.querySelector(pressed.dataset.copies).value;
    navigator.clipboard.writeText(text).then(() => {
      pressed.textContent = pressed.dataset.copied;
      setTimeout(() => { pressed.textContent = name; }, 2000);
    }, () => {
      if (pressed.href) location.href = pressed.href;
      else without();
    });
  });
})();
