//! The npm package `oidc-provider` as an issuer, and a browser that uses its pages.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};

use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use linchpin::axum::body::Bytes;
use linchpin::axum::http::Request;
use linchpin_auth::{Auth, ProviderSection};
use serde_json::{Value as Json, json};

use crate::server::{Reply, Server};

/// The address of the app for browsers.
pub const APP: &str = "https://app.test";

/// The folder of the issuer. `cargo xtask test` installs its npm packages there.
pub const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/oidc-provider");

/// A running issuer. It stops when its standard input closes.
pub struct Peer {
    pub issuer: String,
    pub secret: String,
    _child: Child,
    _input: ChildStdin,
}

impl Peer {
    /// A separate issuer for tests that change its settings.
    pub fn start() -> Self {
        Self::run(&[])
    }

    /// A separate issuer that also redirects to this address.
    pub fn start_for(callback: &str) -> Self {
        Self::run(&[callback])
    }

    fn run(callbacks: &[&str]) -> Self {
        let mut child = Command::new("node")
            .arg("server.mjs")
            .args(callbacks)
            .current_dir(PEER)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("node is needed: `cargo xtask test` prints how to install it");
        let input = child.stdin.take().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let started: Json = serde_json::from_str(&line)
            .expect("the issuer did not start: `cargo xtask test` installs oidc-provider");
        let text = |name: &str| started[name].as_str().unwrap().to_owned();
        Self {
            issuer: text("issuer"),
            secret: text("secret"),
            _child: child,
            _input: input,
        }
    }

    /// The issuer that all cases share.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Peer> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// The plugin with this issuer as the provider `peer`.
    pub fn on(&self, auth: Auth) -> Auth {
        self.with(auth, "peer", |provider| provider)
    }

    /// The plugin with this issuer as the provider `id`, with changed settings.
    pub fn with(
        &self,
        auth: Auth,
        id: &str,
        change: impl FnOnce(ProviderSection) -> ProviderSection,
    ) -> Auth {
        let provider = change(
            ProviderSection::new("app")
                .secret(self.secret.clone())
                .issuer(self.issuer.as_str()),
        );
        auth.provider(id, provider)
            .configure(|config| config.auth.public_url = Some(APP.to_owned()))
    }

    /// Sets the claims about a user.
    pub async fn account(&self, id: &str, email: Option<&str>, verified: bool) {
        let mut account = json!({ "id": id, "email_verified": verified });
        account["email"] = json!(email);
        self.tell("accounts", &account).await;
    }

    pub async fn rotate(&self) {
        self.tell("rotate", &json!({})).await;
    }

    async fn tell(&self, what: &str, body: &Json) {
        let url = format!("{}/__peer/{what}", self.issuer);
        let reply = Browser::new()
            .send("POST", &url, "application/json", body.to_string())
            .await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }
}

/// A browser: it stores cookies and follows redirects.
#[derive(Clone)]
pub struct Browser {
    client: Client<HttpConnector, Full<Bytes>>,
    /// The values of cookies, by authority and name.
    jar: Arc<Mutex<BTreeMap<(String, String), String>>>,
}

impl Browser {
    pub fn new() -> Self {
        Self {
            client: Client::builder(TokioExecutor::new()).build(HttpConnector::new()),
            jar: Arc::default(),
        }
    }

    pub async fn send(&self, method: &str, url: &str, kind: &str, body: String) -> Reply {
        let authority = url.split('/').nth(2).unwrap_or_default().to_owned();
        let cookies: Vec<String> = self
            .jar
            .lock()
            .unwrap()
            .iter()
            .filter(|((host, _), _)| *host == authority)
            .map(|((_, name), value)| format!("{name}={value}"))
            .collect();
        let request = Request::builder()
            .method(method)
            .uri(url)
            .header("content-type", kind)
            .header("cookie", cookies.join("; "));
        let (parts, body) = self
            .client
            .request(request.body(Full::new(Bytes::from(body))).unwrap())
            .await
            .unwrap()
            .into_parts();
        for set in parts.headers.get_all("set-cookie") {
            let pair = set.to_str().unwrap().split(';').next().unwrap().to_owned();
            let (name, value) = pair.split_once('=').unwrap();
            self.jar
                .lock()
                .unwrap()
                .insert((authority.clone(), name.to_owned()), value.to_owned());
        }
        Reply {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: body.collect().await.unwrap().to_bytes(),
        }
    }

    /// Signs in at the issuer; returns the address of the app that it redirects to.
    pub async fn sign_in(&self, url: &str, login: &str) -> String {
        self.walk(url, Some(login))
            .await
            .expect_err("the sign-in did not end at the app")
    }

    /// Starts a sign-in and cancels it at the issuer.
    pub async fn deny(&self, url: &str) -> String {
        self.walk(url, None)
            .await
            .expect_err("the sign-in did not end at the app")
    }

