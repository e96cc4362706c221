//! Ports for servers that must know their port before they start.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// Returns a port on which no program listens. The port is below the range from which the system
/// chooses ports for clients and for servers with port 0. Otherwise one of them could take the port
/// before the server starts, and tests would connect to a wrong server. The port is above the ports
/// that browsers refuse.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        // Processes that run at the same time begin at different ports.
        let next = std::process::id()
            .wrapping_mul(131)
            .wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = 11_000 + u16::try_from(next % 9_000).unwrap_or_default();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
