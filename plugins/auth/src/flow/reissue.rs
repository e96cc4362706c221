//! A session that goes on under a new `sid`: every token of before is worth nothing from then on.

use linchpin::{Code, Cx, Error, Result};

use super::OVERTAKEN;
use crate::core::{Client, Core};
use crate::entities::{Session, SessionPatch};
use crate::session::{Known, sid};

impl Core {
    /// Gives the session of a caller a new `sid` and a new family of refresh tokens, with what else
    /// changes, and with the ways `added` to how its user proved who they are. Its beginning and
    /// its end stay. The caller forgets what is remembered of the user once this has lasted.
    ///
    /// # Errors
    /// 401 when it has ended, or goes on under another `sid` already.
    pub(crate) async fn reissue(
        &self,
        cx: &Cx,
        client: &Client,
        known: &Known,
        added: &[&str],
        changes: impl Fn() -> SessionPatch,
    ) -> Result<(Session, String)> {
        let handle = known.handle.as_str();
        for _ in 0..OVERTAKEN {
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
                // Its last activity is written down behind requests' backs.
                Err(error) if error.code() == Code::PreconditionFailed => {}
                Err(error) if error.code() == Code::NotFound => return Err(Error::unauthorized()),
                Err(error) => return Err(error),
            }
        }
        Err(Error::unavailable("the session kept changing"))
    }
}
