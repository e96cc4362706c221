//! Every event of accounts is audited, and no secret appears anywhere.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use linchpin::event::Batch;
use linchpin::{BoxFuture, EntityEvent, EventSink, Result};
use linchpin_auth::Auth;
use serde_json::{Value as Json, json};
use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::cases;
use crate::post::Post;
use crate::server::{GOOD, Reply, Server, SignedIn, Store};

cases!(
    every_event_of_an_account_is_published,
    no_secret_is_logged_or_audited,
    refusals_are_recorded_once_per_window,
    refused_addresses_cause_no_further_work
);

/// Collects every event of every entity.
#[derive(Clone, Default)]
pub struct Sink(pub Arc<Mutex<Vec<Arc<EntityEvent>>>>);

impl EventSink for Sink {
    fn publish<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<()>> {
        self.0.lock().unwrap().extend_from_slice(batch);
        Box::pin(async { Ok(()) })
    }
}

impl Sink {
    /// Waits for the event `last`, and returns all events so far.
    pub async fn wait_for(&self, last: &str) -> Vec<Json> {
        for _ in 0..3000 {
            let rows: Vec<Json> = self
                .0
                .lock()
                .unwrap()
                .iter()
                .filter(|event| event.name == "auth.audits.created")
                .map(|event| event.payload.value().clone())
                .collect();
            if rows.iter().any(|row| row["event"] == last) {
                return rows;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the event {last} was not published");
    }
}

fn everything(auth: Auth, post: &Post) -> Auth {
    post.on(auth).refresh_tokens().configure(|config| {
        config.auth.admin_role = Some("admin".into());
        config.auth.email_verification.enabled = true;
        config.auth.magic_link.enabled = true;
        config.auth.account_deletion.link_base_url = Some("https://app.test/keep".into());
    })
}

const WRONG: &str = "wrong-otter-91-lamp";
const OTHER: &str = "amber-walrus-17-dune";

async fn login(app: &Server, email: &str, password: &str) -> Reply {
    app.post(
        "/auth/login",
        json!({ "email": email, "password": password }),
    )
    .await
}

/// Uses every feature of an account. Each response is passed to `on_reply`.
async fn use_every_feature(app: &Server, post: &Post, mut on_reply: impl FnMut(&Reply)) {
    let root = app.admin("root@x.test").await;
    let made = app
        .post(
            "/auth/register",
            json!({ "email": "ada@x.test", "password": GOOD }),
        )
        .await;
    on_reply(&made);
    let mut ada = made.signed_in();
    let device = made.text("deviceToken");
    let token = post.token("verify_email", 2).await;
    on_reply(
        &app.post("/auth/verify-email", json!({ "token": token }))
            .await,
    );
    login(app, "ada@x.test", WRONG)
        .await
        .refused(401, "invalid_credentials");
    let again = login(app, "ada@x.test", GOOD).await;
    on_reply(&again);
    app.with(
        &ada.token,
        "PATCH",
        "/auth/me",
        Some(json!({ "displayName": "Ada" })),
    )
    .await;
    // A refresh token is used twice.
    let renewed = app
        .post(
            "/auth/refresh",
            json!({ "refreshToken": again.text("refreshToken") }),
        )
        .await;
    on_reply(&renewed);
    app.advance(11).await;
    app.post(
        "/auth/refresh",
        json!({ "refreshToken": again.text("refreshToken") }),
    )
    .await
    .refused(401, "refresh_reused");
    // A wrong proof, then a correct one.
    let step = |password: &str| json!({ "method": "password", "password": password });
    app.with(&ada.token, "POST", "/auth/step-up", Some(step(WRONG)))
        .await
        .refused(401, "invalid_credentials");
    let stepped = app
        .with(&ada.token, "POST", "/auth/step-up", Some(step(GOOD)))
        .await;
    on_reply(&stepped);
    ada.token = stepped.text("token");
    // Changes of the password: in a session, and by a mailed link.
    let set = json!({ "password": OTHER, "currentPassword": GOOD });
    on_reply(
        &app.with(&ada.token, "POST", "/auth/set-password", Some(set))
            .await,
    );
    app.post("/auth/forgot-password", json!({ "email": "ada@x.test" }))
        .await;
    let token = post.token("password_reset", 1).await;
    on_reply(
        &app.post(
            "/auth/reset-password",
            json!({ "token": token, "password": GOOD }),
        )
        .await,
    );
    app.post(
        "/auth/magic-link/request",
        json!({ "identifier": "ada@x.test" }),
    )
    .await;
    let token = post.token("magic_link", 1).await;
    let by_link = app
        .post("/auth/magic-link/verify", json!({ "token": token }))
        .await;
    on_reply(&by_link);
    // A request from a page of another origin.
    let (token, origin) = (
        format!("__Host-token={}", by_link.text("token")),
        "https://evil.test",
    );
    let forged = [
        ("cookie", token.as_str()),
        ("origin", origin),
        ("content-type", "application/json"),
    ];
    app.raw("PATCH", "/auth/me", &forged, "{}")
        .await
        .refused(403, "csrf_failed");
    // A change of address.
    let ada: SignedIn = by_link.signed_in();
    app.with(
        &ada.token,
        "POST",
        "/auth/change-email",
        Some(json!({ "email": "new@x.test", "password": GOOD })),
    )
    .await;
    let token = post.token("verify_new_email", 1).await;
    on_reply(
        &app.post("/auth/verify-email", json!({ "token": token }))
            .await,
    );
    // Actions of administrators.
    for (method, path, body) in [
        ("POST", "suspend", Some(json!({ "reason": "spam" }))),
        ("POST", "unsuspend", None),
        ("PUT", "roles", Some(json!({ "roles": ["member"] }))),
    ] {
        let path = format!("/auth/admin/users/{}/{path}", ada.id);
        assert_eq!(
            app.with(&root.token, method, &path, body).await.status,
            200,
            "{path}"
        );
    }
    // A request over the limit.
    for _ in 0..10 {
        login(app, "new@x.test", WRONG)
            .await
            .refused(401, "invalid_credentials");
    }
    login(app, "new@x.test", WRONG)
        .await
        .refused(429, "rate_limited");
    app.advance(3600).await;
    // The deletion of the account.
    let headers = [
        ("content-type", "application/json"),
        ("x-device-token", device.as_str()),
    ];
    let body = json!({ "email": "new@x.test", "password": GOOD }).to_string();
    let last = app.raw("POST", "/auth/login", &headers, &body).await;
    on_reply(&last);
    app.with(&last.text("token"), "POST", "/auth/logout", None)
        .await;
    let last = login(app, "new@x.test", GOOD).await.signed_in();
    let delete = || {
        app.with(
            &last.token,
            "DELETE",
            "/auth/me",
            Some(json!({ "password": GOOD })),
        )
    };
    assert_eq!(delete().await.status, 202);
    let token = post.token("cancel_deletion", 1).await;
    on_reply(
        &app.post("/auth/cancel-deletion", json!({ "token": token }))
            .await,
    );
    assert_eq!(delete().await.status, 202);
    app.advance(7 * 86_400).await;
    assert_eq!(
        app.post(
            "/auth/register",
            json!({ "email": "new@x.test", "password": GOOD })
        )
        .await
        .status,
        201
    );
}

/// Every event, except those of second factors, passkeys and providers, which other cases cover.
const EVENTS: [&str; 21] = [
    "auth:user.created",
    "auth:user.updated",
    "auth:user.deleted",
    "auth:login",
    "auth:login.failed",
    "auth:login.throttled",
    "auth:logout",
    "auth:session.created",
    "auth:session.revoked",
    "auth:refresh.reused",
    "auth:email.verified",
    "auth:email.changed",
    "auth:password.changed",
    "auth:password.reset.requested",
    "auth:password.reset",
    "auth:step_up",
    "auth:step_up.failed",
    "auth:account.suspended",
    "auth:account.unsuspended",
    "auth:role.changed",
    "auth:csrf.failed",
];

/// Whether the app itself caused the event: the fixture assigns the administrator's role.
fn is_by_the_app(row: &Json) -> bool {
    row["event"] == "auth:role.changed" && row["details"]["by"].is_null()
}

async fn every_event_of_an_account_is_published(store: Store) {
    let (post, sink) = (Post::default(), Sink::default());
    let app = store
        .watched(sink.clone(), |auth| everything(auth, &post))
        .await;
    use_every_feature(&app, &post, |_| ()).await;
    let rows = sink.wait_for("auth:user.deleted").await;
    let event_names: BTreeSet<&str> = rows
        .iter()
        .filter_map(|row| row["event"].as_str())
        .collect();
    let scheduled = [
        "auth:account.deletion.scheduled",
        "auth:account.deletion.cancelled",
    ];
    for event in EVENTS.iter().chain(&scheduled) {
        assert!(event_names.contains(event), "{event} in {event_names:?}");
    }
    // The actor of an event is the caller of the request.
    for row in &rows {
        assert!(
            row["ip"].is_string() && row["requestId"].as_str().is_some_and(|id| !id.is_empty())
                || is_by_the_app(row),
            "{row}"
        );
    }
    for row in &rows {
        for member in [
            "userId",
            "sessionId",
            "tenantId",
            "ip",
            "userAgent",
            "requestId",
            "at",
            "outcome",
        ] {
            assert!(row.get(member).is_some(), "{member} in {row}");
        }
    }
    let row = |event: &str| rows.iter().find(|row| row["event"] == event).unwrap();
    assert_eq!(
        row("auth:login.throttled")["details"],
        json!({ "method": "password", "reason": "login" })
    );
    assert_eq!(
        row("auth:csrf.failed")["details"],
        json!({ "path": "/auth/me" })
    );
    for event in [
        "auth:login.throttled",
        "auth:csrf.failed",
        "auth:user.created",
    ] {
        assert_eq!(row(event)["ip"], "127.0.0.1", "{event}");
        assert!(
            row(event)["requestId"]
                .as_str()
                .is_some_and(|id| !id.is_empty()),
            "{event}"
        );
    }
    assert!(
        row("auth:csrf.failed")["userId"].is_string()
            && row("auth:csrf.failed")["sessionId"].is_string()
    );
    assert!(row("auth:account.deletion.scheduled")["details"]["scheduledFor"].is_string());
    assert!(row("auth:account.deletion.cancelled")["details"]["scheduledFor"].is_string());
    assert_eq!(row("auth:logout")["details"], json!({ "amr": ["pwd"] }));
    assert_eq!(
        row("auth:login.failed")["details"],
        json!({ "method": "password", "reason": "invalid_credentials" })
    );
    // The event of a deletion contains the user's id; the stored row does not.
    let user = row("auth:account.deletion.scheduled")["userId"].clone();
    assert_eq!(row("auth:user.deleted")["userId"], user);
}

/// The number of cases that read the log at this moment.
static READERS: AtomicUsize = AtomicUsize::new(0);

/// Records the log of all libraries until it is dropped. While no case reads the log, nothing is
/// recorded, because the other cases would write gigabytes.
pub struct Logged(Arc<Mutex<Vec<u8>>>);

impl Logged {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        // A new reader is counted under the same lock, so the log of a running case is never
        // emptied.
        if let Ok(mut log) = self.0.lock()
            && READERS.fetch_sub(1, Ordering::SeqCst) == 1
        {
            *log = Vec::new();
        }
    }
}

pub fn logged() -> Logged {
    static LOG: OnceLock<Arc<Mutex<Vec<u8>>>> = OnceLock::new();
    let log = LOG.get_or_init(|| {
        let log: Arc<Mutex<Vec<u8>>> = Arc::default();
        let into = Arc::clone(&log);
        let all = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_writer(move || LogWriter(Arc::clone(&into)));
        let read = dynamic_filter_fn(|_, _| READERS.load(Ordering::SeqCst) > 0);
        tracing_subscriber::registry()
            .with(all.with_filter(read))
            .init();
        log
    });
    let guard = log.lock().unwrap();
    READERS.fetch_add(1, Ordering::SeqCst);
    drop(guard);
    Logged(Arc::clone(log))
}

struct LogWriter(Arc<Mutex<Vec<u8>>>);

const BROWSER_LOG_TARGET: &[u8] = b" tungstenite::";

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // Other cases type passwords into a browser over a local socket, and the log of the socket
        // contains them. Each call writes one complete record.
        if !bytes
            .windows(BROWSER_LOG_TARGET.len())
            .take(80)
            .any(|part| part == BROWSER_LOG_TARGET)
        {
            self.0.lock().unwrap().extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

async fn no_secret_is_logged_or_audited(store: Store) {
    let log = logged();
    let (post, sink) = (Post::default(), Sink::default());
    let app = store
        .watched(sink.clone(), |auth| everything(auth, &post))
        .await;
    let mut secrets: BTreeSet<String> = [GOOD, OTHER, WRONG]
        .into_iter()
        .map(str::to_owned)
        .collect();
    use_every_feature(&app, &post, |reply| {
        for member in ["token", "refreshToken", "deviceToken"] {
            secrets.insert(reply.text(member));
        }
        for cookie in reply.headers.get_all("set-cookie") {
            let pair = cookie.to_str().unwrap().split(';').next().unwrap();
            secrets.insert(pair.split_once('=').unwrap().1.to_owned());
        }
    })
    .await;
    let mails = post.everything();
    let links: BTreeSet<String> = mails
        .iter()
        .filter_map(|mail| mail.vars.get("link"))
        .filter_map(|link| link.split_once("#token="))
        .map(|(_, token)| token.to_owned())
        .collect();
    assert!(links.len() >= 7, "{links:?}");
    let without_links = secrets.clone();
    secrets.extend(links);
    secrets.remove("");
    assert!(secrets.len() >= 20, "{}", secrets.len());
    let rows = sink.wait_for("auth:user.deleted").await;
    let events = format!("{:?}", sink.0.lock().unwrap());
    let root = login(&app, "root@x.test", GOOD).await.signed_in();
    app.prove(&root).await;
    let audit = app.get(&root.token, "/auth/admin/audit?limit=100").await;
    assert!(audit.status == 200 && rows.len() > 30, "{audit:?}");
    let texts = [
        ("events", events),
        ("audit", String::from_utf8(audit.body.to_vec()).unwrap()),
        ("log", log.text()),
    ];
    assert!(texts[2].1.len() > 1000, "the log is not empty");
    for (place, text) in &texts {
        for secret in &secrets {
            assert!(
                !text.contains(secret.as_str()),
                "{secret} in {place}: {}",
                around(text, secret)
            );
        }
    }
    // Mails contain the token of their link in its fragment. They contain no password that was
    // typed and no token or cookie of a response.
    for mail in &mails {
        let text = format!("{} {} {}", mail.subject, mail.text, mail.html);
        for secret in without_links.iter().filter(|secret| !secret.is_empty()) {
            assert!(!text.contains(secret.as_str()), "{secret} in {text}");
        }
    }
}

pub fn around<'a>(text: &'a str, secret: &str) -> &'a str {
    let at = text.find(secret).unwrap_or(0);
    let line = text[..at].rfind('\n').map_or(0, |start| start + 1);
    &text[line..at]
}

