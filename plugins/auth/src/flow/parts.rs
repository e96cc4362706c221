//! The shared parts of flows other than sign-in: limits, one-time tokens, the outbox.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use linchpin::seal::DataKeys;
use linchpin::{Adapters, Cx, Result, Timestamp};

use crate::config::AuthConfig;
use crate::core::Client;
use crate::entities::{PasswordHistory, PasswordHistoryAdapter, User};
use crate::env::Env;
use crate::mail::MailKind;
use crate::mfa::entity::{Factor, FactorAdapter, RecoveryCode, RecoveryCodeAdapter};
use crate::mfa::{ProofMethod, enrolled};
use crate::onetime::{OneTime, OneTimes};
use crate::outbox::entity::Outbox;
use crate::outbox::{OutboxQueue, Task};
use crate::secret::SecretText;

/// Time after which an unsent notice is dropped.
const NOTICE_LIFETIME: Duration = Duration::from_hours(24);

/// The shared parts.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) tokens: OneTimes,
    pub(crate) outbox: OutboxQueue,
    pub(crate) history: PasswordHistoryAdapter,
    pub(crate) factors: FactorAdapter,
    pub(crate) codes: RecoveryCodeAdapter,
    /// The keys of encrypted and hashed data.
    pub(crate) keys: Arc<DataKeys>,
    has_mailer: bool,
    app: String,
    /// The advice in notices for a reader who did not cause the event.
    protect: String,
}

/// The recipient of a mail.
#[derive(Clone, Copy)]
pub(crate) struct To<'a> {
    address: &'a str,
    locale: Option<&'a str>,
    /// The address for the limit of mails, if it belongs to an account that has not verified it.
    unproved: Option<&'a str>,
}

impl<'a> To<'a> {
    /// The owner of an account, if it has an address.
    pub(crate) fn owner(user: &'a User) -> Option<Self> {
        user.email.as_deref().map(|address| Self::at(user, address))
    }

    /// The owner of an account, at another address.
    pub(crate) fn at(user: &'a User, address: &'a str) -> Self {
        let is_language_tag = |locale: &&str| {
            (2..=35).contains(&locale.len())
                && locale
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        // An account with codes by mail as a factor has proved that its owner reads this mailbox.
        let unproved =
            user.email_verified_at.is_none() && !enrolled(user).contains(&ProofMethod::EmailOtp);
        let own = user
            .email_normalised
            .as_deref()
            .filter(|_| unproved && user.email.as_deref() == Some(address));
        Self {
            address,
            locale: user.user_metadata["locale"]
                .as_str()
                .filter(is_language_tag),
            unproved: own,
        }
    }

    /// An address without an account.
    pub(crate) fn stranger(address: &'a str) -> Self {
        Self {
            address,
            locale: None,
            unproved: None,
        }
    }
}

impl Parts {
    /// # Errors
    /// If an adapter is missing.
    pub(crate) fn new(
        config: &AuthConfig,
        keys: &Arc<DataKeys>,
        env: &Env,
        adapters: &Adapters,
    ) -> Result<Self> {
        Ok(Self {
            tokens: OneTimes::new(adapters.get::<OneTime>()?, Arc::clone(keys), env.clone()),
            outbox: OutboxQueue::new(adapters.get::<Outbox>()?, Arc::clone(keys), env.clone()),
            history: adapters.get::<PasswordHistory>()?,
            factors: adapters.get::<Factor>()?,
            codes: adapters.get::<RecoveryCode>()?,
            keys: Arc::clone(keys),
            has_mailer: config.auth.mailer.is_some(),
            protect: match (config.auth.resets(), config.auth.password.enabled) {
                (true, _) => "reset your password now".to_owned(),
                (false, true) => format!(
                    "change your password now, or contact the operator of {}",
                    config.auth.app_name
                ),
                (false, false) => {
                    "look through your sign-in methods and your sessions now".to_owned()
                }
            },
            app: config.auth.app_name.clone(),
        })
    }

