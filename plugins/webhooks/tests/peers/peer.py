"""Signs and verifies with PyPI `standardwebhooks` or `svix`: reads a list of tasks from the standard
input, and writes the list of results."""

import json
import sys
from datetime import datetime, timezone

import standardwebhooks
import svix.webhooks

LIBRARIES = {
    "standardwebhooks": standardwebhooks.Webhook,
    "svix": svix.webhooks.Webhook,
}


def run(task):
    webhook = LIBRARIES[task["library"]](task["secret"])
    sign = task.get("sign")
    if sign:
        at = datetime.fromtimestamp(sign["timestamp"], timezone.utc)
        return webhook.sign(sign["id"], at, task["body"])
    try:
        webhook.verify(task["body"], task["headers"])
        return "valid"
    except svix.webhooks.WebhookVerificationError as error:
        return str(error)


print(json.dumps([run(task) for task in json.load(sys.stdin)]))
