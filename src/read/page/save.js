'use strict';
// Downloads. The page reads without them.
const data = JSON.parse(document.getElementById('data').textContent);
function save(name, type, text) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], {type})); link.download = name; link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
const on = (id, act) => document.getElementById(id)?.addEventListener('click', act);
on('json', () => save('report.json', 'application/json', JSON.stringify(data.report, null, 2)));
// In a frame, the page around it is told how tall this one is.
if (parent !== window) new ResizeObserver(() => parent.postMessage({height: document.body.offsetHeight}, '*')).observe(document.body);
