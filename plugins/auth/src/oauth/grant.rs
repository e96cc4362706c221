//! The authorization code grant: the address at the provider, and the exchange of the code.

use std::borrow::Cow;

use axum::http::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use linchpin::{Timestamp, axum};
use oauth2::basic::{
    BasicErrorResponse, BasicRevocationErrorResponse, BasicTokenIntrospectionResponse,
    BasicTokenType,
};
use oauth2::{
    AsyncHttpClient, AuthType, AuthUrl, AuthorizationCode, Client, ClientId, ClientSecret,
    CsrfToken, ExtraTokenFields, HttpRequest, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl,
    RequestTokenError, Scope, StandardRevocableToken, StandardTokenResponse, TokenResponse,
    TokenUrl,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::discovery::Metadata;
use super::wire::Wire;
use super::{Answer, ClientProof, Failure, Kind, Provider};
use crate::secret::{SecretText, same};

/// Lifetime in seconds of the token that the app signs as its client secret (Apple only).
const CLIENT_TOKEN_SECONDS: i64 = 300;
/// Maximum length in bytes of a token from a provider.
const MAX_TOKEN_BYTES: usize = 16 << 10;

/// The values of one flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Authorization<'a> {
    pub(crate) state: &'a str,
    pub(crate) nonce: &'a str,
    pub(crate) verifier: &'a str,
}

/// The tokens for a code.
pub(super) struct Tokens {
    pub(super) access: SecretText,
    pub(super) id_token: Option<SecretText>,
}

/// Additional response members of OpenID Connect.
#[derive(Debug, Deserialize, Serialize)]
struct Extra {
    #[serde(default, skip_serializing)]
    id_token: Option<SecretText>,
}

impl ExtraTokenFields for Extra {}

type TokenAnswer = StandardTokenResponse<Extra, BasicTokenType>;
type OauthClient = Client<
    BasicErrorResponse,
    TokenAnswer,
    BasicTokenIntrospectionResponse,
    StandardRevocableToken,
    BasicRevocationErrorResponse,
>;

/// Whether a code verifier matches its challenge by `S256` (RFC 7636). The library panics for a
/// verifier whose length is not allowed, so the length is checked first.
pub(crate) fn proves(verifier: &str, challenge: &str) -> bool {
    (43..=128).contains(&verifier.len())
        && same(
            URL_SAFE_NO_PAD.encode(Sha256::digest(verifier)).as_bytes(),
            challenge.as_bytes(),
        )
}

/// The address at the provider.
pub(super) fn url(
    provider: &Provider,
    metadata: &Metadata,
    authorization: &Authorization<'_>,
) -> Result<String, Failure> {
    let malformed = |_| Failure("a URL is invalid");
    let callback = RedirectUrl::new(provider.callback.clone()).map_err(malformed)?;
    let client = new_client(provider)
        .set_auth_uri(AuthUrl::new(metadata.authorize.clone()).map_err(malformed)?)
        .set_redirect_uri(callback);
    let pkce = PkceCodeChallenge::from_code_verifier_sha256(&PkceCodeVerifier::new(
        authorization.verifier.to_owned(),
    ));
    let mut request = client
        .authorize_url(|| CsrfToken::new(authorization.state.to_owned()))
        .add_scopes(provider.scopes.iter().cloned().map(Scope::new))
        .set_pkce_challenge(pkce);
    if matches!(provider.kind, Kind::Oidc { .. }) {
        request = request.add_extra_param("nonce", authorization.nonce);
    }
    if provider.form_post {
        request = request.add_extra_param("response_mode", "form_post");
    }
    let (url, _) = request.url();
    if super::is_safe(&url, provider.loopback) {
        Ok(url.into())
    } else {
        Err(Failure("a URL does not use TLS"))
    }
}

/// Exchanges a code.
pub(super) async fn redeem(
    provider: &Provider,
    metadata: &Metadata,
    wire: &Wire,
    answer: &Answer<'_>,
    now: Timestamp,
) -> Result<Tokens, Failure> {
    let malformed = |_| Failure("a URL is invalid");
    let token_url = TokenUrl::new(metadata.token.clone()).map_err(malformed)?;
    let callback = RedirectUrl::new(provider.callback.clone()).map_err(malformed)?;
    let in_header = metadata.basic && matches!(provider.secret, ClientProof::Secret(_));
    let mut client = new_client(provider).set_auth_type(if in_header {
        AuthType::BasicAuth
    } else {
        AuthType::RequestBody
    });
    if let Some(secret) = client_secret(provider, metadata, now)? {
        client = client.set_client_secret(secret);
    }
    let client = client.set_token_uri(token_url);
    let redeemed = client
        .exchange_code(AuthorizationCode::new(answer.code.to_owned()))
        .set_pkce_verifier(PkceCodeVerifier::new(answer.verifier.to_owned()))
        .set_redirect_uri(Cow::Owned(callback))
        .request_async(wire)
        .await;
    let tokens: TokenAnswer = redeemed.map_err(|error| match error {
        RequestTokenError::Request(failure) => failure,
        RequestTokenError::ServerResponse(_) => Failure("the provider refused the code"),
        // The content may contain secrets, so it is not logged.
        RequestTokenError::Parse(..) | RequestTokenError::Other(_) => {
            Failure("the provider's answer cannot be read")
        }
    })?;
    if *tokens.token_type() != BasicTokenType::Bearer {
        return Err(Failure("the provider's token type is not supported"));
    }
    let access = tokens.access_token().secret();
    let id_token = tokens.extra_fields().id_token.clone();
    if access.len() > MAX_TOKEN_BYTES
        || id_token
            .as_ref()
            .is_some_and(|token| token.expose().len() > MAX_TOKEN_BYTES)
    {
        return Err(Failure("a token is too long"));
    }
    Ok(Tokens {
        access: SecretText::new(access.clone()),
        id_token,
    })
}

fn new_client(provider: &Provider) -> OauthClient {
    Client::new(ClientId::new(provider.client_id.clone()))
}

fn client_secret(
    provider: &Provider,
    metadata: &Metadata,
    now: Timestamp,
) -> Result<Option<ClientSecret>, Failure> {
    Ok(match &provider.secret {
        ClientProof::None => None,
        ClientProof::Secret(secret) => Some(ClientSecret::new(secret.expose().to_owned())),
        ClientProof::Apple {
            team_id,
            key_id,
            private_key,
        } => {
            let seconds = now.millis().div_euclid(1000);
            let claims = json!({
                "iss": team_id,
                "iat": seconds,
                "exp": seconds + CLIENT_TOKEN_SECONDS,
                "aud": metadata.issuer,
                "sub": provider.client_id,
            });
            let header = Header {
                kid: Some(key_id.clone()),
                ..Header::new(Algorithm::ES256)
            };
            let unusable = |_| Failure("the private key cannot sign");
            let key =
                EncodingKey::from_ec_pem(private_key.expose().as_bytes()).map_err(unusable)?;
            Some(ClientSecret::new(
                jsonwebtoken::encode(&header, &claims, &key).map_err(unusable)?,
            ))
        }
    })
}

impl<'c> AsyncHttpClient<'c> for Wire {
    type Error = Failure;
    type Future = linchpin::BoxFuture<'c, Result<Response<Vec<u8>>, Failure>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(self.send(request))
    }
}
