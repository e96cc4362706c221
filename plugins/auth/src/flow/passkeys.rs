//! Passkeys: what browsers are asked, whose a credential is, and what a use of it proves.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use linchpin::{Adapters, Code, Cx, PageArgs, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::OVERTAKEN;
use crate::config::{AuthConfig, UserVerification};
use crate::core::{Client, Core, Happened};
use crate::entities::{Credential, CredentialAdapter, CredentialPatch, User};
use crate::mail::MailKind;
use crate::mfa::{Begun, Challenge, Way};
use crate::secret::same;
use crate::webauthn::{self, Asserted, Assertion, Fault, Registration, Site};

/// What all of them work with.
#[derive(Debug)]
pub(crate) struct Passkeys {
    pub(crate) credentials: CredentialAdapter,
    site: Site,
    /// What browsers call it.
    name: String,
}

/// What a browser has been asked, as it is kept with its token.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Asked {
    /// base64url
    challenge: String,
    /// The handle of the session that asked; empty where nobody was signed in.
    pub(crate) session: String,
}

/// Why a use of a passkey proves nothing.
pub(crate) struct Unproved {
    pub(crate) fault: Fault,
    /// Whose it is, as far as that is known.
    pub(crate) user: Option<String>,
    /// The credential, where its count says that there is a copy of it.
    pub(crate) copied: Option<Box<Credential>>,
}

impl From<Fault> for Unproved {
    fn from(fault: Fault) -> Self {
        Self {
            fault,
            user: None,
            copied: None,
        }
    }
}

/// A use of a passkey that proves who is there.
pub(crate) struct Used {
    pub(crate) user: User,
    pub(crate) credential: Credential,
    pub(crate) asserted: Asserted,
}

impl Passkeys {
    /// # Errors
    /// When the adapter is missing.
    pub(crate) fn new(config: &AuthConfig, adapters: &Adapters) -> Result<Self> {
        let passkeys = &config.auth.passkeys;
        Ok(Self {
            credentials: adapters.get::<Credential>()?,
            site: Site::new(&passkeys.rp_id, &passkeys.origins),
            name: passkeys
                .rp_name
                .clone()
                .unwrap_or_else(|| config.auth.app_name.clone()),
        })
    }

    /// The passkeys of a user, the oldest first.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub(crate) async fn of(&self, cx: &Cx, user: &str) -> Result<Vec<Credential>> {
        let mut all = self
            .credentials
            .passkeys_of(cx, user.to_owned(), PageArgs::default())
            .await?
            .items;
        all.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        Ok(all)
    }

    /// Judges a new passkey.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn judge_new(
        &self,
        sent: Value,
        asked: &Asked,
        policy: UserVerification,
    ) -> std::result::Result<(webauthn::Registered, Vec<String>), Fault> {
        let answer = Registration::read(sent)?;
        let registered = self.site.judge_registration(
            &answer,
            &asked.challenge()?,
            policy == UserVerification::Required,
        )?;
        Ok((registered, answer.transports))
    }
}

impl Asked {
    fn challenge(&self) -> std::result::Result<Vec<u8>, Fault> {
        URL_SAFE_NO_PAD
            .decode(&self.challenge)
            .map_err(|_| Fault("another challenge"))
    }
}

impl Core {
    /// What a browser is asked that is to make a passkey.
    ///
    /// # Errors
    /// When there is no randomness.
    pub(crate) fn ask_for_new_passkey(
        &self,
        user: &User,
        session: &str,
        had: &[Credential],
    ) -> Result<(Asked, Value)> {
        let (settings, passkeys) = (&self.config.auth.passkeys, &self.passkeys);
        let challenge = URL_SAFE_NO_PAD.encode(webauthn::challenge(&self.env)?);
        let name = user
            .display_name
            .as_deref()
            .unwrap_or(&user.identifier_display);
        let options = json!({
            "rp": { "id": passkeys.site.id, "name": passkeys.name },
            "user": { "id": user.user_handle, "name": user.identifier_display, "displayName": name },
            "challenge": challenge,
            "pubKeyCredParams": webauthn::algorithms(),
            "timeout": settings.timeout_ms,
            "excludeCredentials": described(had),
            "authenticatorSelection": {
                "residentKey": if settings.primary { "required" } else { "preferred" },
                "requireResidentKey": settings.primary,
                "userVerification": settings.user_verification.name(),
            },
            "attestation": "none",
        });
        Ok((
            Asked {
                challenge,
                session: session.to_owned(),
            },
            options,
        ))
    }

    /// What a browser is asked that is to use one of these passkeys; of none, whichever it has for
    /// the site.
    ///
    /// # Errors
    /// When there is no randomness.
    pub(crate) fn ask_for_passkey(
        &self,
        allowed: &[Credential],
        policy: UserVerification,
    ) -> Result<(Asked, Value)> {
        let challenge = URL_SAFE_NO_PAD.encode(webauthn::challenge(&self.env)?);
        let options = json!({
            "challenge": challenge,
            "timeout": self.config.auth.passkeys.timeout_ms,
            "rpId": self.passkeys.site.id,
            "allowCredentials": described(allowed),
            "userVerification": policy.name(),
        });
        Ok((
            Asked {
                challenge,
                session: String::new(),
            },
            options,
        ))
    }

