//! The address of a client behind trusted proxies. No other module reads `X-Forwarded-For`.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use ipnet::IpNet;

/// Proxies whose `X-Forwarded-For` is trusted: `security.trustProxy`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TrustProxy {
    /// No proxy. The address of the connection is the client's.
    #[default]
    Nobody,
    /// This number of proxies, each of which adds the address of its client.
    Hops(u8),
    /// Every proxy in these networks.
    Networks(Vec<IpNet>),
}

impl TrustProxy {
    /// Parses the text form: `false`, a number from 1 to 10, or networks separated by commas.
    ///
    /// # Errors
    /// The reason if the text is none of them.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("false") {
            return Ok(Self::Nobody);
        }
        match text.parse::<u64>() {
            Ok(hops) => Self::hops(hops),
            Err(_) => Self::networks(text.split(',')),
        }
    }

    /// A number of proxies: 1 to 10.
    pub(crate) fn hops(hops: u64) -> Result<Self, String> {
        match u8::try_from(hops) {
            Ok(hops @ 1..=10) => Ok(Self::Hops(hops)),
            _ => Err("must be between 1 and 10 hops".into()),
        }
    }

    /// Networks of proxies.
    pub(crate) fn networks<'a>(
        networks: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, String> {
        let one = |text: &'a str| {
            parse_network(text.trim())
                .ok_or_else(|| format!("`{}` is not a network such as 10.0.0.0/8", text.trim()))
        };
        networks
            .into_iter()
            .map(one)
            .collect::<Result<_, _>>()
            .map(Self::Networks)
    }

    /// Returns the address of the client. `forwarded` are the values of all `X-Forwarded-For`
    /// headers in their order. If an entry is invalid, the result is the address of the connection.
    pub(crate) fn client<'a>(
        &self,
        socket: IpAddr,
        forwarded: impl DoubleEndedIterator<Item = &'a [u8]>,
    ) -> IpAddr {
        let socket = plain(socket);
        let mut chain = forwarded.rev().flat_map(|line| line.rsplit(|b| *b == b','));
        match self {
            Self::Nobody => socket,
            Self::Hops(hops) => chain
                .nth(usize::from(hops.saturating_sub(1)))
                .and_then(entry)
                .unwrap_or(socket),
            Self::Networks(networks) => {
                let trusted =
                    |address: IpAddr| networks.iter().any(|network| network.contains(&address));
                let mut client = socket;
                while trusted(client) {
                    match chain.next().map(entry) {
                        Some(Some(next)) => client = next,
                        Some(None) => return socket,
                        // All entries are trusted proxies, so the first one is the client.
                        None => return client,
                    }
                }
                client
            }
        }
    }
}

