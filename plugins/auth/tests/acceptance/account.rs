//! Registration, login, logout and profiles.

use linchpin_auth::PrimaryField;
use serde_json::json;

use crate::cases;
use crate::server::{GOOD, Store};

cases!(
    registration_creates_an_account_and_a_session,
    spellings_of_an_address_belong_to_one_account,
    registration_reports_all_problems,
    registration_refuses_server_fields,
    common_and_personal_passwords_are_refused,
    bodies_need_the_json_content_type_and_a_limited_size,
    login_returns_a_token_and_an_http_only_cookie,
    unknown_accounts_and_wrong_passwords_give_the_same_response,
    a_token_is_accepted_from_three_places,
    a_public_route_reports_an_unusable_credential,
    the_first_credential_of_a_request_counts,
    logout_ends_the_given_session,
    an_expired_token_still_logs_out,
    a_profile_is_changed_by_its_owner,
    passwords_are_normalised_and_keep_spaces,
    accounts_may_have_user_names,
    disabled_passwords_remove_their_routes,
    wrong_passwords_are_limited_alike_for_unknown_accounts,
    forwarded_addresses_are_trusted_from_proxies_only
);

/// A registration creates an account, and its token works.
async fn registration_creates_an_account_and_a_session(store: Store) {
    let app = store.app().await;
    let reply = app
        .post(
            "/auth/register",
            json!({ "email": "Ada@Example.test", "password": GOOD }),
        )
        .await;
    assert_eq!(reply.status, 201, "{reply:?}");
    let body = reply.json();
    let token = reply.text("token");
    assert!(
        !token.is_empty()
            && !reply.text("userId").is_empty()
            && body["email"] == "Ada@Example.test",
        "{body}"
    );
    let exp = crate::server::claims(&token)["exp"].as_i64().unwrap();
    assert_eq!(
        linchpin::Timestamp::parse(&reply.text("expiresAt"))
            .unwrap()
            .millis(),
        exp * 1000
    );
    let me = app.me(&token).await;
    assert_eq!(
        (
            me.status,
            me.json()["id"].clone(),
            me.json()["roles"].clone()
        ),
        (200, body["userId"].clone(), json!(["member"])),
        "{me:?}"
    );
    assert!(
        !me.body.windows(7).any(|w| w == b"$argon2") && me.json().get("passwordHash").is_none()
    );
}

/// An address belongs to one account, in every spelling; dots and tags are significant.
async fn spellings_of_an_address_belong_to_one_account(store: Store) {
    let app = store.app().await;
    app.register("ada@example.test").await;
    for email in [
        "ada@example.test",
        "ADA@Example.Test",
        "  ada@example.test ",
    ] {
        let reply = app
            .post(
                "/auth/register",
                json!({ "email": email, "password": GOOD }),
            )
            .await;
        reply.refused(409, "conflict");
        assert_eq!(reply.json()["details"][0]["path"], "email", "{reply:?}");
    }
    app.register("a.b@gmail.com").await;
    app.register("ab+x@gmail.com").await;
}

/// The response reports all problems of a registration together.
async fn registration_reports_all_problems(store: Store) {
    let app = store.app().await;
    let empty = app.post("/auth/register", json!({})).await;
    empty.problem("required", "email");
    empty.problem("required", "password");
    app.post("/auth/register", json!({ "email": "x", "password": GOOD }))
        .await
        .problem("format", "email");
    app.post(
        "/auth/register",
        json!({ "email": "a@b.test", "password": "1234567" }),
    )
    .await
    .problem("min_length", "password");
    app.post(
        "/auth/register",
        json!({ "email": "a@b.test", "password": "é".repeat(129) }),
    )
    .await
    .problem("max_length", "password");
    let both = app
        .post(
            "/auth/register",
            json!({ "email": "x", "password": "1234567" }),
        )
        .await;
    both.problem("format", "email");
    both.problem("min_length", "password");
}

/// The client cannot set server fields of a user.
async fn registration_refuses_server_fields(store: Store) {
    let app = store.app().await;
    for (member, value) in [
        ("role", json!("admin")),
        ("roles", json!(["admin"])),
        ("emailVerified", json!(true)),
        ("id", json!("x")),
    ] {
        let mut body = json!({ "email": "ada@example.test", "password": GOOD });
        body[member] = value;
        app.post("/auth/register", body)
            .await
            .problem("unknown_field", member);
    }
    app.post(
        "/auth/login",
        json!({ "email": "ada@example.test", "password": GOOD }),
    )
    .await
    .refused(401, "invalid_credentials");
}

