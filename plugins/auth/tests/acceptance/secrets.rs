//! No secret of second factors, passkeys and providers is logged or audited.

use std::collections::BTreeSet;

use linchpin_auth::{Auth, ProviderSection};
use serde_json::{Value as Json, json};

use crate::authenticator::Authenticator;
use crate::cases;
use crate::events::{Sink, around, logged};
use crate::factor::{code_of, texts, wrong};
use crate::issuer::{APP, Away, Browser, landed};
use crate::passkeys::with_passkeys;
use crate::post::Post;
use crate::server::{GOOD, Reply, Server, SignedIn, Store};
use crate::standin::{CLIENT, SECRET, StandIn};

cases!(every_event_about_factors_is_audited);

/// Longer than usual: other cases log numbers at the same time, and six digits are among them by
/// chance.
const OF_APP: u64 = 8;
const OF_MAIL: u64 = 10;

/// The members of responses that are secret.
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
        config.auth.mfa.totp.digits = OF_APP;
        config.auth.mfa.email_otp.enabled = true;
        config.auth.mfa.email_otp.digits = OF_MAIL;
        config.auth.mfa.trust_device_seconds = 3600;
    })
}

/// A client that records every secret in requests and responses.
struct Noting<'a> {
    app: &'a Server,
    /// Secrets that are too long to appear by chance.
    long: BTreeSet<String>,
    /// Digits.
    codes: BTreeSet<String>,
}

impl Noting<'_> {
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

    /// A call that succeeds.
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

    fn note(&mut self, reply: &Reply) {
        self.members(&reply.json());
        for cookie in reply.headers.get_all("set-cookie") {
            let pair = cookie.to_str().unwrap().split(';').next().unwrap();
            self.long.insert(pair.split_once('=').unwrap().1.to_owned());
        }
    }

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

    /// The present code of an authenticator app.
    fn of_app(&mut self, secret: &str) -> String {
        self.code(code_of(self.app, secret, 0, OF_APP))
    }

    fn code(&mut self, code: String) -> String {
        assert!(code.len() >= 8, "{code}");
        self.codes.extend([code.clone(), wrong(&code)]);
        code
    }
}

