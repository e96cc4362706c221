use proptest::prelude::*;

use super::*;
use crate::addresses::is_public;

/// The check of a URL without name resolution; `None` if its name must be resolved.
fn check_without_resolution(url: &str) -> Option<Result<(), Refusal>> {
    match Target::parse(url, false) {
        Err(refusal) => Some(Err(refusal)),
        Ok(target) => target.address().map(|address| {
            if is_public(address.ip()) {
                Ok(())
            } else {
                Err(Refusal::Address)
            }
        }),
    }
}

#[test]
fn addresses_are_read_as_browsers_read_them() {
    for host in [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "0x7f.1",
        "0x7f.0.0.1",
        "0X7F.0x0.0x0.0x1",
        "0177.0.0.1",
        "0177.1",
        "00000177.0.0.1",
        "2130706433",
        "0x7f000001",
        "017700000001",
        "127.0.0.1.",
        "１２７.0.0.1",
        "127。0。0。1",
        "127｡0｡0｡1",
        "127.0.0.%31",
        "%31%32%37.0.0.1",
        "①②⑦.0.0.1",
        "0",
        "0.0.0.0",
        "0x0",
        "00",
        "0.0",
        "10.0.0.1",
        "10.1",
        "012.0.0.1",
        "0xa.0.0.1",
        "167772161",
        "0x0a000001",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "192.168.257",
        "3232235777",
        "0xc0a80101",
        "169.254.169.254",
        "2852039166",
        "0xa9fea9fe",
        "0251.0376.0251.0376",
        "169.254.43518",
        "0251.254.169.254",
        "100.64.0.1",
        "198.18.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "4294967295",
        "0xffffffff",
        "192.0.0.192",
        "192.0.2.1",
        "198.51.100.1",
        "203.0.113.1",
        "192.88.99.1",
        "[::]",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[0000::0001]",
        "[::127.0.0.1]",
        "[::7f00:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::FFFF:7F00:0001]",
        "[::ffff:10.0.0.1]",
        "[::ffff:a00:1]",
        "[::ffff:8.8.8.8]",
        "[::ffff:0:127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[64:ff9b::a00:1]",
        "[64:ff9b::8.8.8.8]",
        "[64:ff9b:1::1]",
        "[2002:7f00:1::]",
        "[2002:808:808::1]",
        "[2001::1]",
        "[2001:0:7f00:1::]",
        "[2001:db8::1]",
        "[fe80::1]",
        "[febf::1]",
        "[fc00::1]",
        "[fd00::1]",
        "[fd12:3456::1]",
        "[fec0::1]",
        "[ff02::1]",
        "[100::1]",
        "[5f00::1]",
        "[3fff::1]",
        "[4000::1]",
        "[::a9fe:a9fe]",
        "[::ffff:169.254.169.254]",
        "[fd00:ec2::254]",
    ] {
        let url = format!("https://{host}/hook");
        assert_eq!(
            check_without_resolution(&url),
            Some(Err(Refusal::Address)),
            "{url}"
        );
    }
}

#[test]
fn names_of_private_networks_are_refused() {
    for host in [
        "localhost",
        "LOCALHOST",
        "localhost.",
        "LocalHost.",
        "ｌｏｃａｌｈｏｓｔ",
        "loc%61lhost",
        "a.localhost",
        "a.b.localhost.",
        "printer.local",
        "PRINTER.LOCAL.",
        "db.internal",
        "metadata.google.internal",
        "metadata.google.internal.",
        "intranet",
        "db",
        "db.",
        "kubernetes",
        "redis",
        "ip6-localhost",
        "a_b",
        "_",
        "-",
        "x..",
        "a..b.example",
        ".example.com",
        "com",
    ] {
        let url = format!("https://{host}/");
        let found = check_without_resolution(&url);
        assert!(
            matches!(found, Some(Err(Refusal::Host | Refusal::Unreadable))),
            "{url}: {found:?}"
        );
    }
    let long = format!(
        "https://{}.example/",
        ["a".repeat(60).as_str(); 5].join(".")
    );
    assert_eq!(check_without_resolution(&long), Some(Err(Refusal::Host)));
}