/// Refusals are recorded once per window, however many there are.
async fn refusals_are_recorded_once_per_window(store: Store) {
    let (post, sink) = (Post::default(), Sink::default());
    let app = store
        .watched(sink.clone(), |auth| everything(auth, &post))
        .await;
    let forged = [
        ("origin", "https://evil.test"),
        ("content-type", "application/json"),
    ];
    let body = json!({ "email": "nobody@x.test", "password": WRONG }).to_string();
    let exceed_limits = async || {
        for _ in 0..5 {
            app.raw("POST", "/auth/login", &forged, &body)
                .await
                .refused(403, "csrf_failed");
        }
        for _ in 0..15 {
            login(&app, "nobody@x.test", WRONG).await;
        }
    };
    exceed_limits().await;
    app.advance(900).await;
    exceed_limits().await;
    app.register("last@x.test").await;
    let rows = sink.wait_for("auth:user.created").await;
    let count = |event: &str| rows.iter().filter(|row| row["event"] == event).count();
    assert_eq!(
        (
            count("auth:csrf.failed"),
            count("auth:login.throttled"),
            count("auth:login.failed")
        ),
        (2, 2, 20)
    );
    let forged = rows
        .iter()
        .find(|row| row["event"] == "auth:csrf.failed")
        .unwrap();
    assert_eq!(
        (&forged["details"], &forged["userId"]),
        (&json!({ "path": "/auth/login" }), &json!(null))
    );
}

/// A client address above its limit causes no further work, even if each request has another
/// identifier.
async fn refused_addresses_cause_no_further_work(store: Store) {
    let (post, sink) = (Post::default(), Sink::default());
    let app = store
        .watched(sink.clone(), |auth| everything(auth, &post))
        .await;
    for n in 0..40 {
        let reply = login(&app, &format!("nobody{n}@x.test"), WRONG).await;
        assert_eq!(
            reply.status,
            if n < 15 { 401 } else { 429 },
            "{n}: {reply:?}"
        );
    }
    app.register("last@x.test").await;
    let rows = sink.wait_for("auth:user.created").await;
    let throttled: Vec<&Json> = rows
        .iter()
        .filter(|row| row["event"] == "auth:login.throttled")
        .collect();
    assert_eq!(throttled.len(), 1, "{throttled:?}");
    assert_eq!(throttled[0]["details"]["reason"], "loginSpread");
}
