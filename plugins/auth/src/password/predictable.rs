//! Passwords that follow from a few of their characters: repeats, sequences, and walks on the
//! keyboard.

use crate::identity::fold;

/// A password needs more freely chosen characters than this number.
const MAX_CHOSEN: usize = 4;

/// Minimum length of a sequence or a walk, because two neighbours can occur by chance.
const MIN_RUN: usize = 3;

/// Rows and columns of common keyboards, without and with Shift.
const KEYS: [&str; 18] = [
    "1234567890-=",
    "!@#$%^&*()_+",
    "qwertyuiop[]",
    "asdfghjkl;'",
    "zxcvbnm,./",
    "йцукенгшщзхъ",
    "фывапролджэ",
    "ячсмитьбю",
    "1qaz",
    "2wsx",
    "3edc",
    "4rfv",
    "5tgb",
    "6yhn",
    "7ujm",
    "8ik,",
    "9ol.",
    "0p;/",
];

/// A set of relations between two characters.
type Relations = u8;
const SAME: Relations = 1;
const UP: Relations = 2;
const DOWN: Relations = 4;
const ALONG: Relations = 8;
const BACK: Relations = 16;
const ALL: Relations = SAME | UP | DOWN | ALONG | BACK;

/// Whether at most four characters of a password were freely chosen and the others follow from
/// them, as in `00000000`, `987654321`, `abcabcabc`, `qwertyui2` and `a1b2c3d4`. The time is at
/// most cubic in the length, which is bounded.
pub(super) fn is_predictable(password: &str) -> bool {
    count_chosen(&fold(password).collect::<Vec<char>>()) <= MAX_CHOSEN
}

/// The minimum number of freely chosen characters, over all divisions of the text into such
/// characters, runs and repeats.
fn count_chosen(text: &[char]) -> usize {
    // The minimum for each prefix. Characters that follow from earlier ones cost nothing.
    let mut fewest: Vec<usize> = (0..=text.len()).collect();
    for start in 0..text.len() {
        let cost = fewest[start];
        // Costs never fall, so a prefix that costs too much is skipped.
        if cost > MAX_CHOSEN {
            fewest[start + 1] = fewest[start + 1].min(cost + 1);
            continue;
        }
        lower_to(&mut fewest[start + 1], cost + 1);
        for tracks in 1..=2 {
            let least = MIN_RUN * tracks;
            for end in (start + least..=start + run(&text[start..], tracks)).rev() {
                lower_to(&mut fewest[end], cost + tracks);
            }
        }
        for block in 2..=start {
            let repeated = (start..text.len())
                .take_while(|at| text[*at] == text[*at - block])
                .count();
            for known in fewest
                .iter_mut()
                .take(start + repeated + 1)
                .skip(start + block)
            {
                lower_to(known, cost);
            }
        }
    }
    fewest[text.len()]
}

fn lower_to(known: &mut usize, found: usize) {
    *known = (*known).min(found);
}

/// Length of the run at the start of the text with this number of tracks. Each character follows
/// from the one `tracks` places before it; each track has its own relation. `1q2w3e` has two
/// tracks.
fn run(text: &[char], tracks: usize) -> usize {
    let mut relations = [ALL; 2];
    let follows = |at: usize| {
        let relation = &mut relations[at % tracks];
        *relation &= relations_between(text[at - tracks], text[at]);
        *relation != 0
    };
    let followers = (tracks..text.len())
        .map(follows)
        .take_while(|follows| *follows)
        .count();
    (tracks + followers).min(text.len())
}

fn relations_between(one: char, next: char) -> Relations {
    let step = i64::from(u32::from(next)) - i64::from(u32::from(one));
    let mut relations = match step {
        0 => SAME,
        1 => UP,
        -1 => DOWN,
        _ => 0,
    };
    for keys in KEYS {
        let mut before = None;
        for key in keys.chars() {
            match before.replace(key) {
                Some(before) if (before, key) == (one, next) => relations |= ALONG,
                Some(before) if (key, before) == (one, next) => relations |= BACK,
                _ => {}
            }
        }
    }
    relations
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn repeats_sequences_and_keyboard_walks_are_predictable() {
        for password in [
            "00000000",
            "aaaaaaaa",
            "        ",
            "AAAAaaaa",
            "987654321",
            "12345678",
            "123123123",
            "abcdefgh",
            "zyxwvuts",
            "qwertyui",
            "poiuytrewq",
            "1qaz2wsx",
            "1q2w3e4r5t6y7u8i9o0p",
            "a1b2c3d4e5",
            "abcabcabc",
            "abcdabcdab",
            "qwerty12",
            "11112222",
            "aaaaaaaa1",
            "!@#$%^&*",
            "\u{439}\u{446}\u{443}\u{43a}\u{435}\u{43d}\u{433}\u{448}",
            "\u{1f9a6}\u{1fa94}\u{1f9a6}\u{1fa94}\u{1f9a6}\u{1fa94}\u{1f9a6}\u{1fa94}",
        ] {
            assert!(is_predictable(password), "{password}");
        }
        assert!(is_predictable(&"a".repeat(128)) && is_predictable(&"x7k!".repeat(32)));
    }

    #[test]
    fn uncommon_passwords_are_not_predictable() {
        for password in [
            "violet-otter-91-lamp",
            "aaaa bbbb cccc",
            "correct horse battery staple",
            "kT9#vq2L",
            "mississippi",
            "bobbobbob-91",
            "x7k!v2m9",
            "wertvoll",
            "fed-up-of-it",
            "lampenschirm",
        ] {
            assert!(!is_predictable(password), "{password}");
        }
    }

    #[test]
    fn unpredictable_choices_are_counted() {
        let of = |text: &str| count_chosen(&text.chars().collect::<Vec<char>>());
        for (text, cost) in [
            ("", 0),
            ("a", 1),
            ("ab", 2),
            ("abc", 1),
            ("abcx", 2),
            ("a1b2c3", 2),
            ("xyzxyz", 1),
            ("kqtakqta", 4),
            ("kqtakqtak", 4),
        ] {
            assert_eq!(of(text), cost, "{text}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_causes_no_panic(text in "\\PC{0,128}") {
            let _ = is_predictable(&text);
        }

        #[test]
        fn a_block_of_four_or_fewer_is_predictable_however_often_it_is_repeated(block in "[!-~]{1,4}", times in 2..40_usize) {
            prop_assert!(is_predictable(&block.repeat(times)));
        }
    }
}
