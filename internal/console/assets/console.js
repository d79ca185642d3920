// Keeps an open page up to date: when the server reports a change, the page is read again
// and what differs is replaced, with the focus, the scroll positions and forms kept.
"use strict";

(() => {
  // Parts of a page that take longer than the rest.
  async function load() {
    for (const part of document.querySelectorAll("[data-load]")) {
      try {
        const answer = await fetch(part.dataset.load);
        if (!answer.ok) continue; // what is shown stays, at first a link
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        part.replaceChildren(...page.querySelectorAll("#main section"));
      } catch {
        // The user has left the page, or the server cannot be reached: it stays, too.
      }
    }
  }
  load();

  const live = document.body.dataset.live;
  if (!live) return;
  const status = document.getElementById("live");
  let source = null;
  let reading = false;
  let again = false;

  async function refresh() {
    if (reading) {
      again = true;
      return;
    }
    reading = true;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (answer.redirected) { // to the page for logging in
        location.reload();
        return;
      }
      if (!answer.ok && answer.status !== 404) throw new Error(answer.statusText);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      // Idiomorph would take an element for one of the children: it gets all children.
      Idiomorph.morph(document.getElementById("main"), [...page.getElementById("main").childNodes], {
        morphStyle: "innerHTML",
        ignoreActiveValue: true,
        callbacks: {
          // What the user types stays, and an opened part stays open.
          beforeNodeMorphed: (old) => !(old.nodeType === Node.ELEMENT_NODE && old.hasAttribute("data-keep")),
          beforeAttributeUpdated: (name, node) => !(node.tagName === "DETAILS" && name === "open"),
        },
      });
      await load();
      status.textContent = "Updated at " + new Date().toLocaleTimeString();
    } catch (error) {
      status.textContent = "Not up to date: " + error.message;
    } finally {
      reading = false;
      if (again) {
        again = false;
        setTimeout(refresh, 1000);
      }
    }
  }

  // A page that nobody sees needs no connection.
  function connect() {
    if (document.hidden && source) {
      source.close();
      source = null;
    } else if (!document.hidden && !source) {
      source = new EventSource(live);
      source.onopen = refresh; // for what has changed since the page was made, or while there was no connection
      source.onmessage = refresh;
    }
  }

  document.addEventListener("visibilitychange", connect);
  connect();
})();
