// What tests of the site share: the library out of the built page, and a browser driven by its own protocol.
import {spawn} from 'node:child_process';
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {contents} from '../page/code.js';

/** The compiled library of a built page: the same bytes that a browser runs. */
export function libraryOf(page) {
  const [, sizes, text] = readFileSync(page, 'utf8').match(/<script id="library"[^>]* data-sizes="([^"]*)">([^<]*)</);
  return contents(Buffer.from(text, 'base64'), sizes.split(' ').map(Number)).then(({module}) => module);
}

/** Chromium without a window; messages go over a pipe, each ended by a zero byte. */
export class Browser {
  #child; #folder; #id = 0; #answers = new Map(); #tabs = new Map();

  static async open(path) {
    const browser = new Browser();
    browser.#folder = mkdtempSync(join(tmpdir(), 'stepsim-web-'));
    const options = ['--headless', '--no-sandbox', '--disable-gpu', '--remote-debugging-pipe', `--user-data-dir=${browser.#folder}`];
    browser.#child = spawn(path, options, {stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe']});
    let rest = '';
    browser.#child.stdio[4].setEncoding('utf8').on('data', (text) => {
      const messages = (rest + text).split('\0');
      rest = messages.pop();
      messages.forEach((message) => browser.#hear(JSON.parse(message)));
    });
    return browser;
  }
  #hear({id, result, error, method, params, sessionId}) {
    if (id === undefined) return this.#tabs.get(sessionId)?.heard(method, params);
    const {resolve, reject} = this.#answers.get(id);
    this.#answers.delete(id);
    error ? reject(new Error(error.message)) : resolve(result);
  }
  send(method, params = {}, sessionId) {
    const id = ++this.#id;
    this.#child.stdio[3].write(`${JSON.stringify({id, method, params, sessionId})}\0`);
    return new Promise((resolve, reject) => this.#answers.set(id, {resolve, reject}));
  }
  async tab(url, {width = 1300, height = 900, dark = false} = {}) {
    const {targetId} = await this.send('Target.createTarget', {url: 'about:blank'});
    const {sessionId} = await this.send('Target.attachToTarget', {targetId, flatten: true});
    const tab = new Tab((method, params) => this.send(method, params, sessionId));
    this.#tabs.set(sessionId, tab);
    for (const domain of ['Page', 'Runtime', 'Log']) await tab.send(`${domain}.enable`);
    await tab.send('Emulation.setDeviceMetricsOverride', {width, height, deviceScaleFactor: 1, mobile: width < 500});
    await tab.send('Emulation.setEmulatedMedia', {features: [{name: 'prefers-color-scheme', value: dark ? 'dark' : 'light'}]});
    await tab.send('Page.navigate', {url});
    return tab;
  }
  async titles() { return (await this.send('Target.getTargets')).targetInfos.map(({title}) => title); }
  close() {
    const ended = new Promise((resolve) => this.#child.on('exit', resolve));
    this.#child.kill();
    return ended.then(() => rmSync(this.#folder, {recursive: true, force: true, maxRetries: 5}));
  }
}

/** A page in the browser; `errors` are what it wrote to the console and did not catch. */
class Tab {
  errors = [];
  constructor(send) { this.send = send; }
  heard(method, params) {
    if (method === 'Runtime.exceptionThrown') this.errors.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    if (method === 'Log.entryAdded' && params.entry.level === 'error') this.errors.push(params.entry.text);
    if (method === 'Runtime.consoleAPICalled' && params.type === 'error') this.errors.push(JSON.stringify(params.args.map((arg) => arg.value)));
  }
  /** The value of an expression, as if a person had pressed something. */
  async value(expression) {
    const {result, exceptionDetails} = await this.send('Runtime.evaluate', {expression, awaitPromise: true, returnByValue: true, userGesture: true});
    if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
    return result.value;
  }
  /** The value once it is true of something. */
  async until(expression, seconds = 30) {
    for (const end = Date.now() + 1000 * seconds; Date.now() < end; await new Promise((go) => setTimeout(go, 30))) {
      const value = await this.value(expression);
      if (value) return value;
    }
    throw new Error(`not within ${seconds} s: ${expression}; the page says: ${await this.value('document.getElementById("fault").textContent + document.getElementById("wrong").textContent')}`);
  }
  press(selector) { return this.value(`document.querySelector(${JSON.stringify(selector)}).click()`); }
  text(selector) { return this.value(`document.querySelector(${JSON.stringify(selector)}).textContent`); }
  async type(selector, text) {
    await this.value(`(() => { const at = document.querySelector(${JSON.stringify(selector)}); at.focus(); at.select?.(); })()`);
    await this.send('Input.insertText', {text});
  }
  async key(key, modifiers = 0) {
    for (const type of ['keyDown', 'keyUp']) await this.send('Input.dispatchKeyEvent', {type, key, code: key, windowsVirtualKeyCode: KEYS[key], modifiers});
  }
  async picture(file, whole = true) {
    // Frames are drawn only where the window is.
    const [width, height] = await this.value('[innerWidth, Math.min(document.documentElement.scrollHeight, 9000)]');
    if (whole) await this.send('Emulation.setDeviceMetricsOverride', {width, height, deviceScaleFactor: 1, mobile: width < 500});
    await new Promise((go) => setTimeout(go, 500));
    const {data} = await this.send('Page.captureScreenshot', {format: 'png'});
    writeFileSync(file, Buffer.from(data, 'base64'));
  }
}
const KEYS = {Tab: 9, Enter: 13, ArrowLeft: 37, ArrowRight: 39, Home: 36, End: 35};
