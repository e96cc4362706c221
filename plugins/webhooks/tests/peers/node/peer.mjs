// Signs and verifies with npm `standardwebhooks` or `svix`: reads a list of tasks from the standard
// input, and writes the list of results.
import { readFileSync } from "node:fs";
import * as standardwebhooks from "standardwebhooks";
import * as svix from "svix";

const libraries = { standardwebhooks, svix };

function run({ library, secret, sign, headers, body }) {
  const webhook = new libraries[library].Webhook(secret);
  if (sign) return webhook.sign(sign.id, new Date(sign.timestamp * 1000), body);
  try {
    webhook.verify(body, headers);
    return "valid";
  } catch (error) {
    return error.message;
  }
}

console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(run)));
