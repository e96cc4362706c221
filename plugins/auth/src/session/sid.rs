//! The `sid` of a session. It is derived from the session's seed, so a refresh can compute it again
//! although only its hash is stored.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use crate::entities::Session;
use crate::keys::derive::{Purpose, Ring};
use crate::secret::{Key, same};

/// SHA-256 of a `sid`, as stored.
pub(crate) fn hash(sid: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(sid))
}

/// Derives the `sid` of a session with the newest secret: 256 bits that depend on the secret and
/// the seed.
pub(crate) fn make(ring: &Ring, handle: &str, seed: &str, version: i64) -> String {
    derive(ring.key(Purpose::Refresh), handle, seed, version)
}

fn derive(key: &Key, handle: &str, seed: &str, version: i64) -> String {
    URL_SAFE_NO_PAD.encode(key.mac(&[
        b"sid",
        handle.as_bytes(),
        &version.to_be_bytes(),
        seed.as_bytes(),
    ]))
}

/// The current `sid` of a session; `None` if its secret is no longer configured, which voids all
/// its tokens.
pub(crate) fn of(ring: &Ring, session: &Session) -> Option<String> {
    let keys: Vec<&str> = ring.kids().collect();
    keys.into_iter().find_map(|kid| {
        let sid = derive(
            ring.key_of(kid, Purpose::Refresh)?,
            &session.handle,
            &session.family_seed,
            session.sid_version,
        );
        same(hash(&sid).as_bytes(), session.sid_hash.as_bytes()).then_some(sid)
    })
}
