// What the dashboard does beyond plain HTML: local times, keys, live updates.
// Everything else works without it.
(() => {
  "use strict";
  const $ = (selector, from = document) => from.querySelector(selector);
  const $$ = (selector, from = document) => [...from.querySelectorAll(selector)];

  // Times in the viewer's zone; the original stays in the tooltip.
  const localise = (from) => {
    for (const t of $$("time[datetime]", from)) {
      const at = new Date(t.dateTime);
      if (isNaN(at) || t.title) continue;
      t.title = t.textContent;
      t.textContent = at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
    }
  };

  // Filters act when they change; the button is for those without the script.
  const bar = $("[data-bar]");
  if (bar) {
    $("[data-go]", bar).hidden = true;
    bar.addEventListener("change", () => bar.requestSubmit());
    bar.addEventListener("submit", () => {
      for (const field of bar.elements) if (field.name && field.value === "") field.disabled = true;
    });
  }

  // Parts that are fetched on demand: <a data-load="id" href="/part">.
  document.addEventListener("click", async (event) => {
    const link = event.target.closest("a[data-load]");
    if (!link || event.metaKey || event.ctrlKey) return;
    event.preventDefault();
    link.setAttribute("aria-busy", "true");
    let text;
    try {
      const answer = await fetch(link.href, { headers: { Accept: "text/html" } });
      if (!answer.ok) throw new Error(answer.statusText);
      text = await answer.text();
    } catch { return location.assign(link.href); } // which says what is wrong
    link.removeAttribute("aria-busy");
    const target = document.getElementById(link.dataset.load);
    if (target.matches("textarea")) {
      target.hidden = false;
      target.value = text;
      target.select();
      try { await navigator.clipboard.writeText(text); link.textContent = "Copied"; } catch { target.focus(); }
    } else {
      target.textContent = text;
      link.remove();
    }
  });

  // Text to copy: <button data-copy="id" hidden>. Where the page may not write to
  // the clipboard the text is marked for the viewer to do it.
  for (const button of $$("button[data-copy]")) {
    const from = document.getElementById(button.dataset.copy);
    button.hidden = false;
    button.addEventListener("click", async () => {
      getSelection().selectAllChildren(from);
      try { await navigator.clipboard.writeText(from.textContent); button.textContent = "Copied"; } catch { /* it is marked */ }
    });
  }

  // Keys.
  const help = $("#keys");
  const opener = $("[data-help]");
  if (opener) {
    opener.hidden = false;
    opener.addEventListener("click", () => help.showModal());
  }
  const rows = () => $$("[data-row]").filter((row) => row.offsetParent !== null);
  let at = -1;
  const select = (to) => {
    const all = rows();
    if (!all.length) return;
    all[at]?.classList.remove("here");
    at = Math.max(0, Math.min(all.length - 1, to));
    all[at].classList.add("here");
    const link = $("a[href]", all[at]);
    (link ?? all[at]).focus({ preventScroll: true });
    all[at].scrollIntoView({ block: "nearest" });
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input, textarea, select, [contenteditable]")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const follow = (selector) => $(selector)?.click();
    switch (event.key) {
      case "j": select(at + 1); break;
      case "k": select(at < 0 ? 0 : at - 1); break;
      case "n": follow("[data-next]"); break;
      case "p": follow("[data-prev]"); break;
      case "u": follow("[data-up]"); break;
      case "/": $("select, input", bar ?? document)?.focus(); break;
      case "?": help.open ? help.close() : help.showModal(); break;
      default:
        if (/^[1-9]$/.test(event.key)) $$("header nav a")[event.key - 1]?.click();
        else return;
    }
    event.preventDefault();
  });

  // Live: when the run moves, the marked parts of this page are read again.
  const run = document.body.dataset.run;
  const refresh = async () => {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of $$("[data-live]")) {
      const next = $(`[data-live="${CSS.escape(part.dataset.live)}"]`, fresh);
      if (!next || part.contains(document.activeElement) && part.matches("form")) continue;
      const open = $$("details", part).map((d) => d.open);
      localise(next);
      part.replaceChildren(...next.childNodes);
      $$("details", part).forEach((d, i) => { d.open = open[i] ?? d.open; });
    }
    // The row that the keys chose stays chosen; the focus comes back only where it was lost.
    if (at >= 0 && document.activeElement === document.body) select(at);
    else rows()[at]?.classList.add("here");
    document.body.dataset.seen = fresh.body.dataset.seen ?? "";
    document.body.dataset.refreshed = String(Number(document.body.dataset.refreshed ?? 0) + 1);
  };
  if (run && $("[data-live]")) {
    let busy = false, again = false;
    const soon = async () => {
      if (document.hidden || busy) { again = true; return; }
      busy = true;
      await refresh().catch(() => {});
      busy = false;
      if (again) { again = false; setTimeout(soon, 1000); }
    };
    // A stream that was refused is not opened again by the browser: that is done
    // here. While there is none the page says that it may be old.
    const offline = $("#offline");
    let source, waiting;
    const listen = () => {
      source = new EventSource("/events?run=" + encodeURIComponent(run));
      source.addEventListener("moved", soon);
      // The run may have moved while there was no stream, also before the first one.
      source.addEventListener("seen", (event) => { if (!event.data.startsWith(document.body.dataset.seen)) soon(); });
      source.addEventListener("open", () => { offline.hidden = true; });
      source.addEventListener("error", () => {
        offline.hidden = false;
        if (source.readyState === EventSource.CLOSED) waiting = setTimeout(listen, 3000);
      });
    };
    listen();
    document.addEventListener("visibilitychange", () => { if (!document.hidden && again) { again = false; soon(); } });
    addEventListener("pagehide", () => { clearTimeout(waiting); source.close(); });
    addEventListener("pageshow", (event) => { if (event.persisted) { listen(); soon(); } });
  }
  // A link to a field opens what hides it.
  const reveal = () => {
    let id = location.hash.slice(1);
    try { id = decodeURIComponent(id); } catch { /* as it is */ }
    const at = id && document.getElementById(id);
    for (let d = at && at.closest("details"); d; d = d.parentElement.closest("details")) d.open = true;
    if (at) at.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", reveal);
  reveal();
  localise(document);
})();
