//! Encryption of push messages, compared with the cryptographic primitives that it uses.

use std::time::{Duration, Instant};

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{ECDH_P256, ParsedPublicKey, PrivateKey, UnparsedPublicKey, agree};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::rand;
use linchpin_push::__private::{Receiver, encrypt};

use crate::Outcome;
use crate::table::Table;

/// Alternating rounds of each kind; the median counts.
const ROUNDS: usize = 9;
const ROUND: Duration = Duration::from_millis(500);
/// The length of the message before and after padding, in bytes.
const MESSAGE: usize = 300;
const PADDED: usize = 512;

pub(crate) fn measure() -> Outcome<Vec<&'static str>> {
    let keys = PrivateKey::generate(&ECDH_P256)?;
    let point = keys.compute_public_key()?;
    let secret = [7; 16];
    let receiver = Receiver::new(point.as_ref(), &secret).map_err(|_| "keys are refused")?;
    let parsed = ParsedPublicKey::try_from(UnparsedPublicKey::new(&ECDH_P256, point.as_ref()))?;
    let message = [b'x'; MESSAGE];
    let (mut ours, mut primitives_only) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(per_second(|| {
            Ok(encrypt(&receiver, &message)?.ok_or("too long")?.len())
        })?);
        primitives_only.push(per_second(|| primitives(&parsed, &secret, &message))?);
    }
    let mut table = Table::default();
    table.at_least(
        "push messages encrypted on one core, compared with the bare primitives",
        (median(ours), median(primitives_only)),
        0.9,
    );
    Ok(table.failed)
}

fn per_second(mut once: impl FnMut() -> Outcome<usize>) -> Outcome<f64> {
    let (started, mut done) = (Instant::now(), 0);
    while started.elapsed() < ROUND {
        for _ in 0..100 {
            std::hint::black_box(once()?);
        }
        done += 100;
    }
    Ok(f64::from(done) / started.elapsed().as_secs_f64())
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// A key pair, an agreement, three derivations and one encryption.
fn primitives(receiver: &ParsedPublicKey, secret: &[u8], message: &[u8]) -> Outcome<usize> {
    let sender_key = PrivateKey::generate(&ECDH_P256)?;
    let point = sender_key.compute_public_key()?;
    let mut salt = [0; 16];
    rand::fill(&mut salt)?;
    let (mut keying, mut key, mut nonce) = ([0; 32], [0; 16], [0; 12]);
    agree(&sender_key, receiver.clone(), "no key", |shared| {
        let derived = Salt::new(HKDF_SHA256, secret).extract(shared);
        let filled = derived
            .expand(&[point.as_ref()], Length(32))
            .and_then(|derived| derived.fill(&mut keying));
        filled.map_err(|_| "no key")
    })?;
    let keying = Salt::new(HKDF_SHA256, &salt).extract(&keying);
    keying
        .expand(&[b"Content-Encoding: aes128gcm\0"], Length(16))?
        .fill(&mut key)?;
    keying
        .expand(&[b"Content-Encoding: nonce\0"], Length(12))?
        .fill(&mut nonce)?;
    let mut body = message.to_vec();
    body.resize(PADDED, 0);
    LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key)?).seal_in_place_append_tag(
        Nonce::assume_unique_for_key(nonce),
        Aad::empty(),
        &mut body,
    )?;
    Ok(body.len())
}
