//! Numeric codes that are sent by mail or text message. They are unbiased; only a MAC that is bound
//! to the challenge is stored.

use linchpin::Result;
use linchpin::seal::DataKeys;
use zeroize::Zeroizing;

use crate::env::SecureRng;
use crate::secret::SecretText;

/// The domain of the MACs.
const DOMAIN: &str = "otp";

/// Minimum and maximum number of digits.
pub(crate) const DIGITS: std::ops::RangeInclusive<u8> = 6..=10;

/// Generates a code. Each digit is equally likely.
///
/// # Errors
/// If the random source fails.
pub(crate) fn generate(rng: &dyn SecureRng, digits: u8) -> Result<SecretText> {
    let mut code = Zeroizing::new(String::with_capacity(usize::from(digits)));
    let mut bytes = Zeroizing::new([0u8; 16]);
    while code.len() < usize::from(digits) {
        rng.fill(&mut *bytes)?;
        // Bytes of 250 and more are discarded, because 250 is the largest multiple of ten in a
        // byte.
        for byte in bytes
            .iter()
            .filter(|b| **b < 250)
            .take(usize::from(digits) - code.len())
        {
            code.push(char::from(b'0' + byte % 10));
        }
    }
    Ok(code.into())
}

/// The stored form of a code.
pub(crate) fn stored(keys: &DataKeys, challenge: &str, code: &str) -> String {
    keys.mac(DOMAIN, &[challenge.as_bytes(), code.as_bytes()])
}

/// Whether a typed code is the one that was sent for this challenge. Spaces are ignored.
pub(crate) fn matches(keys: &DataKeys, challenge: &str, typed: &str, stored: &str) -> bool {
    let code = Zeroizing::new(typed.chars().filter(|c| *c != ' ').collect::<String>());
    keys.verifies(DOMAIN, &[challenge.as_bytes(), code.as_bytes()], stored)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::*;
    use crate::env::Env;
    use crate::secret::Key;

    /// Every byte in turn.
    struct Counting(AtomicU8);

    impl SecureRng for Counting {
        fn fill(&self, bytes: &mut [u8]) -> Result<()> {
            for byte in bytes {
                *byte = self.0.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        }
    }

    #[test]
    fn each_digit_is_equally_likely() {
        let rng = Counting(AtomicU8::new(0));
        let mut seen = [0u32; 10];
        // A code of 250 digits takes exactly one round of 256 bytes: 16 draws of 16 bytes. Six of
        // these bytes are discarded.
        let mut all = String::new();
        while all.len() < 250 {
            all.push_str(generate(&rng, 250).unwrap().expose());
        }
        for digit in all.bytes() {
            seen[usize::from(digit - b'0')] += 1;
        }
        assert_eq!(seen, [25; 10]);
    }

    #[test]
    fn codes_have_their_length() {
        let rng = Env::system().rng;
        for digits in DIGITS {
            let code = generate(&*rng, digits).unwrap();
            assert!(
                code.expose().len() == usize::from(digits)
                    && code.expose().bytes().all(|b| b.is_ascii_digit())
            );
        }
        assert_ne!(generate(&*rng, 10).unwrap(), generate(&*rng, 10).unwrap());
    }

    #[test]
    fn a_code_belongs_to_its_challenge() {
        let keys = DataKeys::new([("a".to_owned(), Key::new([1; 32]))]).unwrap();
        let stored_mac = stored(&keys, "challenge-1", "012345");
        assert!(!stored_mac.contains("012345"));
        assert!(
            matches(&keys, "challenge-1", "012345", &stored_mac)
                && matches(&keys, "challenge-1", " 012 345 ", &stored_mac)
        );
        for (challenge, code) in [
            ("challenge-2", "012345"),
            ("challenge-1", "012346"),
            ("challenge-1", "12345"),
            ("challenge-1", ""),
        ] {
            assert!(
                !matches(&keys, challenge, code, &stored_mac),
                "{challenge} {code}"
            );
        }
    }

    #[test]
    fn code_generation_fails_without_randomness() {
        struct Empty;
        impl SecureRng for Empty {
            fn fill(&self, _: &mut [u8]) -> Result<()> {
                Err(linchpin::Error::unavailable("no randomness"))
            }
        }
        assert_eq!(
            generate(&Empty, 6).unwrap_err().code(),
            linchpin::Code::Unavailable
        );
    }
}
