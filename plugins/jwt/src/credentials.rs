//! Tokens of connections that live longer than a request.

use linchpin_server::axum::http::HeaderMap;

use linchpin_core::{Attached, BoxFuture, Code, Result, Timestamp};
use linchpin_server::http::{
    Credential, CredentialChanges, CredentialPlace, CredentialUse, Credentials,
};

use crate::verifier::{Presented, Verifier, presented};

impl Verifier {
    /// The credential of a token; `None` if the token is not valid.
    fn credential(&self, token: &str) -> Result<Option<Credential>> {
        match self.verified(token) {
            Ok(verified) => Ok(Some(Credential {
                actor: verified.actor(),
                expires_at: Some(Timestamp::from_millis(
                    verified.expires().saturating_mul(1000),
                )),
                attached: Attached::default(),
            })),
            Err(error) if error.code() == Code::Unauthorized => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Credentials for Verifier {
    fn presented(&self, headers: &HeaderMap) -> Option<CredentialPlace> {
        match presented(headers) {
            Presented::Nothing => None,
            Presented::Unusable(_) | Presented::Token(_) => Some(CredentialPlace::Header),
        }
    }

    fn of_headers<'a>(
        &'a self,
        headers: &'a HeaderMap,
    ) -> BoxFuture<'a, Result<Option<Credential>>> {
        let found = match presented(headers) {
            Presented::Nothing | Presented::Unusable(_) => Ok(None),
            Presented::Token(token) => self.credential(token),
        };
        Box::pin(std::future::ready(found))
    }

    fn of_token<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<Credential>>> {
        Box::pin(std::future::ready(self.credential(token)))
    }

    /// Returns the credential unchanged. Another system manages the sessions of tokens, so this
    /// plugin does not know when they end.
    fn again<'a>(
        &'a self,
        earlier: &'a Credential,
        _: CredentialUse,
    ) -> BoxFuture<'a, Result<Option<Credential>>> {
        Box::pin(std::future::ready(Ok(Some(earlier.clone()))))
    }

    fn changes(&self) -> CredentialChanges {
        CredentialChanges::none()
    }
}
