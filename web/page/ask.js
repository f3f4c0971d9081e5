// The library behind one function: a question as an object, an answer as bytes.

/** A trap without words at so many bytes is memory that could not grow: it ends at 4 GiB. */
const FULL = 2 ** 30;

/** Instantiates the library; `done` is told how many ops, or layouts, are done. Returns `ask(question)`. */
export async function library(module, done) {
  const {exports: {memory, room, ask, said, said_bytes}} = await WebAssembly.instantiate(module, {page: {done}});
  const answer = () => new Uint8Array(memory.buffer, said(), said_bytes()).slice();
  return (question) => {
    const bytes = new TextEncoder().encode(JSON.stringify(question));
    // The memory may grow while room is made.
    const at = room(bytes.length);
    new Uint8Array(memory.buffer, at, bytes.length).set(bytes);
    try {
      return {good: Boolean(ask()), bytes: answer()};
    } catch (trap) {
      const words = new TextDecoder().decode(answer());
      const message = !words && memory.buffer.byteLength > FULL ? `takes more than the 4 GiB of memory that a page may have\n  what to do: play it with the program: ${question.command?.join(' ')}`
        : `a defect of stepsim: ${words || trap.message}\n  what to do: please report it, with the link of this page`;
      return {good: false, broken: true, bytes: new TextEncoder().encode(JSON.stringify({message}))};
    }
  };
}
