//! What an issuer says of itself: where it is asked for what, and which keys are its own.

use std::sync::Arc;

use jsonwebtoken::jwk::Jwk;
use linchpin::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex;

use super::preset::Plain;
use super::wire::Wire;
use super::{Dialect, Failure};

/// How long the document and the keys are good for, in milliseconds.
const FRESH: i64 = 3_600_000;
/// How often an unknown key makes us look again.
const LOOK: i64 = 60_000;
/// How long nobody asks again after a failure.
const PAUSE: i64 = 5_000;

/// What stands for the tenant in an issuer of Microsoft's.
pub(super) const TENANT: &str = "{tenantid}";

/// The document at `/.well-known/openid-configuration`, in so far as it is used.
#[derive(Deserialize)]
struct Document {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    userinfo_endpoint: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// Where a provider is asked for what.
#[derive(Clone, Debug)]
pub(crate) struct Metadata {
    /// For Microsoft with [`TENANT`] in it, unless the tenant is fixed.
    pub(super) issuer: String,
    pub(super) authorize: String,
    pub(super) token: String,
    pub(super) userinfo: Option<String>,
    jwks: String,
    /// Whether the client's secret goes into a header and not into the body.
    pub(super) basic: bool,
    /// Whether every answer says whose it is.
    pub(super) names_itself: bool,
}

impl Metadata {
    /// Of a provider that has no such document.
    pub(super) fn fixed(plain: &Plain) -> Self {
        Self {
            issuer: String::new(),
            authorize: plain.authorize.clone(),
            token: plain.token.clone(),
            userinfo: None,
            jwks: String::new(),
            basic: plain.basic,
            names_itself: false,
        }
    }

    /// Whether an answer's issuer may be this one.
    pub(super) fn may_be(&self, issuer: &str) -> bool {
        match self.issuer.split_once(TENANT) {
            Some((front, back)) => issuer
                .strip_prefix(front)
                .and_then(|rest| rest.strip_suffix(back))
                .is_some_and(is_tenant),
            None => issuer == self.issuer,
        }
    }

    /// The issuer for a tenant.
    pub(super) fn issuer_of(&self, tenant: &str) -> String {
        self.issuer.replace(TENANT, tenant)
    }
}

/// A tenant in the one form that tokens name it by.
pub(super) fn is_tenant(text: &str) -> bool {
    text.len() == 36 && uuid::Uuid::try_parse(text).is_ok()
}

/// A key of an issuer.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) kid: Option<String>,
    /// Microsoft's say which issuers they are for.
    pub(super) issuer: Option<String>,
    pub(super) jwk: Jwk,
}

pub(super) type Keys = Arc<Vec<Key>>;

/// What is remembered of an issuer.
#[derive(Debug, Default)]
pub(super) struct Issuer {
    document: Mutex<Remembered<Arc<Metadata>>>,
    keys: Mutex<(Remembered<Keys>, Option<Timestamp>)>,
}

#[derive(Debug)]
struct Remembered<T> {
    known: Option<(Timestamp, T)>,
    failed: Option<(Timestamp, Failure)>,
}

impl<T> Default for Remembered<T> {
    fn default() -> Self {
        Self {
            known: None,
            failed: None,
        }
    }
}

impl<T: Clone> Remembered<T> {
    /// What is remembered, or reads it: whoever asks meanwhile waits for that one look.
    async fn fresh(
        &mut self,
        now: Timestamp,
        read: impl AsyncFnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match (&self.known, &self.failed) {
            (Some((at, known)), _) if within(*at, now, FRESH) => return Ok(known.clone()),
            (_, Some((at, failure))) if within(*at, now, PAUSE) => return Err(*failure),
            _ => {}
        }
        match read().await {
            Ok(known) => {
                *self = Self {
                    known: Some((now, known.clone())),
                    failed: None,
                };
                Ok(known)
            }
            Err(failure) => {
                self.failed = Some((now, failure));
                Err(failure)
            }
        }
    }
}

fn within(at: Timestamp, now: Timestamp, millis: i64) -> bool {
    (0..millis).contains(&(now.millis() - at.millis()))
}

impl Issuer {
    /// # Errors
    /// When the document cannot be had, or is another issuer's.
    pub(super) async fn metadata(
        &self,
        wire: &Wire,
        issuer: &str,
        dialect: &Dialect,
        now: Timestamp,
    ) -> Result<Arc<Metadata>, Failure> {
        let mut document = self.document.lock().await;
        document
            .fresh(now, async || {
                discover(wire, issuer, dialect).await.map(Arc::new)
            })
            .await
    }

