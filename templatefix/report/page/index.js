"use strict";
// Without this script the page is a plain table.
(() => {
  const table = document.getElementById("rows");
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const words = document.getElementById("words");
  const verdict = document.getElementById("verdict");
  const count = document.getElementById("count");

  const key = (row, column) => row.cells[column].dataset.sort ?? row.cells[column].textContent.trim();
  const numbers = (a, b) => Number(a) - Number(b);
  const texts = (a, b) => a.localeCompare(b, "en");

  const sort = (header, column) => {
    const descending = header.getAttribute("aria-sort") === "ascending";
    const compare = "number" in header.dataset ? numbers : texts;
    const sign = descending ? -1 : 1;
    rows.sort((a, b) => sign * compare(key(a, column), key(b, column)));
    body.append(...rows);
    for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", descending ? "descending" : "ascending");
  };

  const filter = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      const said = row.querySelector(".badge").lastChild.textContent.trim();
      const fits = wanted.every((word) => text.includes(word));
      row.hidden = !(fits && (!verdict.value || said === verdict.value));
      shown += row.hidden ? 0 : 1;
    }
    count.textContent = `${shown} of ${rows.length}`;
  };

  Array.from(table.tHead.rows[0].cells).forEach((header, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = header.textContent;
    button.addEventListener("click", () => sort(header, column));
    header.replaceChildren(button);
  });
  words.addEventListener("input", filter);
  verdict.addEventListener("change", filter);
  const form = document.getElementById("filter");
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  filter();
})();
