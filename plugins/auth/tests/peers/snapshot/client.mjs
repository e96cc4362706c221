// A page with the client in it. Each line of the input is an order, and each is answered by one line:
//   { open: { mode, api, page, ... } }  a page at an address, with the client in a mode: `cookie` or `token`
//   { call, with }                      a hook: what it is called with; it answers its data or its error
//   { url, of, with }                   an address that the client makes: `getOAuthUrl`, `getLinkUrl`
//   { visit }                           what the browser is answered at an address, redirects not followed
// Beside what it answered, each line tells what the client has afterwards.

import { request } from 'node:http';
import { createInterface } from 'node:readline';
import { Browser } from 'happy-dom';

const warnings = console.warn;
// The client says in token mode that cookies are better, at every page.
console.warn = (...said) => String(said[0]).startsWith('[snapshot]') || warnings(...said);

const browser = new Browser();
const jar = browser.defaultContext.cookieContainer;
let page; // the page that is open
let client; // what `createSnapshot` made in it
let pending = null; // the challenge that waits
let told = []; // callbacks since the line before
let show; // shows a component on the page

/** Gives this program the globals of a page, as a bundle in it would see them. */
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

/** `fetch` of a page. What is called without credentials on another origin keeps no cookies: the simulated browser would. */
function fetchOf(window) {
  return async (url, init = {}) => {
    const kept = jar.getCookies(null, false);
    const reply = await window.fetch(url, init);
    if (init.credentials !== 'include' && new URL(url).origin !== window.location.origin) {
      jar.clearCookies();
      jar.addCookies(kept);
    }
    return reply;
  };
}

async function open({ mode, api, page: address, ...auth }) {
  enter(address);
  // Both read the globals of a page when they are loaded.
  const { createElement, Fragment, useEffect, useState } = await import('react');
  const { createRoot } = await import('react-dom/client');
  const { createSnapshot } = await import('@lastshotlabs/snapshot');
  const on = Object.fromEntries(['unauthenticated', 'forbidden', 'logout'].map((kind) => [kind, () => told.push(kind)]));
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
      const given = client[hook]();
      useEffect(() => {
        value = given;
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
    if (waited > 20_000) throw new Error('the page does not get on');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  // What follows from it in the same turn.
  await new Promise((resolve) => setTimeout(resolve, 10));
}

/** Goes to an address in the same browser. */
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

/** Keeps a cookie that a navigation brought. */
function keep(url, line) {
  const [pair, ...attributes] = line.split(';').map((part) => part.trim());
  const at = pair.indexOf('=');
  const of = (name) => attributes.find((one) => one.toLowerCase().startsWith(`${name}=`))?.slice(name.length + 1);
  const has = (name) => attributes.some((one) => one.toLowerCase() === name);
  const expires = of('max-age') === undefined ? null : new Date(Date.now() + Number(of('max-age')) * 1000);
  const cookie = { key: pair.slice(0, at), value: pair.slice(at + 1), originURL: url, path: of('path') ?? '/' };
  jar.addCookies([{ ...cookie, secure: has('secure'), httpOnly: has('httponly'), expires }]);
}

/** What the client has. */
function state() {
  const user = client.queryClient.getQueryData(['auth', 'me']);
  const state = {
    user: user?.email ?? null,
    pending: pending?.mfaMethods ?? null,
    token: Boolean(client.tokenStorage.get()),
    refresh: Boolean(client.tokenStorage.getRefreshToken()),
    path: page.mainFrame.window.location.pathname,
    told,
  };
  told = [];
  return state;
}

async function follow(order) {
  if (order.open) return open(order.open);
  if (order.visit) return visit(order.visit);
  if (order.url) return client[order.url](order.of, order.with);
  if (order.stored) return client.tokenStorage[order.stored]();
  return client.run(order.call, order.with);
}

for await (const line of createInterface({ input: process.stdin })) {
  const answer = {};
  try {
    answer.data = (await follow(JSON.parse(line))) ?? null;
  } catch (error) {
    const { status = null, body } = error;
    answer.error = { status, code: body?.code ?? null, message: error.message, shown: client.formatAuthError(error, 'login') };
  }
  // What is shown follows what happened.
  await new Promise((resolve) => setTimeout(resolve, 20));
  process.stdout.write(`${JSON.stringify({ ...answer, state: state() })}\n`);
}
process.exit(0);
