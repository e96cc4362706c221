//! The pages that change the email address, and the page that cancels the deletion of an account
//! with a mailed link.

use linchpin_auth::Auth;

use crate::cases;
use crate::factor::{app_with, code_at};
use crate::post::Post;
use crate::server::{GOOD, Server, Store};
use crate::visitor::{Visitor, hidden, text};

cases! {
    every_store:
        the_email_page_does_not_reveal_an_address_in_use,
        an_email_change_is_completed_and_undone_by_mailed_links,
        a_mailed_link_cancels_the_deletion_of_an_account,
        a_user_requests_another_verification_mail;
    one_store:
        a_mailed_code_does_not_confirm_an_email_change;
}

fn verifying(auth: Auth) -> Auth {
    auth.configure(|config| {
        config.auth.email_verification.enabled = true;
        config.auth.account_deletion.link_base_url = Some("https://app.test/keep".into());
    })
}

/// Confirms the user's identity with the password, for a page that requires it.
async fn confirm(visitor: &mut Visitor<'_>, page: &str) {
    let target = format!("/auth/ui{page}");
    let confirm = format!("/confirm?returnTo={target}");
    let done = visitor
        .fill(
            &confirm,
            "/confirm",
            &[("password", GOOD), ("returnTo", &target)],
        )
        .await;
    assert_eq!(done.header("location"), target, "{}", text(&done));
}

async fn changing(store: &Store, post: &Post) -> Server {
    store.app_with(|auth| verifying(post.on(auth))).await
}

async fn an_email_change_is_completed_and_undone_by_mailed_links(store: Store) {
    let post = Post::default();
    let app = changing(&store, &post).await;
    let mut ada = Visitor::new(&app);
    assert_eq!(
        ada.get("/email").await.header("location"),
        "/auth/ui/sign-in?returnTo=%2Fauth%2Fui%2Femail"
    );
    ada.sign_up("ada@x.test").await;
    assert!(
        text(&ada.get("/security").await).contains("href=\"/auth/ui/email\">Change email address")
    );
    // The user must have confirmed their identity recently. If not, the app neither shows the form
    // nor accepts its submission.
    assert_eq!(
        ada.get("/email").await.header("location"),
        "/auth/ui/confirm?returnTo=%2Fauth%2Fui%2Femail"
    );
    assert_eq!(
        ada.fill("/security", "/email", &[("email", "new@x.test")])
            .await
            .header("location"),
        "/auth/ui/confirm?returnTo=%2Fauth%2Fui%2Femail"
    );
    assert_eq!(post.count("verify_new_email"), 0);
    confirm(&mut ada, "/email").await;
    let malformed = ada.fill("/email", "/email", &[("email", "x")]).await;
    assert!(
        malformed.status == 400
            && text(&malformed).contains("aria-invalid=\"true\"")
            && text(&malformed).contains("value=\"x\""),
        "{}",
        text(&malformed)
    );
    let asked = ada
        .fill("/email", "/email", &[("email", "new@x.test")])
        .await;
    assert_eq!(
        asked.header("location"),
        "/auth/ui/security?done=email-asked",
        "{}",
        text(&asked)
    );
    let page = text(&ada.get("/security?done=email-asked").await);
    assert!(
        page.contains("we have sent an email to it")
            && page.contains("<strong>ada@x.test</strong>"),
        "{page}"
    );
    // The link in the mail to the new address completes the change.
    let code = post.token("verify_new_email", 1).await;
    assert_eq!(
        ada.fill("/verify", "/verify", &[("token", &code)])
            .await
            .header("location"),
        "/auth/ui/security?done=email"
    );
    let page = text(&ada.get("/security?done=email").await);
    assert!(
        page.contains("Your email address was changed.")
            && page.contains("<strong>new@x.test</strong>"),
        "{page}"
    );
    // The link in the mail to the former address undoes the change, in any browser, and ends the
    // session that made the change.
    let undo = post.token("email_changed", 1).await;
    let mut owner = Visitor::new(&app);
    assert_eq!(
        owner
            .fill("/verify", "/verify", &[("token", &undo)])
            .await
            .header("location"),
        "/auth/ui/sign-in?done=undone"
    );
    assert!(
        text(&owner.get("/sign-in?done=undone").await)
            .contains("Your former email address was restored")
    );
    assert!(!ada.is_signed_in().await);
    assert_eq!(owner.sign_in("ada@x.test", GOOD).await.status, 303);
    assert_eq!(
        owner
            .fill("/verify", "/verify", &[("token", &undo)])
            .await
            .status,
        400
    );
}

async fn the_email_page_does_not_reveal_an_address_in_use(store: Store) {
    let post = Post::default();
    let app = changing(&store, &post).await;
    Visitor::new(&app).sign_up("bob@x.test").await;
    let mut ada = Visitor::new(&app);
    ada.sign_up("ada@x.test").await;
    confirm(&mut ada, "/email").await;
    let mut replies = Vec::new();
    for email in ["bob@x.test", "free@x.test"] {
        let reply = ada.fill("/email", "/email", &[("email", email)]).await;
        replies.push((reply.status, reply.header("location")));
    }
    assert_eq!(replies[0], replies[1]);
    assert_eq!(post.all("existing_account", 1).await[0].to, "bob@x.test");
    assert_eq!(post.all("verify_new_email", 1).await[0].to, "free@x.test");
}

