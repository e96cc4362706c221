//! Factors: the ways in which somebody proves who they are, and what they type to do so.

pub(crate) mod entity;

use linchpin::{Error, FieldEnum, Problem, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::config::AuthConfig;
use crate::entities::User;
use crate::flow::passkeys::Asked;
use crate::onetime::OneTime;
use crate::secret::SecretText;

/// A way of proving who one is, by its name on the wire.
#[derive(FieldEnum, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    #[field(rename = "password")]
    Password,
    /// A code of an authenticator app.
    #[field(rename = "totp")]
    Totp,
    /// A code that was mailed.
    #[field(rename = "emailOtp")]
    EmailOtp,
    /// A code that was sent to a phone.
    #[field(rename = "sms")]
    Sms,
    /// A passkey.
    #[field(rename = "webauthn")]
    Webauthn,
    /// A recovery code.
    #[field(rename = "recovery")]
    Recovery,
}

impl Way {
    /// Those that are a second factor of a sign-in once they are set up, in the order in which they
    /// are offered.
    pub(crate) const METHODS: [Self; 4] = [Self::Totp, Self::EmailOtp, Self::Sms, Self::Webauthn];

    /// The name on the wire.
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

    /// As sessions and tokens say it (RFC 8176).
    pub(crate) const fn amr(self) -> &'static str {
        match self {
            Self::Password => "pwd",
            Self::Totp | Self::EmailOtp | Self::Recovery => "otp",
            Self::Sms => "sms",
            Self::Webauthn => "hwk",
        }
    }

    /// Whether a code has to be sent for it.
    pub(crate) const fn is_sent(self) -> bool {
        matches!(self, Self::EmailOtp | Self::Sms)
    }
}

/// The second factors that an account has set up, whether or not the settings ask for any.
pub(crate) fn enrolled(user: &User) -> Vec<Way> {
    Way::METHODS
        .into_iter()
        .filter(|way| user.mfa_methods.iter().any(|name| name == way.name()))
        .collect()
}

/// Which factors the settings ask for.
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

    /// Those that an account is asked for.
    pub(crate) fn methods(self, user: &User) -> Vec<Way> {
        enrolled(user)
            .into_iter()
            .filter(|way| self.mfa && (*way != Way::Webauthn || self.passkeys))
            .collect()
    }

    /// Whether an account is asked for one.
    pub(crate) fn asks(self, user: &User) -> bool {
        // Most accounts have none.
        !user.mfa_methods.is_empty() && !self.methods(user).is_empty()
    }
}

/// Whether an account has to set up a second factor, where all of them must have one. A phone alone
/// does not suffice.
pub(crate) fn must_enrol(required: bool, user: &User) -> bool {
    required && enrolled(user).iter().all(|way| *way == Way::Sms)
}

/// What a body says to prove who sends it; see `routes/mfa_shapes.rs`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Typed {
    pub(crate) method: Option<Way>,
    pub(crate) code: Option<SecretText>,
    pub(crate) password: Option<SecretText>,
    /// What `/reauth/challenge` gave out.
    pub(crate) token: Option<SecretText>,
    pub(crate) webauthn: Option<Json>,
}

/// The one factor of a body that is tried.
#[derive(Clone, Debug)]
pub(crate) enum Tried {
    Password(SecretText),
    Totp(SecretText),
    /// A code that was sent: of this method, or of whichever it was sent by.
    Sent(Option<Way>, SecretText),
    Webauthn(Json),
    Recovery(SecretText),
}

impl Tried {
    /// What it is; a sent code is what it was sent by.
    pub(crate) fn way(&self, sent: Option<Way>) -> Way {
        match self {
            Self::Password(_) => Way::Password,
            Self::Totp(_) => Way::Totp,
            Self::Sent(way, _) => way.or(sent).unwrap_or(Way::EmailOtp),
            Self::Webauthn(_) => Way::Webauthn,
            Self::Recovery(_) => Way::Recovery,
        }
    }
}

impl Typed {
    /// What is tried: what `method` names, or what the rest can only mean. `None` when the body
    /// proves nothing.
    ///
    /// # Errors
    /// 400 when the method lacks what it needs.
    pub(crate) fn tried(&self) -> Result<Option<Tried>> {
        let code = |path: &str| self.code.clone().ok_or_else(|| missing(path));
        if let Some(method) = self.method {
            return Ok(Some(match method {
                Way::Password => {
                    Tried::Password(self.password.clone().ok_or_else(|| missing("password"))?)
                }
                Way::Totp => Tried::Totp(code("code")?),
                Way::Recovery => Tried::Recovery(code("code")?),
                Way::EmailOtp | Way::Sms => {
                    self.token.as_ref().ok_or_else(|| missing("reauthToken"))?;
                    Tried::Sent(Some(method), code("code")?)
                }
                Way::Webauthn => Tried::Webauthn(
                    self.webauthn
                        .clone()
                        .ok_or_else(|| missing("webauthnResponse"))?,
                ),
            }));
        }
        if let Some(response) = &self.webauthn {
            return Ok(Some(Tried::Webauthn(response.clone())));
        }
        Ok(match (&self.code, &self.token, &self.password) {
            (Some(code), Some(_), _) => Some(Tried::Sent(None, code.clone())),
            (Some(code), None, _) if is_number(code) => Some(Tried::Totp(code.clone())),
            (Some(code), None, _) => Some(Tried::Recovery(code.clone())),
            (None, _, Some(password)) => Some(Tried::Password(password.clone())),
            (None, Some(_), None) => return Err(missing("code")),
            (None, None, None) => None,
        })
    }
}

