use std::collections::HashMap;

use proptest::prelude::*;

use super::authenticator::{Attestation, AuthenticatorData};
use super::*;

/// An example of the standard.
struct Example {
    name: &'static str,
    values: HashMap<&'static str, Vec<u8>>,
}

impl Example {
    fn all() -> Vec<Self> {
        let mut out: Vec<Self> = Vec::new();
        for line in include_str!("vectors.txt")
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            match (line.strip_prefix('['), line.split_once(' ')) {
                (Some(name), _) => out.push(Self {
                    name: name.trim_end_matches(']'),
                    values: HashMap::new(),
                }),
                (None, Some((key, hex))) => {
                    drop(out.last_mut().unwrap().values.insert(key, unhex(hex)));
                }
                _ => panic!("{line}"),
            }
        }
        assert_eq!(out.len(), 8);
        out
    }

    fn named(name: &str) -> Self {
        Self::all()
            .into_iter()
            .find(|example| example.name == name)
            .unwrap()
    }

    fn registration(&self) -> Registration {
        Registration {
            id: self.values["credential_id"].clone(),
            client_data: self.values["create.clientDataJSON"].clone(),
            attestation_object: self.values["create.attestationObject"].clone(),
            transports: Vec::new(),
        }
    }

    fn assertion(&self) -> Assertion {
        Assertion {
            id: self.values["credential_id"].clone(),
            client_data: self.values["get.clientDataJSON"].clone(),
            authenticator_data: self.values["get.authenticatorData"].clone(),
            signature: self.values["get.signature"].clone(),
            user_handle: None,
        }
    }

    fn key(&self) -> Vec<u8> {
        let object = Attestation::read(&self.values["create.attestationObject"]).unwrap();
        AuthenticatorData::read(object.authenticator_data)
            .unwrap()
            .attested
            .unwrap()
            .public_key
            .to_vec()
    }

    fn register(&self, answer: &Registration) -> Result<Registered, Fault> {
        site().check_registration(answer, &self.values["create.challenge"], false)
    }

    fn assert(&self, answer: &Assertion) -> Result<Asserted, Fault> {
        site().check_assertion(answer, &self.values["get.challenge"], &self.key(), false)
    }
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

fn site() -> Site {
    Site::new("example.org", &["https://example.org".to_owned()])
}

#[test]
fn the_webauthn_examples_have_the_expected_results() {
    let frame = Some("a frame of another origin");
    for (name, registration_fault, assertion_fault) in [
        ("none.ES256", None, None),
        ("packed-self.ES256", None, None),
        ("crossOrigin", frame, frame),
        ("topOrigin", frame, frame),
        ("long id", None, None),
        // This algorithm was not requested.
        ("ES384", Some("algorithm"), Some("algorithm")),
        // The statement contains certificates, which were not requested; the key is valid.
        ("RS256", Some("attestation"), None),
        ("Ed25519", Some("attestation"), None),
    ] {
        let example = Example::named(name);
        let registered = example.register(&example.registration());
        assert_eq!(
            registered.as_ref().err().map(|fault| fault.0),
            registration_fault,
            "{name}"
        );
        assert_eq!(
            example
                .assert(&example.assertion())
                .err()
                .map(|fault| fault.0),
            assertion_fault,
            "{name}"
        );
        if let Ok(registered) = registered {
            assert_eq!(
                (registered.credential_id, registered.public_key),
                (example.values["credential_id"].clone(), example.key())
            );
        }
    }
}

#[test]
fn authenticator_flags_are_read() {
    let example = Example::named("none.ES256");
    let flags = example.register(&example.registration()).unwrap().flags;
    assert_eq!(
        flags,
        Flags {
            user_present: true,
            user_verified: false,
            backup_eligible: true,
            backed_up: true
        }
    );
    let strict = site().check_registration(
        &example.registration(),
        &example.values["create.challenge"],
        true,
    );
    assert_eq!(strict.unwrap_err(), Fault("user not verified"));
    let strict = site().check_assertion(
        &example.assertion(),
        &example.values["get.challenge"],
        &example.key(),
        true,
    );
    assert_eq!(strict.unwrap_err(), Fault("user not verified"));
}

