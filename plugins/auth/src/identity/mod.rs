//! Who somebody says they are, and where a request comes from.

pub(crate) mod address;
pub(crate) mod normalise;

pub use address::TrustProxy;
pub use normalise::PrimaryField;

/// Text whose case does not matter, character by character. Through upper case first, so that `ß`
/// meets `SS`.
pub(crate) fn fold(text: &str) -> impl Iterator<Item = char> {
    text.chars()
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
}
