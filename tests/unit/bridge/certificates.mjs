// Connects with each pin. Usage: node FILE CLIENT URL PIN...; an empty pin is none.
const [client, url, ...pins] = process.argv.slice(2);
const { Bridge } = await import(client);
const told = [];
for (const pin of pins) {
  try {
    const bridge = await Bridge.open(url, "t0ken", { pin });
    const blob = bridge.session && (await bridge.blob("b".repeat(64)).then((bytes) => new TextDecoder().decode(bytes)));
    told.push({ session: bridge.session, blob });
    await bridge.close();
  } catch (error) {
    told.push(error.document ?? String(error.stack));
  }
}
console.log(JSON.stringify(told));
process.exit(0);
