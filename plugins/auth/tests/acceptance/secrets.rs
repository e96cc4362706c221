//! No secret of second factors, passkeys and providers is logged or audited.

use std::collections::BTreeSet;

use linchpin_auth::{Auth, ProviderSection};
use serde_json::{Value as Json, json};

use crate::authenticator::Authenticator;
use crate::cases;
use crate::events::{Sink, around, logged};
use crate::factor::{code_of, texts, wrong};
use crate::issuer::{APP, Browser, StartedFlow, callback_parameter};
use crate::passkeys::with_passkeys;
use crate::post::Post;
use crate::server::{GOOD, Reply, Server, SignedIn, Store};
use crate::standin::{CLIENT, SECRET, StandIn};

cases!(every_event_about_factors_is_audited);

/// Digits of codes. They are longer than the default, because other cases log numbers at the same
/// time, and six digits could appear in them by chance.
const APP_DIGITS: u64 = 8;
const MAIL_DIGITS: u64 = 10;

/// The members of responses that contain secrets.
const SECRETS: [&str; 12] = [
    "token",
    "refreshToken",
    "deviceToken",
    "mfaToken",
    "setupToken",
    "reauthToken",
    "registrationToken",
    "passkeyToken",
    "secret",
    "uri",
    "recoveryCodes",
    "challenge",
];

fn everything(auth: Auth, post: &Post, standin: &StandIn) -> Auth {
    let provider = ProviderSection::new(CLIENT)
        .secret(SECRET.to_owned())
        .issuer(standin.url.as_str());
    with_passkeys(post.on(auth).refresh_tokens().provider("stand", provider)).configure(|config| {
        config.auth.public_url = Some(APP.to_owned());
        config.auth.admin_role = Some("admin".into());
        config.auth.mfa.enabled = true;
        config.auth.mfa.totp.digits = APP_DIGITS;
        config.auth.mfa.email_otp.enabled = true;
        config.auth.mfa.email_otp.digits = MAIL_DIGITS;
        config.auth.mfa.trust_device_seconds = 3600;
    })
}

/// A client that records every secret in requests and responses.
struct RecordingClient<'a> {
    app: &'a Server,
    /// Secrets that are too long to appear by chance.
    long: BTreeSet<String>,
    /// Numeric codes.
    codes: BTreeSet<String>,
}

impl RecordingClient<'_> {
    async fn call(
        &mut self,
        who: Option<&SignedIn>,
        method: &str,
        path: &str,
        body: Option<Json>,
    ) -> Reply {
        let reply = match who {
            Some(who) => self.app.with(&who.token, method, path, body).await,
            None => self.app.post(path, body.unwrap_or_else(|| json!({}))).await,
        };
        self.note(&reply);
        reply
    }

    /// Makes a call that must succeed.
    async fn done(
        &mut self,
        who: Option<&SignedIn>,
        method: &str,
        path: &str,
        body: Option<Json>,
    ) -> Reply {
        let reply = self.call(who, method, path, body).await;
        assert!(reply.status < 300, "{method} {path}: {reply:?}");
        reply
    }

    /// Records the secrets in the body and the cookies of a response.
    fn note(&mut self, reply: &Reply) {
        self.members(&reply.json());
        for cookie in reply.headers.get_all("set-cookie") {
            let pair = cookie.to_str().unwrap().split(';').next().unwrap();
            self.long.insert(pair.split_once('=').unwrap().1.to_owned());
        }
    }

    /// Records the secrets in a JSON object.
    fn members(&mut self, json: &Json) {
        for (name, value) in json.as_object().into_iter().flatten() {
            match value {
                Json::String(text) if SECRETS.contains(&name.as_str()) => {
                    self.long.insert(text.clone());
                }
                Json::Array(list) if SECRETS.contains(&name.as_str()) => {
                    let codes = list.iter().filter_map(Json::as_str);
                    self.long
                        .extend(codes.flat_map(|code| [code.to_owned(), code.replace('-', "")]));
                }
                inner => self.members(inner),
            }
        }
    }

    /// The current code of an authenticator app.
    fn app_code(&mut self, secret: &str) -> String {
        self.code(code_of(self.app, secret, 0, APP_DIGITS))
    }

    /// Records a numeric code, and the wrong code that tests send instead of it.
    fn code(&mut self, code: String) -> String {
        assert!(code.len() >= 8, "{code}");
        self.codes.extend([code.clone(), wrong(&code)]);
        code
    }
}