    /// Queues a mail with a link. The token is in the fragment, which servers and logs do not see.
    ///
    /// # Errors
    /// If it cannot be stored.
    pub(crate) async fn link(
        &self,
        cx: &Cx,
        to: To<'_>,
        kind: MailKind,
        base: Option<&str>,
        token: &SecretText,
        lifetime: Duration,
    ) -> Result<()> {
        self.link_at(cx, to, kind, base, token, lifetime, None)
            .await
    }

    /// Like [`Parts::link`], with a time that the mail contains.
    ///
    /// # Errors
    /// The errors of [`Parts::link`].
    #[allow(clippy::too_many_arguments)] // a mail and its link
    pub(crate) async fn link_at(
        &self,
        cx: &Cx,
        to: To<'_>,
        kind: MailKind,
        base: Option<&str>,
        token: &SecretText,
        lifetime: Duration,
        at: Option<Timestamp>,
    ) -> Result<()> {
        let link = format!("{}#token={}", base.unwrap_or_default(), token.expose());
        let at = at.map(|at| ("at", at.to_string()));
        self.put(
            cx,
            to,
            kind,
            [("link", link)].into_iter().chain(at),
            lifetime,
        )
        .await
    }

    /// Queues a notice about an event of the account.
    ///
    /// # Errors
    /// If it cannot be stored. Then the event must not happen either.
    pub(crate) async fn notice(
        &self,
        cx: &Cx,
        client: &Client,
        user: &User,
        kind: MailKind,
    ) -> Result<()> {
        self.notice_of(cx, client, user, kind, &[]).await
    }

    /// Like [`Parts::notice`], with more variables. If the address is not verified and its limit is
    /// exhausted when the task runs, the notice is dropped. The event happens anyway.
    ///
    /// # Errors
    /// The errors of [`Parts::notice`].
    pub(crate) async fn notice_of(
        &self,
        cx: &Cx,
        client: &Client,
        user: &User,
        kind: MailKind,
        more: &[(&str, &str)],
    ) -> Result<()> {
        let Some(to) = To::owner(user).filter(|_| self.has_mailer) else {
            return Ok(());
        };
        let ip = client
            .ip
            .map_or_else(|| "an unknown address".to_owned(), |ip| ip.to_string());
        let more = more
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()));
        let all = [
            ("at", client.now.to_string()),
            ("ip", ip),
            ("protect", self.protect.clone()),
        ];
        self.put(cx, to, kind, all.into_iter().chain(more), NOTICE_LIFETIME)
            .await
    }

    /// Queues a mail with a code.
    ///
    /// # Errors
    /// If it cannot be stored.
    pub(crate) async fn code(
        &self,
        cx: &Cx,
        to: To<'_>,
        kind: MailKind,
        code: &SecretText,
        lifetime: Duration,
    ) -> Result<()> {
        self.put(cx, to, kind, [("code", code.expose().to_owned())], lifetime)
            .await
    }

    /// Queues a mail. `vars` are the variables of its template.
    async fn put(
        &self,
        cx: &Cx,
        to: To<'_>,
        kind: MailKind,
        vars: impl IntoIterator<Item = (&str, String)>,
        lifetime: Duration,
    ) -> Result<()> {
        let mut variables: BTreeMap<String, String> = vars
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        variables.insert("app".to_owned(), self.app.clone());
        // Requested mails have limits of their own. Mails about a deletion are always sent, because
        // each new one voids the link of the previous one.
        let is_exempt = matches!(
            kind,
            MailKind::VerifyEmail
                | MailKind::VerifyNewEmail
                | MailKind::PasswordReset
                | MailKind::MagicLink
                | MailKind::ExistingAccount
                | MailKind::CancelDeletion
                | MailKind::DeletionScheduled
        );
        let counted = to.unproved.filter(|_| !is_exempt).map(str::to_owned);
        let task = Task::Mail {
            kind,
            to: to.address.to_owned(),
            locale: to.locale.map(str::to_owned),
            vars: variables,
            counted,
        };
        self.outbox.put(cx, &task, Some(lifetime)).await
    }
}
