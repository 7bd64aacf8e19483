// A page is answered in the language that it was drawn in, until it is drawn again: the visitor may have chosen another
// in a second tab meanwhile, and the cookie that holds the choice is that of all tabs.
(() => {
  const language = navigator.language; // the studio has said which (`add_locale`)
  const fetched = window.fetch.bind(window);
  window.fetch = (resource, options) => {
    const {origin} = new URL(resource.url ?? resource, document.baseURI);
    if (origin !== location.origin) return fetched(resource, options);
    const headers = new Headers(options?.headers ?? resource.headers);
    headers.set('X-Studio-Locale', language);
    return fetched(resource, {...options, headers});
  };
})();
