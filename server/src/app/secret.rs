//! The signing secret: kept out of logs, code and repositories.

use std::fmt;
use std::path::{Path, PathBuf};

/// A secret of at least 32 bytes. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningSecret(String);

/// The minimum length of a secret, in bytes.
const MIN_BYTES: usize = 32;
/// The minimum number of distinct bytes outside of development. The probability that a secret of
/// random digits has fewer is less than one in a million.
const MIN_DISTINCT_BYTES: usize = 6;
/// The maximum length, in bytes, of a piece that is repeated to form a secret.
const MAX_REPEATED_BYTES: usize = 15;
/// Placeholders in examples; only letters and digits are compared.
const PLACEHOLDERS: &[&str] = &[
    "changeme",
    "changethis",
    "replaceme",
    "replacethis",
    "placeholder",
    "yoursecret",
    "insertsecret",
    "notasecret",
];

impl SigningSecret {
    /// Creates a secret.
    ///
    /// # Errors
    /// If it is shorter than 32 bytes; the message does not repeat it.
    pub fn new(secret: impl Into<String>) -> Result<Self, String> {
        let secret = secret.into();
        if secret.len() < MIN_BYTES {
            return Err(format!(
                "must be at least {MIN_BYTES} bytes, has {}",
                secret.len()
            ));
        }
        Ok(Self(secret))
    }

    /// The reason why a secret is easy to guess, if it is. The check finds placeholders,
    /// repetitions and similar secrets; a secret that passes may still be weak.
    pub(crate) fn weakness(&self) -> Option<&'static str> {
        let bytes = self.0.as_bytes();
        let mut seen = [false; 256];
        for byte in bytes {
            seen[usize::from(*byte)] = true;
        }
        if seen.iter().filter(|seen| **seen).count() < MIN_DISTINCT_BYTES {
            return Some("has too few different characters: use random bytes");
        }
        if (1..=MAX_REPEATED_BYTES).any(|piece| {
            bytes
                .iter()
                .skip(piece)
                .eq(bytes.iter().take(bytes.len() - piece))
        }) {
            return Some("repeats itself: use random bytes");
        }
        let letters: String = self
            .0
            .chars()
            .filter(|c| c.is_alphanumeric())
            .flat_map(char::to_lowercase)
            .collect();
        PLACEHOLDERS
            .iter()
            .any(|text| letters.contains(text))
            .then_some("is a placeholder: use random bytes")
    }

    /// The bytes of the secret, for signing.
    pub fn expose(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// The secret of development apps in a directory, and its file. It is created on first use;
    /// only its owner can read it.
    pub(crate) fn development(folder: &Path) -> Result<(Self, PathBuf), String> {
        let file = folder.join(".linchpin").join("development-secret");
        match std::fs::read_to_string(&file) {
            Ok(text) => {
                return Self::new(text.trim())
                    .map_err(|e| format!("{}: {e}", file.display()))
                    .map(|secret| (secret, file));
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(format!("{}: {e}", file.display())),
        }
        let new_secret = format!(
            "{}{}",
            uuid::Uuid::new_v4().simple(),
            uuid::Uuid::new_v4().simple()
        );
        match write_private(&file, &new_secret) {
            Ok(()) => Ok((Self::new(new_secret)?, file)),
            // Another process of the app was faster: both use its secret.
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                let text = std::fs::read_to_string(&file)
                    .map_err(|e| format!("{}: {e}", file.display()))?;
                Ok((
                    Self::new(text.trim()).map_err(|e| format!("{}: {e}", file.display()))?,
                    file,
                ))
            }
            Err(e) => Err(format!("{}: {e}", file.display())),
        }
    }
}

/// Creates a file atomically: a reader finds no file or the whole file.
fn write_private(file: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
        // Keeps the secret out of version control.
        std::fs::write(folder.join(".gitignore"), "*\n")?;
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let temporary = file.with_file_name(format!(
        "development-secret.{}",
        uuid::Uuid::new_v4().simple()
    ));
    let written = options
        .open(&temporary)
        .and_then(|mut open| open.write_all(text.as_bytes()));
    let linked = written.and_then(|()| match std::fs::hard_link(&temporary, file) {
        // On file systems without hard links, the last process replaces the file, and later
        // processes read this file.
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
            std::fs::rename(&temporary, file)
        }
        done => done,
    });
    // The temporary file was moved, or it is no longer needed.
    let _ = std::fs::remove_file(&temporary);
    linked
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_start_together_share_one_secret() {
        let folder = tempfile::tempdir().unwrap();
        let secrets: Vec<_> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..16)
                .map(|_| scope.spawn(|| SigningSecret::development(folder.path()).unwrap().0))
                .collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(secrets.iter().all(|secret| *secret == secrets[0]));
        let file_count = std::fs::read_dir(folder.path().join(".linchpin"))
            .unwrap()
            .count();
        assert_eq!(file_count, 2, "the secret and `.gitignore`");
    }

    #[test]
    fn placeholder_secrets_are_recognised() {
        for weak in [
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "0101010101010101010101010101010101010101",
            "abcdefghabcdefghabcdefghabcdefghabcd",
            "change-me-before-you-deploy-this-1234",
            "CHANGE_ME CHANGE_ME CHANGE_ME CHANGE_ME",
            "your-secret-of-at-least-32-bytes-here",
        ] {
            assert!(
                SigningSecret::new(weak).unwrap().weakness().is_some(),
                "{weak}"
            );
        }
        for good in [
            "31415926535897932384626433832795",
            "5f3c9a1e7b2d4860a1c3e5f7092b4d6e",
            "tJ5s0b+Q9mWc3H7nVx1zLk8RfYp2Dg6a",
            "0123456789abcdef0123456789abcdef",
        ] {
            assert_eq!(SigningSecret::new(good).unwrap().weakness(), None, "{good}");
        }
    }
}
