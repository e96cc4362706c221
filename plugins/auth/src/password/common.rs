//! The list of common passwords. `common/` contains its sources and their licences.

use crate::identity::fold;

/// Case-folded, sorted by code point, one per line.
static LIST: &str = include_str!("common/passwords.txt");

/// Whether a password is in the list, in any case. It does not allocate memory.
pub(crate) fn is_common(password: &str) -> bool {
    let (mut low, mut high) = (0, LIST.len());
    while low < high {
        let middle = low.midpoint(high);
        // The start of the line in the middle. The list is ASCII, so every index is a character
        // boundary.
        let start = LIST[low..middle].rfind('\n').map_or(low, |at| low + at + 1);
        let end = LIST[middle..high].find('\n').map_or(high, |at| middle + at);
        match fold(password).cmp(LIST[start..end].chars()) {
            std::cmp::Ordering::Less => high = start,
            std::cmp::Ordering::Greater => low = end + 1,
            std::cmp::Ordering::Equal => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_list_is_ascii_folded_sorted_and_unique() {
        let lines: Vec<&str> = LIST.lines().collect();
        assert_eq!(lines.len(), 21_640);
        assert!(LIST.is_ascii() && LIST.ends_with('\n'));
        for pair in lines.windows(2) {
            assert!(pair[0] < pair[1], "{pair:?}");
        }
        for line in &lines {
            assert!(line.len() >= 8 && fold(line).eq(line.chars()), "{line}");
        }
    }

    #[test]
    fn common_passwords_are_found_in_upper_and_lower_case() {
        for line in LIST.lines() {
            assert!(is_common(line) && is_common(&line.to_uppercase()), "{line}");
            assert!(
                !is_common(&format!("{line}\n")) && !is_common(&format!("{line}\u{e9}")),
                "{line}"
            );
        }
        for password in [
            "password123",
            "PassWord123",
            "qwertyuiop",
            "iloveyou",
            "trustno1",
            "linkedin",
            "00000000",
        ] {
            assert!(is_common(password), "{password}");
        }
    }

    #[test]
    fn other_passwords_are_not_in_the_common_list() {
        for password in [
            "",
            "\n",
            "violet-otter-91-lamp",
            "aaaa bbbb cccc",
            "password\npassword1",
            "pässword",
        ] {
            assert!(!is_common(password), "{password}");
        }
    }

    proptest! {
        #[test]
        fn the_search_agrees_with_a_scan(password in "[ -~]{1,12}|[a-z]{8}|[a-z]{5,7}[0-9]{1,3}") {
            let lower = password.to_lowercase();
            prop_assert_eq!(is_common(&password), LIST.lines().any(|line| line == lower));
        }
    }
}