fn parse_network(text: &str) -> Option<IpNet> {
    text.parse()
        .ok()
        .or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

/// Parses an entry of the header without its port and zone.
fn entry(bytes: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(bytes).ok()?.trim_matches([' ', '\t']);
    let address = match text.strip_prefix('[') {
        Some(rest) => {
            let (inside, port) = rest.split_once(']')?;
            if !(port.is_empty() || port.strip_prefix(':')?.parse::<u16>().is_ok()) {
                return None;
            }
            IpAddr::V6(without_zone(inside)?)
        }
        None => match text.parse::<SocketAddr>() {
            Ok(with_port) => with_port.ip(),
            Err(_) => text
                .parse()
                .ok()
                .or_else(|| without_zone(text).map(IpAddr::V6))?,
        },
    };
    Some(plain(address))
}

fn without_zone(text: &str) -> Option<Ipv6Addr> {
    text.split_once('%')
        .map_or(text, |(address, _)| address)
        .parse()
        .ok()
}

/// Converts an IPv4-mapped IPv6 address to IPv4.
fn plain(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// The key of an address in rate limits. An IPv6 client has at least a /64 network, so the network
/// is counted.
pub(crate) fn address_limit_key(address: IpAddr) -> String {
    match plain(address) {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => {
            let network = Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX));
            format!("{network}/64")
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn client(trust: &str, socket: &str, headers: &[&str]) -> String {
        let trust = TrustProxy::parse(trust).unwrap();
        trust
            .client(
                socket.parse().unwrap(),
                headers.iter().map(|h| h.as_bytes()),
            )
            .to_string()
    }

    #[test]
    fn forwarded_addresses_are_ignored_by_default() {
        assert_eq!(client("false", "9.9.9.9", &["1.1.1.1, 2.2.2.2"]), "9.9.9.9");
        assert_eq!(client("false", "::ffff:9.9.9.9", &[]), "9.9.9.9");
    }

    #[test]
    fn hops_count_from_the_right_over_all_lines() {
        let chain = &["1.1.1.1, 2.2.2.2"][..];
        assert_eq!(client("1", "9.9.9.9", chain), "2.2.2.2");
        assert_eq!(client("2", "9.9.9.9", chain), "1.1.1.1");
        assert_eq!(
            client("3", "9.9.9.9", chain),
            "9.9.9.9",
            "the chain has fewer entries than hops"
        );
        assert_eq!(client("2", "9.9.9.9", &["1.1.1.1", "2.2.2.2"]), "1.1.1.1");
        assert_eq!(client("1", "9.9.9.9", &[]), "9.9.9.9");
        for invalid in [
            "unknown",
            "",
            "1.1.1",
            "1.1.1.1.1",
            "_hidden",
            "1.1.1.1:99999",
            "[::1",
            "[1.1.1.1]",
            "::1]:80",
            "1.1.1.1 2.2.2.2",
            "[::1]x",
        ] {
            assert_eq!(
                client("1", "9.9.9.9", &[&format!("1.1.1.1, {invalid}")]),
                "9.9.9.9",
                "{invalid}"
            );
        }
    }

    #[test]
    fn ports_and_zones_are_stripped() {
        for (entry, address) in [
            ("1.1.1.1:443", "1.1.1.1"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("fe80::1%eth0", "fe80::1"),
            ("[fe80::1%25eth0]:80", "fe80::1"),
            ("::ffff:1.2.3.4", "1.2.3.4"),
            ("\t2001:DB8::1 ", "2001:db8::1"),
        ] {
            assert_eq!(client("1", "9.9.9.9", &[entry]), address, "{entry}");
        }
    }

    #[test]
    fn networks_are_skipped_from_the_right() {
        let trust = "10.0.0.0/8, 2001:db8::/32, 192.0.2.7";
        assert_eq!(
            client(trust, "10.0.0.1", &["6.6.6.6, 1.1.1.1, 10.0.0.2"]),
            "1.1.1.1"
        );
        assert_eq!(
            client(trust, "2001:db8::5", &["1.1.1.1, 192.0.2.7"]),
            "1.1.1.1"
        );
        assert_eq!(
            client(trust, "8.8.8.8", &["1.1.1.1"]),
            "8.8.8.8",
            "the connection itself is no proxy"
        );
        assert_eq!(
            client(trust, "10.0.0.1", &["10.0.0.3, 10.0.0.2"]),
            "10.0.0.3",
            "all are trusted"
        );
        assert_eq!(
            client(trust, "10.0.0.1", &["1.1.1.1, nonsense"]),
            "10.0.0.1"
        );
        assert_eq!(client(trust, "10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(client(trust, "::ffff:10.0.0.1", &["1.1.1.1"]), "1.1.1.1");
    }

    #[test]
    fn invalid_proxy_settings_are_refused() {
        for text in [
            "0",
            "11",
            "-1",
            "true",
            "10.0.0.0/33",
            "10.0.0.0/8,",
            "proxy.internal",
            "",
        ] {
            assert!(TrustProxy::parse(text).is_err(), "{text}");
        }
        assert_eq!(TrustProxy::parse("10"), Ok(TrustProxy::Hops(10)));
    }

    #[test]
    fn an_ipv6_64_network_counts_as_one_client() {
        let key = |text: &str| address_limit_key(text.parse().unwrap());
        assert_eq!(key("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
        assert_eq!(
            key("2001:db8:1:2::1"),
            key("2001:db8:1:2:ffff:ffff:ffff:ffff")
        );
        assert_ne!(key("2001:db8:1:2::1"), key("2001:db8:1:3::1"));
        assert_eq!(key("1.2.3.4"), "1.2.3.4");
        assert_eq!(key("::ffff:1.2.3.4"), "1.2.3.4");
    }

    proptest! {
        #[test]
        fn arbitrary_headers_cause_no_panic(lines: Vec<Vec<u8>>, hops in 1u8..=10) {
            let socket = "9.9.9.9".parse().unwrap();
            let lines = || lines.iter().map(Vec::as_slice);
            TrustProxy::Hops(hops).client(socket, lines());
            TrustProxy::parse("0.0.0.0/0,::/0").unwrap().client(socket, lines());
        }

        #[test]
        fn addresses_prepended_by_the_client_are_ignored(front in "[ -~]{0,40}", hops in 1u8..=3) {
            let real = "1.1.1.1, 2.2.2.2, 3.3.3.3";
            let trust = TrustProxy::Hops(hops);
            let socket = "9.9.9.9".parse().unwrap();
            let forged = format!("{front},{real}");
            prop_assert_eq!(trust.client(socket, [real.as_bytes()].into_iter()), trust.client(socket, [forged.as_bytes()].into_iter()));
        }
    }
}
