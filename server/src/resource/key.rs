//! Checks keys that clients supply.

/// Whether a text can be the key of a record.
pub(super) fn valid_key(text: &str) -> bool {
    // Nearly all keys are ASCII, and a check of their bytes is enough.
    let controls = if text.is_ascii() {
        text.bytes().any(|b| b.is_ascii_control())
    } else {
        text.chars().any(char::is_control)
    };
    (1..=255).contains(&text.len()) && text != "." && text != ".." && !controls
}