    /// The keys of an issuer, among them one with this id if it has one.
    ///
    /// # Errors
    /// When they cannot be had.
    pub(super) async fn keys(
        &self,
        wire: &Wire,
        metadata: &Metadata,
        kid: Option<&str>,
        now: Timestamp,
    ) -> Result<Keys, Failure> {
        let mut remembered = self.keys.lock().await;
        let (keys, looked) = &mut *remembered;
        let known = keys
            .fresh(now, async || read_keys(wire, &metadata.jwks).await)
            .await?;
        let is_known =
            kid.is_none_or(|kid| known.iter().any(|key| key.kid.as_deref() == Some(kid)));
        if is_known || looked.is_some_and(|at| within(at, now, LOOK)) {
            return Ok(known);
        }
        // It may have changed its keys. Whoever makes up ids makes us look no more than once a
        // minute.
        *looked = Some(now);
        *keys = Remembered::default();
        keys.fresh(now, async || read_keys(wire, &metadata.jwks).await)
            .await
    }
}

async fn discover(wire: &Wire, issuer: &str, dialect: &Dialect) -> Result<Metadata, Failure> {
    let document: Document = wire
        .read(
            &format!(
                "{}/.well-known/openid-configuration",
                issuer.trim_end_matches('/')
            ),
            None,
        )
        .await?;
    let same = match dialect {
        Dialect::Microsoft { tenant } => is_of_microsoft(&document.issuer, issuer, tenant),
        _ => document.issuer == issuer,
    };
    if !same {
        return Err(Failure("the document of an issuer is another one's"));
    }
    if let Dialect::Below(base) = dialect {
        let below = |url: &String| {
            url.strip_prefix(base.as_str())
                .is_some_and(|rest| rest.starts_with('/'))
        };
        let all = [
            Some(&document.authorization_endpoint),
            Some(&document.token_endpoint),
            Some(&document.jwks_uri),
            document.userinfo_endpoint.as_ref(),
        ];
        if !all.into_iter().flatten().all(below) {
            return Err(Failure("an issuer has addresses elsewhere"));
        }
    }
    let methods = document.token_endpoint_auth_methods_supported;
    Ok(Metadata {
        issuer: document.issuer,
        authorize: document.authorization_endpoint,
        token: document.token_endpoint,
        userinfo: document.userinfo_endpoint,
        jwks: document.jwks_uri,
        // What the standard takes for granted when nothing is said.
        basic: methods
            .is_none_or(|methods| methods.iter().any(|method| method == "client_secret_basic")),
        names_itself: document.authorization_response_iss_parameter_supported,
    })
}

/// Whether a document is that of Microsoft's `tenant`: it names it by id, or leaves its place open
/// when there are many.
fn is_of_microsoft(found: &str, asked: &str, tenant: &str) -> bool {
    let Some((front, back)) = asked.split_once(tenant) else {
        return false;
    };
    let of = found
        .strip_prefix(front)
        .and_then(|rest| rest.strip_suffix(back));
    match tenant {
        "common" | "organizations" => of == Some(TENANT),
        "consumers" => of == Some(TENANT) || of == Some(super::preset::CONSUMERS),
        id if is_tenant(id) => of == Some(id),
        // A domain of the tenant's.
        _ => of.is_some_and(is_tenant),
    }
}

async fn read_keys(wire: &Wire, url: &str) -> Result<Keys, Failure> {
    #[derive(Deserialize)]
    struct Set {
        keys: Vec<Value>,
    }
    let set: Set = wire.read(url, None).await?;
    let text = |key: &Value, name: &str| key.get(name).and_then(Value::as_str).map(str::to_owned);
    // One that cannot be read is one of a kind that we do not use.
    let key = |value: Value| {
        let usable = text(&value, "use").is_none_or(|usage| usage == "sig");
        let (kid, issuer) = (text(&value, "kid"), text(&value, "issuer"));
        usable
            .then(|| serde_json::from_value(value).ok())
            .flatten()
            .map(|jwk| Key { kid, issuer, jwk })
    };
    Ok(Arc::new(set.keys.into_iter().filter_map(key).collect()))
}
