//! Factors: the methods of proof, and their input.

pub(crate) mod entity;

use linchpin::{Error, FieldEnum, Problem, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::config::AuthConfig;
use crate::entities::User;
use crate::flow::passkeys::PasskeyRequest;
use crate::onetime::OneTime;
use crate::secret::SecretText;

/// A method of proof, with its name in requests and responses.
#[derive(FieldEnum, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ProofMethod {
    #[field(rename = "password")]
    Password,
    /// A code of an authenticator app.
    #[field(rename = "totp")]
    Totp,
    /// A mailed code.
    #[field(rename = "emailOtp")]
    EmailOtp,
    /// A code sent by text message.
    #[field(rename = "sms")]
    Sms,
    /// A passkey.
    #[field(rename = "webauthn")]
    Webauthn,
    /// A recovery code.
    #[field(rename = "recovery")]
    Recovery,
}

impl ProofMethod {
    /// Methods that can be a second factor of a sign-in, in the order of preference.
    pub(crate) const METHODS: [Self; 4] = [Self::Totp, Self::EmailOtp, Self::Sms, Self::Webauthn];

    /// The name in requests and responses.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Password => "password",
            Self::Totp => "totp",
            Self::EmailOtp => "emailOtp",
            Self::Sms => "sms",
            Self::Webauthn => "webauthn",
            Self::Recovery => "recovery",
        }
    }

    /// The name in sessions and tokens (RFC 8176).
    pub(crate) const fn amr(self) -> &'static str {
        match self {
            Self::Password => "pwd",
            Self::Totp | Self::EmailOtp | Self::Recovery => "otp",
            Self::Sms => "sms",
            Self::Webauthn => "hwk",
        }
    }

    /// Whether codes of this method must be sent.
    pub(crate) const fn is_sent(self) -> bool {
        matches!(self, Self::EmailOtp | Self::Sms)
    }
}

/// The second factors of an account, even if the settings do not use them.
pub(crate) fn enrolled(user: &User) -> Vec<ProofMethod> {
    ProofMethod::METHODS
        .into_iter()
        .filter(|way| user.mfa_methods.iter().any(|name| name == way.name()))
        .collect()
}

/// The second factors that the settings use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Factors {
    mfa: bool,
    passkeys: bool,
}

impl Factors {
    pub(crate) fn of(config: &AuthConfig) -> Self {
        Self {
            mfa: config.auth.mfa.enabled,
            passkeys: config.auth.passkeys.enabled,
        }
    }

    /// The second factors that an account must use.
    pub(crate) fn methods(self, user: &User) -> Vec<ProofMethod> {
        enrolled(user)
            .into_iter()
            .filter(|way| self.mfa && (*way != ProofMethod::Webauthn || self.passkeys))
            .collect()
    }

    /// Whether an account must use a second factor.
    pub(crate) fn requires_second_factor(self, user: &User) -> bool {
        // The common case first: most accounts have no second factor.
        !user.mfa_methods.is_empty() && !self.methods(user).is_empty()
    }
}

/// Whether an account must set up a second factor, if all accounts need one. Text messages alone
/// are not enough.
pub(crate) fn must_enrol(required: bool, user: &User) -> bool {
    required && enrolled(user).iter().all(|way| *way == ProofMethod::Sms)
}

/// The proof in a body; see `routes/mfa_shapes.rs`.
#[derive(Clone, Debug, Default)]
pub(crate) struct SuppliedProof {
    pub(crate) method: Option<ProofMethod>,
    pub(crate) code: Option<SecretText>,
    pub(crate) password: Option<SecretText>,
    /// The token of `/reauth/challenge`.
    pub(crate) token: Option<SecretText>,
    pub(crate) webauthn: Option<Json>,
}

/// The factor in a request body, to be checked.
#[derive(Clone, Debug)]
pub(crate) enum SuppliedFactor {
    Password(SecretText),
    Totp(SecretText),
    /// A sent code, of this method or of any.
    Sent(Option<ProofMethod>, SecretText),
    Webauthn(Json),
    Recovery(SecretText),
}

