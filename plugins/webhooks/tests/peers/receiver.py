"""A receiver of webhooks, which the guide shows: python3 receiver.py, with the secret in
WEBHOOK_SECRET."""

import os
from http.server import BaseHTTPRequestHandler, HTTPServer

from standardwebhooks import Webhook

webhook = Webhook(os.environ["WEBHOOK_SECRET"])
seen = set()  # in an app: a unique column, in the transaction of the work


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            event = webhook.verify(body, headers)
        except Exception:
            self.send_error(400)
            return
        if headers["webhook-id"] not in seen:
            print(event["type"], event["data"]["title"], flush=True)
        seen.add(headers["webhook-id"])
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8080"))), Receiver)
print("listening on", server.server_port, flush=True)
server.serve_forever()
