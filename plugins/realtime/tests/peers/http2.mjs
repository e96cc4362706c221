// An HTTP/2 client without TLS. Argument: the origin.
//
// It sends each line of its input as a request, {id, headers, body}, and writes one line of JSON for
// the headers of an answer, for each piece of its body, and for its end. A `null` body keeps the
// request open.
import { once } from "node:events";
import { connect } from "node:http2";
import { createInterface } from "node:readline";

const say = (line) => console.log(JSON.stringify(line));

const session = connect(process.argv[2]);
session.on("error", (error) => say({ error: error.message }));
// The settings of the server contain whether it accepts WebSockets over HTTP/2.
await once(session, "remoteSettings");
for await (const line of createInterface({ input: process.stdin })) {
  const { id, headers, body } = JSON.parse(line);
  const stream = session.request(headers, { endStream: false });
  if (body !== null) {
    stream.end(body);
  }
  stream.setEncoding("latin1");
  stream.on("response", (headers) => say({ id, headers }));
  stream.on("data", (data) => say({ id, data }));
  stream.on("end", () => say({ id, end: true }));
  stream.on("error", (error) => say({ id, error: error.message }));
}
