// A client with the EventSource API of browsers. Arguments: the URL, a token, and event names.
// It writes one line of JSON for each of its events, and one for each request that it sends.
import { EventSource } from "eventsource";

const [url, token, ...names] = process.argv.slice(2);
const say = (line) => console.log(JSON.stringify(line));

const source = new EventSource(url, {
  fetch: async (address, init) => {
    const headers = { ...init.headers, authorization: `Bearer ${token}` };
    const answer = await fetch(address, { ...init, headers });
    say({ request: headers["Last-Event-ID"] ?? null, status: answer.status });
    return answer;
  },
});
source.onopen = () => say({ open: true });
source.onerror = () => say({ closed: source.readyState === EventSource.CLOSED });
source.onmessage = (event) => say({ event: "message", data: event.data });
for (const name of [...names, "linchpin:reset", "linchpin:close", "linchpin:hidden"]) {
  source.addEventListener(name, (event) =>
    say({ event: name, data: JSON.parse(event.data), id: event.lastEventId }),
  );
}
