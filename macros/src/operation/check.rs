//! Rules of names.

use syn::Ident;
use syn::ext::IdentExt;

use crate::diagnostics::Diagnostics;
use crate::names;

/// Methods that every adapter has, and `purge`, which retention will add.
const TAKEN: &[&str] = &["create", "get", "list", "update", "delete", "purge"];

/// The adapter method and the route segment of an operation.
pub(crate) fn name_of(ident: &Ident, d: &mut Diagnostics) -> (String, String) {
    let written = ident.unraw().to_string();
    let (name, kebab) = (names::snake(&written), names::kebab(&written));
    if TAKEN.contains(&name.as_str()) {
        d.error(ident, format!("operation name `{name}` is taken: every adapter has it")).help("another name");
    }
    let fits = kebab.len() <= 63 && kebab.starts_with(|c: char| c.is_ascii_alphabetic());
    if !fits || !kebab.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        d.error(ident, format!("operation name gives an empty, non-alphabetic or over-long route segment `{kebab}`"))
            .help("a name of letters and digits, at most 63 of them");
    }
    (name, kebab)
}