#[test]
fn responses_for_another_challenge_or_origin_are_refused() {
    let example = Example::named("none.ES256");
    let other = Site::new("example.com", &["https://example.org".to_owned()]);
    let challenge = &example.values["get.challenge"];
    assert_eq!(
        other
            .check_assertion(&example.assertion(), challenge, &example.key(), false)
            .unwrap_err(),
        Fault("another site")
    );
    let elsewhere = Site::new(
        "example.org",
        &[
            "https://www.example.org".to_owned(),
            "http://example.org".to_owned(),
        ],
    );
    assert_eq!(
        elsewhere
            .check_assertion(&example.assertion(), challenge, &example.key(), false)
            .unwrap_err(),
        Fault("another origin")
    );
    assert_eq!(
        site()
            .check_assertion(&example.assertion(), &[0; 32], &example.key(), false)
            .unwrap_err(),
        Fault("another challenge")
    );
    // A response to one operation is not valid for the other.
    let swapped = Assertion {
        client_data: example.registration().client_data,
        ..example.assertion()
    };
    assert_eq!(
        site()
            .check_assertion(
                &swapped,
                &example.values["create.challenge"],
                &example.key(),
                false
            )
            .unwrap_err(),
        Fault("another ceremony")
    );
    let renamed = Registration {
        id: vec![1; 32],
        ..example.registration()
    };
    assert_eq!(
        example.register(&renamed).unwrap_err(),
        Fault("another credential")
    );
}

