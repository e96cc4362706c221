//! A session that goes on under a new `sid`: every token of before is worth nothing from then on.

use linchpin::{Cx, Error, Result};

use crate::core::{Client, Core};
use crate::entities::{Session, SessionPatch};
use crate::session::sid;

impl Core {
    /// Gives a session a new `sid` and a new family of refresh tokens, with what else changes. Its beginning and its end stay. The
    /// caller forgets what is remembered of the user once this has lasted.
    ///
    /// # Errors
    /// 401 when it has ended.
    pub(crate) async fn reissue(&self, cx: &Cx, client: &Client, handle: &str, changes: SessionPatch) -> Result<(Session, String)> {
        let session = self.sessions.get(cx, handle).await?.ok_or_else(Error::unauthorized)?;
        let (seed, version) = (self.random_text::<32>()?, session.sid_version + 1);
        let sid = sid::make(&self.ring, handle, &seed, version);
        let patch = SessionPatch {
            sid_version: Some(version),
            sid_hash: Some(sid::hash(&sid)),
            family_seed: Some(seed),
            generation: Some(0),
            rotated_at: Some(client.now),
            ..changes
        };
        Ok((self.sessions.update(cx, handle, patch, Some(session.version)).await?, sid))
    }
}
