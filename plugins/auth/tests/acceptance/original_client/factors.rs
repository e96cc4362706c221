//! Second factors with the client.

use serde_json::{Value as Json, json};

use super::{EMAIL, Mode, Page, app, both_modes, signed_out};
use crate::factor::{code_at, texts, wrong};
use crate::post::Post;
use crate::server::{GOOD, Server};

both_modes!(the_factor_hooks_work);

pub(super) const HOOKS: &[&str] = &[
    "useCancelDeletion",
    "useDeleteAccount",
    "useLogin",
    "useLogout",
    "useMfaDisable",
    "useMfaEmailOtpDisable",
    "useMfaEmailOtpEnable",
    "useMfaEmailOtpVerifySetup",
    "useMfaMethods",
    "useMfaRecoveryCodes",
    "useMfaResend",
    "useMfaSetup",
    "useMfaVerify",
    "useMfaVerifySetup",
    "useRegister",
    "useVerifyEmail",
];
const SET_UP: &str = "The second factor was set up.";

/// Signs in up to the second factor and returns the challenge.
fn challenged(page: &mut Page, methods: &Json) -> Json {
    let (challenge, state) = page.call("useLogin", json!({ "email": EMAIL, "password": GOOD }));
    assert_eq!(&challenge["mfaMethods"], methods);
    let expected = json!({ "user": null, "pending": methods, "token": false, "refresh": false, "path": "/mfa", "callbacks": [] });
    assert_eq!(state, expected);
    challenge
}

/// Signs in with the next code of an authenticator app.
async fn sign_in(page: &mut Page, app: &Server, secret: &str, methods: &Json) {
    app.advance(30).await;
    challenged(page, methods);
    let (user, state) = page.call("useMfaVerify", json!({ "code": code_at(app, secret, 0) }));
    assert_eq!(user["email"], EMAIL);
    page.assert_signed_in(&state, "/home");
}

async fn the_factor_hooks_work(mode: Mode) {
    let post = Post::default();
    let app = app(&post, |auth| auth).await;
    let mut page = Page::open(&app, mode);
    page.register(&post).await;
    assert_eq!(page.read("useMfaMethods"), json!({ "methods": [] }));

    // An authenticator app is set up. The issuer and period of the client are ignored, because the
    // app has its own settings.
    let setup = page.call("useMfaSetup", json!(null)).0;
    let (secret, uri) = (
        setup["secret"].as_str().unwrap().to_owned(),
        setup["uri"].as_str().unwrap().to_owned(),
    );
    assert!(
        uri.starts_with("otpauth://totp/Acme") && uri.contains("period=30"),
        "{uri}"
    );
    let made = page.expect_message(
        "useMfaVerifySetup",
        json!({ "code": code_at(&app, &secret, 0) }),
        SET_UP,
    );
    assert_eq!(texts(&made["recoveryCodes"]).len(), 10);

    // A further factor returns an empty list of recovery codes.
    let sent = page.expect_message("useMfaEmailOtpEnable", json!(null), "A code has been sent.");
    let body = json!({ "setupToken": sent["setupToken"], "code": post.code(1).await });
    let made = page.expect_message("useMfaEmailOtpVerifySetup", body, SET_UP);
    assert_eq!(made["recoveryCodes"], json!([]));
    let both_methods = json!(["totp", "emailOtp"]);
    assert_eq!(
        page.read("useMfaMethods"),
        json!({ "methods": both_methods })
    );
    app.advance(30).await;
    let codes = texts(
        &page
            .call(
                "useMfaRecoveryCodes",
                json!({ "code": code_at(&app, &secret, 0) }),
            )
            .0["recoveryCodes"],
    );
    assert_eq!(codes.len(), 10);
    page.logout();

    // A sign-in with a mailed code. A wrong code keeps the challenge.
    let challenge = challenged(&mut page, &both_methods);
    page.expect_message(
        "useMfaResend",
        json!({ "mfaToken": challenge["mfaToken"] }),
        "A code has been sent.",
    );
    let mailed = post.code(2).await;
    let state = page.refused(
        "useMfaVerify",
        json!({ "code": wrong(&mailed), "method": "emailOtp" }),
        401,
        "invalid_code",
    );
    assert_eq!(
        (&state["pending"], &state["path"]),
        (&both_methods, &json!("/mfa"))
    );
    let (user, state) = page.call(
        "useMfaVerify",
        json!({ "code": mailed, "method": "emailOtp" }),
    );
    assert_eq!(user["mfaEnabled"], true);
    page.assert_signed_in(&state, "/home");

    // A factor was proved recently: the password that the client sends is not needed, but a wrong
    // one is refused.
    page.refused(
        "useMfaEmailOtpDisable",
        json!({ "password": "wrong-wrong-wrong" }),
        401,
        "invalid_credentials",
    );
    page.expect_message(
        "useMfaEmailOtpDisable",
        json!({ "password": GOOD }),
        "The second factor was removed.",
    );
    assert_eq!(page.read("useMfaMethods"), json!({ "methods": ["totp"] }));

    // A deletion with the password, after a factor was proved.
    app.advance(301).await;
    page.refused(
        "useDeleteAccount",
        json!({ "password": GOOD }),
        403,
        "factor_not_allowed",
    );
    page.logout();
    sign_in(&mut page, &app, &secret, &json!(["totp"])).await;
    let (scheduled, state) = page.call("useDeleteAccount", json!({ "password": GOOD }));
    assert!(scheduled["deletionScheduledFor"].is_string(), "{scheduled}");
    assert_eq!(state, signed_out(&["unauthenticated"]));
    sign_in(&mut page, &app, &secret, &json!(["totp"])).await;
    page.expect_message("useCancelDeletion", json!(null), "The account stays.");

    // The last factor is removed with a code; a recovery code works too.
    app.advance(301).await;
    page.refused(
        "useMfaDisable",
        json!({ "code": wrong(&code_at(&app, &secret, 0)) }),
        401,
        "invalid_code",
    );
    page.expect_message(
        "useMfaDisable",
        json!({ "code": codes[0] }),
        "The second factor was removed.",
    );
    assert_eq!(page.read("useMfaMethods"), json!({ "methods": [] }));
    page.logout();
    let (_, state) = page.call("useLogin", json!({ "email": EMAIL, "password": GOOD }));
    page.assert_signed_in(&state, "/home");
    page.assert_called(HOOKS);
}
