//! Passkeys: the options for browsers, the owner of a credential, and the check of its use.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use linchpin::{Adapters, Code, Cx, PageArgs, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::MAX_ATTEMPTS;
use crate::config::{AuthConfig, UserVerification};
use crate::core::{AuditEvent, Client, Core};
use crate::entities::{Credential, CredentialAdapter, CredentialPatch, User};
use crate::mail::MailKind;
use crate::mfa::{Challenge, FirstFactor, ProofMethod};
use crate::secret::same;
use crate::webauthn::{self, Asserted, Assertion, Fault, Registration, Site};

/// Settings and adapter of passkeys.
#[derive(Debug)]
pub(crate) struct Passkeys {
    pub(crate) credentials: CredentialAdapter,
    site: Site,
    /// The name of the site in browsers.
    name: String,
}

/// The options that were sent to a browser, stored with their token.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct PasskeyRequest {
    /// In base64url.
    challenge: String,
    /// The handle of the session that requested them; empty if nobody was signed in.
    pub(crate) session: String,
}

/// A use of a passkey that was refused.
pub(crate) struct Unproved {
    pub(crate) fault: Fault,
    /// The account, if it is known.
    pub(crate) user: Option<String>,
    /// The credential, if its signature counter shows that a copy exists.
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

/// A valid use of a passkey.
pub(crate) struct Used {
    pub(crate) user: User,
    pub(crate) credential: Credential,
    pub(crate) asserted: Asserted,
}

impl Passkeys {
    /// # Errors
    /// If the adapter is missing.
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

    /// Returns the passkeys of a user, oldest first.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) async fn of(&self, cx: &Cx, user: &str) -> Result<Vec<Credential>> {
        let mut all = self
            .credentials
            .passkeys_of(cx, user.to_owned(), PageArgs::default())
            .await?
            .items;
        all.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        Ok(all)
    }

    /// Checks the registration of a passkey. Returns the credential and its transports.
    ///
    /// # Errors
    /// The reason for a refusal.
    pub(crate) fn check_new_passkey(
        &self,
        sent: Value,
        request: &PasskeyRequest,
        policy: UserVerification,
    ) -> std::result::Result<(webauthn::Registered, Vec<String>), Fault> {
        let answer = Registration::read(sent)?;
        let registered = self.site.check_registration(
            &answer,
            &request.challenge()?,
            policy == UserVerification::Required,
        )?;
        Ok((registered, answer.transports))
    }
}

impl PasskeyRequest {
    fn challenge(&self) -> std::result::Result<Vec<u8>, Fault> {
        URL_SAFE_NO_PAD
            .decode(&self.challenge)
            .map_err(|_| Fault("another challenge"))
    }
}

