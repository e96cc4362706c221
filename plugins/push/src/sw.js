// The service worker of linchpin-push: it shows messages, opens their pages, and subscribes again
// when the browser changes its subscription.
"use strict";

const TITLE = "New notification";

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

/** The message of a push event. Text that is not JSON becomes the body of a message. */
function messageOf(data) {
  const text = data ? data.text() : "";
  try {
    const message = JSON.parse(text);
    if (message && typeof message === "object" && !Array.isArray(message)) {
      return message;
    }
  } catch {
    // The text is not JSON.
  }
  return { body: text };
}

/** A URL of this origin. Any other URL is replaced by `/`. */
function pathOf(url) {
  try {
    const target = new URL(url, self.location.origin);
    if (target.origin === self.location.origin) {
      return target.href;
    }
  } catch {
    // The text is not a URL.
  }
  return new URL("/", self.location.origin).href;
}

function send(method, path, body) {
  return fetch(path, {
    method,
    credentials: "include",
    headers: { "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
}

async function show(data) {
  const message = messageOf(data);
  const details = message.data && typeof message.data === "object" ? message.data : {};
  const text = (value) => (typeof value === "string" && value ? value : undefined);
  const tag = text(message.tag);
  await self.registration.showNotification(text(message.title) ?? TITLE, {
    body: text(message.body) ?? "",
    icon: text(message.icon),
    badge: text(message.badge),
    tag,
    renotify: tag !== undefined,
    data: { ...details, url: text(details.url) ?? text(message.url) ?? "/" },
  });
  if (text(details.deliveryId)) {
    // The message is already shown. A failed acknowledgement is ignored.
    await send("POST", `/__push/ack/${encodeURIComponent(details.deliveryId)}`).catch(() => {});
  }
}

async function open(data) {
  const url = pathOf((data && data.url) || "/");
  const windows = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
  const same = windows.find((client) => client.url === url);
  if (same) {
    return same.focus();
  }
  return self.clients.openWindow(url);
}

function bytesOf(base64url) {
  const base64 = base64url.replace(/-/g, "+").replace(/_/g, "/");
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

async function renew(old, fresh) {
  const response = await fetch("/__push/vapid-public-key", { credentials: "include" });
  const { publicKey } = await response.json();
  const subscription =
    fresh ??
    (await self.registration.pushManager.subscribe({
      userVisibleOnly: true,
      applicationServerKey: bytesOf(publicKey),
    }));
  await send("POST", "/__push/subscribe", { ...subscription.toJSON(), vapidPublicKey: publicKey });
  if (old && old.endpoint !== subscription.endpoint) {
    await send("DELETE", "/__push/subscribe", { endpoint: old.endpoint });
  }
}

self.addEventListener("push", (event) => event.waitUntil(show(event.data)));

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(open(event.notification.data));
});

self.addEventListener("pushsubscriptionchange", (event) => {
  event.waitUntil(renew(event.oldSubscription, event.newSubscription));
});