/// Common passwords, and passwords that contain the address, are refused. No kinds of characters
/// are required.
async fn common_and_personal_passwords_are_refused(store: Store) {
    let app = store.app().await;
    for password in ["password123", "ada.lovelace1"] {
        let reply = app
            .post(
                "/auth/register",
                json!({ "email": "ada.lovelace@example.test", "password": password }),
            )
            .await;
        reply.refused(400, "password_too_common");
        assert_eq!(reply.json()["details"][0]["path"], "password");
    }
    let reply = app
        .post(
            "/auth/register",
            json!({ "email": "ada.lovelace@example.test", "password": "aaaa bbbb cccc" }),
        )
        .await;
    assert_eq!(reply.status, 201, "{reply:?}");
}

/// Bodies must have the content type of JSON and a limited size.
async fn bodies_need_the_json_content_type_and_a_limited_size(store: Store) {
    let app = store.app().await;
    let good = json!({ "email": "ada@example.test", "password": GOOD }).to_string();
    app.raw(
        "POST",
        "/auth/register",
        &[("content-type", "text/plain")],
        &good,
    )
    .await
    .refused(415, "unsupported_media_type");
    app.raw("POST", "/auth/register", &[], &good)
        .await
        .refused(415, "unsupported_media_type");
    app.raw(
        "POST",
        "/auth/login",
        &[("content-type", "application/json")],
        "{bad",
    )
    .await
    .refused(400, "malformed_json");
    let long = json!({ "email": "ada@example.test", "password": "x".repeat(65 << 10) }).to_string();
    app.raw(
        "POST",
        "/auth/login",
        &[("content-type", "application/json")],
        &long,
    )
    .await
    .refused(413, "body_too_large");
}

/// A login gives a token and a cookie that scripts cannot read.
async fn login_returns_a_token_and_an_http_only_cookie(store: Store) {
    let app = store.app().await;
    app.register("ada@example.test").await;
    let reply = app
        .post(
            "/auth/login",
            json!({ "email": "ada@example.test", "password": GOOD }),
        )
        .await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let cookie = reply.cookie("__Host-token").unwrap();
    for attribute in [
        "HttpOnly",
        "Secure",
        "SameSite=Lax",
        "Path=/",
        "Max-Age=604800",
    ] {
        assert!(
            cookie.split("; ").any(|part| part == attribute),
            "{attribute} in {cookie}"
        );
    }
    assert!(!cookie.contains("Domain"), "{cookie}");
    assert_eq!(reply.cookie_value("__Host-token"), reply.text("token"));
    let csrf = reply.cookie("csrf_token").unwrap();
    assert!(
        !csrf.contains("HttpOnly") && csrf.contains("Secure") && csrf.contains("SameSite=Lax"),
        "{csrf}"
    );
    assert!(reply.cookie("__Secure-refresh_token").is_none());
}

/// An unknown account and a wrong password give the same response.
async fn unknown_accounts_and_wrong_passwords_give_the_same_response(store: Store) {
    let app = store.app().await;
    app.register("ada@example.test").await;
    let wrong = app
        .post(
            "/auth/login",
            json!({ "email": "ada@example.test", "password": "wrong-otter-91-lamp" }),
        )
        .await;
    let unknown = app
        .post(
            "/auth/login",
            json!({ "email": "eve@example.test", "password": "wrong-otter-91-lamp" }),
        )
        .await;
    for reply in [&wrong, &unknown] {
        reply.refused(401, "invalid_credentials");
    }
    let comparable = |reply: &crate::server::Reply| {
        let mut body = reply.json();
        body["requestId"] = json!("");
        let mut names: Vec<String> = reply.headers.keys().map(ToString::to_string).collect();
        names.sort();
        (body, names)
    };
    assert_eq!(comparable(&wrong), comparable(&unknown));
}

