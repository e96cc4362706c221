//! Time-based codes of authenticator apps (RFC 6238). The library `totp-rs` computes the codes;
//! this module decides which time steps are valid, and writes the URI that apps scan.

use linchpin::{Result, Timestamp};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use totp_rs::{Builder, Secret, Totp};
use zeroize::Zeroizing;

use crate::env::SecureRng;
use crate::secret::{SecretBytes, SecretText, same};

/// Length of a secret in bytes: 160 bits, as RFC 4226 recommends.
const SECRET_BYTES: usize = 20;

/// Characters that are encoded in the URI: all except letters, digits and `-._~`.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The hash algorithm of the codes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TotpAlgorithm {
    /// Supported by every app.
    #[default]
    Sha1,
    /// Only some apps support it.
    Sha256,
    /// Only some apps support it.
    Sha512,
}

impl TotpAlgorithm {
    /// The name in the URI and in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha1 => "SHA1",
            Self::Sha256 => "SHA256",
            Self::Sha512 => "SHA512",
        }
    }

    const fn library(self) -> totp_rs::Algorithm {
        match self {
            Self::Sha1 => totp_rs::Algorithm::SHA1,
            Self::Sha256 => totp_rs::Algorithm::SHA256,
            Self::Sha512 => totp_rs::Algorithm::SHA512,
        }
    }
}

/// The rules for codes: `mfa.totp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TotpRules {
    pub(crate) algorithm: TotpAlgorithm,
    /// Digits of a code: 6 to 8.
    pub(crate) digits: u8,
    /// Length of a time step in seconds.
    pub(crate) period: u32,
    /// Number of time steps before and after the current one that are accepted: 0 or 1.
    pub(crate) window: u8,
}

impl Default for TotpRules {
    fn default() -> Self {
        Self {
            algorithm: TotpAlgorithm::Sha1,
            digits: 6,
            period: 30,
            window: 1,
        }
    }
}

/// Generates a secret.
///
/// # Errors
/// If the random source fails.
pub(crate) fn secret(rng: &dyn SecureRng) -> Result<SecretBytes> {
    let mut bytes = Zeroizing::new([0u8; SECRET_BYTES]);
    rng.fill(&mut *bytes)?;
    Ok(SecretBytes::new(bytes.to_vec()))
}

/// The secret in base32, which users can type.
pub(crate) fn base32(secret: &SecretBytes) -> SecretText {
    SecretText::new(Secret::from(secret.expose().to_vec()).to_base32())
}

impl TotpRules {
    /// The URI that apps scan. It contains all parameters, because some apps assume other defaults
    /// than the specification.
    pub(crate) fn uri(self, issuer: &str, account: &str, secret: &SecretBytes) -> SecretText {
        let [issuer, account] = [issuer, account].map(|part| utf8_percent_encode(part, ENCODED));
        let (algorithm, digits, period) = (self.algorithm.name(), self.digits, self.period);
        let secret = base32(secret);
        let secret = secret.expose();
        SecretText::new(format!(
            "otpauth://totp/{issuer}:{account}?secret={secret}&issuer={issuer}&algorithm={algorithm}&digits={digits}&period={period}"
        ))
    }

    /// Returns the time step of a code, if it is within the window and later than the last one. The
    /// caller stores it under the condition that no later one is stored, so each code works once.
    pub(crate) fn step(
        self,
        secret: &SecretBytes,
        typed: &str,
        now: Timestamp,
        last: Option<i64>,
    ) -> Option<i64> {
        let totp = self.totp(secret);
        let code = Zeroizing::new(typed.chars().filter(|c| *c != ' ').collect::<String>());
        let present = now
            .millis()
            .div_euclid(1000)
            .div_euclid(i64::from(self.period));
        let window = i64::from(self.window);
        let mut found = None;
        // Checks all steps, so that the time does not depend on the result.
        for step in present - window..=present + window {
            let Ok(instant) = u64::try_from(step * i64::from(self.period)) else {
                continue;
            };
            let right = same(
                totp.generate(instant).to_string().as_bytes(),
                code.as_bytes(),
            );
            if right && last.is_none_or(|last| step > last) {
                found = found.or(Some(step));
            }
        }
        found
    }

