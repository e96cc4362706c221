//! Client identity by IP address.

use std::net::{IpAddr, Ipv6Addr};

/// The address by which limits identify a client. An IPv6 client usually has a whole /64 network,
/// so the other 64 bits become 0.
pub fn one_client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64))
        }
        address => address,
    }
}
