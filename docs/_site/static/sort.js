// A click on a column's head sorts its table: numbers by their size, the rest by the alphabet.
"use strict";

const number = (text) => {
  const found = text.replace(/[−–]/g, "-").replace(/(\d),(?=\d{3})/g, "$1").match(/-?\d+(\.\d+)?/);
  return found ? Number(found[0]) : NaN;
};

const sort = (table, column, ascending) => {
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => ({ row, text: row.cells[column]?.textContent.trim() ?? "" }));
  const numeric = rows.filter(({ text }) => !Number.isNaN(number(text))).length > rows.length / 2;
  const key = numeric ? ({ text }) => number(text) : ({ text }) => text;
  const empty = (value) => value === "" || Number.isNaN(value);
  rows.sort((one, other) => {
    const [a, b] = [key(one), key(other)];
    if (empty(a) || empty(b)) return empty(a) - empty(b); // gaps last, whichever way
    const order = numeric ? a - b : a.localeCompare(b);
    return ascending ? order : -order;
  });
  rows.forEach(({ row }) => body.append(row));
};

for (const table of document.querySelectorAll("article table.docutils")) {
  const heads = table.tHead?.rows[0]?.cells;
  if (!heads || (table.tBodies[0]?.rows.length ?? 0) < 4) continue;
  [...heads].forEach((head, column) => {
    if (!head.textContent.trim()) return;
    const button = document.createElement("button");
    button.className = "sorter";
    button.title = "sort by this column";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const ascending = head.getAttribute("aria-sort") !== "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      sort(table, column, ascending);
    });
  });
}