    fn totp(self, secret: &SecretBytes) -> Totp {
        Builder::new()
            .with_algorithm(self.algorithm.library())
            .with_digits(self.digits)
            .with_step_duration(u64::from(self.period))
            .with_secret(secret.expose().to_vec())
            // The checks of the library concern labels, which are not used here because `uri`
            // writes the URI, and values that start-up checks.
            .build_noncompliant()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::env::Env;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn rfc_secret(length: usize) -> SecretBytes {
        SecretBytes::new(
            b"1234567890"
                .iter()
                .copied()
                .cycle()
                .take(length)
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn codes_match_the_vectors_of_the_rfc() {
        let cases = [
            (59, "94287082", "46119246", "90693936"),
            (1_111_111_109, "07081804", "68084774", "25091201"),
        ];
        for (seconds, sha1, sha256, sha512) in cases {
            for (algorithm, length, code) in [
                (TotpAlgorithm::Sha1, 20, sha1),
                (TotpAlgorithm::Sha256, 32, sha256),
                (TotpAlgorithm::Sha512, 64, sha512),
            ] {
                let rules = TotpRules {
                    algorithm,
                    digits: 8,
                    window: 0,
                    ..TotpRules::default()
                };
                assert_eq!(
                    rules.step(&rfc_secret(length), code, at(seconds), None),
                    Some(seconds / 30),
                    "{algorithm:?} {seconds}"
                );
                assert_eq!(
                    rules.step(&rfc_secret(length), code, at(seconds + 30), None),
                    None
                );
            }
        }
    }

    /// The program `oathtool` computes the codes. The test needs it on the machine.
    #[test]
    fn totp_codes_of_another_program_are_accepted() {
        let secret = secret(&*Env::system().rng).unwrap();
        for (algorithm, mode) in [
            (TotpAlgorithm::Sha1, "sha1"),
            (TotpAlgorithm::Sha256, "sha256"),
            (TotpAlgorithm::Sha512, "sha512"),
        ] {
            for (digits, period) in [(6, 30), (8, 60)] {
                let rules = TotpRules {
                    algorithm,
                    digits,
                    period,
                    window: 0,
                };
                let mut oathtool = std::process::Command::new("oathtool");
                oathtool.args([
                    "-b",
                    &format!("--totp={mode}"),
                    &format!("--digits={digits}"),
                    &format!("--time-step-size={period}s"),
                ]);
                oathtool.args(["--now=2026-03-04 05:06:07 UTC", base32(&secret).expose()]);
                let made = oathtool
                    .output()
                    .expect("oathtool is needed: `apt-get install oathtool`");
                let code = String::from_utf8(made.stdout).unwrap();
                let now = Timestamp::parse("2026-03-04T05:06:07Z").unwrap();
                assert!(
                    rules.step(&secret, code.trim(), now, None).is_some(),
                    "{mode} {digits} {code}"
                );
            }
        }
    }

    #[test]
    fn a_code_is_accepted_once_within_one_step() {
        let rules = TotpRules::default();
        let secret = rfc_secret(20);
        let code = |step: u64| rules.totp(&secret).generate(step * 30).to_string();
        let now = at(1000 * 30 + 7);
        for (step, accepted) in [
            (998, false),
            (999, true),
            (1000, true),
            (1001, true),
            (1002, false),
        ] {
            assert_eq!(
                rules.step(&secret, &code(step), now, None).is_some(),
                accepted,
                "{step}"
            );
        }
        assert_eq!(
            rules.step(&secret, &code(1000), now, Some(1000)),
            None,
            "replay"
        );
        assert_eq!(
            rules.step(&secret, &code(999), now, Some(1000)),
            None,
            "a step before the last used one"
        );
        assert_eq!(
            rules.step(&secret, &code(1001), now, Some(1000)),
            Some(1001)
        );
    }

    #[test]
    fn the_uri_contains_all_parameters_and_escapes_labels() {
        let uri = TotpRules::default().uri("Ac me: & Söhne", "a+b@x.test?y", &rfc_secret(20));
        assert_eq!(
            uri.expose(),
            "otpauth://totp/Ac%20me%3A%20%26%20S%C3%B6hne:a%2Bb%40x.test%3Fy?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ\
             &issuer=Ac%20me%3A%20%26%20S%C3%B6hne&algorithm=SHA1&digits=6&period=30"
        );
    }

    #[test]
    fn secrets_have_160_bits_and_differ() {
        let rng = Env::system().rng;
        let (a, b) = (secret(&*rng).unwrap(), secret(&*rng).unwrap());
        assert_eq!((a.expose().len(), base32(&a).expose().len()), (20, 32));
        assert_ne!(a, b);
    }

    proptest! {
        #[test]
        fn arbitrary_codes_and_times_cause_no_panic(typed: String, millis: i64, last: Option<i64>) {
            let _ = TotpRules::default().step(&rfc_secret(20), &typed, Timestamp::from_millis(millis), last);
        }

        #[test]
        fn only_digits_of_the_right_length_pass(typed in "[+0 -]{0,7}[0-9]{0,5}") {
            let plain: String = typed.chars().filter(|c| *c != ' ').collect();
            let passes = TotpRules::default().step(&rfc_secret(20), &typed, at(59), None).is_some();
            prop_assert!(!passes || (plain.len() == 6 && plain.bytes().all(|b| b.is_ascii_digit())));
        }
    }
}
