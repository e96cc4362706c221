//! Suggestions for messages: the known name that is nearest to a mistyped one.

/// The end of a message about an unknown name: "; did you mean `x`?", or an empty text if no known
/// name is near.
///
/// ```
/// use linchpin_core::suggest::did_you_mean;
///
/// assert_eq!(did_you_mean("rotes", ["serve", "routes"]), "; did you mean `routes`?");
/// assert_eq!(did_you_mean("banana", ["serve", "routes"]), "");
/// ```
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known).map_or_else(String::new, |known| format!("; did you mean `{known}`?"))
}

/// The known name that is nearest to `name`; `None` if the nearest differs in more than a third of
/// the characters of `name` and in more than two.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.chars().count() / 3).max(2);
    let near = known
        .into_iter()
        .map(|k| (strsim::osa_distance(name, k), k))
        .filter(|(d, _)| *d <= limit);
    near.min_by_key(|(d, _)| *d).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested_and_far_ones_are_not() {
        assert_eq!(
            did_you_mean("LINCHPIN_PROT", ["LINCHPIN_HOST", "LINCHPIN_PORT"]),
            "; did you mean `LINCHPIN_PORT`?"
        );
        assert_eq!(
            did_you_mean("rotes", ["serve", "routes"]),
            "; did you mean `routes`?"
        );
        assert_eq!(did_you_mean("banana", ["serve", "routes"]), "");
    }
}
