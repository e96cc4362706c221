// A page with the client. Each line of the input is a command, and has one line of output:
//   { open: { mode, api, page, ... } }  opens a page, with the client in mode `cookie` or `token`
//   { call, with }                      calls a hook with an input; returns its data or its error
//   { url, of, with }                   returns `getOAuthUrl` or `getLinkUrl` of the client
//   { visit }                           opens an address without redirects; returns the response
//   { stored }                          returns a token from the storage of the client
// Each line of output also contains the state of the client.

import { request } from 'node:http';
import { createInterface } from 'node:readline';
import { Browser } from 'happy-dom';

const warnings = console.warn;
// In token mode the client logs on every page that cookies are better.
console.warn = (...args) => String(args[0]).startsWith('[snapshot]') || warnings(...args);

const browser = new Browser();
const jar = browser.defaultContext.cookieContainer;
let page; // the page that is open
let client; // the result of `createSnapshot` on the page
let pending = null; // the pending challenge
let callbacks = []; // the callbacks that the client called since the previous line
let show; // shows a component on the page

/** Sets the globals of this program to those of a new page, like for a bundle on that page. */
function enter(address) {
  page = browser.newPage();
  page.url = address;
  const { window } = page.mainFrame;
  const names = ['window', 'document', 'location', 'history', 'localStorage', 'sessionStorage', 'navigator', 'PopStateEvent'];
  const globals = { ...Object.fromEntries(names.map((name) => [name, window[name]])), window, fetch: fetchOf(window) };
  for (const [name, value] of Object.entries(globals)) {
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
  }
}

/**
 * `fetch` of a page. A request to another origin without credentials must store no cookies, but the
 * simulated browser stores them. So they are removed again.
 */
function fetchOf(window) {
  return async (url, init = {}) => {
    const before = jar.getCookies(null, false);
    const reply = await window.fetch(url, init);
    if (init.credentials !== 'include' && new URL(url).origin !== window.location.origin) {
      jar.clearCookies();
      jar.addCookies(before);
    }
    return reply;
  };
}

async function open({ mode, api, page: address, ...auth }) {
  enter(address);
  // These packages read the globals of a page when they are loaded.
  const { createElement, Fragment, useEffect, useState } = await import('react');
  const { createRoot } = await import('react-dom/client');
  const { createSnapshot } = await import('@lastshotlabs/snapshot');
  const on = Object.fromEntries(['unauthenticated', 'forbidden', 'logout'].map((kind) => [kind, () => callbacks.push(kind)]));
  const paths = { loginPath: '/login', homePath: '/home', mfaPath: '/mfa' };
  client = createSnapshot({ apiUrl: api, ...paths, auth: { session: { mode }, ...auth, on } });
  pending = null;

  function Watch() {
    pending = client.usePendingMfaChallenge();
    return null;
  }
  function Page() {
    const [shown, set] = useState(null);
    show = set;
    return createElement(Fragment, null, createElement(Watch), shown);
  }
  const root = createRoot(document.body.appendChild(document.createElement('div')));
  root.render(createElement(client.QueryProvider, null, createElement(Page)));
  await until(() => show);

  let runs = 0;
  client.run = async (hook, input) => {
    let value;
    function Probe() {
      const result = client[hook]();
      useEffect(() => {
        value = result;
      });
      return null;
    }
    await client.queryClient.invalidateQueries({ refetchType: 'none' });
    show(createElement(Probe, { key: (runs += 1) }));
    await until(() => value);
    if (typeof value?.mutateAsync === 'function') return value.mutateAsync(input);
    await until(() => !value.isLoading && client.queryClient.isFetching() === 0);
    const { isLoading, isError, ...data } = value;
    return isError ? { isError, ...data } : data;
  };
  return Object.keys(client).filter((name) => /^use[A-Z]/.test(name));
}

async function until(ready) {
  for (let waited = 0; !ready(); waited += 5) {
    if (waited > 20_000) throw new Error('the page is not ready after 20 s');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  // Waits for effects that run in the same turn.
  await new Promise((resolve) => setTimeout(resolve, 10));
}

/** Opens an address in the same browser. */
function visit(url) {
  const to = new URL(url);
  const cookie = jar.getCookies(to, false).map(({ key, value }) => `${key}=${value}`).join('; ');
  const from = page.mainFrame.window.location;
  const site = from.origin === to.origin ? 'same-origin' : from.hostname === to.hostname ? 'same-site' : 'cross-site';
  const headers = { cookie, referer: `${from.origin}/`, 'sec-fetch-site': site, 'sec-fetch-mode': 'navigate' };
  return new Promise((resolve, reject) => {
    const sent = request(to, { headers }, (reply) => {
      let body = '';
      reply.on('data', (chunk) => (body += chunk));
      reply.on('end', () => {
        for (const line of reply.headers['set-cookie'] ?? []) keep(to, line);
        resolve({ status: reply.statusCode, location: reply.headers.location ?? null, body });
      });
    });
    sent.on('error', reject);
    sent.end();
  });
}

/** Stores a cookie of a navigation. */
function keep(url, line) {
  const [pair, ...attributes] = line.split(';').map((part) => part.trim());
  const at = pair.indexOf('=');
  const attribute = (name) => attributes.find((one) => one.toLowerCase().startsWith(`${name}=`))?.slice(name.length + 1);
  const has = (name) => attributes.some((one) => one.toLowerCase() === name);
  const expires = attribute('max-age') === undefined ? null : new Date(Date.now() + Number(attribute('max-age')) * 1000);
  const cookie = { key: pair.slice(0, at), value: pair.slice(at + 1), originURL: url, path: attribute('path') ?? '/' };
  jar.addCookies([{ ...cookie, secure: has('secure'), httpOnly: has('httponly'), expires }]);
}

/** The state of the client. */
function state() {
  const user = client.queryClient.getQueryData(['auth', 'me']);
  const state = {
    user: user?.email ?? null,
    pending: pending?.mfaMethods ?? null,
    token: Boolean(client.tokenStorage.get()),
    refresh: Boolean(client.tokenStorage.getRefreshToken()),
    path: page.mainFrame.window.location.pathname,
    callbacks,
  };
  callbacks = [];
  return state;
}

async function execute(command) {
  if (command.open) return open(command.open);
  if (command.visit) return visit(command.visit);
  if (command.url) return client[command.url](command.of, command.with);
  if (command.stored) return client.tokenStorage[command.stored]();
  return client.run(command.call, command.with);
}

for await (const line of createInterface({ input: process.stdin })) {
  const answer = {};
  try {
    answer.data = (await execute(JSON.parse(line))) ?? null;
  } catch (error) {
    const { status = null, body } = error;
    answer.error = { status, code: body?.code ?? null, message: error.message, shown: client.formatAuthError(error, 'login') };
  }
  // Waits until the page shows the result.
  await new Promise((resolve) => setTimeout(resolve, 20));
  process.stdout.write(`${JSON.stringify({ ...answer, state: state() })}\n`);
}
process.exit(0);
