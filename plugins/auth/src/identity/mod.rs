//! Identifiers of accounts and addresses of clients.

pub(crate) mod address;
pub(crate) mod normalise;

pub use address::TrustProxy;
pub use normalise::PrimaryField;

/// Folds the case of a text, character by character. It converts to upper case first, so that `ß`
/// equals `SS`.
pub(crate) fn fold(text: &str) -> impl Iterator<Item = char> {
    text.chars()
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
}
