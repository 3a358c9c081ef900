// What keeps people out of a page, found in the page itself; one fault a line.
(() => {
  const faults = [];
  const shown = (e) => e.getClientRects().length > 0 && getComputedStyle(e).visibility !== "hidden";
  const where = (e) => e.outerHTML.replace(/\s+/g, " ").slice(0, 140);
  const fault = (what, e) => faults.length < 40 && faults.push(what + ": " + where(e));

  // Names of links, buttons, fields, drawings and pictures.
  for (const e of document.querySelectorAll("a[href], button, summary")) {
    if (shown(e) && !(e.textContent.trim() || e.getAttribute("aria-label"))) fault("no name", e);
  }
  for (const e of document.querySelectorAll("input:not([type=hidden]), select, textarea")) {
    if (shown(e) && !(e.labels?.length || e.getAttribute("aria-label"))) fault("no label", e);
  }
  for (const e of document.querySelectorAll("svg")) {
    if (!e.querySelector(":scope > title")?.textContent.trim()) fault("no title", e);
  }
  for (const e of document.querySelectorAll("img:not([alt])")) fault("no alt", e);

  // One main, one h1, no level left out, every id once, a language and a title.
  if (document.querySelectorAll("main").length !== 1) faults.push("not one main");
  if (document.querySelectorAll("h1").length !== 1) faults.push("not one h1: " + document.querySelectorAll("h1").length);
  let level = 0;
  for (const e of document.querySelectorAll("main :is(h1, h2, h3, h4)")) {
    const own = Number(e.tagName[1]);
    if (own > level + 1) fault("a heading skips a level", e);
    level = own;
  }
  const ids = new Set();
  for (const e of document.querySelectorAll("[id]")) {
    if (ids.has(e.id)) fault("an id twice", e);
    ids.add(e.id);
  }
  if (!document.documentElement.lang || !document.title) faults.push("no language or no title");

  // Tables name their columns; positive tabindex breaks the order.
  for (const e of document.querySelectorAll("table")) {
    if (e.rows.length > 1 && !e.querySelector("th")) fault("a table without heads", e);
  }
  for (const e of document.querySelectorAll("[tabindex]")) if (e.tabIndex > 0) fault("tabindex over 0", e);
  for (const e of document.querySelectorAll("[style], script:not([src])")) fault("inline style or script", e);

  // Contrast of text with what is behind it: 4.5, or 3 for large text.
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const behind = (e) => {
    const layers = [];
    for (let at = e; at; at = at.parentElement) layers.push(rgba(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]);
  };
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const seen = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || seen.has(e) || !shown(e) || e.closest("svg, .hidden, .skip, option, .cascaded")) continue;
    seen.add(e);
    const style = getComputedStyle(e);
    const ground = behind(e);
    const a = light(over(rgba(style.color), ground)), b = light(ground);
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700;
    if (ratio < (large ? 3 : 4.5) - 0.01) fault("contrast " + ratio.toFixed(2), e);
  }
  return faults.join("\n");
})()
