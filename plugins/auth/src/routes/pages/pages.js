// Only passkeys and reading a token from the address need a script. All else works without it.
"use strict";

const say = (text) => {
  const place = document.getElementById("said");
  place.className = "notice bad";
  place.textContent = text;
};

const csrf = () => {
  const pair = document.cookie.split("; ").find((one) => one.startsWith("csrf_token="));
  return pair ? pair.slice("csrf_token=".length) : "";
};

const send = (path, body) => {
  const headers = { "x-csrf-token": csrf() };
  if (body) headers["content-type"] = "application/json";
  return fetch(path, { method: "POST", headers, body: body && JSON.stringify(body), credentials: "same-origin" });
};

// If the session has expired and can be renewed, the request is sent once more.
const ask = async (path, body, api) => {
  let answer = await send(path, body);
  let said = await answer.json();
  if (answer.status === 401 && said.code === "unauthorized" && (await send(`${api}/refresh`, {})).ok) {
    answer = await send(path, body);
    said = await answer.json();
  }
  if (answer.ok) return said;
  const error = new Error(said.error);
  error.code = said.code;
  throw error;
};

// The token of a mailed link is in the fragment, after #. It is sent only with the form.
const token = new URLSearchParams(location.hash.slice(1)).get("token");
if (token) {
  const field = document.querySelector("[data-token]");
  if (field) {
    field.value = token;
    history.replaceState(null, "", location.pathname + location.search);
    const rest = field.closest("form").querySelector("input[type=password]");
    if (rest) rest.focus();
  }
}

const fill = (form, values) => {
  for (const [name, value] of Object.entries(values)) form.elements.namedItem(name).value = value;
  form.submit();
};

const steps = {
  async "sign-in"(form, api) {
    const { options, passkeyToken } = await ask(`${api}/passkey/login-options`, {}, api);
    const used = await navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options) });
    fill(form, { token: passkeyToken, response: JSON.stringify(used.toJSON()) });
  },
  async second(form, api) {
    const { webauthnOptions } = await ask(`${api}/mfa/resend`, { mfaToken: form.elements.challenge.value, method: "webauthn" }, api);
    const used = await navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(webauthnOptions) });
    fill(form, { response: JSON.stringify(used.toJSON()) });
  },
  async confirm(form, api) {
    const { reauthToken, webauthnOptions } = await ask(`${api}/reauth/challenge`, { method: "webauthn" }, api);
    const used = await navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(webauthnOptions) });
    fill(form, { token: reauthToken, response: JSON.stringify(used.toJSON()) });
  },
  async add(form, api) {
    const { options, registrationToken } = await ask(`${api}/mfa/webauthn/register-options`, undefined, api);
    const made = await navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options) });
    fill(form, { token: registrationToken, response: JSON.stringify(made.toJSON()) });
  },
};

const can = window.PublicKeyCredential && PublicKeyCredential.parseRequestOptionsFromJSON;
for (const form of document.querySelectorAll("form[data-passkey]")) {
  form.hidden = !can;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector("button");
    button.setAttribute("aria-busy", "true");
    try {
      await steps[form.dataset.passkey](form, form.dataset.api);
    } catch (error) {
      button.removeAttribute("aria-busy");
      if (error.code === "step_up_required" || error.code === "unauthorized") location.assign(form.dataset.confirm);
      else if (error.name === "NotAllowedError" || error.name === "AbortError") say("The passkey was not used. You can try again.");
      else if (error.name === "InvalidStateError") say("This device has a passkey for your account already.");
      else say(error.message || "The passkey could not be used.");
    }
  });
}
for (const place of document.querySelectorAll("[data-with-passkey]")) place.hidden = !can;

// A form is sent once, even if its button is pressed several times.
for (const form of document.querySelectorAll("form:not([data-passkey])")) {
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "yes";
    form.querySelector("button").setAttribute("aria-busy", "true");
  });
}
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
  for (const button of document.querySelectorAll("button[aria-busy]")) button.removeAttribute("aria-busy");
});