/// A token is accepted in three places. The response is 401 without a token, and for an invalid or
/// expired token.
async fn a_token_is_accepted_from_three_places(store: Store) {
    let app = store.app().await;
    let ada = app.register("ada@example.test").await;
    let (bearer, cookie) = (
        format!("Bearer {}", ada.token),
        format!("__Host-token={}", ada.token),
    );
    for header in [
        ("authorization", bearer.as_str()),
        ("x-user-token", &ada.token),
        ("cookie", &cookie),
    ] {
        let me = app.raw("GET", "/auth/me", &[header], "").await;
        assert_eq!(
            (me.status, me.text("id")),
            (200, ada.id.clone()),
            "{header:?}"
        );
    }
    let unprefixed = format!("token={}", ada.token);
    for bad in [
        &[][..],
        &[("authorization", "Bearer garbage")],
        &[("authorization", "Bearer")],
        &[("authorization", &bearer), ("authorization", &bearer)],
        &[("x-user-token", "")],
        &[("cookie", &unprefixed)],
        &[("cookie", &cookie), ("cookie", &cookie)],
    ] {
        app.raw("GET", "/auth/me", bad, "")
            .await
            .refused(401, "unauthorized");
    }
    let in_query = app
        .raw("GET", &format!("/auth/me?token={}", ada.token), &[], "")
        .await;
    in_query.refused(401, "unauthorized");
    app.advance(604_800 + 10).await;
    let expired = app.me(&ada.token).await;
    expired.refused(401, "unauthorized");
    assert_eq!(expired.header("www-authenticate"), "Bearer");
}

/// Anyone may read a public route. The response reports an invalid credential, except on routes
/// that return a new one.
async fn a_public_route_reports_an_unusable_credential(store: Store) {
    let app = store.app().await;
    let ada = app.register("ada@example.test").await;
    const INVALID: &str = "Bearer error=\"invalid_token\"";
    let reported = async |headers: &[(&str, &str)]| {
        let reply = app.raw("GET", "/notices", headers, "").await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.header("www-authenticate")
    };
    let (bearer, cookie) = (
        format!("Bearer {}", ada.token),
        format!("__Host-token={}", ada.token),
    );
    let good = [
        ("authorization", bearer.as_str()),
        ("x-user-token", &ada.token),
        ("cookie", &cookie),
    ];
    assert_eq!(reported(&[]).await, "");
    for header in good {
        assert_eq!(reported(&[header]).await, "", "{header:?}");
    }
    for bad in [
        &[("authorization", "Bearer garbage")][..],
        &[("authorization", "Bearer")],
        &[("authorization", &bearer), ("authorization", &bearer)],
        &[("x-user-token", ""), ("cookie", &cookie)],
        &[("cookie", "__Host-token=a.b.c")],
    ] {
        assert_eq!(reported(bad).await, INVALID, "{bad:?}");
    }
    assert_eq!(
        reported(&[("authorization", "Basic YTpi")]).await,
        "",
        "credentials of another scheme are ignored"
    );
    app.with(&ada.token, "POST", "/auth/logout", None).await;
    for header in good {
        assert_eq!(reported(&[header]).await, INVALID, "{header:?}");
    }
    let body = json!({ "email": "ada@example.test", "password": GOOD }).to_string();
    let login = app
        .raw(
            "POST",
            "/auth/login",
            &[good[0], ("content-type", "application/json")],
            &body,
        )
        .await;
    assert_eq!(
        (login.status, login.header("www-authenticate").as_str()),
        (200, "")
    );
}

/// The app uses the first credential place that the request has, even if its credential is invalid.
async fn the_first_credential_of_a_request_counts(store: Store) {
    let app = store.app().await;
    let (a, b) = (
        app.register("a@example.test").await,
        app.register("b@example.test").await,
    );
    let (bearer, cookie) = (
        format!("Bearer {}", b.token),
        format!("__Host-token={}", b.token),
    );
    let all = [
        ("x-user-token", a.token.as_str()),
        ("authorization", &bearer),
        ("cookie", &cookie),
    ];
    assert_eq!(app.raw("GET", "/auth/me", &all, "").await.text("id"), a.id);
    app.raw(
        "GET",
        "/auth/me",
        &[("x-user-token", "bad"), ("cookie", &cookie)],
        "",
    )
    .await
    .refused(401, "unauthorized");
    app.raw(
        "GET",
        "/auth/me",
        &[("authorization", "Bearer bad"), ("cookie", &cookie)],
        "",
    )
    .await
    .refused(401, "unauthorized");
}

