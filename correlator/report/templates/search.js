"use strict";
// Rows of entries.js: id, title, class, emitter, role, words (phrases parted by " | ").
const SHOWN = 40;
const MOST_WORDS = 200; // of a pasted text
const field = (id) => document.getElementById(id);
const wordsOf = (text) => text.toLowerCase().match(/[a-z0-9]+/g) || [];

const holders = new Map(); // word -> number of entries that have it
const entries = ENTRIES.map(([id, title, class_, emitter, role, phrases]) => {
  const words = new Set(wordsOf(phrases));
  for (const word of words) holders.set(word, (holders.get(word) || 0) + 1);
  return { id, title, class_, emitter, role, phrases, words, headline: new Set(wordsOf(`${title} ${id}`)) };
});
const rarity = (word) => Math.log(1 + entries.length / (holders.get(word) || entries.length));

function score(entry, words, phrase) {
  // The last word may still be being typed: it counts by its beginning.
  let sum = 0;
  words.forEach((word, at) => {
    const begun = at === words.length - 1 && word.length > 1;
    const has = (set) => set.has(word) || (begun && [...set].some((other) => other.startsWith(word)));
    if (has(entry.words)) sum += rarity(word) * (has(entry.headline) ? 1.5 : 1);
  });
  return sum * (words.length > 1 && entry.phrases.includes(phrase) ? 2 : 1);
}

function show() {
  const words = [...new Set(wordsOf(field("words").value))].slice(0, MOST_WORDS);
  const phrase = wordsOf(field("words").value).join(" ");
  const class_ = field("class").value;
  const emitter = field("emitter").value;
  const asked = words.length || class_ || emitter;
  const fitting = entries.filter((e) => (!class_ || e.class_ === class_) && (!emitter || e.emitter === emitter));
  const scored = fitting.map((entry) => [words.length ? score(entry, words, phrase) : 1, entry]);
  const best = Math.max(0, ...scored.map(([points]) => points));
  const found = scored.filter(([points]) => points > 0 && points >= best / 4).sort((a, b) => b[0] - a[0]);
  field("results").replaceChildren(...(asked ? found.slice(0, SHOWN).map(([, entry]) => item(entry)) : []));
  field("count").textContent = !asked ? "" : found.length > SHOWN ? `${found.length} entries, the best ${SHOWN}:`
    : `${found.length} ${found.length === 1 ? "entry" : "entries"}`;
  field("browse").hidden = Boolean(asked);
}

function item(entry) {
  const link = document.createElement("a");
  link.href = `entries/${entry.id}.html`;
  link.textContent = entry.title;
  const badge = document.createElement("span");
  badge.className = `badge dim ${entry.class_}`;
  badge.textContent = `${entry.class_}, ${entry.role}`;
  const line = document.createElement("li");
  line.append(link, " ", badge);
  return line;
}

field("search").addEventListener("submit", (event) => event.preventDefault());
field("search").addEventListener("input", show);

// index.html#some%20words is a link to a search.
function fromAddress() {
  try {
    field("words").value = decodeURIComponent(location.hash.slice(1));
  } catch {
    field("words").value = "";
  }
  show();
}
window.addEventListener("hashchange", fromAddress);
if (location.hash) fromAddress();
else show(); // for what was typed before this script was there