    /// Judges a use of a passkey. `of` is whose it has to be; of nobody in particular, the browser
    /// has to say whose it is.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub(crate) async fn judge_passkey(
        &self,
        cx: &Cx,
        client: &Client,
        asked: &Asked,
        sent: Value,
        of: Option<&str>,
        policy: UserVerification,
    ) -> Result<std::result::Result<Used, Unproved>> {
        let answer = match Assertion::read(sent) {
            Ok(answer) => answer,
            Err(fault) => return Ok(Err(fault.into())),
        };
        let unknown = || Ok(Err(Fault("unknown credential").into()));
        let Some(credential) = self
            .passkeys
            .credentials
            .get(cx, URL_SAFE_NO_PAD.encode(&answer.id))
            .await?
        else {
            return unknown();
        };
        let user = self
            .users
            .get(cx, credential.user_id.as_str())
            .await?
            .filter(|user| !user.is_gone(client.now));
        let Some(user) = user.filter(|user| of.is_none_or(|id| user.id == id)) else {
            return unknown();
        };
        Ok(
            match self.judge_use(&user, &credential, asked, &answer, of.is_some(), policy) {
                Ok(asserted) => Ok(Used {
                    user,
                    credential,
                    asserted,
                }),
                Err(fault) => {
                    let copied = (fault == COPIED).then(|| Box::new(credential));
                    Err(Unproved {
                        fault,
                        user: Some(user.id),
                        copied,
                    })
                }
            },
        )
    }

    fn judge_use(
        &self,
        user: &User,
        credential: &Credential,
        asked: &Asked,
        answer: &Assertion,
        user_is_known: bool,
        policy: UserVerification,
    ) -> std::result::Result<Asserted, Fault> {
        let handle = answer
            .user_handle
            .as_deref()
            .map(|handle| URL_SAFE_NO_PAD.encode(handle));
        match handle {
            None if user_is_known => {}
            Some(handle) if same(handle.as_bytes(), user.user_handle.as_bytes()) => {}
            _ => return Err(Fault("another user")),
        }
        let public_key = URL_SAFE_NO_PAD
            .decode(&credential.public_key)
            .map_err(|_| Fault("unreadable key"))?;
        let must_verify = policy == UserVerification::Required;
        let asserted = self.passkeys.site.judge_assertion(
            answer,
            &asked.challenge()?,
            &public_key,
            must_verify,
        )?;
        if asserted.flags.backup_eligible != credential.backup_eligible {
            return Err(Fault("changed whether it can be copied"));
        }
        let count = i64::from(asserted.sign_count);
        // An authenticator that counts counts up: a count that was there before is that of a copy.
        if (count != 0 || credential.sign_count != 0) && count <= credential.sign_count {
            Err(COPIED)
        } else {
            Ok(asserted)
        }
    }

    /// Notes a use, as part of the caller's transaction.
    ///
    /// # Errors
    /// `precondition_failed` when another use was noted meanwhile: its count may have made this one
    /// a copy.
    pub(crate) async fn note_use(&self, cx: &Cx, client: &Client, used: &Used) -> Result<()> {
        let patch = CredentialPatch {
            sign_count: Some(i64::from(used.asserted.sign_count)),
            backed_up: Some(used.asserted.flags.backed_up),
            last_used_at: Some(Some(client.now)),
            ..CredentialPatch::default()
        };
        let credential = &used.credential;
        self.passkeys
            .credentials
            .update(cx, credential.id.as_str(), patch, Some(credential.version))
            .await
            .map(drop)
    }

    /// The second factors that are left to who has begun in this way: what they have shown already
    /// is none. Codes by mail are left to whoever followed a mailed link and has set up nothing
    /// else.
    ///
    /// # Errors
    /// When the store cannot tell.
    pub(crate) async fn methods_after(
        &self,
        cx: &Cx,
        user: &User,
        begun: Option<&Begun>,
    ) -> Result<Vec<Way>> {
        let mut methods = self.methods(user);
        let passkey = begun.and_then(|begun| begun.passkey.as_deref());
        if methods.contains(&Way::Webauthn)
            && self.second_passkeys(cx, user, passkey).await?.is_empty()
        {
            methods.retain(|way| *way != Way::Webauthn);
        }
        if methods.len() > 1 && begun.is_some_and(Begun::by_mail) {
            methods.retain(|way| *way != Way::EmailOtp);
        }
        Ok(methods)
    }

    async fn second_passkeys(
        &self,
        cx: &Cx,
        user: &User,
        first: Option<&str>,
    ) -> Result<Vec<Credential>> {
        let mut all = self.passkeys.of(cx, &user.id).await?;
        all.retain(|one| Some(one.id.as_str()) != first);
        Ok(all)
    }

    /// What a browser is asked for a second factor.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub(crate) async fn ask_second_passkey(
        &self,
        cx: &Cx,
        user: &User,
        first: Option<&str>,
    ) -> Result<(Asked, Value)> {
        let allowed = self.second_passkeys(cx, user, first).await?;
        self.ask_for_passkey(&allowed, UserVerification::Preferred)
    }

    /// Judges a passkey as the second factor of a challenge. What was asked is answered once, right
    /// or wrong.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub(crate) async fn judge_second_passkey(
        &self,
        client: &Client,
        user: &User,
        sent: &Value,
        challenge: &Challenge,
    ) -> Result<Option<Used>> {
        let Some(asked) = &challenge.pending.asked else {
            return Ok(None);
        };
        let cx = client.cx();
        let judged = self
            .judge_passkey(
                &cx,
                client,
                asked,
                sent.clone(),
                Some(&user.id),
                UserVerification::Preferred,
            )
            .await?;
        let copied = match judged {
            Ok(used) if challenge.pending.first() != Some(used.credential.id.as_str()) => {
                return Ok(Some(used));
            }
            Ok(_) => None,
            Err(unproved) => unproved.copied,
        };
        cx.transaction(async |cx| {
            if let Some(copied) = &copied {
                self.suspect(cx, client, copied).await?;
            }
            let mut pending = challenge.pending.clone();
            pending.asked = None;
            match self
                .parts
                .tokens
                .replace(cx, &challenge.one, &pending)
                .await
            {
                Err(error) if error.code() != Code::NotFound => Err(error),
                _ => Ok(None),
            }
        })
        .await
    }

    /// Takes passkeys away, as part of the caller's transaction.
    ///
    /// # Errors
    /// When they cannot be taken away.
    pub(crate) async fn drop_passkeys(
        &self,
        cx: &Cx,
        client: &Client,
        user: &User,
        gone: &[Credential],
    ) -> Result<()> {
        for one in gone {
            match self
                .passkeys
                .credentials
                .delete(cx, one.id.as_str(), None)
                .await
            {
                Err(error) if error.code() != Code::NotFound => return Err(error),
                _ => {}
            }
            let details = json!({ "credentialId": one.id });
            self.audit(
                cx,
                client,
                Happened::to("auth:passkey.removed", &user.id).details(details),
            )
            .await?;
            self.parts
                .notice_of(
                    cx,
                    client,
                    user,
                    MailKind::PasskeyRemoved,
                    &[("name", &as_mailed(&one.name))],
                )
                .await?;
        }
        Ok(())
    }

    /// Marks a credential whose count says that there is a copy of it.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub(crate) async fn suspect(
        &self,
        cx: &Cx,
        client: &Client,
        credential: &Credential,
    ) -> Result<()> {
        if credential.suspect_since.is_none() {
            let patch = CredentialPatch {
                suspect_since: Some(Some(client.now)),
                ..CredentialPatch::default()
            };
            match self
                .passkeys
                .credentials
                .update(cx, credential.id.as_str(), patch, None)
                .await
            {
                Err(error) if error.code() != Code::NotFound => return Err(error),
                _ => {}
            }
        }
        let happened = Happened::to("auth:passkey.counter_regression", &credential.user_id);
        let happened = Happened {
            outcome: "webauthn_failed",
            ..happened.details(json!({ "credentialId": credential.id }))
        };
        self.audit(cx, client, happened).await
    }
}

