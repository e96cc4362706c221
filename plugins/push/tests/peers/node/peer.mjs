// Reads requests to a push service from the standard input, decrypts them with npm `http_ece`, and
// writes the list of texts; or writes keys that npm `web-push` generates.
import { createECDH } from "node:crypto";
import { readFileSync } from "node:fs";
import ece from "http_ece";
import webPush from "web-push";

const bytes = (text) => Buffer.from(text, "base64url");

function decrypt({ privateKey, auth, body }) {
  const browser = createECDH("prime256v1");
  browser.setPrivateKey(bytes(privateKey));
  const options = { version: "aes128gcm", privateKey: browser, authSecret: auth };
  return ece.decrypt(bytes(body), options).toString("utf8");
}

const task = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(task === "keys" ? webPush.generateVAPIDKeys() : task.map(decrypt)));