#[test]
fn every_invalid_part_of_a_url_is_refused() {
    let cases = [
        ("http://example.com/", Refusal::Scheme),
        ("HTTP://example.com/", Refusal::Scheme),
        ("ftp://example.com/", Refusal::Scheme),
        ("file:///etc/passwd", Refusal::Scheme),
        ("gopher://example.com/", Refusal::Scheme),
        ("data:text/plain,a", Refusal::Scheme),
        ("javascript:alert(1)", Refusal::Scheme),
        ("unix:/run/docker.sock", Refusal::Scheme),
        ("ws://example.com/", Refusal::Scheme),
        ("https://user@example.com/", Refusal::UserInformation),
        ("https://user:pass@example.com/", Refusal::UserInformation),
        ("https://:@example.com/", Refusal::UserInformation),
        ("https://@example.com/", Refusal::UserInformation),
        ("https://example.com@10.0.0.1/", Refusal::UserInformation),
        ("https://example.com%40@10.0.0.1/", Refusal::UserInformation),
        ("https://example.com/#part", Refusal::Fragment),
        ("https://example.com/#", Refusal::Fragment),
        ("https://example.com:0/", Refusal::Port),
        ("https://example.com:22/", Refusal::Port),
        ("https://example.com:25/", Refusal::Port),
        ("https://example.com:1023/", Refusal::Port),
        ("https://example.com:65536/", Refusal::Unreadable),
        ("https://example.com:-1/", Refusal::Unreadable),
        ("https://example.com:a/", Refusal::Unreadable),
        ("https://", Refusal::Unreadable),
        ("https:///", Refusal::Unreadable),
        ("https://?a", Refusal::Unreadable),
        ("https:example.com", Refusal::Unreadable),
        ("https:/example.com", Refusal::Unreadable),
        ("https:\\\\example.com", Refusal::Unreadable),
        ("https://[::1", Refusal::Unreadable),
        ("https://[::1%25eth0]/", Refusal::Unreadable),
        ("https://[fe80::1%eth0]/", Refusal::Unreadable),
        ("https://[v1.a]/", Refusal::Unreadable),
        ("https://256.0.0.1/", Refusal::Unreadable),
        ("https://1.2.3.4.5/", Refusal::Unreadable),
        ("https://0x100000000/", Refusal::Unreadable),
        ("https://exa mple.com/", Refusal::Unreadable),
        ("https://exa%20mple.com/", Refusal::Unreadable),
        ("https://exa%00mple.com/", Refusal::Unreadable),
        ("https://exam\tple.com/", Refusal::Unreadable),
        ("https://example.com/\r\nhost: a", Refusal::Unreadable),
        (" https://example.com/", Refusal::Unreadable),
        ("https://example.com/ ", Refusal::Unreadable),
        ("//example.com/", Refusal::Unreadable),
        ("example.com", Refusal::Unreadable),
        ("", Refusal::Unreadable),
    ];
    for (url, refusal) in cases {
        assert_eq!(check_without_resolution(url), Some(Err(refusal)), "{url}");
    }
    let long = format!("https://example.com/{}", "a".repeat(2_048));
    assert_eq!(check_without_resolution(&long), Some(Err(Refusal::TooLong)));
}

#[test]
fn public_hosts_are_read() {
    let cases = [
        ("https://example.com", "example.com", "/"),
        ("HTTPS://EXAMPLE.COM/Hook?a=B", "example.com", "/Hook?a=B"),
        (
            "https://example.com.:8443/a b",
            "example.com:8443",
            "/a%20b",
        ),
        (
            "https://bücher.example/ä",
            "xn--bcher-kva.example",
            "/%C3%A4",
        ),
        ("https://8.8.8.8:443/", "8.8.8.8", "/"),
        (
            "https://[2606:4700::1111]:8443/x",
            "[2606:4700::1111]:8443",
            "/x",
        ),
        ("https://example.com/../a/./b", "example.com", "/a/b"),
        ("https://example.com\\a", "example.com", "/a"),
        ("https://example.com/@a", "example.com", "/@a"),
        ("https://local.example.com/", "local.example.com", "/"),
    ];
    for (url, authority, path) in cases {
        let target = Target::parse(url, false).expect(url);
        assert_eq!(
            (&*target.authority, &*target.path.to_string()),
            (authority, path),
            "{url}"
        );
        assert!(target.tls);
    }
    let target = Target::parse("http://example.com:8080/", true).expect("http is allowed");
    assert_eq!((target.tls, target.port), (false, 8080));
    // The name that is resolved and verified has no dot at its end.
    let target = Target::parse("https://example.com./", false).expect("a name");
    assert_eq!(target.host, Host::Domain("example.com".to_owned()));
}

proptest! {
    #[test]
    fn no_url_causes_a_panic(text in "\\PC{0,60}", tail in "[0-9a-fx.:\\[\\]%@/\\\\#?-]{0,40}") {
        let _ = Target::parse(&text, true);
        let _ = Target::parse(&format!("https:{tail}"), true);
        if let Ok(target) = Target::parse(&format!("https://{tail}"), true) {
            // The head of the request contains no control character and no space from the URL.
            let head = format!("{}{}", target.authority, target.path);
            prop_assert!(head.bytes().all(|b| b.is_ascii_graphic()), "{head}");
        }
    }
}
