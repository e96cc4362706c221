//! Reissue: a session continues under a new `sid`, and all its earlier tokens become invalid.

use linchpin::{Code, Cx, Error, Result};

use super::MAX_ATTEMPTS;
use crate::core::{Client, Core};
use crate::entities::{Session, SessionPatch};
use crate::session::{CheckedSession, sid};

impl Core {
    /// Gives the caller's session a new `sid` and a new family of refresh tokens, applies the other
    /// changes, and adds the methods `added` to its authentication methods. Its start and end do
    /// not change. Returns the session and its new `sid`. The caller drops the cached sessions of
    /// the user after the transaction.
    ///
    /// # Errors
    /// 401 if the session has ended or already has another `sid`.
    pub(crate) async fn reissue(
        &self,
        cx: &Cx,
        client: &Client,
        known: &CheckedSession,
        added: &[&str],
        changes: impl Fn() -> SessionPatch,
    ) -> Result<(Session, String)> {
        let handle = known.handle.as_str();
        for _ in 0..MAX_ATTEMPTS {
            let session = self
                .sessions
                .get(cx, handle)
                .await?
                .ok_or_else(Error::unauthorized)?;
            if session.sid_hash != sid::hash(&known.sid) {
                return Err(Error::unauthorized());
            }
            let (seed, version) = (self.random_text::<32>()?, session.sid_version + 1);
            let sid = sid::make(&self.ring, handle, &seed, version);
            let mut amr = session.amr;
            for how in added {
                if !amr.iter().any(|known| known == how) {
                    amr.push((*how).to_owned());
                }
            }
            let patch = SessionPatch {
                sid_version: Some(version),
                sid_hash: Some(sid::hash(&sid)),
                family_seed: Some(seed),
                generation: Some(0),
                rotated_at: Some(client.now),
                amr: Some(amr),
                ..changes()
            };
            match self
                .sessions
                .update(cx, handle, patch, Some(session.version))
                .await
            {
                Ok(renewed) => return Ok((renewed, sid)),
                // The last activity is written in the background, so a conflict here is harmless.
                Err(error) if error.code() == Code::PreconditionFailed => {}
                Err(error) if error.code() == Code::NotFound => return Err(Error::unauthorized()),
                Err(error) => return Err(error),
            }
        }
        Err(Error::unavailable("the session kept changing"))
    }
}
