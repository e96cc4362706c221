//! The addresses of public hosts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The IPv4 networks without public hosts, as address and prefix length.
const NON_PUBLIC_V4: [([u8; 4], u8); 19] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 31, 196, 0], 24),
    ([192, 52, 193, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([192, 175, 48, 0], 24),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
    ([255, 255, 255, 255], 32),
];

/// The only IPv6 network that is assigned to public hosts: `2000::/3`.
const PUBLIC_V6: (u16, u8) = (0x2000, 3);

/// The networks within `2000::/3` without public hosts. They include Teredo and 6to4, whose
/// addresses embed an IPv4 address, even if this IPv4 address is public.
const NON_PUBLIC_V6: [([u16; 2], u8); 4] = [
    // IETF protocol assignments, such as Teredo and benchmarking.
    ([0x2001, 0], 23),
    // Documentation.
    ([0x2001, 0x0db8], 32),
    // 6to4.
    ([0x2002, 0], 16),
    // Documentation.
    ([0x3fff, 0], 20),
];

/// Whether an address is the address of a public host.
///
/// Loopback, private, shared, link-local, multicast, reserved and documentation addresses are not,
/// and neither are IPv6 addresses that embed an IPv4 address (mapped, compatible, translated and
/// tunnelled).
///
/// ```
/// use linchpin_safe_client::is_public;
///
/// assert!(is_public("93.184.216.34".parse().unwrap()));
/// assert!(!is_public("169.254.169.254".parse().unwrap()));
/// assert!(!is_public("::ffff:93.184.216.34".parse().unwrap()));
/// ```
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !NON_PUBLIC_V4
            .iter()
            .any(|&(network, length)| is_within_v4(address, Ipv4Addr::from(network), length)),
        IpAddr::V6(address) => {
            let (first, length) = PUBLIC_V6;
            is_within_v6(address, [first, 0], length)
                && !NON_PUBLIC_V6
                    .iter()
                    .any(|&(network, length)| is_within_v6(address, network, length))
        }
    }
}

fn is_within_v4(address: Ipv4Addr, network: Ipv4Addr, length: u8) -> bool {
    let ignored = 32 - u32::from(length);
    address.to_bits() >> ignored == network.to_bits() >> ignored
}

/// Whether an address is within a network whose first two groups are given; the length is at most
/// 32 bits.
fn is_within_v6(address: Ipv6Addr, [first, second]: [u16; 2], length: u8) -> bool {
    let network = Ipv6Addr::new(first, second, 0, 0, 0, 0, 0, 0);
    let ignored = 128 - u32::from(length);
    address.to_bits() >> ignored == network.to_bits() >> ignored
}

#[cfg(test)]
mod tests {
    use super::*;

    fn public(text: &str) -> bool {
        is_public(text.parse().expect(text))
    }

    #[test]
    fn the_first_and_the_last_address_of_non_public_networks_are_refused() {
        for edge in [
            "0.0.0.0",
            "0.255.255.255",
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.0",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.0.0",
            "169.254.169.254",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.0",
            "192.0.0.255",
            "192.0.2.0",
            "192.31.196.1",
            "192.52.193.255",
            "192.88.99.1",
            "192.168.0.0",
            "192.168.255.255",
            "192.175.48.6",
            "198.18.0.0",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.255",
            "224.0.0.0",
            "239.255.255.255",
            "240.0.0.0",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "64:ff9b:1::1",
            "100::1",
            "1fff:ffff::",
            "2001::1",
            "2001:1ff:ffff::",
            "2001:db8::1",
            "2002:808:808::1",
            "3fff::1",
            "3fff:fff:ffff::1",
            "4000::",
            "5f00::1",
            "fc00::1",
            "fdff::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!public(edge), "{edge}");
        }
    }

    #[test]
    fn addresses_next_to_non_public_networks_are_public() {
        for edge in [
            "1.0.0.0",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.0.3.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "203.0.112.255",
            "203.0.114.0",
            "223.255.255.255",
            "2001:200::1",
            "2001:db7:ffff::1",
            "2001:db9::1",
            "2003::1",
            "2606:4700::1111",
            "3ffe:ffff::1",
            "3fff:1000::1",
        ] {
            assert!(public(edge), "{edge}");
        }
    }
}
