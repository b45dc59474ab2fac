"use strict";

// Tables: every heading sorts, a field searches. Without this script they stay plain tables.
function numberOf(text) {
  const found = text.replace(/−/g, "-").replace(/,(?=\d{3})/g, "").match(/^<?\s*([+-]?\d+(\.\d+)?)/);
  return found ? parseFloat(found[1]) : NaN;
}

function compareCells(a, b, numeric) {
  if (!numeric) return a.localeCompare(b, "en", { numeric: true });
  const x = numberOf(a), y = numberOf(b);
  if (isNaN(x) || isNaN(y)) return isNaN(x) - isNaN(y);
  return x - y;
}

function sortBy(table, column, heading) {
  const descending = heading.getAttribute("aria-sort") === "ascending";
  const numeric = heading.classList.contains("number");
  const body = table.tBodies[0];
  const rows = Array.from(body.rows).map((row) => [row.cells[column].textContent.trim(), row]);
  rows.sort((a, b) => {
    const undefinedLast = numeric && isNaN(numberOf(a[0])) !== isNaN(numberOf(b[0]));
    const order = compareCells(a[0], b[0], numeric);
    return descending && !undefinedLast ? -order : order;
  });
  for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
  heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
  body.append(...rows.map((pair) => pair[1]));
}

function search(table, words, count) {
  const wanted = words.trim().toLowerCase();
  let shown = 0;
  for (const row of table.tBodies[0].rows) {
    const cells = Array.from(row.cells, (cell) => cell.textContent).join(" ").toLowerCase();
    row.hidden = !cells.includes(wanted);
    shown += row.hidden ? 0 : 1;
  }
  count.textContent = `${shown} of ${table.tBodies[0].rows.length} rows`;
}

for (const holder of document.querySelectorAll(".table")) {
  const table = holder.querySelector("table");
  if (!table) continue;
  Array.from(table.tHead.rows[0].cells).forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = heading.textContent;
    button.addEventListener("click", () => sortBy(table, column, heading));
    heading.replaceChildren(button);
    heading.setAttribute("aria-sort", "none");
  });
  const field = holder.querySelector("input[type=search]");
  if (field) {
    field.closest(".tools").hidden = false;
    const count = holder.querySelector("[role=status]");
    field.addEventListener("input", () => search(table, field.value, count));
  }
}

// Figures: numbers of the point under the pointer, or of the one touched.
const tip = document.getElementById("tip");

function place(event) {
  const width = document.documentElement.clientWidth, box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 12, width - box.width - 4)) + "px";
  tip.style.top = Math.max(4, event.clientY - box.height - 10) + "px";
}

function showTip(event) {
  const point = event.target.closest && event.target.closest("[data-tip]");
  tip.hidden = !point;
  if (!point) return;
  tip.textContent = point.getAttribute("data-tip");
  place(event);
}

document.addEventListener("pointerover", showTip);
document.addEventListener("pointerdown", showTip);

// A link into a folded section unfolds it.
function unfold() {
  const target = document.getElementById(location.hash.slice(1));
  for (let fold = target; fold; fold = fold.parentElement) if (fold.tagName === "DETAILS") fold.open = true;
  if (target) target.scrollIntoView();
}

addEventListener("hashchange", unfold);
unfold();

// Paper shows what the screen folds away.
window.addEventListener("beforeprint", () => {
  for (const fold of document.querySelectorAll("details")) fold.open = true;
});
