//! A mailer that stores all mails.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use linchpin::{BoxFuture, Result};
use linchpin_auth::{Auth, Mail, Mailer};

/// A mailer that stores the sent mails.
#[derive(Clone, Default)]
pub struct Post(Arc<Mutex<Vec<Mail>>>);

impl Mailer for Post {
    fn send(&self, mail: Mail) -> BoxFuture<'_, Result<()>> {
        self.0.lock().unwrap().push(mail);
        Box::pin(async { Ok(()) })
    }
}

impl Post {
    /// The plugin with this mailer, and pages for every link.
    pub fn on(&self, auth: Auth) -> Auth {
        let post = self.clone();
        auth.configure(|config| {
            config.auth.mailer = Some(Arc::new(post));
            config.auth.password_reset.link_base_url = Some("https://app.test/reset".into());
            config.auth.email_verification.link_base_url = Some("https://app.test/verify".into());
            config.auth.magic_link.link_base_url = Some("https://app.test/enter".into());
        })
    }

    /// Waits for a number of mails of a kind and returns all of them.
    pub async fn all(&self, kind: &str, least: usize) -> Vec<Mail> {
        for _ in 0..3000 {
            let now: Vec<Mail> = self
                .0
                .lock()
                .unwrap()
                .iter()
                .filter(|mail| mail.kind.name() == kind)
                .cloned()
                .collect();
            if now.len() >= least {
                return now;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!(
            "{least} mails of {kind} were expected: {:?}",
            self.0.lock().unwrap()
        );
    }

    /// Waits for exactly this number of mails of a kind and returns them. A further mail is noticed
    /// only within 100 ms. If a test needs more certainty, it waits for a later mail instead.
    pub async fn only(&self, kind: &str, expected: usize) -> Vec<Mail> {
        self.all(kind, expected).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = self.all(kind, expected).await;
        assert_eq!(now.len(), expected, "{now:?}");
        now
    }

    /// The token of the latest mail of a kind, after a number of mails.
    pub async fn token(&self, kind: &str, least: usize) -> String {
        let mails = self.all(kind, least).await;
        let link = mails
            .last()
            .and_then(|mail| mail.vars.get("link"))
            .cloned()
            .unwrap_or_default();
        assert!(
            mails
                .iter()
                .all(|mail| mail.text.contains(&mail.vars["link"]))
        );
        link.split_once("#token=")
            .unwrap_or_else(|| panic!("no token after # in {link}"))
            .1
            .to_owned()
    }

    /// All sent mails.
    pub fn everything(&self) -> Vec<Mail> {
        self.0.lock().unwrap().clone()
    }

    /// The number of sent mails of a kind.
    pub fn count(&self, kind: &str) -> usize {
        self.0
            .lock()
            .unwrap()
            .iter()
            .filter(|mail| mail.kind.name() == kind)
            .count()
    }
}
