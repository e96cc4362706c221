//! The remaining differences from the original server, as the README lists them.

use linchpin_auth::{Auth, OnPasswordChange};
use serde_json::{Value as Json, json};

use super::providers::{code, with_peer};
use super::{EMAIL, Mode, PAGE, Page, app, both_modes, signed_out};
use crate::factor::{code_at, wrong};
use crate::post::Post;
use crate::server::GOOD;

both_modes!(
    a_sign_up_that_needs_verification_opens_no_session,
    a_wrong_code_without_refresh_tokens_signs_out_the_client,
    a_password_change_that_ends_all_sessions_signs_out_the_client,
    a_provider_sign_in_with_a_second_factor_fails_in_the_client
);

fn credentials() -> Json {
    json!({ "email": EMAIL, "password": GOOD })
}

async fn a_sign_up_that_needs_verification_opens_no_session(mode: Mode) {
    let post = Post::default();
    let app = app(&post, |auth| {
        auth.configure(|config| config.auth.email_verification.required = true)
    })
    .await;
    let mut page = Page::open(&app, mode);
    let more = json!({ "email": EMAIL, "password": GOOD, "nickname": "Ada" });
    page.refused("useRegister", more, 400, "validation_failed");
    // The account is created, but nobody is signed in. The client then reads the user, and this
    // call is refused.
    let state = page.refused("useRegister", credentials(), 401, "unauthorized");
    assert_eq!(
        (&state["user"], &state["token"], &state["callbacks"]),
        (&json!(null), &json!(false), &json!(["unauthenticated"]))
    );
    page.refused("useLogin", credentials(), 403, "email_not_verified");
    page.expect_message(
        "useVerifyEmail",
        json!({ "token": post.token("verify_email", 1).await }),
        "The address is verified.",
    );
    let (_, state) = page.call("useLogin", credentials());
    page.assert_signed_in(&state, "/home");
}

async fn a_wrong_code_without_refresh_tokens_signs_out_the_client(mode: Mode) {
    let post = Post::default();
    let app = app(&post, |auth| {
        auth.configure(|config| config.auth.refresh.enabled = false)
    })
    .await;
    let mut page = Page::open(&app, mode);
    page.call("useRegister", credentials());
    page.expect_message(
        "useVerifyEmail",
        json!({ "token": post.token("verify_email", 1).await }),
        "The address is verified.",
    );
    let secret = page.call("useMfaSetup", json!(null)).0["secret"]
        .as_str()
        .unwrap()
        .to_owned();
    let code = code_at(&app, &secret, 0);
    let state = page.refused(
        "useMfaVerifySetup",
        json!({ "code": wrong(&code) }),
        401,
        "invalid_code",
    );
    assert_eq!(
        (&state["token"], &state["callbacks"]),
        (&json!(false), &json!(["unauthenticated"]))
    );
    // The session still exists. In cookie mode the browser keeps its cookies; in token mode the
    // client has dropped its tokens.
    let user = page.read("useUser")["user"].clone();
    assert_eq!(
        user["email"],
        if mode == Mode::Cookie {
            json!(EMAIL)
        } else {
            json!(null)
        }
    );
}

async fn a_password_change_that_ends_all_sessions_signs_out_the_client(mode: Mode) {
    let post = Post::default();
    let all = |auth: Auth| {
        auth.configure(|config| {
            config.auth.session.on_password_change = OnPasswordChange::RevokeAllAndReissue;
        })
    };
    let app = app(&post, all).await;
    let mut page = Page::open(&app, mode);
    page.register(&post).await;
    let new = json!({ "password": "walnut-kettle-47-moss", "currentPassword": GOOD });
    let done = page.expect_message("useSetPassword", new, "The password was set.");
    assert!(done["token"].is_string(), "{done}");
    let (user, state) = page.call("useUser", json!(null));
    assert_eq!(
        user["user"]["email"],
        if mode == Mode::Cookie {
            json!(EMAIL)
        } else {
            json!(null)
        }
    );
    assert_eq!(
        (&state["token"], &state["path"]),
        (&json!(false), &json!("/home"))
    );
}

async fn a_provider_sign_in_with_a_second_factor_fails_in_the_client(mode: Mode) {
    let post = Post::default();
    let app = with_peer(&post, |auth| {
        auth.configure(|config| config.auth.email_verification.enabled = false)
    })
    .await;
    let mut page = Page::open(&app, mode);
    let api = page.api.clone();
    let login = if mode == Mode::Token {
        "factor-by-token"
    } else {
        "factor-by-cookie"
    };
    // On the server's origin this simulated browser sends no `Origin` header, so changes need
    // tokens instead of cookies.
    page.mode = Mode::Token;
    page.open_at(&api);
    let exchange = code(&mut page, PAGE, login).await;
    page.call("useOAuthExchange", exchange);
    let secret = page.call("useMfaSetup", json!(null)).0["secret"]
        .as_str()
        .unwrap()
        .to_owned();
    page.call(
        "useMfaVerifySetup",
        json!({ "code": code_at(&app, &secret, 0) }),
    );
    assert_eq!(page.call("useLogout", json!({})).1, signed_out(&["logout"]));
    page.mode = mode;
    page.open_at(&api);
    let exchange = code(&mut page, PAGE, login).await;
    let state = page.refused("useOAuthExchange", exchange, 401, "unauthorized");
    assert_eq!(
        (&state["user"], &state["pending"], &state["token"]),
        (&json!(null), &json!(null), &json!(false))
    );
}