impl Core {
    /// Returns the request to store, and the options for the registration of a passkey.
    ///
    /// # Errors
    /// If the random source fails.
    pub(crate) fn registration_options(
        &self,
        user: &User,
        session: &str,
        existing: &[Credential],
    ) -> Result<(PasskeyRequest, Value)> {
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
            "excludeCredentials": descriptors(existing),
            "authenticatorSelection": {
                "residentKey": if settings.primary { "required" } else { "preferred" },
                "requireResidentKey": settings.primary,
                "userVerification": settings.user_verification.name(),
            },
            "attestation": "none",
        });
        Ok((
            PasskeyRequest {
                challenge,
                session: session.to_owned(),
            },
            options,
        ))
    }

    /// Returns the request to store, and the options for the use of one of these passkeys. Without
    /// any, the browser offers all passkeys of the site.
    ///
    /// # Errors
    /// If the random source fails.
    pub(crate) fn assertion_options(
        &self,
        allowed: &[Credential],
        policy: UserVerification,
    ) -> Result<(PasskeyRequest, Value)> {
        let challenge = URL_SAFE_NO_PAD.encode(webauthn::challenge(&self.env)?);
        let options = json!({
            "challenge": challenge,
            "timeout": self.config.auth.passkeys.timeout_ms,
            "rpId": self.passkeys.site.id,
            "allowCredentials": descriptors(allowed),
            "userVerification": policy.name(),
        });
        Ok((
            PasskeyRequest {
                challenge,
                session: String::new(),
            },
            options,
        ))
    }

    /// Checks the use of a passkey. `owner` is its required owner. Without one, the browser must
    /// return the user handle of the owner. The inner error is a refusal.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) async fn check_passkey(
        &self,
        cx: &Cx,
        client: &Client,
        request: &PasskeyRequest,
        sent: Value,
        owner: Option<&str>,
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
        let Some(user) = user.filter(|user| owner.is_none_or(|id| user.id == id)) else {
            return unknown();
        };
        Ok(
            match self.check_passkey_use(
                &user,
                &credential,
                request,
                &answer,
                owner.is_some(),
                policy,
            ) {
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

    fn check_passkey_use(
        &self,
        user: &User,
        credential: &Credential,
        request: &PasskeyRequest,
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
        let asserted = self.passkeys.site.check_assertion(
            answer,
            &request.challenge()?,
            &public_key,
            must_verify,
        )?;
        if asserted.flags.backup_eligible != credential.backup_eligible {
            return Err(Fault("changed whether it can be copied"));
        }
        let count = i64::from(asserted.sign_count);
        // A signature counter only grows. A repeated value comes from a copy.
        if (count != 0 || credential.sign_count != 0) && count <= credential.sign_count {
            Err(COPIED)
        } else {
            Ok(asserted)
        }
    }

    /// Stores the use of a passkey in the caller's transaction.
    ///
    /// # Errors
    /// `precondition_failed` if another use was stored meanwhile: its counter may show that this
    /// one is from a copy.
    pub(crate) async fn store_passkey_use(
        &self,
        cx: &Cx,
        client: &Client,
        used: &Used,
    ) -> Result<()> {
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

    /// The second factors that may follow a first proof. The passkey of the first proof does not
    /// count. After a mailed link, codes by mail are allowed only if the account has no other
    /// factor.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) async fn methods_after(
        &self,
        cx: &Cx,
        user: &User,
        begun: Option<&FirstFactor>,
    ) -> Result<Vec<ProofMethod>> {
        let mut methods = self.methods(user);
        let passkey = begun.and_then(|begun| begun.passkey.as_deref());
        if methods.contains(&ProofMethod::Webauthn)
            && self.second_passkeys(cx, user, passkey).await?.is_empty()
        {
            methods.retain(|way| *way != ProofMethod::Webauthn);
        }
        if methods.len() > 1 && begun.is_some_and(FirstFactor::by_mail) {
            methods.retain(|way| *way != ProofMethod::EmailOtp);
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

    /// The options for a passkey as the second factor.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) async fn second_passkey_options(
        &self,
        cx: &Cx,
        user: &User,
        first: Option<&str>,
    ) -> Result<(PasskeyRequest, Value)> {
        let allowed = self.second_passkeys(cx, user, first).await?;
        self.assertion_options(&allowed, UserVerification::Preferred)
    }

    /// Checks a passkey as the second factor of a challenge. A wrong answer uses up the options. A
    /// right one consumes the challenge later, in the transaction of the sign-in.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) async fn check_second_passkey(
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
            .check_passkey(
                &cx,
                client,
                asked,
                sent.clone(),
                Some(&user.id),
                UserVerification::Preferred,
            )
            .await?;
        let copied = match judged {
            Ok(used) if challenge.pending.first_passkey() != Some(used.credential.id.as_str()) => {
                return Ok(Some(used));
            }
            Ok(_) => None,
            Err(unproved) => unproved.copied,
        };
        cx.transaction(async |cx| {
            if let Some(copied) = &copied {
                self.mark_copied(cx, client, copied).await?;
            }
            let mut pending = challenge.pending.clone();
            pending.asked = None;
            match self
                .parts
                .tokens
                .replace(cx, &challenge.one_time, &pending)
                .await
            {
                Err(error) if error.code() != Code::NotFound => Err(error),
                _ => Ok(None),
            }
        })
        .await
    }

    /// Removes passkeys in the caller's transaction.
    ///
    /// # Errors
    /// If they cannot be removed.
    pub(crate) async fn drop_passkeys(
        &self,
        cx: &Cx,
        client: &Client,
        user: &User,
        removed: &[Credential],
    ) -> Result<()> {
        for one in removed {
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
                AuditEvent::about("auth:passkey.removed", &user.id).details(details),
            )
            .await?;
            self.parts
                .notice_of(
                    cx,
                    client,
                    user,
                    MailKind::PasskeyRemoved,
                    &[("name", &name_for_mail(&one.name))],
                )
                .await?;
        }
        Ok(())
    }

    /// Marks a credential whose signature counter shows that a copy exists.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) async fn mark_copied(
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
        let happened = AuditEvent::about("auth:passkey.counter_regression", &credential.user_id);
        let happened = AuditEvent {
            outcome: "webauthn_failed",
            ..happened.details(json!({ "credentialId": credential.id }))
        };
        self.audit(cx, client, happened).await
    }
}

/// The signature counter did not grow.
const COPIED: Fault = Fault("counter");

/// Credentials in the form of WebAuthn options.
fn descriptors(credentials: &[Credential]) -> Value {
    let one = |credential: &Credential| json!({ "type": "public-key", "id": credential.id, "transports": credential.transports });
    credentials.iter().map(one).collect()
}

/// The name of a passkey in a mail. Another person may have chosen it, so everything that looks
/// like a link is removed.
pub(crate) fn name_for_mail(name: &str) -> String {
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

/// Whether a write had a conflict and should be tried again.
pub(crate) fn should_retry<T>(done: &Result<T>, tried: usize) -> bool {
    tried < MAX_ATTEMPTS
        && done
            .as_ref()
            .err()
            .is_some_and(|error| matches!(error.code(), Code::PreconditionFailed | Code::Conflict))
}

#[cfg(test)]
mod tests {
    use super::name_for_mail;

    #[test]
    fn names_in_mail_contain_no_links() {
        assert_eq!(name_for_mail("Ada's key (blue)-2"), "Ada's key (blue)-2");
        assert_eq!(name_for_mail("Schlüssel 3"), "Schlüssel 3");
        assert_eq!(
            name_for_mail("locked: see https://evil.test/now"),
            "locked see httpseviltestnow"
        );
        for nothing in ["", "://./", "\u{202e}"] {
            assert_eq!(name_for_mail(nothing), "Passkey", "{nothing:?}");
        }
    }
}
