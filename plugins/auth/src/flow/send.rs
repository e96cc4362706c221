//! Codes that are sent by mail or by text message.

use std::time::Duration;

use linchpin::{Cx, Result};

use super::To;
use crate::core::{Client, Core, later, millis};
use crate::entities::User;
use crate::error::{EMAIL_MISSING, METHOD_UNAVAILABLE, refuse};
use crate::limit::{Bucket, Hit, Taken};
use crate::mail::MailKind;
use crate::mfa::{ProofMethod, Sent};
use crate::outbox::Task;
use crate::sms::{self, E164};
use crate::{otp, secret::SecretText};

impl Core {
    /// Whether codes of this method can be sent. A method stays on its account even if its codes
    /// can no longer be sent, for example after the provider of text messages was removed; then a
    /// recovery code replaces it.
    pub(crate) fn can_send(&self, user: &User, way: ProofMethod) -> bool {
        let auth = &self.config.auth;
        match way {
            ProofMethod::Sms => auth.mfa.sms.bound_host().is_some(),
            ProofMethod::EmailOtp => auth.mailer.is_some() && user.email.is_some(),
            _ => false,
        }
    }

    /// Creates a code for a challenge and queues its message, in the caller's transaction. The
    /// result is stored with the challenge, where it replaces the previous code.
    ///
    /// # Errors
    /// `method_unavailable` if the code cannot be sent.
    pub(crate) async fn send_code(
        &self,
        cx: &Cx,
        client: &Client,
        user: &User,
        way: ProofMethod,
        challenge: &str,
    ) -> Result<Sent> {
        match way {
            ProofMethod::Sms => {
                let factor = self
                    .parts
                    .factors
                    .factor_of_user(cx, user.id.clone(), ProofMethod::Sms)
                    .await?;
                let factor = factor.ok_or_else(|| refuse(METHOD_UNAVAILABLE))?;
                let number = self.open_factor(&factor);
                let number = number.and_then(|number| {
                    std::str::from_utf8(number.expose())
                        .ok()
                        .and_then(E164::parse)
                });
                self.send_to_phone(
                    cx,
                    client,
                    &number.ok_or_else(|| refuse(METHOD_UNAVAILABLE))?,
                    challenge,
                )
                .await
            }
            _ => self.send_by_mail(cx, client, user, challenge).await,
        }
    }

    /// Sends a code to the account's address.
    ///
    /// # Errors
    /// `email_missing`.
    pub(crate) async fn send_by_mail(
        &self,
        cx: &Cx,
        client: &Client,
        user: &User,
        challenge: &str,
    ) -> Result<Sent> {
        let rules = &self.config.auth.mfa.email_otp;
        let to = To::owner(user).ok_or_else(|| refuse(EMAIL_MISSING))?;
        let (code, sent) = self.code(
            client,
            ProofMethod::EmailOtp,
            challenge,
            rules.digits,
            rules.seconds,
        )?;
        self.parts
            .code(
                cx,
                to,
                MailKind::EmailOtp,
                &code,
                Duration::from_secs(rules.seconds),
            )
            .await?;
        Ok(sent)
    }

    /// Sends a code to a phone.
    ///
    /// # Errors
    /// `method_unavailable` if there is no provider of text messages.
    pub(crate) async fn send_to_phone(
        &self,
        cx: &Cx,
        client: &Client,
        number: &E164,
        challenge: &str,
    ) -> Result<Sent> {
        let rules = &self.config.auth.mfa.sms;
        let host = rules
            .bound_host()
            .ok_or_else(|| refuse(METHOD_UNAVAILABLE))?;
        let (code, sent) = self.code(
            client,
            ProofMethod::Sms,
            challenge,
            rules.digits,
            rules.seconds,
        )?;
        let text = sms::text(&self.config.auth.app_name, host, &code);
        let task = Task::Sms {
            to: number.as_str().to_owned(),
            text: text.expose().to_owned(),
        };
        self.parts
            .outbox
            .put(cx, &task, Some(Duration::from_secs(rules.seconds)))
            .await?;
        Ok(sent)
    }

    /// Returns a new code, and the data about it that is stored with the challenge.
    fn code(
        &self,
        client: &Client,
        way: ProofMethod,
        challenge: &str,
        digits: u64,
        seconds: u64,
    ) -> Result<(SecretText, Sent)> {
        let code = otp::generate(&*self.env.rng, u8::try_from(digits).unwrap_or(6))?;
        let mac = otp::stored(&self.parts.keys, challenge, code.expose());
        Ok((
            code,
            Sent {
                way,
                mac,
                until: later(client.now, millis(seconds)).millis(),
            },
        ))
    }

    /// Counts a text message before it is sent. The key is the user together with the session or
    /// device in `source`, so anyone who stole another session cannot use up the owner's messages.
    /// The message also counts in the limits of the user and of the client's address. A `number`
    /// that is being set up has its own limit, because the number may belong to another person.
    ///
    /// # Errors
    /// 429.
    pub(crate) async fn count_message(
        &self,
        client: &Client,
        user: &str,
        source: &[&str],
        number: Option<&E164>,
    ) -> Result<Taken> {
        let (address, of_one) = (client.limit_key(), [&[user], source].concat());
        let mut hits = vec![
            Hit {
                bucket: Bucket::SmsSend,
                key: &of_one,
            },
            Hit {
                bucket: Bucket::SmsSendUser,
                key: std::slice::from_ref(&user),
            },
        ];
        let of_address = [address.as_str()];
        hits.push(Hit {
            bucket: Bucket::SmsSendIp,
            key: &of_address,
        });
        let of_number = number.map(|number| [number.as_str()]);
        hits.extend(of_number.as_ref().map(|key| Hit {
            bucket: Bucket::SmsSendNumber,
            key,
        }));
        self.limiter.take(&hits).await
    }
}