/// What an authenticator's count gives away.
const COPIED: Fault = Fault("counter");

/// Credentials as browsers are told of them.
fn described(credentials: &[Credential]) -> Value {
    let one = |credential: &Credential| json!({ "type": "public-key", "id": credential.id, "transports": credential.transports });
    credentials.iter().map(one).collect()
}

/// The name of a passkey as a mail shows it: somebody else may have chosen it, so nothing is left
/// in it that leads anywhere.
pub(crate) fn as_mailed(name: &str) -> String {
    let plain: String = name
        .chars()
        .filter(|c| c.is_alphanumeric() || [' ', '-', '_', '\'', '(', ')'].contains(c))
        .collect();
    if plain.trim().is_empty() {
        "Passkey".to_owned()
    } else {
        plain.trim().to_owned()
    }
}

/// Whether a write was overtaken, and what it was about is to be looked at again.
pub(crate) fn was_overtaken<T>(done: &Result<T>, tried: usize) -> bool {
    tried < OVERTAKEN
        && done
            .as_ref()
            .err()
            .is_some_and(|error| matches!(error.code(), Code::PreconditionFailed | Code::Conflict))
}

#[cfg(test)]
mod tests {
    use super::as_mailed;

    #[test]
    fn a_name_in_a_mail_leads_nowhere() {
        assert_eq!(as_mailed("Ada's key (blue)-2"), "Ada's key (blue)-2");
        assert_eq!(as_mailed("Schlüssel 3"), "Schlüssel 3");
        assert_eq!(
            as_mailed("locked: see https://evil.test/now"),
            "locked see httpseviltestnow"
        );
        for nothing in ["", "://./", "\u{202e}"] {
            assert_eq!(as_mailed(nothing), "Passkey", "{nothing:?}");
        }
    }
}