/// A logout ends the given session and ignores everything else.
async fn logout_ends_the_given_session(store: Store) {
    let app = store.app().await;
    app.register("ada@example.test").await;
    let assert_signed_out = |reply: crate::server::Reply| {
        assert_eq!(
            (reply.status, reply.json()),
            (200, json!({ "ok": true, "message": "You are signed out." }))
        );
    };
    let by_bearer = app.login("ada@example.test").await;
    assert_signed_out(
        app.with(&by_bearer.token, "POST", "/auth/logout", None)
            .await,
    );
    app.me(&by_bearer.token).await.refused(401, "unauthorized");
    let by_header = app.login("ada@example.test").await;
    assert_signed_out(
        app.raw(
            "POST",
            "/auth/logout",
            &[("x-user-token", &by_header.token)],
            "",
        )
        .await,
    );
    app.me(&by_header.token).await.refused(401, "unauthorized");
    let login = app
        .post(
            "/auth/login",
            json!({ "email": "ada@example.test", "password": GOOD }),
        )
        .await;
    let (token, csrf) = (login.text("token"), login.cookie_value("csrf_token"));
    let cookies = format!("__Host-token={token}; csrf_token={csrf}");
    let origin = format!("http://{}", app.host());
    app.raw("POST", "/auth/logout", &[("cookie", &cookies)], "")
        .await
        .refused(403, "csrf_failed");
    assert_eq!(app.me(&token).await.status, 200);
    let done = app
        .raw(
            "POST",
            "/auth/logout",
            &[
                ("cookie", &cookies),
                ("x-csrf-token", &csrf),
                ("origin", &origin),
            ],
            "",
        )
        .await;
    assert!(
        done.cookie("__Host-token").unwrap().contains("Max-Age=0"),
        "{done:?}"
    );
    assert_signed_out(done);
    app.me(&token).await.refused(401, "unauthorized");
    assert_signed_out(app.raw("POST", "/auth/logout", &[], "").await);
    assert_signed_out(
        app.raw(
            "POST",
            "/auth/logout",
            &[("authorization", "Bearer garbage")],
            "whatever",
        )
        .await,
    );
    assert_signed_out(
        app.raw(
            "POST",
            "/auth/logout",
            &[("cookie", "__Host-token=garbage")],
            "",
        )
        .await,
    );
}

/// An expired token still ends its session.
async fn an_expired_token_still_logs_out(store: Store) {
    let app = store.app_with(linchpin_auth::Auth::refresh_tokens).await;
    let ada = app.register("ada@example.test").await;
    app.advance(1000).await;
    app.me(&ada.token).await.refused(401, "unauthorized");
    assert_eq!(
        app.with(&ada.token, "POST", "/auth/logout", None)
            .await
            .status,
        200
    );
    app.post("/auth/refresh", json!({ "refreshToken": ada.refresh }))
        .await
        .refused(401, "refresh_invalid");
}

/// The owner can change the profile and nothing else.
async fn a_profile_is_changed_by_its_owner(store: Store) {
    let app = store.app().await;
    let ada = app.register("ada@example.test").await;
    let patch = |body: serde_json::Value| app.with(&ada.token, "PATCH", "/auth/me", Some(body));
    let named = patch(json!({ "displayName": "Ada" })).await;
    assert_eq!(
        (named.status, named.text("displayName")),
        (200, "Ada".to_owned()),
        "{named:?}"
    );
    patch(json!({ "userMetadata": { "a": 1 } })).await;
    assert_eq!(
        patch(json!({ "userMetadata": { "b": [2] } })).await.json()["userMetadata"],
        json!({ "b": [2] })
    );
    let changes = async || {
        app.get(&ada.token, "/auth/activity")
            .await
            .json()
            .to_string()
            .matches("auth:user.updated")
            .count()
    };
    let before = changes().await;
    let same = patch(json!({})).await;
    assert_eq!(
        (changes().await, before),
        (3, 3),
        "a change without fields is not audited"
    );
    assert_eq!(
        (same.status, same.text("displayName")),
        (200, "Ada".to_owned())
    );
    assert_eq!(
        patch(json!({ "displayName": null })).await.json()["displayName"],
        json!(null)
    );
    patch(json!({ "roles": ["admin"] }))
        .await
        .problem("unknown_field", "roles");
    patch(json!({ "displayName": "x".repeat(201) }))
        .await
        .problem("max_length", "displayName");
    patch(json!({ "userMetadata": { "x": "y".repeat(17 << 10) } }))
        .await
        .problem("max_length", "userMetadata");
    patch(json!({ "userMetadata": [] }))
        .await
        .problem("type", "userMetadata");
    patch(json!({ "userMetadata": { "1": { "2": { "3": { "4": { "5": { "6": { "7": { "8": {} } } } } } } } } }))
        .await
        .problem("max_depth", "userMetadata");
    assert_eq!(app.me(&ada.token).await.json()["roles"], json!(["member"]));
}

