//! A test server in place of real providers. It checks requests like they do (the client's proof,
//! PKCE, redirect URI, content types). Tests choose valid or invalid responses.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use linchpin::axum::body::{Body, Bytes};
use linchpin::axum::http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use linchpin::axum::{self, Router};
use serde_json::{Map, Value as Json, json};
use sha2::{Digest, Sha256};
use tokio::sync::Notify;

use crate::issuer::decode;

pub const CLIENT: &str = "the-client";
pub const SECRET: &str = "a secret: with / odd + characters & 32 bytes";

/// The signing key of the server, on P-256.
pub fn key() -> &'static str {
    static KEY: OnceLock<String> = OnceLock::new();
    KEY.get_or_init(generate)
}

/// Another key on P-256.
pub fn other_key() -> &'static str {
    static KEY: OnceLock<String> = OnceLock::new();
    KEY.get_or_init(generate)
}

fn generate() -> String {
    let output = Command::new("openssl")
        .args([
            "genpkey",
            "-algorithm",
            "EC",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
        ])
        .output()
        .expect("openssl");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// The behaviour of the server.
#[derive(Clone)]
pub struct Behaviour {
    /// Changes the claims of an `id_token`.
    pub claims: Map<String, Json>,
    /// Creates the `id_token` from its claims.
    pub sign: fn(&Json) -> String,
    /// Claims that are left out.
    pub without: Vec<&'static str>,
    /// Invalid responses by path, instead of the valid ones.
    pub answers: BTreeMap<String, Bad>,
    /// The other documents by path.
    pub documents: BTreeMap<String, Json>,
    /// Changes the document at `/.well-known/openid-configuration`.
    pub metadata: Map<String, Json>,
    /// `iss` in redirects to the app; `None` for the server's own.
    pub iss: Option<String>,
    /// The `token_type` of access tokens.
    pub token_type: &'static str,
    /// Whether the client's secret must be in the body.
    pub in_body: bool,
}

/// An invalid or delayed response.
#[derive(Clone, Copy, Debug)]
pub enum Bad {
    Redirect,
    Huge,
    Slow,
    Html,
    Error,
    NotJson,
    Nothing,
    /// A valid response after [`StandIn::let_go`].
    Held,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            claims: Map::new(),
            sign: |claims| sign(claims, key(), "k1"),
            without: Vec::new(),
            answers: BTreeMap::new(),
            documents: BTreeMap::new(),
            metadata: Map::new(),
            iss: None,
            token_type: "Bearer",
            in_body: false,
        }
    }
}

/// Signs a token with ES256.
pub fn sign(claims: &impl serde::Serialize, pem: &str, kid: &str) -> String {
    let header = Header {
        kid: Some(kid.to_owned()),
        ..Header::new(Algorithm::ES256)
    };
    jsonwebtoken::encode(
        &header,
        claims,
        &EncodingKey::from_ec_pem(pem.as_bytes()).unwrap(),
    )
    .unwrap()
}

/// The public part of a key.
pub fn public(pem: &str, kid: &str) -> Json {
    let key = EncodingKey::from_ec_pem(pem.as_bytes()).unwrap();
    let mut jwk = serde_json::to_value(
        jsonwebtoken::jwk::Jwk::from_encoding_key(&key, Algorithm::ES256).unwrap(),
    )
    .unwrap();
    jwk["kid"] = json!(kid);
    jwk["use"] = json!("sig");
    jwk
}

/// An issued code that is not exchanged yet.
struct IssuedCode {
    query: BTreeMap<String, String>,
}

#[derive(Default)]
struct State {
    behaviour: Behaviour,
    codes: BTreeMap<String, IssuedCode>,
    /// The requests in order: method and path.
    seen: Vec<String>,
    /// The mistakes in the requests.
    faults: Vec<String>,
    issued_codes: usize,
}

/// The server.
#[derive(Clone)]
pub struct StandIn {
    pub url: String,
    state: Arc<Mutex<State>>,
    request_held: Arc<Notify>,
    released: Arc<Notify>,
}