impl SuppliedFactor {
    /// The method; for a sent code, the method by which it was sent.
    pub(crate) fn way(&self, sent: Option<ProofMethod>) -> ProofMethod {
        match self {
            Self::Password(_) => ProofMethod::Password,
            Self::Totp(_) => ProofMethod::Totp,
            Self::Sent(way, _) => way.or(sent).unwrap_or(ProofMethod::EmailOtp),
            Self::Webauthn(_) => ProofMethod::Webauthn,
            Self::Recovery(_) => ProofMethod::Recovery,
        }
    }
}

impl SuppliedProof {
    /// Returns the factor to check: the one that `method` names, or the only possible one. `None`
    /// if the body contains no proof.
    ///
    /// # Errors
    /// 400 if the body lacks a field that the method needs.
    pub(crate) fn supplied_factor(&self) -> Result<Option<SuppliedFactor>> {
        let code = |path: &str| self.code.clone().ok_or_else(|| missing(path));
        if let Some(method) = self.method {
            return Ok(Some(match method {
                ProofMethod::Password => SuppliedFactor::Password(
                    self.password.clone().ok_or_else(|| missing("password"))?,
                ),
                ProofMethod::Totp => SuppliedFactor::Totp(code("code")?),
                ProofMethod::Recovery => SuppliedFactor::Recovery(code("code")?),
                ProofMethod::EmailOtp | ProofMethod::Sms => {
                    self.token.as_ref().ok_or_else(|| missing("reauthToken"))?;
                    SuppliedFactor::Sent(Some(method), code("code")?)
                }
                ProofMethod::Webauthn => SuppliedFactor::Webauthn(
                    self.webauthn
                        .clone()
                        .ok_or_else(|| missing("webauthnResponse"))?,
                ),
            }));
        }
        if let Some(response) = &self.webauthn {
            return Ok(Some(SuppliedFactor::Webauthn(response.clone())));
        }
        Ok(match (&self.code, &self.token, &self.password) {
            (Some(code), Some(_), _) => Some(SuppliedFactor::Sent(None, code.clone())),
            (Some(code), None, _) if is_number(code) => Some(SuppliedFactor::Totp(code.clone())),
            (Some(code), None, _) => Some(SuppliedFactor::Recovery(code.clone())),
            (None, _, Some(password)) => Some(SuppliedFactor::Password(password.clone())),
            (None, Some(_), None) => return Err(missing("code")),
            (None, None, None) => None,
        })
    }
}

/// Whether a code is numeric, like those of authenticator apps and messages: only digits, and
/// shorter than a recovery code.
pub(crate) fn is_number(code: &SecretText) -> bool {
    let plain = code.expose().chars().filter(|c| *c != ' ');
    let digits = plain.clone().count();
    (1..12).contains(&digits) && plain.into_iter().all(|c| c.is_ascii_digit())
}

fn missing(path: &str) -> Error {
    Error::invalid(Problem::new(
        path,
        "required",
        "is required for this method",
    ))
}

/// The data of a challenge: for a sign-in that waits for its second factor, or for a proof in a
/// session.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Pending {
    /// Versions of the account's password and factors. A change of either ends the challenge.
    password_version: i64,
    mfa_version: i64,
    /// The handle of the session; `None` for a sign-in.
    pub(crate) session: Option<String>,
    /// The first factor of the sign-in.
    pub(crate) begun: Option<FirstFactor>,
    /// The only valid code.
    pub(crate) sent: Option<Sent>,
    /// The options for a passkey, valid for one answer.
    pub(crate) asked: Option<PasskeyRequest>,
}

/// The first factor of a sign-in.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct FirstFactor {
    pub(crate) method: String,
    pub(crate) amr: Vec<String>,
    /// The passkey of the first factor, which cannot be the second one too.
    pub(crate) passkey: Option<String>,
}

impl FirstFactor {
    /// Whether it was a mailed link. Then a code by mail proves nothing new, because it uses the
    /// same mailbox.
    pub(crate) fn by_mail(&self) -> bool {
        ["magicLink", "verifyAndLogin"].contains(&self.method.as_str())
    }

    pub(crate) fn by(method: &str, amr: &[&str], passkey: Option<&str>) -> Self {
        Self {
            method: method.to_owned(),
            amr: amr.iter().map(|how| (*how).to_owned()).collect(),
            passkey: passkey.map(str::to_owned),
        }
    }
}

