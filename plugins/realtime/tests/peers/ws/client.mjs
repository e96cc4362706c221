// A WebSocket client. Arguments: the URL and a token.
// It sends each line of its input as a frame, and writes one line of JSON for each frame that it
// gets, and for the end of the connection.
import { createInterface } from "node:readline";
import WebSocket from "ws";

const [url, token] = process.argv.slice(2);
const say = (line) => console.log(JSON.stringify(line));

const socket = new WebSocket(url, "linchpin.v1", {
  headers: { authorization: `Bearer ${token}` },
});
socket.on("open", () => {
  say({ protocol: socket.protocol, extensions: socket.extensions });
  createInterface({ input: process.stdin }).on("line", (line) => socket.send(line));
});
socket.on("message", (data) => say({ frame: JSON.parse(data) }));
socket.on("close", (code, reason) => {
  say({ closed: code, reason: reason.toString() });
  process.exit(0);
});
socket.on("unexpected-response", (_, response) => {
  say({ status: response.statusCode });
  process.exit(0);
});
