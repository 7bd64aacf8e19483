// Names that Gradio gives its own buttons in English alone (the studio's `i18n.py` lists them), in the page's language.
(() => {
  const names = window.gradioNames ?? {};
  const KINDS = ['aria-label', 'title', 'alt'];

  function translate(element) {
    for (const kind of KINDS) {
      const text = element.getAttribute(kind) ?? '';
      const [number] = text.match(/\d[\d.]*/) ?? [];
      const name = names[text.replace(number, '{number}')]?.replace('{number}', Math.round(number * 10) / 10);
      if (name && name !== text) element.setAttribute(kind, name);
    }
  }

  new MutationObserver((changes) => {
    for (const {target, addedNodes} of changes) {
      translate(target);
      for (const added of addedNodes) {
        if (added.nodeType !== Node.ELEMENT_NODE) continue;
        translate(added);
        added.querySelectorAll(KINDS.map((kind) => `[${kind}]`).join()).forEach(translate);
      }
    }
  }).observe(document.documentElement, {childList: true, subtree: true, attributeFilter: KINDS});
})();
