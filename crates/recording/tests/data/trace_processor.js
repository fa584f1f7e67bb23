// node trace_processor.js WEB_DIST REQUESTS REPLIES: gives requests to Perfetto's own trace processor,
// in the form in which its user interface runs it (a worker of WEB_DIST), and keeps what it replies.
const fs = require('fs');
const path = require('path');
const vm = require('vm');

const [dist, requests, replies] = process.argv.slice(2);
const { exit } = process;
globalThis.self = globalThis;
globalThis.WorkerGlobalScope = function () {};
globalThis.importScripts = () => {};
globalThis.location = { href: 'file:///engine_bundle.js' };
globalThis.XMLHttpRequest = class {
  open(_, url) { this.file = path.join(dist, path.basename(url)); }
  send() { this.response = fs.readFileSync(this.file); }
};
// It asks by this whether it runs in a browser.
delete globalThis.process;
vm.runInThisContext(fs.readFileSync(path.join(dist, 'engine_bundle.js'), 'utf8'));
const replied = [];
const port = { postMessage: (bytes) => replied.push(Buffer.from(bytes)) };
globalThis.onmessage({ data: port });
// Once it has begun, which takes no time but turns.
setTimeout(() => {
  port.onmessage({ data: new Uint8Array(fs.readFileSync(requests)) });
  fs.writeFileSync(replies, Buffer.concat(replied));
  exit(0);
}, 0);
