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

  // A button beside each number that people copy. Without it, a click selects the whole number.
  function addCopiers() {
    if (!navigator.clipboard) return;
    for (const number of document.querySelectorAll(".copy")) {
      if (number.nextElementSibling?.matches(".copier")) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copier";
      button.textContent = "Copy";
      button.setAttribute("aria-label", "Copy " + number.textContent.slice(0, 8) + "...");
      button.addEventListener("click", async () => {
        try {
          await navigator.clipboard.writeText(number.textContent);
          button.textContent = "Copied";
        } catch {
          getSelection().selectAllChildren(number);
        }
      });
      number.after(" ", button);
    }
  }
  addCopiers();

  // The code of a login link is behind the "#", which browsers send to no server: it is put
  // into the form, and taken out of the address.
  const code = document.getElementById("token");
  if (code && location.hash.startsWith("#once-")) {
    code.value = location.hash.slice(1);
    history.replaceState(null, "", location.pathname + location.search);
  }

  // Some browsers send a form when Enter is pressed in a box.
  document.addEventListener("keypress", (event) => {
    if (event.key === "Enter" && event.target.type === "checkbox") event.preventDefault();
  });

  // Keys for lists: "/" to the search, j and k to the next and the former row, x to choose it.
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=checkbox]), textarea, select")) return;
    if (event.key === "/") {
      const search = document.querySelector(".filters input");
      if (search) {
        event.preventDefault();
        search.focus();
      }
    } else if (event.key === "j" || event.key === "k") {
      const links = [...document.querySelectorAll(".cards tbody tr")].map((row) => row.querySelector("a")).filter(Boolean);
      const row = event.target.closest("tr");
      const now = row ? links.findIndex((link) => row.contains(link)) : -1;
      links[event.key === "j" ? Math.min(now + 1, links.length - 1) : Math.max(now - 1, 0)]?.focus();
    } else if (event.key === "x") {
      event.target.closest("tr")?.querySelector("input[name=choice]")?.click();
    }
  });

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
          beforeAttributeUpdated: (name, node) => !(node.tagName === "DETAILS" && name === "open") && !(node.type === "checkbox" && name === "checked"),
          // What a form was answered with stays until the user goes on.
          beforeNodeRemoved: (old) => !(old.nodeType === Node.ELEMENT_NODE && old.hasAttribute("data-stay")),
        },
      });
      await load();
      addCopiers();
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