    /// Follows the pages of an issuer and returns the last page. If the issuer redirects to the
    /// app, returns the address of this redirect as the error.
    pub async fn walk(&self, url: &str, login: Option<&str>) -> Result<Reply, String> {
        let origin = url.split('/').take(3).collect::<Vec<_>>().join("/");
        let mut at = url.to_owned();
        let mut page = self.send("GET", &at, "", String::new()).await;
        for _ in 0..20 {
            if (300..400).contains(&page.status) {
                let to = page.header("location");
                if to.starts_with(APP) {
                    return Err(to);
                }
                at = if to.starts_with('/') {
                    format!("{origin}{to}")
                } else {
                    to
                };
                page = self.send("GET", &at, "", String::new()).await;
                continue;
            }
            let text = String::from_utf8_lossy(&page.body).into_owned();
            let form = match login {
                _ if text.contains(&format!("action=\"{APP}/")) => return Ok(page),
                None => {
                    at = format!("{at}/abort");
                    page = self.send("GET", &at, "", String::new()).await;
                    continue;
                }
                Some(login) if text.contains("name=\"login\"") => {
                    format!("prompt=login&login={login}&password=x")
                }
                Some(_) if text.contains("value=\"consent\"") => "prompt=consent".to_owned(),
                Some(_) => panic!("{} at {at}: {text}", page.status),
            };
            page = self
                .send("POST", &at, "application/x-www-form-urlencoded", form)
                .await;
        }
        panic!("{url} does not end at the app");
    }
}

/// A started flow: the cookie of the browser, and the address at the provider.
pub struct StartedFlow {
    pub cookie: String,
    /// The `__Host-` cookie of the browser, if it had none before.
    pub host: Option<String>,
    pub url: String,
}

/// The name of the cookie that identifies the browser of a flow.
pub const FLOW_COOKIE: &str = "__Secure-oauth_flow";

impl StartedFlow {
    /// Starts a flow at the app.
    pub async fn from(app: &Server, path: &str) -> Self {
        Self::again(app, path, None).await
    }

    /// Starts a flow at the app, in a browser that has started another flow before.
    pub async fn again(app: &Server, path: &str, before: Option<&Self>) -> Self {
        let cookie = before.map(|flow| format!("{FLOW_COOKIE}={}", flow.cookie));
        let headers: Vec<(&str, &str)> = cookie
            .iter()
            .map(|cookie| ("cookie", cookie.as_str()))
            .collect();
        Self::of(&app.raw("GET", path, &headers, "").await)
    }

    pub fn of(reply: &Reply) -> Self {
        assert!(matches!(reply.status, 302 | 303), "{reply:?}");
        let host = reply
            .cookie("__Host-browser")
            .map(|_| reply.cookie_value("__Host-browser"));
        Self {
            cookie: reply.cookie_value(FLOW_COOKIE),
            host,
            url: reply.header("location"),
        }
    }

    /// A parameter of the address at the provider.
    pub fn url_parameter(&self, name: &str) -> String {
        parameter(&self.url, name).unwrap_or_default()
    }

    /// Sends the callback to the app.
    pub async fn back(&self, app: &Server, callback: &str) -> Reply {
        let cookie = format!("{FLOW_COOKIE}={}", self.cookie);
        app.raw(
            "GET",
            callback.strip_prefix(APP).unwrap_or(callback),
            &[("cookie", &cookie)],
            "",
        )
        .await
    }

    /// Exchanges the returned code.
    pub async fn exchange(&self, app: &Server, code: &str) -> Reply {
        let cookie = format!("{FLOW_COOKIE}={}", self.cookie);
        app.raw(
            "POST",
            "/auth/oauth/exchange",
            &[("cookie", &cookie), ("content-type", "application/json")],
            &json!({ "code": code }).to_string(),
        )
        .await
    }
}

/// A parameter of an address.
pub fn parameter(url: &str, name: &str) -> Option<String> {
    let query = url.split_once('?')?.1.split('#').next()?;
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| decode(value))
}

pub fn decode(text: &str) -> String {
    let mut out = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                out.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
            }
            other => out.push(other),
        }
    }
    String::from_utf8(out).unwrap()
}

/// Signs in with a provider; returns the app's response to the code.
pub async fn enter(app: &Server, provider: &str, login: &str) -> Reply {
    let flow = StartedFlow::from(app, &format!("/auth/{provider}")).await;
    let callback = Browser::new().sign_in(&flow.url, login).await;
    let code = callback_parameter(&flow.back(app, &callback).await, "code");
    flow.exchange(app, &code).await
}

/// Returns a parameter of the redirect after a callback. It must be the only parameter.
#[track_caller]
pub fn callback_parameter(reply: &Reply, name: &str) -> String {
    assert_eq!(reply.status, 302, "{reply:?}");
    let to = reply.header("location");
    let value = parameter(&to, name).unwrap_or_else(|| panic!("no {name} in {to}"));
    assert_eq!(
        to.matches(['?', '&']).count(),
        1,
        "more than one parameter in {to}"
    );
    value
}
