// Playwright's driver for many clients, one after the other or at once: each connection is what `run-driver` has in
// its standard input and output, and when it ends, so do the browsers that were started over it.
const net = require('net');
const path = require('path');

const [package_, address] = process.argv.slice(2);
require(path.join(package_, 'lib', 'bootstrap'));
const { server } = require(path.join(package_, 'lib', 'coreBundle'));
const { DispatcherConnection, RootDispatcher, PlaywrightDispatcher, createPlaywright, nullProgress } = server;

function serve(socket) {
  const connection = new DispatcherConnection();
  let replacer;
  let playwright;
  const root = new RootDispatcher(connection, async (scope, { sdkLanguage, supportsLoneSurrogates }) => {
    if (!supportsLoneSurrogates)
      replacer = (key, value) => (typeof value === 'string' ? value.toWellFormed() : value);
    playwright = createPlaywright({ sdkLanguage, isClientCollocatedWithServer: true });
    return new PlaywrightDispatcher(scope, playwright);
  });
  let rest = Buffer.alloc(0);
  socket.on('data', data => {
    rest = rest.length ? Buffer.concat([rest, data]) : data;
    while (rest.length >= 4 && rest.length >= 4 + rest.readUInt32LE(0)) {
      const end = 4 + rest.readUInt32LE(0);
      const message = JSON.parse(rest.toString('utf8', 4, end));
      rest = rest.subarray(end);
      setImmediate(() => connection.dispatch(message));
    }
  });
  connection.onmessage = message => {
    const text = Buffer.from(JSON.stringify(message, replacer));
    const head = Buffer.alloc(4);
    head.writeUInt32LE(text.length);
    socket.write(Buffer.concat([head, text]));
  };
  socket.on('error', () => {});
  socket.on('close', async () => {
    connection.onmessage = () => {};
    await root.stopPendingOperations(new Error('Disconnected')).catch(() => {});
    root._dispose();
    for (const browser of playwright ? playwright.allBrowsers() : [])
      browser.close(nullProgress, { reason: 'the client has left' }).catch(() => {});
  });
}

// What fails for one client must not end the browsers of the others.
process.on('uncaughtException', error => console.error('the shared driver:', error));

net.createServer(serve).listen(address, () => console.log('listening'));
process.stdin.on('close', () => process.exit(0)).resume();
