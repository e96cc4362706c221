// `jose` reads a token: { token, secret | jwks, algorithm, audience?, issuer?, now } in, its claims out. `now` is in seconds.

import { createLocalJWKSet, jwtVerify } from 'jose';

let text = '';
for await (const chunk of process.stdin) text += chunk;
const { token, secret, jwks, algorithm, now, ...meant } = JSON.parse(text);

const key = jwks ? createLocalJWKSet(jwks) : new TextEncoder().encode(secret);
const { payload } = await jwtVerify(token, key, {
  ...meant,
  algorithms: [algorithm],
  typ: 'JWT',
  requiredClaims: ['sub', 'sid', 'jti', 'iat', 'nbf', 'exp'],
  currentDate: new Date(now * 1000),
});
console.log(JSON.stringify(payload));
