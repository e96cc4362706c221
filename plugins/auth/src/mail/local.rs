//! Mailers for development and tests: console and file.

use std::path::PathBuf;

use linchpin::{BoxFuture, Error, Result};
use tokio::io::AsyncWriteExt;
use tokio::sync::Mutex;

use super::{Mail, Mailer};

/// Prints mail on standard output, for development.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConsoleMailer;

impl Mailer for ConsoleMailer {
    fn send(&self, mail: Mail) -> BoxFuture<'_, Result<()>> {
        let text = format!(
            "── mail: {} ──\nTo: {}\nSubject: {}\n\n{}\n──\n",
            mail.kind.name(),
            mail.to,
            mail.subject,
            mail.text
        );
        Box::pin(async move {
            let print = move || {
                use std::io::Write;
                let mut out = std::io::stdout().lock();
                out.write_all(text.as_bytes()).and_then(|()| out.flush())
            };
            tokio::task::spawn_blocking(print)
                .await
                .map_err(Error::internal)?
                .map_err(Error::internal)
        })
    }

    fn is_for_development(&self) -> bool {
        true
    }
}

/// Appends mail to a file, one JSON object per line, for development and tests.
#[derive(Debug)]
pub struct FileMailer {
    path: PathBuf,
    /// Held while a line is written.
    lock: Mutex<()>,
}

impl FileMailer {
    /// Appends to this file; creates it if it does not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            lock: Mutex::new(()),
        }
    }
}

impl Mailer for FileMailer {
    fn send(&self, mail: Mail) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let mut line = serde_json::to_vec(&mail).map_err(Error::internal)?;
            line.push(b'\n');
            let _guard = self.lock.lock().await;
            let mut options = tokio::fs::OpenOptions::new();
            options.append(true).create(true);
            #[cfg(unix)]
            options.mode(0o600);
            let mut file = options.open(&self.path).await.map_err(Error::unavailable)?;
            file.write_all(&line).await.map_err(Error::unavailable)?;
            file.flush().await.map_err(Error::unavailable)
        })
    }

    fn is_for_development(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::mail::{MailKind, Templates};

    #[tokio::test]
    async fn the_file_mailer_writes_one_line_for_each_mail() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mail.jsonl");
        let mailer = Arc::new(FileMailer::new(&path));
        let mut tasks = Vec::new();
        for n in 0..20 {
            let vars = BTreeMap::from([("code".to_owned(), format!("{n:06}"))]);
            let mail = Templates::default().render(
                format!("{n}@x.test"),
                MailKind::EmailOtp,
                Some("de".into()),
                vars,
            );
            let mailer = mailer.clone();
            tasks.push(tokio::spawn(async move { mailer.send(mail).await }));
        }
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let mut lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        lines.sort_by_key(|line| line["vars"]["code"].to_string());
        assert_eq!(lines.len(), 20);
        for (n, line) in lines.iter().enumerate() {
            assert_eq!(
                (line["to"].as_str(), line["kind"].as_str()),
                (Some(format!("{n}@x.test").as_str()), Some("email_otp"))
            );
            assert!(
                line["text"].as_str().unwrap().contains(&format!("{n:06}"))
                    && line["locale"] == "de"
            );
        }
        assert!(mailer.is_for_development() && ConsoleMailer.is_for_development());
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_written_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let mail = Templates::default().render(
            "a@x.test".into(),
            MailKind::MagicLink,
            None,
            BTreeMap::new(),
        );
        assert!(FileMailer::new(folder.path()).send(mail).await.is_err());
    }
}