impl StandIn {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let standin = Self {
            url,
            state: Arc::default(),
            request_held: Arc::default(),
            released: Arc::default(),
        };
        let own = standin.clone();
        let app = Router::new().fallback(move |request: Request<Body>| {
            let own = own.clone();
            async move { own.answer(request).await }
        });
        tokio::spawn(async move { axum::serve(listener, app).await });
        standin
    }

    pub fn behave(&self, change: impl FnOnce(&mut Behaviour)) {
        let mut behaviour = Behaviour::default();
        change(&mut behaviour);
        self.state.lock().unwrap().behaviour = behaviour;
    }

    /// The number of requests for a path.
    pub fn requests_for(&self, path: &str) -> usize {
        self.state
            .lock()
            .unwrap()
            .seen
            .iter()
            .filter(|seen| seen.split(' ').nth(1) == Some(path))
            .count()
    }

    /// Waits until a request is held.
    pub async fn wait_for_request(&self) {
        self.request_held.notified().await;
    }

    /// Responds to the request that is held.
    pub fn let_go(&self) {
        self.released.notify_one();
    }

    /// The mistakes in the requests.
    pub fn faults(&self) -> Vec<String> {
        self.state.lock().unwrap().faults.clone()
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
        let path = parts.uri.path().to_owned();
        let bad = {
            let mut state = self.state.lock().unwrap();
            state.seen.push(format!("{} {path}", parts.method));
            state.behaviour.answers.get(&path).copied()
        };
        let json = |body: Vec<u8>| {
            Response::builder()
                .header("content-type", "application/json")
                .body(Body::from(body))
                .unwrap()
        };
        match bad {
            None => {}
            Some(Bad::Held) => {
                self.request_held.notify_one();
                self.released.notified().await;
            }
            Some(Bad::Slow) => std::future::pending().await,
            Some(Bad::Redirect) => {
                let to = format!("{}{path}?again", self.url);
                self.state.lock().unwrap().behaviour.answers.remove(&path);
                return Response::builder()
                    .status(302)
                    .header("location", to)
                    .body(Body::empty())
                    .unwrap();
            }
            Some(Bad::Huge) => {
                let chunks =
                    (0..3000).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![b' '; 1024])));
                let body = Body::from_stream(futures_util::stream::iter(chunks));
                return Response::builder()
                    .header("content-type", "application/json")
                    .body(body)
                    .unwrap();
            }
            Some(Bad::Html) => {
                let valid = self.valid_response(&parts.method, &parts.uri, &parts.headers, &body);
                let (mut parts, body) = valid.into_parts();
                parts
                    .headers
                    .insert("content-type", "text/html".parse().unwrap());
                return Response::from_parts(parts, body);
            }
            Some(Bad::Error) => {
                return Response::builder()
                    .status(500)
                    .header("content-type", "application/json")
                    .body(Body::from(r#"{"error":"words of a provider"}"#))
                    .unwrap();
            }
            Some(Bad::NotJson) => return json(b"{\"words of a provider".to_vec()),
            Some(Bad::Nothing) => return json(b"{}".to_vec()),
        }
        self.valid_response(&parts.method, &parts.uri, &parts.headers, &body)
    }

    fn valid_response(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Response<Body> {
        let mut state = self.state.lock().unwrap();
        let path = uri.path();
        let answered = if path.ends_with("/openid-configuration") {
            Ok(self.metadata(&state, path))
        } else if path.ends_with("/authorize") || path.ends_with("/dialog/oauth") {
            return match self.authorize(&mut state, uri.query().unwrap_or_default()) {
                Ok(to) => Response::builder()
                    .status(302)
                    .header("location", to)
                    .body(Body::empty())
                    .unwrap(),
                Err(fault) => Self::fault(&mut state, fault),
            };
        } else if path.ends_with("/token") || path.ends_with("/access_token") {
            self.token(&mut state, method, headers, body)
        } else if path == "/jwks" {
            Ok(state
                .behaviour
                .documents
                .get("/jwks")
                .cloned()
                .unwrap_or_else(|| json!({ "keys": [public(key(), "k1")] })))
        } else {
            let bearer = headers
                .get("authorization")
                .and_then(|value| value.to_str().ok());
            if bearer != Some("Bearer the-access-token")
                || method != Method::GET
                || !headers.contains_key("user-agent")
            {
                Err(format!("{method} {path} with {bearer:?}"))
            } else {
                let full = uri.path_and_query().map_or(path, |both| both.as_str());
                state
                    .behaviour
                    .documents
                    .get(full)
                    .cloned()
                    .ok_or_else(|| format!("there is no document {full}"))
            }
        };
        match answered {
            Ok(document) => Response::builder()
                .header("content-type", "application/json; charset=utf-8")
                .body(Body::from(document.to_string()))
                .unwrap(),
            Err(fault) => Self::fault(&mut state, fault),
        }
    }

    fn fault(state: &mut State, fault: String) -> Response<Body> {
        state.faults.push(fault);
        let body =
            Body::from(r#"{"error":"invalid_request","error_description":"words of a provider"}"#);
        Response::builder()
            .status(StatusCode::BAD_REQUEST)
            .header("content-type", "application/json")
            .body(body)
            .unwrap()
    }

    fn metadata(&self, state: &State, path: &str) -> Json {
        let issuer = format!(
            "{}{}",
            self.url,
            path.trim_end_matches("/.well-known/openid-configuration")
        );
        let mut document = json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{issuer}/authorize"),
            "token_endpoint": format!("{issuer}/token"),
            "jwks_uri": format!("{}/jwks", self.url),
            "authorization_response_iss_parameter_supported": true,
            "token_endpoint_auth_methods_supported": [
                if state.behaviour.in_body { "client_secret_post" } else { "client_secret_basic" }
            ],
        });
        document
            .as_object_mut()
            .unwrap()
            .extend(state.behaviour.metadata.clone());
        document
    }

    fn authorize(&self, state: &mut State, query: &str) -> Result<String, String> {
        let query = form(query);
        for (name, value) in [
            ("response_type", Some("code")),
            ("client_id", Some(CLIENT)),
            ("code_challenge_method", Some("S256")),
            ("state", None),
            ("code_challenge", None),
            ("redirect_uri", None),
            ("scope", None),
        ] {
            match query.get(name) {
                Some(given) if value.is_none_or(|value| value == given) => {}
                given => return Err(format!("{name} is {given:?}")),
            }
        }
        state.issued_codes += 1;
        let code = format!("code-{}", state.issued_codes);
        let iss = state
            .behaviour
            .iss
            .clone()
            .unwrap_or_else(|| self.url.clone());
        let pairs = [
            ("code", code.as_str()),
            ("state", &query["state"]),
            ("iss", &iss),
        ];
        let answer = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(pairs)
            .finish();
        let to = format!("{}?{answer}", query["redirect_uri"]);
        state.codes.insert(code, IssuedCode { query });
        Ok(to)
    }

    fn token(
        &self,
        state: &mut State,
        method: &Method,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Json, String> {
        let header = |name: &str| {
            headers
                .get(name)
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
                .to_owned()
        };
        if method != Method::POST
            || header("content-type") != "application/x-www-form-urlencoded"
            || header("accept") != "application/json"
        {
            return Err(format!(
                "{method} of {} for {}",
                header("content-type"),
                header("accept")
            ));
        }
        let form = form(std::str::from_utf8(body).unwrap());
        let field = |name: &str| form.get(name).cloned().unwrap_or_default();
        let (id, secret) = match header("authorization").strip_prefix("Basic ") {
            Some(basic) => {
                let text = String::from_utf8(STANDARD.decode(basic).unwrap()).unwrap();
                let (id, secret) = text.split_once(':').unwrap();
                if form.contains_key("client_secret") || state.behaviour.in_body {
                    return Err("the client sent two proofs, or one in the wrong place".to_owned());
                }
                (decode(id), decode(secret))
            }
            None => (field("client_id"), field("client_secret")),
        };
        let proved = secret == SECRET || apple_accepts(&secret, &self.url);
        if id != CLIENT || !proved || field("grant_type") != "authorization_code" {
            return Err(format!("the client is {id}, {}", field("grant_type")));
        }
        let issued = state
            .codes
            .remove(&field("code"))
            .ok_or("the code is unknown or used")?;
        if issued.query["redirect_uri"] != field("redirect_uri") {
            return Err("another redirect_uri".to_owned());
        }
        let verifier = field("code_verifier");
        if URL_SAFE_NO_PAD.encode(Sha256::digest(&verifier)) != issued.query["code_challenge"]
            || verifier.len() < 43
        {
            return Err("the verifier is wrong".to_owned());
        }
        let now = i64::try_from(
            std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .unwrap()
                .as_secs(),
        )
        .unwrap();
        let mut claims = json!({
            "iss": self.url, "sub": "subject-1", "aud": CLIENT, "iat": now, "exp": now + 300,
            "email": "ada@standin.test", "email_verified": true,
        });
        claims["nonce"] = json!(issued.query.get("nonce"));
        let members = claims.as_object_mut().unwrap();
        for (name, value) in state.behaviour.claims.clone() {
            // Times are relative to now.
            let value = if ["exp", "iat", "nbf"].contains(&name.as_str()) && value.is_i64() {
                json!(now + value.as_i64().unwrap())
            } else {
                value
            };
            members.insert(name, value);
        }
        members.retain(|name, _| !state.behaviour.without.contains(&name.as_str()));
        let id_token = (state.behaviour.sign)(&claims);
        Ok(json!({
            "access_token": "the-access-token",
            "token_type": state.behaviour.token_type,
            "expires_in": 60,
            "id_token": id_token,
        }))
    }
}

/// Whether Apple would accept a client's token.
fn apple_accepts(token: &str, audience: &str) -> bool {
    use jsonwebtoken::{DecodingKey, Validation};
    let Ok(header) = jsonwebtoken::decode_header(token) else {
        return false;
    };
    let jwk: jsonwebtoken::jwk::Jwk =
        serde_json::from_value(public(other_key(), "apple-key")).unwrap();
    let mut validation = Validation::new(Algorithm::ES256);
    validation.set_audience(&[audience]);
    validation.set_issuer(&["the-team"]);
    validation.set_required_spec_claims(&["exp", "aud", "iss", "sub"]);
    let claims =
        jsonwebtoken::decode::<Json>(token, &DecodingKey::from_jwk(&jwk).unwrap(), &validation);
    header.kid.as_deref() == Some("apple-key")
        && claims.is_ok_and(|data| data.claims["sub"] == CLIENT)
}

fn form(text: &str) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for (name, value) in url::form_urlencoded::parse(text.as_bytes()) {
        assert!(
            out.insert(name.clone().into_owned(), value.into_owned())
                .is_none(),
            "{name} twice"
        );
    }
    out
}
