//! The checks of a handshake that need the node.

use std::net::IpAddr;
use std::sync::Arc;

use linchpin::axum::http::HeaderMap;
use linchpin::axum::http::header::HOST;
use linchpin::http::{CredentialPlace, RateLimit, allows_origin};
use linchpin::{BoxFuture, Code, Error, Result};
use parking_lot::Mutex;

use super::node::{AddressPlace, Node};
use crate::connection::{Door, Identity, Without, count, key_of};

/// The name of the counter of handshakes.
const HANDSHAKES: &str = "realtime.handshakes";

/// The checks of one handshake.
pub(super) struct NodeDoor<'a> {
    node: &'a Arc<Node>,
    without: Without,
    from: Option<IpAddr>,
    /// The host that the client names, for the app's own origin.
    host: Option<&'a str>,
    by_cookie: bool,
    /// The place of an anonymous connection, once it is counted.
    pub(super) place: Mutex<Option<AddressPlace>>,
}

impl<'a> NodeDoor<'a> {
    pub(super) fn new(
        node: &'a Arc<Node>,
        without: Without,
        headers: &'a HeaderMap,
        from: Option<IpAddr>,
    ) -> Self {
        let mut door = Self {
            node,
            without,
            from,
            host: headers.get(HOST).and_then(|host| host.to_str().ok()),
            by_cookie: false,
            place: Mutex::new(None),
        };
        door.by_cookie = door.by_cookie(headers) == Some(true);
        door
    }
}

impl Door for NodeDoor<'_> {
    fn closed(&self) -> Option<u32> {
        self.node.closed()
    }

    fn admits_origin(&self, origin: &str) -> bool {
        allows_origin(&self.node.origins, origin, self.host, self.by_cookie)
    }

    fn by_cookie(&self, headers: &HeaderMap) -> Option<bool> {
        let place = self.node.credentials.as_ref()?.presented(headers)?;
        Some(place == CredentialPlace::Cookie)
    }

    fn identify<'a>(&'a self, headers: &'a HeaderMap) -> BoxFuture<'a, Result<Option<Identity>>> {
        match &self.node.credentials {
            Some(credentials) => credentials.of_headers(headers),
            None => Box::pin(async { Ok(None) }),
        }
    }

    fn without(&self) -> Without {
        self.without
    }

    fn count<'a>(&'a self, identity: Option<&'a Identity>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let actor = identity.map(|identity| &identity.actor);
            let limits = &self.node.limits;
            let limit = RateLimit::new(limits.handshakes_per_minute, 60_000);
            let key = key_of(HANDSHAKES, actor.map(|actor| &**actor), self.from, limit);
            let text = "Too many connections were opened";
            count(&*self.node.rates, key, limit, (self.node.clock)(), text).await?;
            if identity.is_none() {
                let most = limits.connections_per_address;
                let Some(place) = self.node.addresses.take(self.from, most) else {
                    let text = "Too many connections from this address";
                    return Err(Error::new(Code::RateLimited, text).retry_after(10));
                };
                *self.place.lock() = Some(place);
            }
            Ok(())
        })
    }
}
