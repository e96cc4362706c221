//! Limits the open connections per client address, so that one client cannot use all of them.

use std::collections::HashMap;
use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::net::TcpStream;

use crate::address::one_client;

/// The lowest default limit of connections per address: enough for many users that share one
/// address.
const MIN_DEFAULT_LIMIT: usize = 256;

/// The connections of each address.
#[derive(Clone)]
pub(super) struct Peers {
    /// The maximum number of connections per address.
    limit: usize,
    /// Whether the limit also applies to connections from the machine itself.
    limits_loopback: bool,
    open: Arc<Mutex<HashMap<IpAddr, Open>>>,
}

/// The connections of an address.
#[derive(Default)]
struct Open {
    count: usize,
    /// Whether the log already contains a warning about this address.
    warned: bool,
}

/// The slot of a connection; it is released on drop.
pub(super) struct ConnectionSlot {
    peers: Peers,
    client: IpAddr,
}

impl Peers {
    /// Sets the limit per address to `configured`. By default it is half of `all`, at least 256,
    /// and connections from the machine itself, such as those of a proxy, are not limited.
    pub(super) fn new(configured: Option<usize>, all: usize) -> Self {
        let limit = configured.unwrap_or_else(|| (all / 2).max(MIN_DEFAULT_LIMIT));
        Self {
            limit,
            limits_loopback: configured.is_some(),
            open: Arc::default(),
        }
    }

    /// Takes a slot for a connection from an address; `None` if the address is at its limit.
    pub(super) fn take(&self, address: IpAddr) -> Option<ConnectionSlot> {
        // All addresses of an IPv6 /64 network count as one client.
        let client = one_client(address);
        let mut open = self.open.lock();
        let entry = open.entry(client).or_default();
        if entry.count >= self.limit && (self.limits_loopback || !client.is_loopback()) {
            if !std::mem::replace(&mut entry.warned, true) {
                tracing::warn!(address = %client, limit = self.limit, "an address has reached its limit of connections; further ones are refused");
            }
            return None;
        }
        entry.count += 1;
        Some(ConnectionSlot {
            peers: self.clone(),
            client,
        })
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut open = self.peers.open.lock();
        let Some(entry) = open.get_mut(&self.client) else {
            return;
        };
        entry.count -= 1;
        if entry.count == 0 {
            open.remove(&self.client);
        }
    }
}

/// Sends a refusal to a client with too many connections, if that is possible without waiting.
pub(super) fn refuse(stream: TcpStream) {
    // A partial write is not continued: the connection is closed in any case.
    if let Ok(mut stream) = stream.into_std() {
        drop(stream.write(&crate::http::too_many_connections()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_limited_share_of_connections() {
        let peers = Peers::new(Some(2), 10);
        let [a, b]: [IpAddr; 2] =
            ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().expect("an address"));
        let (first, second) = (peers.take(a), peers.take(a));
        assert!(first.is_some() && peers.take(a).is_none() && peers.take(b).is_some());
        // The same address in its IPv6 form.
        assert!(
            peers
                .take("::ffff:10.0.0.1".parse().expect("an address"))
                .is_none()
        );
        drop(first);
        let again = peers.take(a);
        assert!(again.is_some() && peers.take(a).is_none());
        drop((again, second));
        assert!(
            peers.open.lock().is_empty(),
            "no entry is left after the last connection of an address"
        );
    }

    #[test]
    fn an_ipv6_network_counts_as_one_client() {
        let peers = Peers::new(Some(1), 10);
        let take = |text: &str| peers.take(text.parse().expect("an address"));
        let _one = take("2001:db8:0:1::1").expect("a slot");
        assert!(take("2001:db8:0:1:ffff::2").is_none() && take("2001:db8:0:2::1").is_some());
    }

    #[test]
    fn loopback_connections_are_unlimited_by_default() {
        let own: IpAddr = "127.0.0.1".parse().expect("an address");
        let peers = Peers::new(None, 600);
        let held: Vec<_> = (0..600).map(|_| peers.take(own)).collect();
        assert!(held.iter().all(Option::is_some));
        let other: IpAddr = "10.0.0.1".parse().expect("an address");
        let held: Vec<_> = (0..301).map(|_| peers.take(other)).collect();
        assert_eq!(held.iter().flatten().count(), 300);
        assert_eq!(Peers::new(None, 10).limit, MIN_DEFAULT_LIMIT);
        let peers = Peers::new(Some(1), 600);
        let _held = peers.take(own);
        assert!(peers.take(own).is_none());
    }
}