/// The data of a sent code.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Sent {
    pub(crate) way: ProofMethod,
    pub(crate) mac: String,
    /// The first millisecond in which the code is expired.
    pub(crate) until: i64,
}

impl Pending {
    /// A challenge for the current password and factors of a user.
    fn of(user: &User) -> Self {
        let (password_version, mfa_version) = (user.password_version, user.mfa_version);
        Self {
            password_version,
            mfa_version,
            session: None,
            begun: None,
            sent: None,
            asked: None,
        }
    }

    /// A challenge for a sign-in.
    pub(crate) fn login(user: &User, begun: FirstFactor) -> Self {
        Self {
            begun: Some(begun),
            ..Self::of(user)
        }
    }

    /// A challenge for a proof in a session.
    pub(crate) fn reauth(user: &User, session: &str) -> Self {
        Self {
            session: Some(session.to_owned()),
            ..Self::of(user)
        }
    }

    /// The passkey of the first factor.
    pub(crate) fn first_passkey(&self) -> Option<&str> {
        self.begun.as_ref()?.passkey.as_deref()
    }

    /// Whether the account's password and factors are unchanged.
    pub(crate) fn is_current(&self, user: &User) -> bool {
        (self.password_version, self.mfa_version) == (user.password_version, user.mfa_version)
    }
}

/// A challenge from the store.
pub(crate) struct Challenge {
    pub(crate) one_time: OneTime,
    pub(crate) pending: Pending,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(code: Option<&str>, token: Option<&str>, password: Option<&str>) -> SuppliedProof {
        let [code, token, password] = [code, token, password].map(|text| text.map(SecretText::new));
        SuppliedProof {
            method: None,
            code,
            password,
            token,
            webauthn: None,
        }
    }

    fn way(typed: &SuppliedProof) -> Option<&'static str> {
        Some(match typed.supplied_factor().ok()?? {
            SuppliedFactor::Sent(..) => "sent",
            other => other.way(None).name(),
        })
    }

    #[test]
    fn only_the_first_supplied_factor_is_checked() {
        assert_eq!(way(&SuppliedProof::default()), None);
        assert_eq!(way(&typed(Some("123456"), None, None)), Some("totp"));
        assert_eq!(way(&typed(Some("123 456"), None, Some("x"))), Some("totp"));
        assert_eq!(
            way(&typed(Some("abcd-efgh-2345"), None, None)),
            Some("recovery")
        );
        assert_eq!(
            way(&typed(Some("234567234567"), None, None)),
            Some("recovery")
        );
        assert_eq!(way(&typed(Some("123456"), Some("t"), None)), Some("sent"));
        assert_eq!(way(&typed(None, None, Some("x"))), Some("password"));
        let all = SuppliedProof {
            webauthn: Some(Json::Null),
            ..typed(Some("123456"), Some("t"), Some("x"))
        };
        assert_eq!(way(&all), Some("webauthn"));
        assert_eq!(
            way(&SuppliedProof {
                method: Some(ProofMethod::Password),
                ..all
            }),
            Some("password")
        );
    }

    #[test]
    fn each_proof_method_requires_its_field() {
        for (method, path) in [
            (ProofMethod::Password, "password"),
            (ProofMethod::Totp, "code"),
            (ProofMethod::Recovery, "code"),
            (ProofMethod::EmailOtp, "reauthToken"),
            (ProofMethod::Sms, "reauthToken"),
            (ProofMethod::Webauthn, "webauthnResponse"),
        ] {
            let refused = SuppliedProof {
                method: Some(method),
                ..SuppliedProof::default()
            }
            .supplied_factor()
            .unwrap_err();
            assert_eq!(
                (refused.code(), refused.details()[0].path.as_str()),
                (linchpin::Code::ValidationFailed, path)
            );
        }
        assert_eq!(
            typed(None, Some("t"), None)
                .supplied_factor()
                .unwrap_err()
                .details()[0]
                .path,
            "code"
        );
    }

    #[test]
    fn method_names_equal_their_json_form() {
        for way in ProofMethod::METHODS
            .into_iter()
            .chain([ProofMethod::Password, ProofMethod::Recovery])
        {
            assert_eq!(serde_json::to_value(way).unwrap(), way.name());
        }
    }
}
