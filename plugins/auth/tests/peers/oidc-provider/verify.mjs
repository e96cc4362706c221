// Verifies a token with `jose`. The input is { token, secret | jwks, algorithm, audience?, issuer?,
// now } with `now` in seconds; the output is the claims.

import { createLocalJWKSet, jwtVerify } from 'jose';

let text = '';
for await (const chunk of process.stdin) text += chunk;
const { token, secret, jwks, algorithm, now, ...expected } = JSON.parse(text);

const key = jwks ? createLocalJWKSet(jwks) : new TextEncoder().encode(secret);
const { payload } = await jwtVerify(token, key, {
  ...expected,
  algorithms: [algorithm],
  typ: 'JWT',
  requiredClaims: ['sub', 'sid', 'jti', 'iat', 'nbf', 'exp'],
  currentDate: new Date(now * 1000),
});
console.log(JSON.stringify(payload));
