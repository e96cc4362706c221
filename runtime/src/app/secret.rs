//! The signing secret: kept out of logs, code and repositories.

use std::fmt;
use std::path::Path;

/// A secret of at least 32 bytes. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningSecret(String);

/// Shortest secret, in bytes.
const SHORTEST: usize = 32;

impl SigningSecret {
    /// Takes a secret.
    ///
    /// # Errors
    /// When it is shorter than 32 bytes; the message does not repeat it.
    pub fn new(secret: impl Into<String>) -> Result<Self, String> {
        let secret = secret.into();
        if secret.len() < SHORTEST {
            return Err(format!("must be at least {SHORTEST} bytes, has {}", secret.len()));
        }
        Ok(Self(secret))
    }

    /// The secret, for those who sign.
    pub fn expose(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// The secret of this folder's development app: made on first use, kept in a file that only its owner can read.
    pub(crate) fn development(folder: &Path) -> Result<Self, String> {
        let file = folder.join(".linchpin").join("development-secret");
        match std::fs::read_to_string(&file) {
            Ok(text) => return Self::new(text.trim()).map_err(|e| format!("{}: {e}", file.display())),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(format!("{}: {e}", file.display())),
        }
        let fresh = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        write_private(&file, &fresh).map_err(|e| format!("{}: {e}", file.display()))?;
        Self::new(fresh)
    }
}

fn write_private(file: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
        // So that the secret is not committed by accident.
        std::fs::write(folder.join(".gitignore"), "*\n")?;
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file)?.write_all(text.as_bytes())
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret(..)")
    }
}
