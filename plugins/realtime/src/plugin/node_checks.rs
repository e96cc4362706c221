//! The checks of a handshake that need the node.

use std::net::IpAddr;
use std::sync::Arc;

use linchpin::axum::http::HeaderMap;
use linchpin::axum::http::header::HOST;
use linchpin::http::{CredentialPlace, RateLimit, allows_origin};
use linchpin::{BoxFuture, Code, Error, Result};
use parking_lot::Mutex;

use super::node::{AddressSlot, Node};
use crate::connection::{HandshakeChecks, Identity, MissingCredential, key_of, take_call};

/// The name of the counter of handshakes.
const HANDSHAKES: &str = "realtime.handshakes";

/// The checks of one handshake.
pub(super) struct NodeChecks<'a> {
    node: &'a Arc<Node>,
    on_missing_credential: MissingCredential,
    from: Option<IpAddr>,
    /// The host of the request, from which the app's own origin follows.
    host: Option<&'a str>,
    credential_is_cookie: bool,
    /// The slot of an anonymous connection, after it was counted.
    pub(super) address_slot: Mutex<Option<AddressSlot>>,
}

impl<'a> NodeChecks<'a> {
    pub(super) fn new(
        node: &'a Arc<Node>,
        on_missing_credential: MissingCredential,
        headers: &'a HeaderMap,
        from: Option<IpAddr>,
    ) -> Self {
        let mut checks = Self {
            node,
            on_missing_credential,
            from,
            host: headers.get(HOST).and_then(|host| host.to_str().ok()),
            credential_is_cookie: false,
            address_slot: Mutex::new(None),
        };
        checks.credential_is_cookie = checks.credential_is_cookie(headers) == Some(true);
        checks
    }
}

impl HandshakeChecks for NodeChecks<'_> {
    fn retry_after_if_closed(&self) -> Option<u32> {
        self.node.retry_after_if_closed()
    }

    fn admits_origin(&self, origin: &str) -> bool {
        allows_origin(
            &self.node.origins,
            origin,
            self.host,
            self.credential_is_cookie,
        )
    }

    fn credential_is_cookie(&self, headers: &HeaderMap) -> Option<bool> {
        let place = self.node.credentials.as_ref()?.presented(headers)?;
        Some(place == CredentialPlace::Cookie)
    }

    fn identify<'a>(&'a self, headers: &'a HeaderMap) -> BoxFuture<'a, Result<Option<Identity>>> {
        match &self.node.credentials {
            Some(credentials) => credentials.of_headers(headers),
            None => Box::pin(async { Ok(None) }),
        }
    }

    fn on_missing_credential(&self) -> MissingCredential {
        self.on_missing_credential
    }

    fn count<'a>(&'a self, identity: Option<&'a Identity>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let actor = identity.map(|identity| &identity.actor);
            let limits = &self.node.limits;
            let limit = RateLimit::new(limits.handshakes_per_minute, 60_000);
            let key = key_of(HANDSHAKES, actor.map(|actor| &**actor), self.from, limit);
            let error_text = "Too many connections were opened";
            take_call(
                &*self.node.rates,
                key,
                limit,
                (self.node.clock)(),
                error_text,
            )
            .await?;
            if identity.is_none() {
                let most = limits.connections_per_address;
                let Some(address_slot) = self.node.addresses.take(self.from, most) else {
                    let text = "Too many connections from this address";
                    return Err(Error::new(Code::RateLimited, text).retry_after(10));
                };
                *self.address_slot.lock() = Some(address_slot);
            }
            Ok(())
        })
    }
}
