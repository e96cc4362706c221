//! The identity in each provider's format.

use serde::Deserialize;
use serde_json::Value;

use super::discovery::Metadata;
use super::id_token::Claims;
use super::preset::{Plain, Profile};
use super::wire::Wire;
use super::{Dialect, Failure, Identity, Provider};
use crate::secret::SecretText;

/// Maximum length of a user id at a provider: the limit of OpenID Connect.
const MAX_ID_BYTES: usize = 255;
/// Microsoft's claim that the domain of an address belongs to the tenant.
const EDOV: &str = "xms_edov";

/// The identity by OpenID Connect: from the token, or from the user info if the token has no
/// address.
pub(super) async fn oidc(
    wire: &Wire,
    metadata: &Metadata,
    dialect: &Dialect,
    mut claims: Claims,
    token: &SecretText,
) -> Result<Identity, Failure> {
    let subject = subject(claims.get("sub"))?;
    if let (None, Some(userinfo)) = (claims.get("email"), &metadata.userinfo) {
        let more: Claims = wire.read(userinfo, Some(token)).await?;
        if self::subject(more.get("sub"))? != subject {
            return Err(Failure("the user info is about another user"));
        }
        // The claim about the address must come from the same document as the address.
        claims.retain(|name, _| name != "email_verified" && name != EDOV);
        claims.extend(
            ["email", "email_verified"]
                .into_iter()
                .filter_map(|name| Some((name.to_owned(), more.get(name)?.clone()))),
        );
    }
    let issuer = claims
        .get("iss")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    // Microsoft's tenants can write any address. Another claim says whether the domain belongs to
    // the tenant.
    let email_verified = claims.get(if matches!(dialect, Dialect::Microsoft { .. }) {
        EDOV
    } else {
        "email_verified"
    });
    let email_verified = matches!(email_verified, Some(Value::Bool(true)))
        || email_verified.is_some_and(|value| {
            matches!(value.as_str(), Some("true" | "1")) || value.as_i64() == Some(1)
        });
    let email = claims
        .get("email")
        .and_then(Value::as_str)
        .map(str::to_owned);
    Ok(Identity {
        issuer,
        subject,
        email,
        email_verified,
    })
}

/// The identity by the provider's own API.
pub(super) async fn plain(
    wire: &Wire,
    provider: &Provider,
    plain: &Plain,
    token: &SecretText,
) -> Result<Identity, Failure> {
    let at = |path: &str| format!("{}{path}", plain.api);
    let me: Value = match plain.profile {
        Profile::GitHub => wire.read(&at("/user"), Some(token)).await?,
        Profile::Discord => wire.read(&at("/users/@me"), Some(token)).await?,
        Profile::Facebook => wire.read(&at("/me?fields=id%2Cemail"), Some(token)).await?,
        Profile::Twitter if provider.scopes.iter().any(|scope| scope == "users.email") => {
            wire.read(&at("/users/me?user.fields=confirmed_email"), Some(token))
                .await?
        }
        Profile::Twitter => wire.read(&at("/users/me"), Some(token)).await?,
        Profile::Bitbucket => wire.read(&at("/user"), Some(token)).await?,
    };
    let text = |value: &Value| {
        value
            .as_str()
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    };
    let (name, email, email_verified) = match plain.profile {
        Profile::GitHub => {
            // Only GitHub's user id is a number.
            let id = me["id"].as_u64().map(|id| Value::from(id.to_string()));
            let emails: Vec<Address> = wire.read(&at("/user/emails"), Some(token)).await?;
            let primary = emails
                .into_iter()
                .find(|address| address.primary && address.verified);
            let email_verified = primary.is_some();
            (id, primary.map(|address| address.email), email_verified)
        }
        Profile::Discord => (
            Some(me["id"].clone()),
            text(&me["email"]),
            me["verified"] == true,
        ),
        // Facebook leaves out an address that is not confirmed.
        Profile::Facebook => (Some(me["id"].clone()), text(&me["email"]), true),
        Profile::Twitter => (
            Some(me["data"]["id"].clone()),
            text(&me["data"]["confirmed_email"]),
            true,
        ),
        Profile::Bitbucket => {
            let emails: Pages = wire.read(&at("/user/emails"), Some(token)).await?;
            let primary = emails
                .values
                .into_iter()
                .find(|address| address.primary && address.verified);
            let email_verified = primary.is_some();
            (
                Some(me["uuid"].clone()),
                primary.map(|address| address.email),
                email_verified,
            )
        }
    };
    Ok(Identity {
        issuer: provider.id.clone(),
        subject: subject(name.as_ref())?,
        email_verified: email_verified && email.is_some(),
        email,
    })
}

/// An address in the lists of GitHub and Bitbucket.
#[derive(Deserialize)]
struct Address {
    email: String,
    #[serde(alias = "is_primary")]
    primary: bool,
    #[serde(alias = "is_confirmed")]
    verified: bool,
}

#[derive(Deserialize)]
struct Pages {
    values: Vec<Address>,
}

fn subject(value: Option<&Value>) -> Result<String, Failure> {
    let subject = match value {
        Some(Value::String(text)) => text.clone(),
        _ => return Err(Failure("the provider returned no valid user id")),
    };
    let plain = !subject.is_empty()
        && subject.len() <= MAX_ID_BYTES
        && subject.bytes().all(|b| b.is_ascii_graphic() || b == b' ');
    if plain {
        Ok(subject)
    } else {
        Err(Failure("the provider returned no valid user id"))
    }
}