/// Uses every kind of proof with one account.
async fn life(n: &mut Noting<'_>, post: &Post) -> SignedIn {
    let (app, login) = (n.app, json!({ "email": "ada@x.test", "password": GOOD }));
    // A provider.
    let away = Away::from(app, "/auth/stand").await;
    let callback = Browser::new().sign_in(&away.url, "").await;
    let code = landed(&away.back(app, &callback).await, "code");
    n.long.extend([
        away.asked("state"),
        away.asked("nonce"),
        away.cookie.clone(),
        code.clone(),
    ]);
    let entered = away.exchange(app, &code).await;
    assert_eq!(entered.status, 200, "{entered:?}");
    n.note(&entered);
    // An authenticator app, and codes by mail.
    let ada = n
        .done(None, "POST", "/auth/register", Some(login.clone()))
        .await
        .signed_in();
    let secret = n
        .done(Some(&ada), "POST", "/auth/mfa/setup", None)
        .await
        .text("secret");
    let code = n.of_app(&secret);
    n.call(
        Some(&ada),
        "POST",
        "/auth/mfa/verify-setup",
        Some(json!({ "code": wrong(&code) })),
    )
    .await
    .refused(401, "invalid_code");
    let set_up = n
        .done(
            Some(&ada),
            "POST",
            "/auth/mfa/verify-setup",
            Some(json!({ "code": code })),
        )
        .await;
    let recovery = texts(&set_up.json()["recoveryCodes"]);
    let begun = n
        .done(
            Some(&ada),
            "POST",
            "/auth/mfa/email-otp/enable",
            Some(json!({})),
        )
        .await;
    let code = n.code(post.code(1).await);
    let body = json!({ "setupToken": begun.text("setupToken"), "code": code });
    n.done(
        Some(&ada),
        "POST",
        "/auth/mfa/email-otp/verify-setup",
        Some(body),
    )
    .await;
    // Challenges, answered wrong and right.
    let challenge = n
        .done(None, "POST", "/auth/login", Some(login.clone()))
        .await
        .text("mfaToken");
    n.done(
        None,
        "POST",
        "/auth/mfa/resend",
        Some(json!({ "mfaToken": challenge, "method": "emailOtp" })),
    )
    .await;
    let code = n.code(post.code(2).await);
    let answer = |code: &str| json!({ "mfaToken": challenge, "method": "emailOtp", "code": code, "trustDevice": true });
    n.call(
        None,
        "POST",
        "/auth/mfa/verify",
        Some(answer(&wrong(&code))),
    )
    .await
    .refused(401, "invalid_code");
    n.done(None, "POST", "/auth/mfa/verify", Some(answer(&code)))
        .await;
    let challenge = n
        .done(None, "POST", "/auth/login", Some(login))
        .await
        .text("mfaToken");
    let answer = json!({ "mfaToken": challenge, "method": "recovery", "code": recovery[0] });
    let mut ada = n
        .done(None, "POST", "/auth/mfa/verify", Some(answer))
        .await
        .signed_in();
    // A step up.
    let asked = n
        .done(
            Some(&ada),
            "POST",
            "/auth/reauth/challenge",
            Some(json!({ "method": "emailOtp" })),
        )
        .await;
    let code = n.code(post.code(3).await);
    let answer = |code: &str| json!({ "method": "emailOtp", "reauthToken": asked.text("reauthToken"), "code": code });
    n.call(
        Some(&ada),
        "POST",
        "/auth/step-up",
        Some(answer(&wrong(&code))),
    )
    .await
    .refused(401, "invalid_code");
    ada.token = n
        .done(Some(&ada), "POST", "/auth/step-up", Some(answer(&code)))
        .await
        .text("token");
    n.done(
        Some(&ada),
        "POST",
        "/auth/mfa/recovery-codes",
        Some(json!({})),
    )
    .await;
    // A passkey.
    let mut passkey = Authenticator::p256();
    let asked = n
        .done(
            Some(&ada),
            "POST",
            "/auth/mfa/webauthn/register-options",
            None,
        )
        .await;
    let answer = passkey.register(&asked.json()["options"]);
    let body = json!({ "registrationToken": asked.text("registrationToken"), "attestationResponse": answer });
    n.done(
        Some(&ada),
        "POST",
        "/auth/mfa/webauthn/register",
        Some(body),
    )
    .await;
    let asked = n
        .done(None, "POST", "/auth/passkey/login-options", None)
        .await;
    let answer = passkey.assert(&asked.json()["options"]);
    n.done(
        None,
        "POST",
        "/auth/passkey/login",
        Some(json!({ "passkeyToken": asked.text("passkeyToken"), "assertionResponse": answer })),
    )
    .await;
    // The end of it.
    app.advance(30).await;
    let code = n.of_app(&secret);
    n.done(
        Some(&ada),
        "DELETE",
        "/auth/mfa",
        Some(json!({ "code": code })),
    )
    .await;
    ada
}

/// Their events.
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
    let mut noted = Noting {
        app: &app,
        long: [GOOD, SECRET].map(str::to_owned).into(),
        codes: BTreeSet::new(),
    };
    let ada = life(&mut noted, &post).await;
    let Noting {
        mut long, codes, ..
    } = noted;
    long.remove("");
    assert!(
        long.len() >= 60 && codes.len() >= 10,
        "{} and {}",
        long.len(),
        codes.len()
    );

    let rows = sink.told("auth:mfa.disabled").await;
    let named: BTreeSet<&str> = rows
        .iter()
        .filter_map(|row| row["event"].as_str())
        .collect();
    for event in EVENTS {
        assert!(named.contains(event), "{event} in {named:?}");
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
    // A mailed code is in the one mail that is for it, and nothing else is in any.
    for mail in post.everything() {
        let text = format!("{} {} {}", mail.subject, mail.text, mail.html);
        assert!(
            !long.iter().any(|secret| text.contains(secret.as_str())),
            "{text}"
        );
        let told = codes
            .iter()
            .filter(|code| stands_alone(&text, code))
            .count();
        assert_eq!(told, usize::from(mail.kind.name() == "email_otp"), "{text}");
    }
}

/// Whether digits are somewhere, and not as part of a longer number or word.
fn stands_alone(text: &str, code: &str) -> bool {
    let word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(code).any(|(at, _)| {
        !word(text[..at].chars().next_back()) && !word(text[at + code.len()..].chars().next())
    })
}
