//! A headless Chromium, driven by the DevTools protocol, with Chromium's virtual authenticator.

use std::collections::VecDeque;
use std::process::Stdio;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// The time limit for one step of the browser.
const STEP_TIMEOUT: Duration = Duration::from_mins(2);
/// The name of Chromium without a user interface. It needs less than half of the processor time of
/// the complete one, and has no notifications.
const HEADLESS_SHELL: &str = "chromium-headless-shell";
/// The names of the complete Chromium.
const COMPLETE: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// One page in a separate browser.
pub struct Browser {
    process: Child,
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    session: String,
    sent: u64,
    events: VecDeque<Json>,
    _folder: tempfile::TempDir,
}

impl Browser {
    /// Starts a browser without notifications, if it is installed, or a complete one.
    pub async fn start() -> Self {
        Self::start_first(&[&[HEADLESS_SHELL], &COMPLETE[..]].concat()).await
    }

    /// Starts a browser with notifications.
    #[allow(dead_code)] // tests of another package, which include this file, use it
    pub async fn start_complete() -> Self {
        Self::start_first(&COMPLETE).await
    }

    /// Starts the first of these programs that is installed.
    async fn start_first(names: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut process = names
            .iter()
            .find_map(|name| launch(name, folder.path()))
            .expect("no Chromium; `cargo xtask test` installs it");
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let address = tokio::time::timeout(STEP_TIMEOUT, async {
            loop {
                let line = lines
                    .next_line()
                    .await
                    .unwrap()
                    .expect("Chromium ended before it listened");
                if let Some(address) = line.strip_prefix("DevTools listening on ") {
                    return address.to_owned();
                }
            }
        });
        let address = address.await.expect("Chromium does not listen");
        // The rest of its output is discarded, so that the pipe never fills.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let (socket, _) = tokio_tungstenite::connect_async(address).await.unwrap();
        let mut browser = Self {
            process,
            socket,
            session: String::new(),
            sent: 0,
            events: VecDeque::new(),
            _folder: folder,
        };
        let target = browser
            .call("Target.createTarget", json!({ "url": "about:blank" }))
            .await["targetId"]
            .clone();
        let attached = browser
            .call(
                "Target.attachToTarget",
                json!({ "targetId": target, "flatten": true }),
            )
            .await;
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "WebAuthn", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({})).await;
        }
        browser
    }

    /// Calls a method of the protocol.
    pub async fn call(&mut self, method: &str, params: Json) -> Json {
        self.try_call(method, params)
            .await
            .unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    async fn try_call(&mut self, method: &str, params: Json) -> Result<Json, Json> {
        self.sent += 1;
        let id = self.sent;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.socket
            .send(Message::text(message.to_string()))
            .await
            .unwrap();
        loop {
            let mut message = self.next().await;
            if message["id"] == json!(id) {
                return if message["error"].is_null() {
                    Ok(message["result"].take())
                } else {
                    Err(message["error"].take())
                };
            }
            self.events.push_back(message);
        }
    }

    async fn next(&mut self) -> Json {
        loop {
            let message = tokio::time::timeout(STEP_TIMEOUT, self.socket.next())
                .await
                .expect("the browser does not answer");
            if let Message::Text(text) =
                message.expect("the browser closed the connection").unwrap()
            {
                return serde_json::from_str(&text).unwrap();
            }
        }
    }

    /// Waits for an event.
    async fn event(&mut self, method: &str) -> Json {
        loop {
            if let Some(at) = self
                .events
                .iter()
                .position(|event| event["method"] == json!(method))
            {
                return self.events.remove(at).unwrap()["params"].take();
            }
            let message = self.next().await;
            self.events.push_back(message);
        }
    }

    /// Waits until another page has loaded. The previous page may still send its load event, which
    /// is ignored.
    async fn wait_for_next_page(&mut self) {
        loop {
            let frame = self.event("Page.frameNavigated").await["frame"].take();
            if frame["parentId"].is_null() {
                break;
            }
        }
        self.wait_until_loaded().await;
    }

    /// Waits until the current page has loaded.
    async fn wait_until_loaded(&mut self) {
        let started = std::time::Instant::now();
        while self.look("document.readyState").await != json!("complete") {
            assert!(started.elapsed() < STEP_TIMEOUT, "the page is never loaded");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Opens a page, and waits until it is loaded.
    pub async fn open(&mut self, url: &str) {
        self.events.clear();
        let opened = self.call("Page.navigate", json!({ "url": url })).await;
        assert!(opened["errorText"].is_null(), "{url}: {opened}");
        self.wait_for_next_page().await;
    }

    /// Runs an expression in the page and awaits its promise.
    pub async fn run(&mut self, expression: &str) -> Json {
        let params = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true });
        let mut done = self.call("Runtime.evaluate", params).await;
        assert!(
            done["exceptionDetails"].is_null(),
            "{expression}\n{}",
            done["exceptionDetails"]
        );
        done["result"]["value"].take()
    }

    /// Runs an expression in the service worker and awaits its promise.
    #[allow(dead_code)] // tests of another package, which include this file, use it
    pub async fn run_in_worker(&mut self, expression: &str) -> Json {
        let targets = self.call("Target.getTargets", json!({})).await;
        let targets = targets["targetInfos"].as_array().unwrap().clone();
        let worker = targets
            .into_iter()
            .find(|one| one["type"] == "service_worker");
        let id = worker.expect("there is no service worker")["targetId"].take();
        let attached = self
            .call(
                "Target.attachToTarget",
                json!({ "targetId": id, "flatten": true }),
            )
            .await;
        let session = attached["sessionId"].as_str().unwrap().to_owned();
        let page = std::mem::replace(&mut self.session, session);
        let done = self.run(expression).await;
        self.session = page;
        done
    }

    /// Evaluates an expression in the page, and tries again while the page is redirecting.
    async fn look(&mut self, expression: &str) -> Json {
        let started = std::time::Instant::now();
        while started.elapsed() < STEP_TIMEOUT {
            let params = json!({ "expression": expression, "returnByValue": true });
            match self.try_call("Runtime.evaluate", params).await {
                Ok(mut done) if done["exceptionDetails"].is_null() => {
                    return done["result"]["value"].take();
                }
                Ok(done) => panic!("{expression}\n{}", done["exceptionDetails"]),
                Err(error)
                    if error["message"]
                        .as_str()
                        .is_some_and(|text| text.contains("navigated")) =>
                {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(error) => panic!("{expression}: {error}"),
            }
        }
        panic!("{expression}: the page does not stop redirecting");
    }

    /// Adds an authenticator.
    pub async fn plug_in(&mut self, verifies: bool) -> Json {
        let options = json!({
            "protocol": "ctap2", "ctap2Version": "ctap2_1", "transport": "internal", "hasResidentKey": true,
            "hasUserVerification": verifies, "isUserVerified": verifies, "automaticPresenceSimulation": true,
        });
        self.call(
            "WebAuthn.addVirtualAuthenticator",
            json!({ "options": options }),
        )
        .await["authenticatorId"]
            .take()
    }

    /// The credentials of an authenticator.
    pub async fn credentials(&mut self, authenticator: &Json) -> Vec<Json> {
        let answer = self
            .call(
                "WebAuthn.getCredentials",
                json!({ "authenticatorId": authenticator }),
            )
            .await;
        answer["credentials"].as_array().unwrap().clone()
    }

    /// Restores an earlier state of the credentials, so that the authenticator looks like a clone.
    pub async fn copy_back(&mut self, authenticator: &Json, credentials: &[Json]) {
        self.call(
            "WebAuthn.clearCredentials",
            json!({ "authenticatorId": authenticator }),
        )
        .await;
        for credential in credentials {
            self.call(
                "WebAuthn.addCredential",
                json!({ "authenticatorId": authenticator, "credential": credential }),
            )
            .await;
        }
    }

    /// Posts JSON from the page, like a script of the site.
    pub async fn post(&mut self, path: &str, body: &Json, token: Option<&str>) -> Json {
        let headers = match token {
            Some(token) => {
                json!({ "content-type": "application/json", "authorization": format!("Bearer {token}") })
            }
            None => json!({ "content-type": "application/json" }),
        };
        // A request without a body has no content type.
        let body = if body.is_null() {
            Json::Null
        } else {
            json!(body.to_string())
        };
        self.run(&format!(
            "fetch({path}, {{ method: 'POST', credentials: 'omit', headers: {headers}, body: {body} ?? undefined }})
                .then(async answer => ({{ status: answer.status, body: await answer.json() }}))",
            path = json!(path),
        ))
        .await
    }

    /// `navigator.credentials.create()` with the given options.
    pub async fn create(&mut self, options: &Json) -> Json {
        self.run(&format!(
            "navigator.credentials.create({{ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON({options}) }})
                .then(made => made.toJSON(), error => ({{ error: error.name + ': ' + error.message }}))"
        ))
        .await
    }

    /// `navigator.credentials.get()` with the given options.
    pub async fn get(&mut self, options: &Json) -> Json {
        self.run(&format!(
            "navigator.credentials.get({{ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON({options}) }})
                .then(used => used.toJSON(), error => ({{ error: error.name + ': ' + error.message }}))"
        ))
        .await
    }

    /// Fills in the fields of a form, submits it, and waits for the next page.
    pub async fn submit(&mut self, form: &str, fields: &[(&str, &str)]) {
        self.events.clear();
        let fields: serde_json::Map<String, Json> = fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), json!(value)))
            .collect();
        self.run(&format!(
            "(() => {{
                const form = document.querySelector({form});
                for (const [name, value] of Object.entries({fields})) form.elements.namedItem(name).value = value;
                form.querySelector('button').click();
            }})()",
            form = json!(form),
            fields = Json::Object(fields),
        ))
        .await;
        self.wait_for_next_page().await;
    }

    /// Follows a link to an issuer, and signs in there until it redirects back to `origin`.
    pub async fn follow(&mut self, link: &str, origin: &str, login: &str) {
        self.click(&format!("document.querySelector({})", json!(link)))
            .await;
        for _ in 0..10 {
            if self.look("location.origin").await == json!(origin) {
                return;
            }
            if self.look("!!document.querySelector('[name=login]')").await == json!(true) {
                let typed = json!(login);
                self.run(&format!(
                    "document.querySelector('[name=login]').value = {typed}; document.querySelector('[name=password]').value = 'x'"
                ))
                .await;
            }
            self.click("document.querySelector('form [type=submit]')")
                .await;
        }
        panic!("the pages of the issuer do not return to the app");
    }

    /// Clicks on an element, and waits for the next page.
    async fn click(&mut self, what: &str) {
        self.events.clear();
        self.run(&format!("{what}.click()")).await;
        self.wait_for_next_page().await;
    }

    /// Waits until the page has this path; some pages redirect.
    pub async fn arrive(&mut self, path: &str) {
        let started = std::time::Instant::now();
        while self.path().await != path {
            assert!(
                started.elapsed() < STEP_TIMEOUT,
                "the page is {}, not {path}",
                self.path().await
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.wait_until_loaded().await;
    }

    /// The path of the page, with its query.
    pub async fn path(&mut self) -> String {
        self.look("location.pathname + location.search")
            .await
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// The visible text of the page.
    pub async fn seen(&mut self) -> String {
        self.run("document.body.innerText")
            .await
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Every violation of the page's security policy, and every script error.
    pub async fn complaints(&mut self) -> Vec<String> {
        self.run("0").await;
        let message_of = |event: &Json| match event["method"].as_str() {
            Some("Log.entryAdded") => Some(event["params"]["entry"]["text"].to_string()),
            Some("Runtime.exceptionThrown") => Some(event["params"].to_string()),
            _ => None,
        };
        self.events.iter().filter_map(message_of).collect()
    }

    /// Checks that the page fits on a large screen, on a phone and in dark mode. With
    /// `LINCHPIN_PICTURES=1` it also takes pictures of each, for people to look at.
    pub async fn picture(&mut self, name: &str) {
        let with_files = std::env::var_os("LINCHPIN_PICTURES").is_some_and(|value| value == "1");
        for (kind, width, height, mobile, scheme) in [
            ("wide", 1180, 860, false, "light"),
            ("phone", 390, 844, true, "light"),
            ("dark", 390, 844, true, "dark"),
        ] {
            let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile });
            self.call("Emulation.setDeviceMetricsOverride", metrics)
                .await;
            let media =
                json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
            self.call("Emulation.setEmulatedMedia", media).await;
            let overflow = self
                .run("document.documentElement.scrollWidth - innerWidth")
                .await;
            assert!(
                overflow.as_i64().unwrap() <= 0,
                "{name} is wider than a {kind} screen by {overflow}"
            );
            if with_files {
                self.store_picture(&format!("{name}-{kind}.png")).await;
            }
        }
        self.call("Emulation.clearDeviceMetricsOverride", json!({}))
            .await;
    }

    async fn store_picture(&mut self, file: &str) {
        use base64::Engine;
        let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
        std::fs::create_dir_all(&folder).unwrap();
        let options = json!({ "format": "png", "captureBeyondViewport": true });
        let taken = self.call("Page.captureScreenshot", options).await;
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(taken["data"].as_str().unwrap())
            .unwrap();
        std::fs::write(folder.join(file), bytes).unwrap();
    }

    pub async fn stop(mut self) {
        self.process.kill().await.unwrap();
    }
}

fn launch(name: &str, folder: &std::path::Path) -> Option<Child> {
    Command::new(name)
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-extensions",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--mute-audio",
            "--lang=en",
        ])
        .args(["--remote-debugging-port=0", "about:blank"])
        .arg(format!("--user-data-dir={}", folder.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .ok()
}