/// Invalid COSE keys, with a member replaced or added.
#[test]
fn malformed_keys_are_refused() {
    use minicbor::Encoder;
    let good = Example::named("none.ES256").key();
    assert!(key::PublicKey::read(&good).is_ok());
    let (x, y) = (good[10..42].to_vec(), good[45..77].to_vec());
    let build = |kind: i64, alg: i64, curve: i64, x: &[u8], y: &[u8], more: bool| {
        let mut out = Encoder::new(Vec::new());
        out.map(if more { 6 } else { 5 }).unwrap();
        out.i64(1)
            .unwrap()
            .i64(kind)
            .unwrap()
            .i64(3)
            .unwrap()
            .i64(alg)
            .unwrap()
            .i64(-1)
            .unwrap()
            .i64(curve)
            .unwrap();
        out.i64(-2)
            .unwrap()
            .bytes(x)
            .unwrap()
            .i64(-3)
            .unwrap()
            .bytes(y)
            .unwrap();
        if more {
            out.i64(3).unwrap().i64(alg).unwrap();
        }
        out.into_writer()
    };
    assert!(key::PublicKey::read(&build(2, -7, 1, &x, &y, false)).is_ok());
    let mut off_the_curve = y.clone();
    off_the_curve[31] ^= 1;
    for (what, bytes) in [
        ("a duplicate member", build(2, -7, 1, &x, &y, true)),
        ("another kind", build(1, -7, 1, &x, &y, false)),
        ("another curve", build(2, -7, 2, &x, &y, false)),
        ("another algorithm", build(2, -35, 1, &x, &y, false)),
        ("no algorithm", build(2, 0, 1, &x, &y, false)),
        ("short", build(2, -7, 1, &x[..31], &y, false)),
        ("no point", build(2, -7, 1, &x, &off_the_curve, false)),
        ("zero", build(2, -7, 1, &[0; 32], &[0; 32], false)),
        ("cut off", good[..76].to_vec()),
        ("trailing data", [good.as_slice(), &[0]].concat()),
        ("nothing", Vec::new()),
        ("an array", vec![0x80]),
        ("a map without an end", vec![0xbf, 0xff]),
        (
            "many members",
            vec![0xbb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        ),
    ] {
        assert!(key::PublicKey::read(&bytes).is_err(), "{what}");
    }
    let rsa = |n: &[u8], e: &[u8]| {
        let mut out = Encoder::new(Vec::new());
        out.map(4)
            .unwrap()
            .i64(1)
            .unwrap()
            .i64(3)
            .unwrap()
            .i64(3)
            .unwrap()
            .i64(-257)
            .unwrap();
        out.i64(-1)
            .unwrap()
            .bytes(n)
            .unwrap()
            .i64(-2)
            .unwrap()
            .bytes(e)
            .unwrap();
        key::PublicKey::read(&out.into_writer()).is_ok()
    };
    let n = [vec![0x80], vec![0; 254], vec![1]].concat();
    assert!(rsa(&n, &[1, 0, 1]));
    assert!(
        !rsa(&n[..128], &[1, 0, 1])
            && !rsa(&[&[0], n.as_slice()].concat(), &[1, 0, 1])
            && !rsa(&n, &[0])
            && !rsa(&n, &[])
    );
    assert!(!rsa(&vec![0x81; 1025], &[1, 0, 1]) && !rsa(&n, &[1; 9]));
}

/// Nested, long or truncated CBOR at every place that is parsed.
#[test]
fn hostile_cbor_is_refused() {
    let good = Example::named("none.ES256");
    let object = &good.values["create.attestationObject"];
    let deep = vec![0x81; 60_000];
    let mut hostile: Vec<Vec<u8>> = (0..object.len())
        .map(|end| object[..end].to_vec())
        .collect();
    hostile.extend([
        deep.clone(),
        vec![0x9f; 60_000],
        vec![0xbf; 60_000],
        vec![0xd8; 60_000],
        vec![0x5f; 60_000],
        [
            &[
                0xa3, 0x63, b'f', b'm', b't', 0x64, b'n', b'o', b'n', b'e', 0x67,
            ],
            b"attStmt".as_slice(),
            &deep,
        ]
        .concat(),
        vec![0x5b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        vec![0x9b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        [object.as_slice(), &[0]].concat(),
        // The member `fmt` twice.
        [
            &[0xa4, 0x63, b'f', b'm', b't', 0x64, b'n', b'o', b'n', b'e'],
            &object[1..],
        ]
        .concat(),
    ]);
    for attestation_object in hostile {
        assert!(
            good.register(&Registration {
                attestation_object,
                ..good.registration()
            })
            .is_err()
        );
    }
}

#[test]
fn client_data_is_json_of_the_right_types() {
    let good = Example::named("none.ES256");
    for text in [
        "",
        "{",
        "[]",
        "null",
        r#"{"type":"webauthn.get"}"#,
        r#"{"type":1,"challenge":"","origin":""}"#,
        r#"{"type":"webauthn.get","type":"webauthn.get","challenge":"","origin":""}"#,
        r#"{"type":"webauthn.get","challenge":"AA==","origin":"https://example.org"}"#,
        r#"{"type":"webauthn.get","challenge":"","origin":"https://example.org","crossOrigin":"false"}"#,
    ] {
        let answer = Assertion {
            client_data: text.as_bytes().to_vec(),
            ..good.assertion()
        };
        assert!(good.assert(&answer).is_err(), "{text}");
    }
}

proptest! {
    /// No signed byte can be changed.
    #[test]
    fn a_changed_assertion_is_refused(name in prop::sample::select(vec!["none.ES256", "RS256", "Ed25519"]), part in 0usize..3, at: prop::sample::Index, bits in 1u8..=255) {
        let example = Example::named(name);
        let mut answer = example.assertion();
        let bytes = [&mut answer.client_data, &mut answer.authenticator_data, &mut answer.signature][part].as_mut_slice();
        let at = at.index(bytes.len());
        bytes[at] ^= bits;
        prop_assert!(example.assert(&answer).is_err());
    }

    /// No byte of a self attestation can be changed.
    #[test]
    fn a_changed_registration_is_refused(at: prop::sample::Index, bits in 1u8..=255, in_client_data: bool) {
        let example = Example::named("packed-self.ES256");
        let mut answer = example.registration();
        let bytes = if in_client_data { &mut answer.client_data } else { &mut answer.attestation_object };
        let at = at.index(bytes.len());
        bytes[at] ^= bits;
        prop_assert!(example.register(&answer).is_err());
    }

    /// Any bytes are parsed or refused.
    #[test]
    fn arbitrary_bytes_cause_no_panic(bytes: Vec<u8>, cut: prop::sample::Index, insert: Vec<u8>) {
        let example = Example::named("none.ES256");
        let mut mixed = example.values["create.attestationObject"].clone();
        let at = cut.index(mixed.len());
        mixed.splice(at..at, insert);
        for attestation_object in [bytes.clone(), mixed] {
            let _ = example.register(&Registration { attestation_object, ..example.registration() });
        }
        let _ = AuthenticatorData::read(&bytes);
        let _ = key::PublicKey::read(&bytes);
    }
}
