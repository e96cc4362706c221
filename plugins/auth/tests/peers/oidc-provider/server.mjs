// An OpenID Connect issuer on a free port of this machine: `oidc-provider` with its own pages for
// sign-in and consent. Its first line of output contains its address. It stops when its input
// closes.
//
//   POST /__peer/accounts { id, email?, email_verified? }   sets the claims about a user
//   POST /__peer/rotate                                     replaces all signing keys by new ones

import { createServer } from 'node:http';
import { createPrivateKey, generateKeyPairSync, randomUUID } from 'node:crypto';
import Provider from 'oidc-provider';

const CALLBACKS = ['peer', 'other', 'local'].map((id) => `https://app.test/auth/${id}/callback`);
const redirects = CALLBACKS.concat(process.argv.slice(2));
const secret = 'a secret of the peer & its client: 100%';

const accounts = new Map();

function key(alg) {
  const kinds = {
    RS256: ['rsa', { modulusLength: 2048 }],
    PS256: ['rsa', { modulusLength: 2048 }],
    ES256: ['ec', { namedCurve: 'P-256' }],
    EdDSA: ['ed25519', {}],
  };
  const [type, options] = kinds[alg];
  // The key is generated as text: Node.js 20 may deadlock if it exports a key object right after
  // its generation and collects garbage meanwhile, because both need the same lock.
  const { privateKey } = generateKeyPairSync(type, {
    ...options,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  return { ...createPrivateKey(privateKey).export({ format: 'jwk' }), alg, use: 'sig', kid: randomUUID() };
}

function client(id, more) {
  return { client_id: id, redirect_uris: redirects, grant_types: ['authorization_code'], response_types: ['code'], ...more };
}

function provider(issuer) {
  return new Provider(issuer, {
    jwks: { keys: ['RS256', 'PS256', 'ES256', 'EdDSA'].map(key) },
    clients: [
      client('app', { client_secret: secret }),
      client('public', { token_endpoint_auth_method: 'none' }),
      client('ps', { client_secret: secret, id_token_signed_response_alg: 'PS256' }),
      client('es', { client_secret: secret, id_token_signed_response_alg: 'ES256' }),
      client('ed', { client_secret: secret, id_token_signed_response_alg: 'EdDSA' }),
      client('hs', { client_secret: secret, id_token_signed_response_alg: 'HS256' }),
    ],
    enabledJWA: { idTokenSigningAlgValues: ['RS256', 'PS256', 'ES256', 'EdDSA', 'HS256'] },
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
    features: { devInteractions: { enabled: true } },
    pkce: { required: () => true },
    cookies: { keys: [randomUUID()] },
    async findAccount(_ctx, id) {
      const known = accounts.get(id) ?? { email: `${id}@peer.test`, email_verified: true };
      return { accountId: id, claims: async () => ({ sub: id, name: id, ...known }) };
    },
  });
}

// The tests read only the first line of the standard output.
console.info = console.warn;

let current;

async function body(request) {
  let text = '';
  for await (const chunk of request) text += chunk;
  return text ? JSON.parse(text) : {};
}

const server = createServer(async (request, response) => {
  if (!request.url.startsWith('/__peer/')) return current.callback()(request, response);
  if (request.url === '/__peer/accounts') {
    const { id, ...claims } = await body(request);
    accounts.set(id, claims);
  } else {
    current = provider(current.issuer);
  }
  response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
});

server.listen(Number(process.env.PORT ?? 0), '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  current = provider(issuer);
  console.log(JSON.stringify({ issuer, secret }));
});

process.stdin.on('end', () => process.exit(0));
process.stdin.resume();