/// Two Unicode spellings of a text are the same password; spaces are significant.
async fn passwords_are_normalised_and_keep_spaces(store: Store) {
    let app = store.app().await;
    let register = json!({ "email": "ada@example.test", "password": " pa\u{308}ssword of ada" });
    assert_eq!(app.post("/auth/register", register).await.status, 201);
    let login = |password: &str| {
        app.post(
            "/auth/login",
            json!({ "email": "ada@example.test", "password": password }),
        )
    };
    assert_eq!(login(" p\u{e4}ssword of ada").await.status, 200);
    assert_eq!(login(" pa\u{308}ssword of ada").await.status, 200);
    login("p\u{e4}ssword of ada")
        .await
        .refused(401, "invalid_credentials");
}

/// Accounts may be identified by user names.
async fn accounts_may_have_user_names(store: Store) {
    let app = store
        .app_with(|auth| auth.primary_field(PrimaryField::Username))
        .await;
    let made = app
        .post(
            "/auth/register",
            json!({ "username": "Ada_L", "password": GOOD }),
        )
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(app.me(&made.text("token")).await.text("username"), "Ada_L");
    assert_eq!(
        app.post(
            "/auth/login",
            json!({ "username": "ADA_l", "password": GOOD })
        )
        .await
        .status,
        200
    );
    let by_email = app
        .post(
            "/auth/login",
            json!({ "email": "ada@example.test", "password": GOOD }),
        )
        .await;
    by_email.problem("unknown_field", "email");
    by_email.problem("required", "username");
    let taken = app
        .post(
            "/auth/register",
            json!({ "username": "ada_l", "password": GOOD }),
        )
        .await;
    taken.refused(409, "conflict");
    assert_eq!(taken.json()["details"][0]["path"], "username");
}

/// Without passwords, the routes for registration and login do not exist.
async fn disabled_passwords_remove_their_routes(store: Store) {
    let app = store
        .app_with(|auth| auth.configure(|config| config.auth.password.enabled = false))
        .await;
    for path in ["/auth/register", "/auth/login"] {
        app.post(
            path,
            json!({ "email": "ada@example.test", "password": GOOD }),
        )
        .await
        .refused(404, "not_found");
    }
}

/// After ten wrong passwords for one identifier, in any spelling, attempts are refused for a while.
/// Unknown accounts are treated like known ones.
async fn wrong_passwords_are_limited_alike_for_unknown_accounts(store: Store) {
    let app = store.app().await;
    app.register("ada@example.test").await;
    for email in ["ada@example.test", "nobody@example.test"] {
        let login = |email: String, password: &str| {
            app.post(
                "/auth/login",
                json!({ "email": email, "password": password }),
            )
        };
        for n in 0..10 {
            let spelled = if n % 2 == 0 {
                email.to_owned()
            } else {
                email.to_uppercase()
            };
            login(spelled, "wrong-otter-91-lamp")
                .await
                .refused(401, "invalid_credentials");
        }
        for password in ["wrong-otter-91-lamp", GOOD] {
            let throttled = login(email.to_owned(), password).await;
            throttled.refused(429, "rate_limited");
            assert!(
                (1..=900).contains(&throttled.header("retry-after").parse::<u32>().unwrap()),
                "{throttled:?}"
            );
        }
    }
    app.advance(900).await;
    assert_eq!(
        app.post(
            "/auth/login",
            json!({ "email": "ada@example.test", "password": GOOD })
        )
        .await
        .status,
        200
    );
}

/// Forwarded addresses are used only as far as the proxies are trusted.
async fn forwarded_addresses_are_trusted_from_proxies_only(store: Store) {
    let address = async |app: &crate::server::Server, email: &str| {
        let body = json!({ "email": email, "password": GOOD }).to_string();
        let headers = [
            ("content-type", "application/json"),
            ("x-forwarded-for", "1.1.1.1, 2.2.2.2"),
            ("x-real-ip", "3.3.3.3"),
            ("user-agent", "case/1"),
        ];
        let made = app.raw("POST", "/auth/register", &headers, &body).await;
        let session =
            app.get(&made.text("token"), "/auth/sessions").await.json()["sessions"][0].clone();
        assert_eq!(session["userAgent"], "case/1");
        session["ipAddress"].as_str().unwrap().to_owned()
    };
    let app = store
        .app_with(|auth| {
            auth.configure(|config| {
                config.security.trust_proxy = linchpin_auth::TrustProxy::Hops(1);
            })
        })
        .await;
    assert_eq!(address(&app, "ada@example.test").await, "2.2.2.2");
    app.stop().await;
    let app = store.app().await;
    assert_eq!(address(&app, "bob@example.test").await, "127.0.0.1");
}
