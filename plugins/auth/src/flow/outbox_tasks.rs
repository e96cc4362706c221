//! Performs the tasks of the outbox: it sends mail and finds the accounts that mail was requested
//! for. No response depends on the result.

use std::sync::Arc;
use std::time::Duration;

use linchpin::{BoxFuture, Cx, Error, Result};
use serde_json::Value;

use super::To;
use crate::core::{AuditEvent, Client, Core};
use crate::entities::User;
use crate::mail::MailKind;
use crate::onetime::{Purpose, Terms};
use crate::outbox::{Perform, RequestedMail, Task};
use crate::sms::E164;

/// Minimum seconds between two mails that are sent although the limit is exhausted.
const MIN_MAIL_INTERVAL: u32 = 60;

/// Performs the tasks of an app.
pub(crate) struct OutboxTasks(pub(crate) Arc<Core>);

impl Perform for OutboxTasks {
    fn perform(&self, task: Task) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            match task {
                Task::Mail {
                    kind,
                    to,
                    locale,
                    vars,
                    counted,
                } => {
                    let auth = &self.0.config.auth;
                    let mailer = auth
                        .mailer
                        .as_ref()
                        .ok_or_else(|| Error::internal("there is no mailer"))?;
                    let mut taken = None;
                    if let Some(address) = counted {
                        taken = self.0.may_mail_unproved(&address, kind).await?;
                        if taken.is_none() {
                            return Ok(());
                        }
                    }
                    let sent = mailer
                        .send(auth.templates.render(to, kind, locale, vars))
                        .await;
                    if let (Err(_), Some(taken)) = (&sent, &taken) {
                        taken.undo().await;
                    }
                    sent
                }
                Task::Sms { to, text } => {
                    let provider = self.0.config.auth.mfa.sms.provider.as_ref();
                    let provider = provider
                        .ok_or_else(|| Error::internal("there is no provider of text messages"))?;
                    let to = E164::parse(&to)
                        .ok_or_else(|| Error::internal("a stored phone number is invalid"))?;
                    provider.send(&to, &text).await
                }
                Task::Lookup {
                    what,
                    identifier,
                    full,
                    from,
                } => {
                    self.find_account(what, &identifier, full, from.client(self.0.now()))
                        .await
                }
                Task::SignUp(asked) => self.0.process_sign_up(asked).await,
            }
        })
    }
}

impl OutboxTasks {
    async fn find_account(
        &self,
        what: RequestedMail,
        identifier: &str,
        full: bool,
        client: Client,
    ) -> Result<()> {
        let core = &self.0;
        let cx = client.cx();
        let found = match what {
            RequestedMail::MagicLink => {
                core.users.by_identifier(&cx, identifier.to_owned()).await?
            }
            RequestedMail::PasswordReset | RequestedMail::Verification => {
                core.users.by_email(&cx, identifier.to_owned()).await?
            }
        };
        if what == RequestedMail::MagicLink
            && core.config.auth.magic_link.allow_sign_up
            && found.as_ref().is_none_or(|user| user.is_gone(client.now))
        {
            let sent = cx.transaction(async |cx| core.send_sign_up(cx, identifier).await);
            return self
                .send_limited(full, &cx, Purpose::SignUp, &stranger(identifier), sent)
                .await;
        }
        let Some(user) =
            found.filter(|user| !user.is_gone(client.now) && user.suspended_at.is_none())
        else {
            return Ok(());
        };
        let purpose = match what {
            RequestedMail::Verification => core.proof_of_address(),
            RequestedMail::PasswordReset => Purpose::ResetPassword,
            RequestedMail::MagicLink => Purpose::MagicLink,
        };
        self.send_limited(
            full,
            &cx,
            purpose,
            &user.id,
            self.send(what, &user, &client),
        )
        .await
    }