/// A mailed code does not confirm the user's identity for a change of the email address, and the
/// confirmation page does not offer one.
async fn a_mailed_code_does_not_confirm_an_email_change(store: Store) {
    let post = Post::default();
    let app = app_with(&store, &post, verifying).await;
    let mut ada = Visitor::new(&app);
    ada.sign_up("ada@x.test").await;
    let verify = post.token("verify_email", 1).await;
    ada.fill("/verify", "/verify", &[("token", &verify)]).await;
    let page = ada.fill("/security", "/factors/email", &[]).await;
    let (setup, code) = (hidden(&page, "setupToken").unwrap(), post.code(1).await);
    let codes = ada
        .fill(
            "/security",
            "/factors/sent/verify",
            &[
                ("setupToken", &setup),
                ("method", "emailOtp"),
                ("code", &code),
            ],
        )
        .await;
    let recovery = text(&codes)
        .split("<li>")
        .nth(1)
        .unwrap()
        .split('<')
        .next()
        .unwrap()
        .to_owned();
    let confirm_page = text(&ada.get("/confirm").await);
    assert!(confirm_page.contains("Email me a code"), "{confirm_page}");
    let page = text(&ada.get("/confirm?returnTo=/auth/ui/email").await);
    assert!(
        !page.contains("Email me a code") && page.contains("A recovery code."),
        "{page}"
    );
    // A confirmation with a mailed code succeeds, but `/email` still asks for another factor.
    ada.fill("/confirm", "/confirm/send", &[("method", "emailOtp")])
        .await;
    let code = post.code(2).await;
    assert_eq!(
        ada.fill("/confirm", "/confirm", &[("code", &code)])
            .await
            .status,
        303
    );
    assert_eq!(ada.get("/email").await.status, 303);
    let fields = [("code", recovery.as_str()), ("returnTo", "/auth/ui/email")];
    assert_eq!(
        ada.fill("/confirm?returnTo=/auth/ui/email", "/confirm", &fields)
            .await
            .header("location"),
        "/auth/ui/email"
    );
    assert_eq!(ada.get("/email").await.status, 200);
    // With an authenticator app, the confirmation page offers its codes too.
    let page = ada.fill("/security", "/factors/app", &[]).await;
    let secret = hidden(&page, "secret").unwrap();
    assert_eq!(
        ada.fill(
            "/security",
            "/factors/app/verify",
            &[("code", &code_at(&app, &secret, 0))]
        )
        .await
        .status,
        303
    );
    assert!(
        text(&ada.get("/confirm?returnTo=/auth/ui/email").await)
            .contains("A code from your authenticator app, or a recovery code.")
    );
}

/// A user can request another verification mail, with or without a session. The response does not
/// reveal whether an account exists.
async fn a_user_requests_another_verification_mail(store: Store) {
    let post = Post::default();
    let app = changing(&store, &post).await;
    let mut ada = Visitor::new(&app);
    ada.sign_up("ada@x.test").await;
    post.token("verify_email", 1).await;
    assert!(text(&ada.get("/security").await).contains("Send confirmation email"));
    assert_eq!(
        ada.fill("/security", "/verify/resend", &[])
            .await
            .header("location"),
        "/auth/ui/security?done=sent"
    );
    assert!(text(&ada.get("/security?done=sent").await).contains("we have sent an email"));
    post.token("verify_email", 2).await;
    let mut anybody = Visitor::new(&app);
    for email in ["nobody@x.test", "ada@x.test"] {
        let asked = anybody
            .fill("/verify", "/verify/resend", &[("email", email)])
            .await;
        assert_eq!(
            asked.header("location"),
            "/auth/ui/verify?done=sent",
            "{}",
            text(&asked)
        );
    }
    let newest = post.token("verify_email", 3).await;
    assert_eq!(
        ada.fill("/verify", "/verify", &[("token", &newest)])
            .await
            .header("location"),
        "/auth/ui/security?done=verified"
    );
    let page = text(&ada.get("/security").await);
    assert!(
        page.contains("Confirmed") && !page.contains("Send confirmation email"),
        "{page}"
    );
    let malformed = anybody
        .fill("/verify", "/verify/resend", &[("email", "x")])
        .await;
    assert!(
        malformed.status == 400 && text(&malformed).contains("No email?"),
        "{}",
        text(&malformed)
    );
}

async fn a_mailed_link_cancels_the_deletion_of_an_account(store: Store) {
    let post = Post::default();
    let app = changing(&store, &post).await;
    let mut ada = Visitor::new(&app);
    ada.sign_up("ada@x.test").await;
    confirm(&mut ada, "/delete").await;
    ada.fill("/delete", "/delete", &[]).await;
    let code = post.token("cancel_deletion", 1).await;
    let mut owner = Visitor::new(&app);
    assert!(text(&owner.get("/keep").await).contains("Keep your account"));
    assert_eq!(
        owner.fill("/keep", "/keep", &[]).await.header("location"),
        "/auth/ui/sign-in?returnTo=%2Fauth%2Fui%2Fsecurity"
    );
    let wrong = owner.fill("/keep", "/keep", &[("token", "x")]).await;
    assert!(
        wrong.status == 400 && text(&wrong).contains("is no longer valid"),
        "{}",
        text(&wrong)
    );
    assert!(text(&ada.get("/security").await).contains("Your account will be deleted"));
    let link = format!("https://app.test/keep#token={code}");
    assert_eq!(
        owner
            .fill("/keep", "/keep", &[("token", &link)])
            .await
            .header("location"),
        "/auth/ui/sign-in?done=kept"
    );
    assert!(!owner.is_signed_in().await);
    assert!(text(&ada.get("/security").await).contains("Change password"));
}
