//! Who calls, as far as an address tells.

use std::net::{IpAddr, Ipv6Addr};

/// Who an address stands for: whoever has one of IPv6 has the 2^64 beside it as well.
pub(crate) fn one_client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64))
        }
        address => address,
    }
}
