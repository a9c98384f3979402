// The studio's page: sends what is chosen or typed, and shows what comes back. It decides nothing.
"use strict";
const get = (id) => document.getElementById(id);
const ROOT = document.body.dataset.root;
const words = get("words").dataset;
const NAMES = ["spec", "contract"].filter((name) => get(`${name}-text`));
const editor = (name) => get(`${name}-text`);
const saved = Object.fromEntries(NAMES.map((name) => [name, editor(name).value]));
let asked = 0, waiting = null, busy = false, queued = null;

async function send(path, body) {
  const answer = await fetch(path, {
    method: body === undefined ? "GET" : "POST",
    headers: body === undefined ? {} : { "Content-Type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const told = (answer.headers.get("content-type") || "").startsWith("application/json") ? await answer.json() : {};
  return { ok: answer.ok, status: answer.status, told };
}

// The pieces come from the studio's own templates, which escape every text.
function put(element, html) { if (element && element.innerHTML !== html) element.innerHTML = html; }
function trouble(html) { put(get("trouble"), html); if (html) get("trouble").scrollIntoView({ block: "nearest" }); }
function tell(text) { get("status") && (get("status").textContent = text); }
function say(text) { const p = document.createElement("p"); p.className = "warning"; p.textContent = text; return p.outerHTML; }

// ---- the two editors
function draft(name) {
  const area = editor(name);
  return area ? { name: area.dataset.name, text: area.value, digest: area.dataset.digest } : null;
}
function gutter(name) {
  const area = editor(name), marked = new Set((area.dataset.lines || "").split(",").filter(Boolean).map(Number));
  const lines = area.value.split("\n").map((_, i) => (marked.has(i + 1) ? `<b>${i + 1}</b>` : `${i + 1}`));
  put(get(`${name}-gutter`), lines.join("\n"));
  get(`${name}-gutter`).scrollTop = area.scrollTop;
  get(`${name}-state`).hidden = area.value === saved[name];
}
function write(name, text) {
  const area = editor(name);
  if (!area || text === null || area.value === text) return;
  const [start, end, top] = [area.selectionStart, area.selectionEnd, area.scrollTop];
  area.value = text;
  area.setSelectionRange(Math.min(start, text.length), Math.min(end, text.length));
  area.scrollTop = top;
}
function goTo(name, line) {
  const area = editor(name), lines = area.value.split("\n");
  const start = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
  area.focus();
  area.setSelectionRange(start, start + (lines[line - 1] || "").length);
  area.scrollTop = Math.max(0, (line - 4) * parseFloat(getComputedStyle(area).lineHeight));
}

// The tables whose part of the form is open: a closed one is not drawn.
function opened() {
  return [...document.querySelectorAll("details[data-table][open]")].map((each) => +each.dataset.table).slice(0, 200);
}

// ---- look: plan what the editors hold, with a choice made in them
async function look(choice = null, live = false) {
  if (!NAMES.length) return;
  if (busy) { if (choice || !queued) queued = [choice, live]; return; }
  busy = true;
  const sent = Object.fromEntries(NAMES.map((name) => [name, editor(name).value]));
  const rows = parseInt(get("rows").value, 10);
  const body = { spec: draft("spec"), contract: draft("contract"), choice, rows: rows >= 1 ? rows : null, open: opened() };
  try {
    const { ok, told } = await send(ROOT + "/studio/look", body);
    if (!ok) trouble(told.findings || say(words.away));
    else if (NAMES.some((name) => editor(name).value !== sent[name])) queued = queued || [choice, live];
    else show(told, live);
  } catch { trouble(say(words.away)); }
  busy = false;
  asked += 1;
  document.body.dataset.looked = asked;
  if (queued) { const next = queued; queued = null; look(...next); }
}
function show(told, live) {
  trouble(told.refused ? say(words.refused) : "");
  for (const name of NAMES) {
    write(name, told[name]);
    editor(name).dataset.lines = told.lines[name].join(",");
    put(get(`${name}-findings`), told.pieces[`${name}_findings`]);
    gutter(name);
  }
  put(get("account"), told.pieces.account);
  put(get("outlook"), told.pieces.outlook);
  terms(told.pieces.terms);
  live ? renew(told.pieces.form) : replace(told.pieces.form);
  tell(told.ready ? words.planned : words.wrong);
}
// What was typed for an account that is not open yet stays.
function terms(html) {
  const form = get("terms");
  if (form.dataset.html === html) return;
  form.dataset.html = html;
  const [at, typed] = [document.activeElement.id, [...form.querySelectorAll("input, select")].map((each) => [each.id, each.value])];
  put(form, html);
  typed.forEach(([id, value]) => get(id) && (get(id).value = value));
  if (at && form.contains(get(at))) get(at).focus();
}
// While a slider moves, only what it changes is shown anew; the slider stays where it is.
function renew(html) {
  const made = document.createElement("template");
  made.innerHTML = html;
  for (const each of made.content.querySelectorAll(".live[id]")) put(get(each.id), each.innerHTML);
}
function replace(html) {
  const form = get("form"), at = form.contains(document.activeElement) ? document.activeElement.id : "";
  const open = [...form.querySelectorAll("details[open]")].map((each) => each.id);
  const boxes = [...form.querySelectorAll("#new-table input:checked")].map((each) => each.value);
  put(form, html);
  open.forEach((id) => get(id) && (get(id).open = true));
  form.querySelectorAll("#new-table input").forEach((each) => (each.checked = boxes.includes(each.value)));
  form.querySelectorAll("[data-slides]").forEach(slide);
  if (at && get(at)) get(at).focus();
}

// ---- sliders: the position is the logarithm of the number beside it
function slide(slider) {
  const value = parseFloat(get(slider.dataset.slides).value);
  if (value > 0) slider.value = Math.log10(value);
  slider.setAttribute("aria-valuetext", get(slider.dataset.slides).value);
}
function slid(slider) {
  const number = get(slider.dataset.slides);
  number.value = String(Number((10 ** parseFloat(slider.value)).toPrecision(2)));
  slider.setAttribute("aria-valuetext", number.value);
  return number;
}
function choiceOf(element) {
  const { choice, at = "", of } = element.dataset;
  const group = of ? get(of) : null;
  let value = element.value;
  if (group && choice === "table.add") {
    const checked = [...group.querySelectorAll("input:checked")];
    value = checked.map((each) => each.value).join("\n");
    checked.forEach((each) => (each.checked = false));
  } else if (group && choice === "stat.add") value = [...group.querySelectorAll("select")].map((each) => each.value).join("\n");
  else if (group) value = [group.dataset.kind, ...[...group.querySelectorAll("input")].map((each) => each.value)].join("\n");
  return { name: choice, at, value };
}
function soon(action, ms) { clearTimeout(waiting); waiting = setTimeout(action, ms); }

document.addEventListener("input", (event) => {
  const { target } = event;
  if (target.dataset.slides) { const number = slid(target); soon(() => look(choiceOf(number), true), 60); }
  else if (NAMES.some((name) => target === editor(name))) { NAMES.forEach(gutter); soon(() => look(), 250); }
  else if (target.id === "rows") soon(() => look(), 250);
});
// A part of the form is drawn when it is opened.
document.addEventListener("toggle", (event) => {
  const { dataset, open } = event.target;
  if (!open) return;
  if (dataset.table && event.target.childElementCount < 2) look();
}, true);
document.addEventListener("change", (event) => {
  const { target } = event;
  if (target.dataset.slides) { const number = slid(target); look(choiceOf(number)); }
  else if (target.dataset.choice && target.tagName !== "BUTTON") look(choiceOf(target));
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.dataset.choice) look(choiceOf(button));
  if (button.dataset.line) goTo(button.closest(".editor").querySelector("textarea").id.replace("-text", ""), +button.dataset.line);
  if (button.dataset.take) settle(button.dataset.take, true);
  if (button.dataset.keep) settle(button.dataset.keep, false);
  if (button.id === "save") save();
  if (button.id === "run") run(button);
});

// ---- save, and the other tab
async function save() {
  const texts = NAMES.map(draft), { ok, status, told } = await send(ROOT + "/studio/save", texts);
  if (status === 409) { theirs(NAMES[told.place], told.theirs); return false; }
  if (!ok) { trouble(told.findings || say(words.away)); return false; }
  NAMES.forEach((name, place) => {
    saved[name] = texts[place].text;
    editor(name).dataset.digest = told[place];
    gutter(name);
  });
  trouble("");
  tell(words.saved);
  return true;
}
function theirs(name, found) {
  const box = get(`${name}-theirs`);
  box.hidden = false;
  box.querySelector("pre").textContent = found.text;
  box.dataset.digest = found.digest;
  box.scrollIntoView({ block: "nearest" });
}
function settle(name, take) {
  const box = get(`${name}-theirs`);
  box.hidden = true;
  editor(name).dataset.digest = box.dataset.digest;
  if (take) { saved[name] = box.querySelector("pre").textContent; write(name, saved[name]); gutter(name); look(); }
  else save();
}
addEventListener("beforeunload", (event) => { if (NAMES.some((name) => editor(name).value !== saved[name])) event.preventDefault(); });

// ---- run: it goes on by itself; the page looks how it stands
async function run(button) {
  if (!confirm(button.dataset.confirm) || !(await save())) return;
  button.disabled = true;
  const order = { spec: draft("spec").name, supersede: get("supersede").checked, accept_misfits: get("accept").checked };
  const { ok, told } = await send(ROOT + "/studio/run", order);
  if (ok) return watch(told);
  trouble(told.findings || say(words.away));
  button.disabled = false;
}
async function watch(told) {
  put(get("ran"), told.piece);
  get("run").disabled = told.running;
  if (told.running) setTimeout(again, 1000);
  else if (document.body.dataset.ran === "running") look();
  document.body.dataset.ran = told.running ? "running" : "ended";
}
async function again() {
  try { const { ok, told } = await send(ROOT + "/studio/run"); if (ok) return watch(told); } catch { /* the studio is away for now */ }
  setTimeout(again, 3000);
}

// ---- forms of the beginning: a command that is answered, then the next page
document.addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target, button = form.querySelector("button[type=submit]");
  if (!form.dataset.post) return;
  button.disabled = true;
  document.body.setAttribute("aria-busy", "true");
  const { ok, told } = await send(form.dataset.post, { ...Object.fromEntries(new FormData(form)), ...JSON.parse(button.dataset.also || "{}") });
  document.body.removeAttribute("aria-busy");
  button.disabled = false;
  if (!ok) return trouble(told.findings || say(words.away));
  trouble("");
  const { to } = form.dataset;
  if (to) location.href = to.endsWith("=") ? to + encodeURIComponent(told.spec) : to;
  else look(NAMES.length && told.name ? { name: "account", at: "", value: told.name } : null);
});

document.querySelectorAll("[data-slides]").forEach(slide);
for (const name of NAMES) {
  gutter(name);
  editor(name).addEventListener("scroll", () => (get(`${name}-gutter`).scrollTop = editor(name).scrollTop));
}
if (NAMES.length) again();
