// A timeline in Perfetto: its page is opened beside this one and handed the bytes, as its documentation asks
// (https://perfetto.dev/docs/visualization/deep-linking-to-perfetto-ui). They go from window to window, nowhere else.

/** Opens the viewer at once, for a browser opens windows on a press alone; `bytes` may come later. */
export async function openIn(address, title, bytes) {
  const viewer = open(address);
  if (!viewer) throw new Error('the browser did not open a window: allow it for this page, or download the timeline');
  const origin = new URL(address).origin;
  const [buffer] = await Promise.all([bytes, answers(viewer, origin)]);
  viewer.postMessage({perfetto: {buffer: buffer.buffer, title, fileName: `${title}.pftrace`}}, origin, [buffer.buffer]);
}

/** Until the viewer answers: it loads for seconds, and hears nothing before. */
function answers(viewer, origin) {
  return new Promise((resolve, reject) => {
    const ping = setInterval(() => {
      if (viewer.closed) { end(); reject(new Error('the viewer was closed')); } else viewer.postMessage('PING', origin);
    }, 50);
    const hear = (event) => { if (event.source === viewer && event.origin === origin && event.data === 'PONG') { end(); resolve(); } };
    const end = () => { clearInterval(ping); removeEventListener('message', hear); };
    addEventListener('message', hear);
  });
}
