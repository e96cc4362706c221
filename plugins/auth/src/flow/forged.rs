//! Requests that may be forged: the refusal and its audit entry.

use linchpin::http::PluginCall;
use linchpin::{Error, Result};
use serde_json::json;

use crate::core::{AuditEvent, Client, Core};
use crate::session::CheckedSession;

/// Seconds between two equal audit entries, because anyone can cause any number of them.
const AUDIT_INTERVAL: u32 = 60;
/// Maximum length of a stored path in characters.
const MAX_PATH_CHARS: usize = 200;

impl Core {
    /// Checks that no page of a foreign origin sent a request that opens a session.
    ///
    /// # Errors
    /// 403 `csrf_failed`; 503 if the audit log cannot be written.
    pub(crate) async fn may_sign_in(&self, call: &PluginCall, path: &str) -> Result<()> {
        match self.csrf.may_sign_in(&call.headers) {
            Ok(()) => Ok(()),
            Err(refusal) => Err(self
                .forged(
                    &self.client(call),
                    None,
                    &format!("{}/{path}", self.config.auth.mount),
                    refusal,
                )
                .await),
        }
    }

    /// Writes the audit log entry of a refused request and returns the error.
    pub(crate) async fn forged(
        &self,
        client: &Client,
        known: Option<&CheckedSession>,
        path: &str,
        refusal: Error,
    ) -> Error {
        let path: String = path.chars().take(MAX_PATH_CHARS).collect();
        let user = known.map(|known| known.user_id.as_str());
        let mark = [
            "auth:csrf.failed",
            &client.limit_key(),
            &path,
            user.unwrap_or_default(),
        ];
        let noted = async {
            if !self.limiter.is_first(&mark, AUDIT_INTERVAL).await? {
                return Ok(());
            }
            let happened = AuditEvent {
                event: "auth:csrf.failed",
                user,
                session: known.map(|known| known.handle.as_str()),
                outcome: "csrf_failed",
                details: json!({ "path": path }),
            };
            self.audit(&client.cx(), client, happened).await
        };
        match noted.await {
            Ok(()) => refusal,
            Err(error) => Error::unavailable(error),
        }
    }
}
