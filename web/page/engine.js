// Questions to a worker, one after the other. A play that takes too long is stopped with its worker; the next has another.

/** Why there is no answer: in the words of the program, with the field that it is about. */
export class Fault extends Error {
  constructor(fault) { super(fault.message); Object.assign(this, fault); }
}
/** Nobody waits for the answer any more. */
export class Stopped extends Error {}

export class Engine {
  #module; #start; #worker; #waiting = null; #last = Promise.resolve(); #stops = 0;

  /** `module` promises the compiled library, `start` makes a worker. */
  constructor(module, start) { this.#module = module; this.#start = start; }

  /** Whether a question is being answered, and since when. */
  get busySince() { return this.#waiting?.since ?? null; }

  /** The answer as bytes; `progress` is told how many ops or layouts are done. */
  bytes(question, progress = () => {}) {
    const stops = this.#stops;
    const answer = this.#last.then(() => {
      if (stops !== this.#stops) throw new Stopped();
      return this.#ask(question, progress);
    });
    this.#last = answer.catch(() => {});
    return answer;
  }
  async text(question, progress) { return new TextDecoder().decode(await this.bytes(question, progress)); }
  async json(question, progress) { return JSON.parse(await this.text(question, progress)); }

  /** Ends what is being played, and forgets what was to be played behind it. */
  stop() {
    this.#stops += 1;
    if (!this.#waiting) return;
    this.#worker.terminate();
    this.#worker = null;
    this.#waiting.reject(new Stopped());
    this.#waiting = null;
  }

  async #ask(question, progress) {
    const module = await this.#module;
    return new Promise((resolve, reject) => {
      this.#waiting = {reject, since: performance.now()};
      this.#worker ??= this.#started(module);
      this.#worker.onmessage = ({data}) => {
        if (data.ready) return;
        if (data.count !== undefined) return progress(data.count);
        this.#waiting = null;
        if (data.broken) { this.#worker.terminate(); this.#worker = null; }
        data.good ? resolve(data.bytes) : reject(new Fault(JSON.parse(new TextDecoder().decode(data.bytes))));
      };
      this.#worker.postMessage({question});
    });
  }
  #started(module) {
    const worker = this.#start();
    worker.postMessage({module});
    return worker;
  }
}