    /// Sends the requested mail.
    async fn send(&self, what: RequestedMail, user: &User, client: &Client) -> Result<()> {
        let core = &self.0;
        let cx = client.cx();
        match what {
            RequestedMail::Verification if user.email_verified_at.is_some() => Ok(()),
            RequestedMail::Verification => {
                cx.transaction(async |cx| core.send_verification(cx, user).await)
                    .await
            }
            RequestedMail::PasswordReset => {
                cx.transaction(async |cx| {
                    let reset = &core.config.auth.password_reset;
                    let lifetime = Duration::from_secs(reset.token_seconds);
                    self.mail(
                        cx,
                        user,
                        Purpose::ResetPassword,
                        MailKind::PasswordReset,
                        reset.link_base_url.as_deref(),
                        lifetime,
                    )
                    .await?;
                    core.audit(
                        cx,
                        client,
                        AuditEvent::about("auth:password.reset.requested", &user.id),
                    )
                    .await
                })
                .await
            }
            RequestedMail::MagicLink => {
                let magic = &core.config.auth.magic_link;
                let lifetime = Duration::from_secs(magic.token_seconds);
                cx.transaction(async |cx| {
                    self.mail(
                        cx,
                        user,
                        Purpose::MagicLink,
                        MailKind::MagicLink,
                        magic.link_base_url.as_deref(),
                        lifetime,
                    )
                    .await
                })
                .await
            }
        }
    }

    /// Runs `send`. If the limit is exhausted (`full`), it runs `send` only for a user without a
    /// valid token of this purpose, at most once a minute: of many concurrent tasks, one sends a
    /// mail.
    async fn send_limited(
        &self,
        full: bool,
        cx: &Cx,
        purpose: Purpose,
        user: &str,
        send: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        if !full {
            return send.await;
        }
        let (core, name) = (&self.0, format!("{purpose:?}"));
        let mark = ["mail over the limit", &name, user];
        if core.parts.tokens.newest(cx, purpose, user).await?.is_some()
            || !core.limiter.is_first(&mark, MIN_MAIL_INTERVAL).await?
        {
            return Ok(());
        }
        let sent = send.await;
        if sent.is_err() {
            // The task is repeated, and its mail is still due.
            core.limiter.forget(&mark).await;
        }
        sent
    }

    async fn mail(
        &self,
        cx: &Cx,
        user: &User,
        purpose: Purpose,
        kind: MailKind,
        base: Option<&str>,
        lifetime: Duration,
    ) -> Result<()> {
        let Some(to) = To::owner(user) else {
            return Ok(());
        };
        let parts = &self.0.parts;
        let token = parts
            .tokens
            .issue(cx, purpose, &user.id, &Value::Null, Terms::link(lifetime))
            .await?;
        parts.link(cx, to, kind, base, &token, lifetime).await
    }
}

impl Core {
    /// Mails a link that creates an account for the owner of the address.
    async fn send_sign_up(&self, cx: &Cx, email: &str) -> Result<()> {
        let magic = &self.config.auth.magic_link;
        let lifetime = Duration::from_secs(magic.token_seconds);
        let token = self
            .parts
            .tokens
            .issue(
                cx,
                Purpose::SignUp,
                &stranger(email),
                &email,
                Terms::link(lifetime),
            )
            .await?;
        self.parts
            .link(
                cx,
                To::stranger(email),
                MailKind::MagicLink,
                magic.link_base_url.as_deref(),
                &token,
                lifetime,
            )
            .await
    }

    /// The purpose of a mailed link that verifies an account's address. If sign-ups are concealed,
    /// the link also opens a session, because the sign-up did not open one.
    pub(crate) fn proof_of_address(&self) -> Purpose {
        if self.config.auth.conceal_registration {
            Purpose::VerifyAndLogin
        } else {
            Purpose::VerifyEmail
        }
    }

    /// Mails a link that verifies an account's address.
    ///
    /// # Errors
    /// If it cannot be stored.
    pub(crate) async fn send_verification(&self, cx: &Cx, user: &User) -> Result<()> {
        let verification = &self.config.auth.email_verification;
        let (Some(to), Some(normalised)) = (To::owner(user), &user.email_normalised) else {
            return Ok(());
        };
        let lifetime = Duration::from_secs(verification.token_seconds);
        // The token verifies this address, even if the account has another one by then.
        let token = self
            .parts
            .tokens
            .issue(
                cx,
                self.proof_of_address(),
                &user.id,
                normalised,
                Terms::link(lifetime),
            )
            .await?;
        self.parts
            .link(
                cx,
                to,
                MailKind::VerifyEmail,
                verification.link_base_url.as_deref(),
                &token,
                lifetime,
            )
            .await
    }
}

/// The owner of tokens for an address without an account, so that a newer link replaces earlier
/// ones. No account has such an id.
fn stranger(email: &str) -> String {
    format!("new:{}", crate::onetime::hash(email))
}
