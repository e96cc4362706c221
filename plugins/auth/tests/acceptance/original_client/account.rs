//! Accounts, sessions, passwords and mails with the client.

use serde_json::json;

use super::{EMAIL, Mode, Page, app, both_modes, signed_out};
use crate::post::Post;
use crate::server::GOOD;

both_modes!(the_account_hooks_work, an_expired_token_is_renewed);

pub(super) const HOOKS: &[&str] = &[
    "useCancelDeletion",
    "useDeleteAccount",
    "useForgotPassword",
    "useLogin",
    "useLogout",
    "useRefreshToken",
    "useRegister",
    "useResendVerification",
    "useResetPassword",
    "useRevokeSession",
    "useSessions",
    "useSetPassword",
    "useUser",
    "useVerifyEmail",
];
const NEW: &str = "walnut-kettle-47-moss";

async fn the_account_hooks_work(mode: Mode) {
    let post = Post::default();
    let app = app(&post, |auth| auth).await;
    let mut page = Page::open(&app, mode);
    assert_eq!(page.read("useUser"), json!({ "user": null }));
    page.register(&post).await;
    let user = page.read("useUser")["user"].clone();
    assert_eq!(
        (&user["email"], &user["emailVerified"], &user["id"]),
        (&json!(EMAIL), &json!(true), &user["userId"])
    );
    page.expect_message(
        "useResendVerification",
        json!({ "email": EMAIL }),
        "If that email needs verification, a message has been sent.",
    );
    page.refused(
        "useVerifyEmail",
        json!({ "token": "nothing" }),
        400,
        "invalid_token",
    );

    // Sessions: the client lists them and ends another one.
    let other = app.login(EMAIL).await;
    let sessions = page.read("useSessions")["sessions"]
        .as_array()
        .unwrap()
        .clone();
    let session_id = |current: bool| {
        sessions
            .iter()
            .find(|one| one["current"] == current)
            .unwrap()["sessionId"]
            .clone()
    };
    assert_eq!(sessions.len(), 2);
    page.expect_message(
        "useRevokeSession",
        session_id(false),
        "The session was ended.",
    );
    app.me(&other.token).await.refused(401, "unauthorized");
    assert_eq!(
        page.read("useSessions")["sessions"]
            .as_array()
            .unwrap()
            .len(),
        1
    );

    // A wrong password gets 401, and no session ends. The client interprets every 401 as the end of
    // its session: it renews its tokens and repeats the call. In cookie mode it also reports to the
    // app that the user is signed out.
    let wrong = json!({ "password": NEW, "currentPassword": "wrong-wrong-wrong" });
    let state = page.refused("useSetPassword", wrong, 401, "invalid_credentials");
    let callbacks = if mode == Mode::Cookie {
        json!(["unauthenticated"])
    } else {
        json!([])
    };
    assert_eq!(
        (&state["callbacks"], &state["token"]),
        (&callbacks, &json!(mode == Mode::Token))
    );
    assert_eq!(page.read("useUser")["user"]["email"], EMAIL);
    page.expect_message(
        "useSetPassword",
        json!({ "password": NEW, "currentPassword": GOOD }),
        "The password was set.",
    );
    let refresh = if mode == Mode::Token {
        json!({ "refreshToken": page.stored_refresh() })
    } else {
        json!({})
    };
    let (renewed, state) = page.call("useRefreshToken", refresh);
    assert_eq!(renewed["userId"], user["id"]);
    page.assert_signed_in(&state, "/home");

    page.logout();
    assert_eq!(page.read("useUser"), json!({ "user": null }));
    page.refused(
        "useLogin",
        json!({ "email": EMAIL, "password": GOOD }),
        401,
        "invalid_credentials",
    );
    let (answer, _) = page.call("useForgotPassword", json!({ "email": EMAIL }));
    assert_eq!(
        answer["message"],
        "If that email is registered, a password reset link has been sent."
    );
    let token = post.token("password_reset", 1).await;
    page.refused(
        "useResetPassword",
        json!({ "token": token, "password": "password123" }),
        400,
        "password_too_common",
    );
    page.expect_message(
        "useResetPassword",
        json!({ "token": token, "password": GOOD }),
        "The password was set. Sign in with it.",
    );
    let (user, state) = page.call(
        "useLogin",
        json!({ "email": EMAIL, "password": GOOD, "redirectTo": "/settings" }),
    );
    assert_eq!(user["hasPassword"], true);
    page.assert_signed_in(&state, "/settings");
    // The client returns null for a missing session, as for every 404.
    assert_eq!(
        page.call("useRevokeSession", json!("of-nobody")).0,
        json!(null)
    );
    schedule_and_cancel_deletion(&mut page);
    page.logout();
    page.assert_called(HOOKS);
}

/// Schedules the deletion of the account and cancels it.
fn schedule_and_cancel_deletion(page: &mut Page) {
    page.refused("useDeleteAccount", json!(null), 403, "step_up_required");
    let (scheduled, state) = page.call("useDeleteAccount", json!({ "password": GOOD }));
    assert!(scheduled["deletionScheduledFor"].is_string(), "{scheduled}");
    assert_eq!(state, signed_out(&["unauthenticated"]));
    // The client has dropped its tokens. The browser keeps its cookies, so its session continues.
    if page.mode == Mode::Token {
        page.call("useLogin", json!({ "email": EMAIL, "password": GOOD }));
    }
    assert_eq!(
        page.read("useUser")["user"]["deletionScheduledFor"],
        scheduled["deletionScheduledFor"]
    );
    assert_eq!(
        page.read("useSessions"),
        json!({ "sessions": [], "isError": true })
    );
    page.expect_message("useCancelDeletion", json!(null), "The account stays.");
    assert_eq!(
        page.read("useUser")["user"]["deletionScheduledFor"],
        json!(null)
    );
    let sessions = if page.mode == Mode::Token { 2 } else { 1 };
    assert_eq!(
        page.read("useSessions")["sessions"]
            .as_array()
            .unwrap()
            .len(),
        sessions
    );
    page.refused("useCancelDeletion", json!(null), 409, "not_scheduled");
}

async fn an_expired_token_is_renewed(mode: Mode) {
    let post = Post::default();
    let app = app(&post, |auth| auth).await;
    let mut page = Page::open(&app, mode);
    page.register(&post).await;
    app.advance(901).await;
    // The server refuses the expired token; the client renews it and repeats the call.
    let (user, state) = page.call("useUser", json!(null));
    assert_eq!(user["user"]["email"], EMAIL);
    page.assert_signed_in(&state, "/home");
    app.advance(901).await;
    page.expect_message(
        "useSetPassword",
        json!({ "password": NEW, "currentPassword": GOOD }),
        "The password was set.",
    );
    // When the session has expired, the client drops its tokens.
    app.advance(91 * 86_400).await;
    let state = page.refused(
        "useSetPassword",
        json!({ "password": GOOD, "currentPassword": NEW }),
        401,
        "unauthorized",
    );
    assert_eq!(
        (&state["token"], &state["callbacks"]),
        (&json!(false), &json!(["unauthenticated"]))
    );
    assert_eq!(page.read("useUser"), json!({ "user": null }));
}
