//! Public keys of credentials: COSE (RFC 9053, 8812) with the three requested algorithms.

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
    RsaPublicKeyComponents,
};
use minicbor::Decoder;
use minicbor::data::Type;

use super::Fault;

pub(super) const ES256: i64 = -7;
pub(super) const EDDSA: i64 = -8;
pub(super) const RS256: i64 = -257;

/// Length of a modulus in bytes: 2048 to 8192 bits.
const MODULUS: std::ops::RangeInclusive<usize> = 256..=1024;
/// Length of an exponent in bytes.
const EXPONENT: std::ops::RangeInclusive<usize> = 1..=8;
/// Length in bytes of a coordinate on P-256, and of an Ed25519 public key.
const COORDINATE: usize = 32;

/// A key that verifies signatures.
#[derive(Debug)]
pub(super) enum PublicKey<'a> {
    /// Both coordinates.
    Es256(ParsedPublicKey),
    EdDsa(ParsedPublicKey),
    Rs256(RsaPublicKeyComponents<&'a [u8]>),
}

/// The members of a key by label.
#[derive(Default)]
struct Members<'a> {
    kind: Option<i64>,
    algorithm: Option<i64>,
    curve: Option<i64>,
    /// The modulus of RSA. It has the same label as the curve of the other key types.
    modulus: Option<&'a [u8]>,
    /// `x`, or the exponent of RSA.
    first: Option<&'a [u8]>,
    y: Option<&'a [u8]>,
}

impl<'a> Members<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, Fault> {
        let wrong = Fault("unreadable key");
        let mut decoder = Decoder::new(bytes);
        let mut out = Self::default();
        for _ in 0..decoder.map().ok().flatten().ok_or(wrong)? {
            let label = decoder.i64().map_err(|_| wrong)?;
            let is_bytes = decoder.datatype().map_err(|_| wrong)? == Type::Bytes;
            let is_accepted = match (label, is_bytes) {
                (1, false) => set_once(&mut out.kind, decoder.i64().map_err(|_| wrong)?),
                (3, false) => set_once(&mut out.algorithm, decoder.i64().map_err(|_| wrong)?),
                (-1, false) => set_once(&mut out.curve, decoder.i64().map_err(|_| wrong)?),
                (-1, true) => set_once(&mut out.modulus, decoder.bytes().map_err(|_| wrong)?),
                (-2, true) => set_once(&mut out.first, decoder.bytes().map_err(|_| wrong)?),
                (-3, true) => set_once(&mut out.y, decoder.bytes().map_err(|_| wrong)?),
                // Other members are not allowed (6.5.1.1).
                _ => false,
            };
            if !is_accepted {
                return Err(wrong);
            }
        }
        if decoder.position() == bytes.len() {
            Ok(out)
        } else {
            Err(wrong)
        }
    }
}

impl<'a> PublicKey<'a> {
    /// # Errors
    /// If it is not a key of a requested algorithm.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, Fault> {
        let wrong = Fault("the key does not match its algorithm");
        let Members {
            kind,
            algorithm,
            curve,
            modulus,
            first,
            y,
        } = Members::read(bytes)?;
        match (algorithm, kind, curve, modulus, first, y) {
            (Some(ES256), Some(2), Some(1), None, Some(x), Some(y))
                if x.len() == COORDINATE && y.len() == COORDINATE =>
            {
                let point = [&[4], x, y].concat();
                ParsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point)
                    .map(Self::Es256)
                    .map_err(|_| wrong)
            }
            (Some(EDDSA), Some(1), Some(6), None, Some(x), None) if x.len() == COORDINATE => {
                ParsedPublicKey::new(&ED25519, x)
                    .map(Self::EdDsa)
                    .map_err(|_| wrong)
            }
            (Some(RS256), Some(3), None, Some(n), Some(e), None)
                if MODULUS.contains(&n.len()) && EXPONENT.contains(&e.len()) =>
            {
                let key = RsaPublicKeyComponents { n, e };
                // Encoding the key validates it.
                key.as_der().map_err(|_| wrong)?;
                Ok(Self::Rs256(key))
            }
            (Some(ES256 | EDDSA | RS256), ..) => Err(wrong),
            _ => Err(Fault("algorithm")),
        }
    }

    pub(super) fn algorithm(&self) -> i64 {
        match self {
            Self::Es256(_) => ES256,
            Self::EdDsa(_) => EDDSA,
            Self::Rs256(_) => RS256,
        }
    }

    /// # Errors
    /// If the signature is invalid.
    pub(super) fn verify(&self, message: &[u8], signature: &[u8]) -> Result<(), Fault> {
        let verified = match self {
            Self::Es256(key) | Self::EdDsa(key) => key.verify_sig(message, signature),
            Self::Rs256(key) => key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature),
        };
        verified.map_err(|_| Fault("signature"))
    }
}

/// Stores a value once; false if it was stored before.
pub(super) fn set_once<T>(place: &mut Option<T>, value: T) -> bool {
    place.replace(value).is_none()
}
