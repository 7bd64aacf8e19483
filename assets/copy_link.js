// A press on a link to a plan copies its address; where the browser has no clipboard for the page (http), it opens.
document.addEventListener('click', (event) => {
  const link = event.target.closest?.('a[data-copied]');
  if (!link || !navigator.clipboard || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const text = link.textContent;
  navigator.clipboard.writeText(link.href).then(() => {
    link.textContent = link.dataset.copied;
    setTimeout(() => { link.textContent = text; }, 2000);
  }, () => { location.href = link.href; });
});
