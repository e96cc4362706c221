//! Rate limits: guesses from many addresses, guesses for many identifiers, and all other buckets.

use linchpin_auth::{Auth, Limit, TrustProxy};
use serde_json::{Value as Json, json};

use crate::cases;
use crate::concealed::concealed;
use crate::factor::Phone;
use crate::post::Post;
use crate::server::{GOOD, Reply, Server, SignedIn, Store};

cases!(
    guesses_from_many_addresses_are_limited,
    guesses_for_many_accounts_are_limited_by_address,
    each_client_address_has_a_limit,
    each_account_has_a_limit,
    a_full_mail_limit_is_not_reported
);

const WRONG: &str = "wrong-otter-91-lamp";

fn behind_a_proxy(auth: Auth) -> Auth {
    auth.configure(|config| config.security.trust_proxy = TrustProxy::Hops(1))
}

/// A client at an address.
struct Guest<'a> {
    app: &'a Server,
    address: String,
}

impl<'a> Guest<'a> {
    fn at(app: &'a Server, n: usize) -> Self {
        Self {
            app,
            address: format!("198.51.100.{n}"),
        }
    }

    async fn send(&self, method: &str, path: &str, more: &[(&str, &str)], body: &Json) -> Reply {
        let mut headers = vec![("x-forwarded-for", self.address.as_str())];
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        if !body.is_empty() {
            headers.push(("content-type", "application/json"));
        }
        headers.extend(more);
        self.app.raw(method, path, &headers, &body).await
    }

    async fn post(&self, path: &str, body: &Json) -> Reply {
        self.send("POST", path, &[], body).await
    }

    async fn login(&self, email: &str, password: &str) -> Reply {
        self.post(
            "/auth/login",
            &json!({ "email": email, "password": password }),
        )
        .await
    }
}

/// An attacker with many addresses has thirty guesses an hour, and they never lock the owner out on
/// a known device.
async fn guesses_from_many_addresses_are_limited(store: Store) {
    let app = store.app_with(behind_a_proxy).await;
    let home = Guest::at(&app, 200);
    let made = home
        .post(
            "/auth/register",
            &json!({ "email": "ada@x.test", "password": GOOD }),
        )
        .await;
    let device = made.text("deviceToken");
    home.post(
        "/auth/register",
        &json!({ "email": "bob@x.test", "password": GOOD }),
    )
    .await;
    for (email, begins) in [("ada@x.test", 0), ("nobody@x.test", 50)] {
        for n in 0..30 {
            Guest::at(&app, begins + n)
                .login(email, WRONG)
                .await
                .refused(401, "invalid_credentials");
        }
        for password in [WRONG, GOOD] {
            let refused = Guest::at(&app, begins + 30).login(email, password).await;
            refused.refused(429, "rate_limited");
            assert!(
                (1..=3600).contains(&refused.header("retry-after").parse::<u32>().unwrap()),
                "{refused:?}"
            );
        }
    }
    let own = json!({ "email": "ada@x.test", "password": GOOD });
    let known = home
        .send("POST", "/auth/login", &[("x-device-token", &device)], &own)
        .await;
    assert_eq!(known.status, 200, "{known:?}");
    // Other callers are not affected, at any address.
    assert_eq!(
        Guest::at(&app, 1).login("bob@x.test", GOOD).await.status,
        200
    );
    Guest::at(&app, 1)
        .login("eve@x.test", WRONG)
        .await
        .refused(401, "invalid_credentials");
    app.advance(3600).await;
    assert_eq!(
        Guest::at(&app, 31).login("ada@x.test", GOOD).await.status,
        200
    );
}

/// A client address is limited to fifty wrong passwords for all accounts.
async fn guesses_for_many_accounts_are_limited_by_address(store: Store) {
    let app = store.app_with(behind_a_proxy).await;
    Guest::at(&app, 200)
        .post(
            "/auth/register",
            &json!({ "email": "ada@x.test", "password": GOOD }),
        )
        .await;
    let eve = Guest::at(&app, 1);
    for n in 0..50 {
        eve.login(&format!("{}@x.test", n / 10), WRONG)
            .await
            .refused(401, "invalid_credentials");
        // A correct password is not counted, and it does not reset the counter.
        if n == 25 {
            assert_eq!(eve.login("ada@x.test", GOOD).await.status, 200);
        }
    }
    for (email, password) in [("5@x.test", WRONG), ("ada@x.test", GOOD)] {
        let refused = eve.login(email, password).await;
        refused.refused(429, "rate_limited");
        assert!(
            (1..=900).contains(&refused.header("retry-after").parse::<u32>().unwrap()),
            "{refused:?}"
        );
    }
    Guest::at(&app, 2)
        .login("5@x.test", WRONG)
        .await
        .refused(401, "invalid_credentials");
    assert_eq!(
        Guest::at(&app, 2).login("ada@x.test", GOOD).await.status,
        200
    );
    app.advance(900).await;
    assert_eq!(eve.login("ada@x.test", GOOD).await.status, 200);
}