/// Uses every kind of proof with one account.
async fn use_every_proof(client: &mut RecordingClient<'_>, post: &Post) -> SignedIn {
    let (app, login) = (
        client.app,
        json!({ "email": "ada@x.test", "password": GOOD }),
    );
    // A provider.
    let flow = StartedFlow::from(app, "/auth/stand").await;
    let callback = Browser::new().sign_in(&flow.url, "").await;
    let code = callback_parameter(&flow.back(app, &callback).await, "code");
    client.long.extend([
        flow.url_parameter("state"),
        flow.url_parameter("nonce"),
        flow.cookie.clone(),
        code.clone(),
    ]);
    let entered = flow.exchange(app, &code).await;
    assert_eq!(entered.status, 200, "{entered:?}");
    client.note(&entered);
    // An authenticator app, and codes by mail.
    let ada = client
        .done(None, "POST", "/auth/register", Some(login.clone()))
        .await
        .signed_in();
    let secret = client
        .done(Some(&ada), "POST", "/auth/mfa/setup", None)
        .await
        .text("secret");
    let code = client.app_code(&secret);
    client
        .call(
            Some(&ada),
            "POST",
            "/auth/mfa/verify-setup",
            Some(json!({ "code": wrong(&code) })),
        )
        .await
        .refused(401, "invalid_code");
    let set_up = client
        .done(
            Some(&ada),
            "POST",
            "/auth/mfa/verify-setup",
            Some(json!({ "code": code })),
        )
        .await;
    let recovery = texts(&set_up.json()["recoveryCodes"]);
    let setup = client
        .done(
            Some(&ada),
            "POST",
            "/auth/mfa/email-otp/enable",
            Some(json!({})),
        )
        .await;
    let code = client.code(post.code(1).await);
    let body = json!({ "setupToken": setup.text("setupToken"), "code": code });
    client
        .done(
            Some(&ada),
            "POST",
            "/auth/mfa/email-otp/verify-setup",
            Some(body),
        )
        .await;
    // Challenges, with wrong and correct answers.
    let challenge = client
        .done(None, "POST", "/auth/login", Some(login.clone()))
        .await
        .text("mfaToken");
    client
        .done(
            None,
            "POST",
            "/auth/mfa/resend",
            Some(json!({ "mfaToken": challenge, "method": "emailOtp" })),
        )
        .await;
    let code = client.code(post.code(2).await);
    let answer = |code: &str| json!({ "mfaToken": challenge, "method": "emailOtp", "code": code, "trustDevice": true });
    client
        .call(
            None,
            "POST",
            "/auth/mfa/verify",
            Some(answer(&wrong(&code))),
        )
        .await
        .refused(401, "invalid_code");
    client
        .done(None, "POST", "/auth/mfa/verify", Some(answer(&code)))
        .await;
    let challenge = client
        .done(None, "POST", "/auth/login", Some(login))
        .await
        .text("mfaToken");
    let answer = json!({ "mfaToken": challenge, "method": "recovery", "code": recovery[0] });
    let mut ada = client
        .done(None, "POST", "/auth/mfa/verify", Some(answer))
        .await
        .signed_in();
    // A step-up.
    let asked = client
        .done(
            Some(&ada),
            "POST",
            "/auth/reauth/challenge",
            Some(json!({ "method": "emailOtp" })),
        )
        .await;
    let code = client.code(post.code(3).await);
    let answer = |code: &str| json!({ "method": "emailOtp", "reauthToken": asked.text("reauthToken"), "code": code });
    client
        .call(
            Some(&ada),
            "POST",
            "/auth/step-up",
            Some(answer(&wrong(&code))),
        )
        .await
        .refused(401, "invalid_code");
    ada.token = client
        .done(Some(&ada), "POST", "/auth/step-up", Some(answer(&code)))
        .await
        .text("token");
    client
        .done(
            Some(&ada),
            "POST",
            "/auth/mfa/recovery-codes",
            Some(json!({})),
        )
        .await;
    // A passkey.
    let mut passkey = Authenticator::p256();
    let asked = client
        .done(
            Some(&ada),
            "POST",
            "/auth/mfa/webauthn/register-options",
            None,
        )
        .await;
    let answer = passkey.register(&asked.json()["options"]);
    let body = json!({ "registrationToken": asked.text("registrationToken"), "attestationResponse": answer });
    client
        .done(
            Some(&ada),
            "POST",
            "/auth/mfa/webauthn/register",
            Some(body),
        )
        .await;
    let asked = client
        .done(None, "POST", "/auth/passkey/login-options", None)
        .await;
    let answer = passkey.assert(&asked.json()["options"]);
    client
        .done(
            None,
            "POST",
            "/auth/passkey/login",
            Some(
                json!({ "passkeyToken": asked.text("passkeyToken"), "assertionResponse": answer }),
            ),
        )
        .await;
    // The removal of all second factors, including the passkey.
    app.advance(30).await;
    let code = client.app_code(&secret);
    client
        .done(
            Some(&ada),
            "DELETE",
            "/auth/mfa",
            Some(json!({ "code": code })),
        )
        .await;
    ada
}

