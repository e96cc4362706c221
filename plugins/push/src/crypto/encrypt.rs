//! The encryption of RFC 8291: one record of the content coding `aes128gcm`, for one browser.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{ECDH_P256, ParsedPublicKey, PrivateKey, UnparsedPublicKey, agree};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::rand;
use linchpin::{Error, Result};
use zeroize::Zeroizing;

/// The length of an uncompressed point on P-256, in bytes.
const POINT_LENGTH: usize = 65;
/// The length of the secret of a browser, in bytes.
const SECRET_LENGTH: usize = 16;
/// The record size in the header of `aes128gcm`.
const RECORD_SIZE: u32 = 4_096;
/// The lengths to which messages are padded. They hide the length of the message from the push
/// service.
const PADDED_LENGTHS: [usize; 4] = [512, 1_024, 2_048, MAX_MESSAGE];
/// The maximum size of a message in bytes. A body has at most 4,096 bytes, and encryption adds 103
/// bytes.
pub(crate) const MAX_MESSAGE: usize = 3_993;

/// The reason for refusing the keys of a browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrongKey {
    /// `p256dh` is not an uncompressed point on P-256.
    Point,
    /// `auth` does not have 16 bytes.
    Secret,
}

/// The keys of a browser, to which messages are encrypted.
pub struct Receiver {
    point: [u8; POINT_LENGTH],
    parsed: ParsedPublicKey,
    secret: Zeroizing<[u8; SECRET_LENGTH]>,
}

impl Receiver {
    /// Reads the keys of a subscription.
    ///
    /// # Errors
    /// Names the first invalid key.
    pub fn new(p256dh: &[u8], auth: &[u8]) -> std::result::Result<Self, WrongKey> {
        let point: [u8; POINT_LENGTH] = p256dh.try_into().map_err(|_| WrongKey::Point)?;
        // Other forms of a key, such as a compressed point, have another first byte.
        if point[0] != 4 {
            return Err(WrongKey::Point);
        }
        let parsed = UnparsedPublicKey::new(&ECDH_P256, point);
        let parsed = ParsedPublicKey::try_from(parsed).map_err(|_| WrongKey::Point)?;
        let secret = auth.try_into().map_err(|_| WrongKey::Secret)?;
        Ok(Self {
            point,
            parsed,
            secret: Zeroizing::new(secret),
        })
    }
}

/// The length of a derived value.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// Derives `N` bytes.
fn derive<const N: usize>(salt: &[u8], key: &[u8], info: &[&[u8]]) -> Result<Zeroizing<[u8; N]>> {
    let mut out = Zeroizing::new([0; N]);
    Salt::new(HKDF_SHA256, salt)
        .extract(key)
        .expand(info, Length(N))
        .and_then(|derived| derived.fill(&mut *out))
        .map_err(Error::internal)?;
    Ok(out)
}

/// Encrypts a message with a new key pair and a new salt. Returns `None` if the message is longer
/// than 3,993 bytes.
///
/// # Errors
/// `internal` if the system has no random numbers.
pub fn encrypt(receiver: &Receiver, message: &[u8]) -> Result<Option<Vec<u8>>> {
    let Some(length) = PADDED_LENGTHS
        .into_iter()
        .find(|max_length| message.len() <= *max_length)
    else {
        return Ok(None);
    };
    let key_pair = PrivateKey::generate(&ECDH_P256).map_err(Error::internal)?;
    let mut salt = [0; 16];
    rand::fill(&mut salt).map_err(Error::internal)?;
    encrypt_with(receiver, message, length, &key_pair, salt).map(Some)
}

