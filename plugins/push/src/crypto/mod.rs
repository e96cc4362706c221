//! The cryptography of web push: encryption of messages, and identification of the sender.

mod encrypt;
mod vapid;

pub use encrypt::{Receiver, WrongKey, encrypt};
pub(crate) use vapid::{Tokens, is_subject};
pub use vapid::{VapidKey, VapidKeyError};

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// base64url: written without padding, read with or without it.
pub(crate) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Bytes as base64url.
pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    BASE64.encode(bytes)
}

/// The bytes of a base64url text.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text).ok()
}
