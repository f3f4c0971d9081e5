// Sorts a table of points by the heading that is pressed, numbers by size; pressed again, the other way.
for (const table of document.querySelectorAll('table.points')) {
  table.tHead.addEventListener('click', (event) => {
    const heading = event.target.closest('button')?.parentElement; if (!heading) return;
    const down = heading.getAttribute('aria-sort') === 'ascending';
    for (const other of table.tHead.rows[0].cells) other.removeAttribute('aria-sort');
    heading.setAttribute('aria-sort', down ? 'descending' : 'ascending');
    const key = (row) => {
      const text = row.cells[heading.cellIndex].textContent.replaceAll(',', ''), number = parseFloat(text);
      return text === '' ? [2, ''] : isNaN(number) ? [1, text] : [0, number];
    };
    const rows = [...table.tBodies[0].rows].map((row) => [key(row), row]);
    rows.sort(([a], [b]) => a[0] - b[0] || (a[1] < b[1] ? -1 : a[1] > b[1] ? 1 : 0));
    if (down) rows.reverse();
    for (const [, row] of rows) table.tBodies[0].append(row);
  });
}
