// A receiver of webhooks, which the guide shows: node receiver.mjs, with the secret in WEBHOOK_SECRET.
import { createServer } from "node:http";
import { Webhook } from "standardwebhooks";

const webhook = new Webhook(process.env.WEBHOOK_SECRET);
const seen = new Set(); // in an app: a unique column, in the transaction of the work

const server = createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks).toString("utf8");
  try {
    const event = webhook.verify(body, request.headers);
    const id = request.headers["webhook-id"];
    if (!seen.has(id)) console.log(event.type, event.data.title);
    seen.add(id);
    response.writeHead(204).end();
  } catch {
    response.writeHead(400).end();
  }
});
server.listen(Number(process.env.PORT ?? 8080), "127.0.0.1", () => {
  console.log("listening on", server.address().port);
});
