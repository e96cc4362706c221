//! The providers of an app, with their cached metadata.

use std::collections::BTreeMap;
use std::sync::Arc;

use linchpin::{Result, Timestamp};

use super::discovery::{Issuer, Metadata};
use super::grant::Authorization;
use super::wire::Wire;
use super::{Failure, Identity, grant, id_token, preset, profile};
use crate::secret::SecretText;

/// A configured provider.
#[derive(Clone, Debug)]
pub(crate) struct Provider {
    /// The id in paths.
    pub(crate) id: String,
    /// The name on pages.
    pub(crate) name: String,
    pub(crate) client_id: String,
    pub(crate) secret: ClientProof,
    /// The address of the callback.
    pub(crate) callback: String,
    pub(crate) scopes: Vec<String>,
    /// Whether an address that the provider verified counts as verified here.
    pub(crate) trust_email: bool,
    /// Whether the provider posts its result as a form.
    pub(crate) form_post: bool,
    pub(crate) kind: Kind,
    /// Whether it may be a server on this machine, without TLS.
    pub(crate) loopback: bool,
}

/// How the app authenticates to the provider.
#[derive(Clone, Debug)]
pub(crate) enum ClientProof {
    /// By PKCE only.
    None,
    Secret(SecretText),
    /// By a token that the app signs for each call.
    Apple {
        team_id: String,
        key_id: String,
        private_key: SecretText,
    },
}

/// The protocol of a provider.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// OpenID Connect.
    Oidc { issuer: String, dialect: Dialect },
    /// OAuth 2, with the provider's own API for the identity.
    Plain(preset::Plain),
}

/// Deviations of an issuer from the standard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Standard,
    /// Its tokens have no nonce. PKCE still binds the code to the browser.
    NoNonce,
    /// The URLs of all its endpoints are below this base URL.
    Below(String),
    /// One set of keys for the issuers of all tenants.
    Microsoft {
        tenant: String,
    },
}

/// A provider with its cached metadata.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) provider: Provider,
    wire: Wire,
    issuer: Issuer,
}

/// The providers of an app.
#[derive(Debug, Default)]
pub(crate) struct Oauth(BTreeMap<String, Arc<Connection>>);

impl Oauth {
    /// # Errors
    /// If TLS cannot be set up.
    pub(crate) fn new(providers: Vec<Provider>) -> Result<Self> {
        let connect = |provider: Provider| {
            let wire = Wire::new(provider.loopback)?;
            Ok((
                provider.id.clone(),
                Arc::new(Connection {
                    provider,
                    wire,
                    issuer: Issuer::default(),
                }),
            ))
        };
        Ok(Self(
            providers.into_iter().map(connect).collect::<Result<_>>()?,
        ))
    }

    /// Whether the app has no providers.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The name of the provider with this id.
    pub(crate) fn name_of(&self, id: &str) -> Option<&str> {
        self.0
            .get(id)
            .map(|connection| connection.provider.name.as_str())
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Arc<Connection>> {
        self.0.get(id)
    }

    /// All providers, ordered by id.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Provider> {
        self.0.values().map(|connection| &connection.provider)
    }
}

/// The result of the provider, from the request of the browser that the provider redirected back.
pub(crate) struct Answer<'a> {
    pub(crate) code: &'a str,
    /// The issuer in the result.
    pub(crate) issuer: Option<&'a str>,
    pub(crate) verifier: &'a str,
    pub(crate) nonce: &'a str,
}

impl Connection {
    /// Returns the URL at the provider to which the browser is redirected.
    ///
    /// # Errors
    /// If the issuer's metadata cannot be read.
    pub(crate) async fn authorization(
        &self,
        asked: &Authorization<'_>,
        now: Timestamp,
    ) -> std::result::Result<String, Failure> {
        let metadata = self.metadata(now).await?;
        grant::url(&self.provider, &metadata, asked)
    }

    /// Checks the issuer in a result, because the result may be from another provider. A result
    /// without an issuer passes, unless this provider always adds its issuer. Results of OAuth 2
    /// providers, which have no issuer, are not checked.
    ///
    /// # Errors
    /// If it is from another provider.
    pub(crate) async fn check_issuer(
        &self,
        issuer: Option<&str>,
        now: Timestamp,
    ) -> std::result::Result<(), Failure> {
        if !matches!(self.provider.kind, Kind::Oidc { .. }) {
            return Ok(());
        }
        let metadata = self.metadata(now).await?;
        match issuer {
            Some(issuer) if metadata.may_be(issuer) => Ok(()),
            Some(_) => Err(Failure("the authorization response is from another issuer")),
            None if metadata.response_has_issuer => Err(Failure(
                "the authorization response does not name its issuer",
            )),
            None => Ok(()),
        }
    }

    /// Exchanges a code for an identity.
    ///
    /// # Errors
    /// If the provider refuses the code, or if its response is not valid.
    pub(crate) async fn identity(
        &self,
        answer: &Answer<'_>,
        now: Timestamp,
    ) -> std::result::Result<Identity, Failure> {
        self.check_issuer(answer.issuer, now).await?;
        let metadata = self.metadata(now).await?;
        let tokens = grant::redeem(&self.provider, &metadata, &self.wire, answer, now).await?;
        match &self.provider.kind {
            Kind::Plain(plain) => {
                profile::plain(&self.wire, &self.provider, plain, &tokens.access).await
            }
            Kind::Oidc { dialect, .. } => {
                let id_token = tokens.id_token.ok_or(Failure("there is no id_token"))?;
                let keys = self
                    .issuer
                    .keys(
                        &self.wire,
                        &metadata,
                        id_token::kid(id_token.expose())?.as_deref(),
                        now,
                    )
                    .await?;
                let expected = id_token::Expected {
                    client_id: &self.provider.client_id,
                    nonce: answer.nonce,
                    dialect,
                    metadata: &metadata,
                };
                let claims = id_token::verify(id_token.expose(), &keys, &expected, now)?;
                profile::oidc(&self.wire, &metadata, dialect, claims, &tokens.access).await
            }
        }
    }

    async fn metadata(&self, now: Timestamp) -> std::result::Result<Arc<Metadata>, Failure> {
        match &self.provider.kind {
            Kind::Plain(plain) => Ok(Arc::new(Metadata::fixed(plain))),
            Kind::Oidc { issuer, dialect } => {
                self.issuer.metadata(&self.wire, issuer, dialect, now).await
            }
        }
    }
}