/// Whether a code is of an authenticator app: digits, and fewer than a recovery code has
/// characters.
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

/// What is kept with a challenge: of a sign-in that waits for its second factor, or of somebody
/// signed in who is to prove it.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Pending {
    /// The account's password and factors as they were: a change of either ends the challenge.
    password_version: i64,
    mfa_version: i64,
    /// The session that it belongs to, by handle; none for a sign-in.
    pub(crate) session: Option<String>,
    /// How the sign-in began.
    pub(crate) begun: Option<Begun>,
    /// The one code that counts.
    pub(crate) sent: Option<Sent>,
    /// What the browser was asked, for a passkey to answer once.
    pub(crate) asked: Option<Asked>,
}

/// How a sign-in began that waits for its second factor.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Begun {
    pub(crate) method: String,
    pub(crate) amr: Vec<String>,
    /// The passkey that it began with, which is no second factor to itself.
    pub(crate) passkey: Option<String>,
}

impl Begun {
    /// Whether it began with a link that was mailed: who has that reads every mail.
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

/// A code that was sent, as far as it is kept.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Sent {
    pub(crate) way: Way,
    pub(crate) mac: String,
    /// The first millisecond in which it no longer counts.
    pub(crate) until: i64,
}

impl Pending {
    /// Of a user as they are now.
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

    /// For a sign-in that has begun.
    pub(crate) fn login(user: &User, begun: Begun) -> Self {
        Self {
            begun: Some(begun),
            ..Self::of(user)
        }
    }

    /// For somebody who is signed in, in this session.
    pub(crate) fn reauth(user: &User, session: &str) -> Self {
        Self {
            session: Some(session.to_owned()),
            ..Self::of(user)
        }
    }

    /// The passkey that is no second factor here, because it was the first.
    pub(crate) fn first(&self) -> Option<&str> {
        self.begun.as_ref()?.passkey.as_deref()
    }

    /// Whether the account's password and factors are still those of when it began.
    pub(crate) fn is_current(&self, user: &User) -> bool {
        (self.password_version, self.mfa_version) == (user.password_version, user.mfa_version)
    }
}

/// A challenge that was found.
pub(crate) struct Challenge {
    pub(crate) one: OneTime,
    pub(crate) pending: Pending,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(code: Option<&str>, token: Option<&str>, password: Option<&str>) -> Typed {
        let [code, token, password] = [code, token, password].map(|text| text.map(SecretText::new));
        Typed {
            method: None,
            code,
            password,
            token,
            webauthn: None,
        }
    }

    fn way(typed: &Typed) -> Option<&'static str> {
        Some(match typed.tried().ok()?? {
            Tried::Sent(..) => "sent",
            other => other.way(None).name(),
        })
    }

    #[test]
    fn one_factor_is_tried_and_the_order_is_fixed() {
        assert_eq!(way(&Typed::default()), None);
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
        let all = Typed {
            webauthn: Some(Json::Null),
            ..typed(Some("123456"), Some("t"), Some("x"))
        };
        assert_eq!(way(&all), Some("webauthn"));
        assert_eq!(
            way(&Typed {
                method: Some(Way::Password),
                ..all
            }),
            Some("password")
        );
    }

    #[test]
    fn a_method_needs_what_belongs_to_it() {
        for (method, path) in [
            (Way::Password, "password"),
            (Way::Totp, "code"),
            (Way::Recovery, "code"),
            (Way::EmailOtp, "reauthToken"),
            (Way::Sms, "reauthToken"),
            (Way::Webauthn, "webauthnResponse"),
        ] {
            let refused = Typed {
                method: Some(method),
                ..Typed::default()
            }
            .tried()
            .unwrap_err();
            assert_eq!(
                (refused.code(), refused.details()[0].path.as_str()),
                (linchpin::Code::ValidationFailed, path)
            );
        }
        assert_eq!(
            typed(None, Some("t"), None).tried().unwrap_err().details()[0].path,
            "code"
        );
    }

    #[test]
    fn names_are_those_of_the_wire() {
        for way in Way::METHODS
            .into_iter()
            .chain([Way::Password, Way::Recovery])
        {
            assert_eq!(serde_json::to_value(way).unwrap(), way.name());
        }
    }
}