/// Encrypts a message that is padded to `length` bytes.
fn encrypt_with(
    receiver: &Receiver,
    message: &[u8],
    length: usize,
    key_pair: &PrivateKey,
    salt: [u8; 16],
) -> Result<Vec<u8>> {
    let own_point = key_pair.compute_public_key().map_err(Error::internal)?;
    let own_point = own_point.as_ref();
    let shared = agree(
        key_pair,
        receiver.parsed.clone(),
        Error::internal("no key"),
        |shared| Ok(Zeroizing::new(shared.to_vec())),
    )?;
    let info: [&[u8]; 3] = [b"WebPush: info\0", &receiver.point, own_point];
    let keying = derive::<32>(&*receiver.secret, &shared, &info)?;
    let key = derive::<16>(&salt, &*keying, &[b"Content-Encoding: aes128gcm\0"])?;
    let nonce = derive::<12>(&salt, &*keying, &[b"Content-Encoding: nonce\0"])?;

    let mut body = Vec::with_capacity(16 + 4 + 1 + POINT_LENGTH + length + 1 + 16);
    body.extend_from_slice(&salt);
    body.extend_from_slice(&RECORD_SIZE.to_be_bytes());
    body.push(POINT_LENGTH as u8);
    body.extend_from_slice(own_point);
    let head = body.len();
    body.extend_from_slice(message);
    // The delimiter byte 2 marks the last record. Zero bytes pad it.
    body.push(2);
    body.resize(head + length + 1, 0);
    let key = UnboundKey::new(&AES_128_GCM, &*key).map_err(Error::internal)?;
    let tag = LessSafeKey::new(key)
        .seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(*nonce),
            Aad::empty(),
            &mut body[head..],
        )
        .map_err(Error::internal)?;
    body.extend_from_slice(tag.as_ref());
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::{decode, encode};

    /// The example of RFC 8291, appendix A.
    #[test]
    fn the_rfc_example_encrypts_to_the_same_bytes() {
        let point = decode("BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4").unwrap();
        let secret = decode("BTBZMqHH6r4Tts7J_aSIgg").unwrap();
        let receiver = Receiver::new(&point, &secret).ok().unwrap();
        let key_pair = decode("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw").unwrap();
        let key_pair = PrivateKey::from_private_key(&ECDH_P256, &key_pair).unwrap();
        let salt = decode("DGv6ra1nlYgDCS1FRnbzlw")
            .unwrap()
            .try_into()
            .unwrap();
        let text = b"When I grow up, I want to be a watermelon";
        let body = encrypt_with(&receiver, text, text.len(), &key_pair, salt).unwrap();
        assert_eq!(
            encode(body),
            "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIg\
             Dll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
        );
    }

    #[test]
    fn encrypted_bodies_have_four_lengths_and_use_new_keys() {
        let keys = PrivateKey::generate(&ECDH_P256).unwrap();
        let point = keys.compute_public_key().unwrap();
        let receiver = Receiver::new(point.as_ref(), &[7; 16]).ok().unwrap();
        let overhead = 16 + 4 + 1 + 65 + 1 + 16;
        for (message, expected) in [
            (0, 512),
            (512, 512),
            (513, 1_024),
            (1_025, 2_048),
            (2_049, 3_993),
            (3_993, 3_993),
        ] {
            let body = encrypt(&receiver, &vec![b'x'; message]).unwrap().unwrap();
            assert_eq!(body.len(), expected + overhead, "{message}");
            assert!(body.len() <= 4_096);
        }
        assert_eq!(encrypt(&receiver, &[b'x'; 3_994]).unwrap(), None);
        let one = encrypt(&receiver, b"the same").unwrap().unwrap();
        let other = encrypt(&receiver, b"the same").unwrap().unwrap();
        assert_ne!(one[..16], other[..16], "each message has a new salt");
        assert_ne!(
            one[21..86],
            other[21..86],
            "each message has a new key pair"
        );
    }

    #[test]
    fn keys_of_other_formats_are_refused() {
        let keys = PrivateKey::generate(&ECDH_P256).unwrap();
        let point = keys.compute_public_key().unwrap().as_ref().to_vec();
        let wrong = |point: &[u8]| Receiver::new(point, &[7; 16]).err();
        assert_eq!(wrong(&point), None);
        assert_eq!(wrong(&point[1..]), Some(WrongKey::Point));
        assert_eq!(wrong(&[]), Some(WrongKey::Point));
        assert_eq!(wrong(&[0]), Some(WrongKey::Point), "the point at infinity");
        let mut compressed = point[..33].to_vec();
        compressed[0] = 2 + (point[64] & 1);
        assert_eq!(wrong(&compressed), Some(WrongKey::Point));
        let mut hybrid = point.clone();
        hybrid[0] = 6 + (point[64] & 1);
        assert_eq!(wrong(&hybrid), Some(WrongKey::Point));
        let mut off_the_curve = point.clone();
        off_the_curve[64] ^= 1;
        assert_eq!(wrong(&off_the_curve), Some(WrongKey::Point));
        let mut zero = vec![0; 65];
        zero[0] = 4;
        assert_eq!(wrong(&zero), Some(WrongKey::Point));
        let mut too_large = vec![0xff; 65];
        too_large[0] = 4;
        assert_eq!(wrong(&too_large), Some(WrongKey::Point));
        for length in [0, 15, 17, 32] {
            let found = Receiver::new(&point, &vec![7; length]).err();
            assert_eq!(found, Some(WrongKey::Secret), "{length}");
        }
    }
}
