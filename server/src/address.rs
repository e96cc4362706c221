//! Client identity by IP address.

use std::net::{IpAddr, Ipv6Addr};

/// The address that identifies a client in limits: an IPv6 client has a whole /64, so only that part
/// counts.
pub fn one_client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64))
        }
        address => address,
    }
}