/// Limits of two requests a minute for the buckets that other cases do not exhaust.
fn low_limits(auth: Auth) -> Auth {
    behind_a_proxy(auth).refresh_tokens().configure(|config| {
        config.auth.mfa.enabled = true;
        config.auth.mfa.email_otp.enabled = true;
        config.auth.magic_link.enabled = true;
        config.auth.email_verification.enabled = true;
        for name in [
            "verifyEmail",
            "resetPassword",
            "magicVerify",
            "verifyAndLogin",
            "resend",
            "magicRequest",
            "forgot",
            "refresh",
            "refreshIp",
            "reauth",
            "mfaVerifyIp",
            "mfaSetup",
            "mfaEnable",
            "smsSendIp",
            "deleteAccount",
            "register",
        ] {
            config.auth.rate_limit.buckets.insert(
                name.to_owned(),
                Limit {
                    max: 2,
                    window_seconds: 60,
                },
            );
        }
    })
}

async fn each_client_address_has_a_limit(store: Store) {
    let (post, phone) = (Post::default(), Phone::default());
    let app = store
        .app_with(|auth| low_limits(phone.on(post.on(auth))))
        .await;
    let token = json!({ "token": "x" });
    for (n, (path, body, expected)) in [
        ("/auth/verify-email", token.clone(), 400),
        (
            "/auth/reset-password",
            json!({ "token": "x", "password": GOOD }),
            400,
        ),
        ("/auth/magic-link/verify", token.clone(), 400),
        (
            "/auth/resend-verification",
            json!({ "email": "nobody@x.test" }),
            200,
        ),
        (
            "/auth/magic-link/request",
            json!({ "identifier": "nobody@x.test" }),
            200,
        ),
        (
            "/auth/forgot-password",
            json!({ "email": "nobody@x.test" }),
            200,
        ),
        ("/auth/refresh", json!({ "refreshToken": "v1.a.b" }), 401),
        (
            "/auth/mfa/verify",
            json!({ "mfaToken": "x", "code": "123456" }),
            401,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        check_limit(&app, n, path, &body, expected).await;
    }
    // Three users at one client address set up phones.
    let guest = Guest::at(&app, 100);
    for (name, status) in [("a", 200), ("b", 200), ("c", 429)] {
        let who = sign_up_verified(&app, &format!("{name}@x.test")).await;
        let bearer = format!("Bearer {}", who.token);
        let asked = guest
            .send(
                "POST",
                "/auth/mfa/sms/enable",
                &[("authorization", &bearer)],
                &json!({ "phone": "+4930123456" }),
            )
            .await;
        assert_eq!(asked.status, status, "{asked:?}");
    }
    app.stop().await;
    let concealed_app = store
        .app_with(|auth| low_limits(concealed(auth, &post)))
        .await;
    check_limit(&concealed_app, 150, "/auth/verify-and-login", &token, 400).await;
}

/// Checks that two calls get the expected status and that the limit refuses the third call. A call
/// from another address, or from the same address after a minute, gets the expected status.
async fn check_limit(app: &Server, n: usize, path: &str, body: &Json, expected: u16) {
    let (here, elsewhere) = (Guest::at(app, n), Guest::at(app, n + 50));
    for _ in 0..2 {
        let reply = here.post(path, body).await;
        assert_eq!(reply.status, expected, "{path}: {reply:?}");
    }
    let reply = here.post(path, body).await;
    assert_eq!(
        (
            reply.status,
            reply.text("code").as_str(),
            reply.header("retry-after").as_str()
        ),
        (429, "rate_limited", "60"),
        "{path}"
    );
    assert_eq!(elsewhere.post(path, body).await.status, expected, "{path}");
    app.advance(60).await;
    assert_eq!(here.post(path, body).await.status, expected, "{path}");
}

/// Signs up a user with a verified mailbox, from a separate client address.
async fn sign_up_verified(app: &Server, email: &str) -> SignedIn {
    let n = email.bytes().next().map_or(0, usize::from);
    let made = Guest::at(app, n)
        .post(
            "/auth/register",
            &json!({ "email": email, "password": GOOD }),
        )
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    let who = made.signed_in();
    app.change(&who.id, json!({ "emailVerified": true })).await;
    who
}

async fn each_account_has_a_limit(store: Store) {
    let (post, phone) = (Post::default(), Phone::default());
    let app = store
        .app_with(|auth| low_limits(phone.on(post.on(auth))))
        .await;
    for (n, (name, method, path, body, expected)) in [
        ("a", "POST", "/auth/reauth/challenge", json!({}), 200),
        ("b", "POST", "/auth/mfa/setup", Json::Null, 200),
        ("c", "POST", "/auth/mfa/email-otp/enable", Json::Null, 200),
        (
            "d",
            "POST",
            "/auth/mfa/sms/enable",
            json!({ "phone": "+4930123456" }),
            200,
        ),
        ("e", "DELETE", "/auth/me", json!({ "password": WRONG }), 401),
    ]
    .into_iter()
    .enumerate()
    {
        let who = [
            sign_up_verified(&app, &format!("{name}@x.test")).await,
            sign_up_verified(&app, &format!("{}@x.test", name.to_uppercase() + "2")).await,
        ];
        // The client address does not matter.
        let send = async |i: usize, user: usize| {
            let bearer = format!("Bearer {}", who[user].token);
            Guest::at(&app, 10 * n + i)
                .send(method, path, &[("authorization", &bearer)], &body)
                .await
        };
        for i in 0..2 {
            let reply = send(i, 0).await;
            assert_eq!(reply.status, expected, "{path}: {reply:?}");
        }
        let refused = send(2, 0).await;
        assert_eq!(
            (
                refused.status,
                refused.text("code").as_str(),
                refused.header("retry-after").as_str()
            ),
            (429, "rate_limited", "60"),
            "{path}"
        );
        assert_eq!(send(2, 1).await.status, expected, "{path}");
        app.advance(60).await;
        assert_eq!(send(2, 0).await.status, expected, "{path}");
    }
    // Refreshes of a session.
    let who = sign_up_verified(&app, "z@x.test").await;
    let mut token = who.refresh;
    for i in 0..4 {
        let renewed = Guest::at(&app, 60 + i)
            .post("/auth/refresh", &json!({ "refreshToken": token }))
            .await;
        if i == 2 {
            renewed.refused(429, "rate_limited");
            app.advance(60).await;
        } else {
            assert_eq!(renewed.status, 200, "{renewed:?}");
            token = renewed.text("refreshToken");
        }
    }
}

/// The response to a request for mail does not reveal that the limit of the account is exhausted.
/// The latest link stays valid.
async fn a_full_mail_limit_is_not_reported(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| {
        post.on(auth).configure(|config| {
            config.auth.magic_link.enabled = true;
            config.auth.email_verification.enabled = true;
        })
    });
    let app = app.await;
    app.register("ada@x.test").await;
    app.register("bob@x.test").await;
    post.all("verify_email", 2).await;
    for (path, field, kind, mailed_before) in [
        ("/auth/resend-verification", "email", "verify_email", 2),
        ("/auth/forgot-password", "email", "password_reset", 0),
        ("/auth/magic-link/request", "identifier", "magic_link", 0),
    ] {
        let ask = async |email: &str| {
            app.advance(1).await;
            let reply = app.post(path, json!({ field: email })).await;
            assert_eq!(reply.status, 200, "{path}: {reply:?}");
            reply.body
        };
        let first = ask("ada@x.test").await;
        for n in 1..6 {
            if n < 3 {
                post.all(kind, mailed_before + n).await;
            }
            assert_eq!(ask("ada@x.test").await, first);
        }
        let latest = post.token(kind, mailed_before + 3).await;
        if kind == "magic_link" {
            let reply = app
                .post("/auth/magic-link/verify", json!({ "token": latest }))
                .await;
            assert_eq!(reply.status, 200, "{reply:?}");
        }
        assert_eq!(ask("bob@x.test").await, first);
        let mails = post.all(kind, mailed_before + 4).await;
        assert_eq!(
            (mails.len(), mails.last().unwrap().to.as_str()),
            (mailed_before + 4, "bob@x.test"),
            "{path}"
        );
        app.advance(3600).await;
        ask("ada@x.test").await;
        assert_eq!(
            post.all(kind, mailed_before + 5).await.last().unwrap().to,
            "ada@x.test"
        );
    }
}