/// The events of these proofs.
const EVENTS: [&str; 10] = [
    "auth:mfa.enabled",
    "auth:mfa.disabled",
    "auth:mfa.failed",
    "auth:mfa.recovery_used",
    "auth:mfa.recovery_regenerated",
    "auth:step_up",
    "auth:step_up.failed",
    "auth:passkey.added",
    "auth:passkey.removed",
    "auth:oauth.linked",
];

async fn every_event_about_factors_is_audited(store: Store) {
    let log = logged();
    let (post, sink, standin) = (Post::default(), Sink::default(), StandIn::start().await);
    let app = store
        .watched(sink.clone(), |auth| everything(auth, &post, &standin))
        .await;
    app.to_the_present().await;
    let root = app.admin("root@x.test").await;
    let mut client = RecordingClient {
        app: &app,
        long: [GOOD, SECRET].map(str::to_owned).into(),
        codes: BTreeSet::new(),
    };
    let ada = use_every_proof(&mut client, &post).await;
    let RecordingClient {
        mut long, codes, ..
    } = client;
    long.remove("");
    assert!(
        long.len() >= 60 && codes.len() >= 10,
        "{} and {}",
        long.len(),
        codes.len()
    );

    let rows = sink.wait_for("auth:mfa.disabled").await;
    let event_names: BTreeSet<&str> = rows
        .iter()
        .filter_map(|row| row["event"].as_str())
        .collect();
    for event in EVENTS {
        assert!(event_names.contains(event), "{event} in {event_names:?}");
    }
    let events = format!("{:?}", sink.0.lock().unwrap());
    let text = |reply: Reply| {
        assert_eq!(reply.status, 200, "{reply:?}");
        String::from_utf8(reply.body.to_vec()).unwrap()
    };
    app.prove(&root).await;
    let audit = text(app.get(&root.token, "/auth/admin/audit?limit=100").await);
    let activity = text(app.get(&ada.token, "/auth/activity?limit=100").await);
    assert!(
        audit.contains("auth:passkey.added") && activity.contains("auth:mfa.recovery_used"),
        "{audit} {activity}"
    );
    let log = log.text();
    for (place, text) in [
        ("events", &events),
        ("audit", &audit),
        ("activity", &activity),
        ("log", &log),
    ] {
        for secret in &long {
            assert!(
                !text.contains(secret.as_str()),
                "{secret} in {place}: {}",
                around(text, secret)
            );
        }
        for code in &codes {
            assert!(
                !stands_alone(text, code),
                "{code} in {place}: {}",
                around(text, code)
            );
        }
    }
    // A mailed code is in its own mail only, and no mail contains another secret.
    for mail in post.everything() {
        let text = format!("{} {} {}", mail.subject, mail.text, mail.html);
        assert!(
            !long.iter().any(|secret| text.contains(secret.as_str())),
            "{text}"
        );
        let mailed_codes = codes
            .iter()
            .filter(|code| stands_alone(&text, code))
            .count();
        assert_eq!(
            mailed_codes,
            usize::from(mail.kind.name() == "email_otp"),
            "{text}"
        );
    }
}

/// Whether the text contains the code as a separate number, not as part of a longer number or word.
fn stands_alone(text: &str, code: &str) -> bool {
    let word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(code).any(|(at, _)| {
        !word(text[..at].chars().next_back()) && !word(text[at + code.len()..].chars().next())
    })
}
