//! Deletion of an account.

use std::collections::HashSet;
use std::process::Command;
use std::sync::{Arc, Mutex};

use linchpin::store::memory::Memory;
use linchpin::store::{Reply as Answer, Rows, Statement};
use linchpin::{BoxFuture, Error, Value};
use linchpin_auth::{AccountDeletion, Auth, AuthHooks, HookCx, HookError, HookResult};
use serde_json::json;

use crate::around::{Around, Watch};
use crate::cases;
use crate::post::Post;
use crate::server::{GOOD, Reply, Server, SignedIn, Store};

cases! {
    every_store:
        hooks_may_refuse_a_deletion, a_deletion_needs_proof, a_scheduled_deletion_can_be_cancelled,
        a_deletion_without_grace_is_immediate, the_job_removes_accounts_that_are_due,
        the_audit_of_a_deleted_account_is_anonymised,
        the_audit_of_a_deleted_administrator_is_anonymised,
        a_deletion_due_while_the_app_is_stopped_runs_at_the_next_start;
    one_store: a_deletion_without_a_page_mails_only_the_date, deletion_can_be_disabled;
}

const WEEK: i64 = 7 * 86_400;

fn deleting(auth: Auth, post: &Post) -> Auth {
    post.on(auth).configure(|config| {
        config.auth.account_deletion.link_base_url = Some("https://app.test/keep".into());
    })
}

async fn delete(app: &Server, who: &SignedIn, body: serde_json::Value) -> Reply {
    app.with(&who.token, "DELETE", "/auth/me", Some(body)).await
}

fn proof() -> serde_json::Value {
    json!({ "password": GOOD })
}

/// Records the calls of the deletion hooks.
#[derive(Clone, Default)]
pub struct DeletionHooks(Arc<Mutex<Vec<(String, AccountDeletion, HookCx)>>>);

impl AuthHooks for DeletionHooks {
    fn pre_delete_account<'a>(
        &'a self,
        cx: &'a HookCx,
        input: &'a AccountDeletion,
    ) -> BoxFuture<'a, HookResult> {
        self.0
            .lock()
            .unwrap()
            .push(("pre".to_owned(), input.clone(), cx.clone()));
        Box::pin(async { Ok(()) })
    }

    fn post_delete_account<'a>(
        &'a self,
        cx: &'a HookCx,
        input: &'a AccountDeletion,
    ) -> BoxFuture<'a, HookResult> {
        self.0
            .lock()
            .unwrap()
            .push(("post".to_owned(), input.clone(), cx.clone()));
        Box::pin(async { Err(HookError::new("this error has no effect")) })
    }
}

impl DeletionHooks {
    fn of(&self, hook: &str) -> Vec<(AccountDeletion, HookCx)> {
        self.0
            .lock()
            .unwrap()
            .iter()
            .filter(|(name, ..)| name == hook)
            .map(|(_, input, cx)| (input.clone(), cx.clone()))
            .collect()
    }

    pub async fn posts(&self, least: usize) -> Vec<(AccountDeletion, HookCx)> {
        for _ in 0..3000 {
            let hooks = self.of("post");
            if hooks.len() >= least {
                return hooks;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("{least} were expected: {:?}", self.of("post"));
    }
}

/// Refuses with its own status and code, or with the default.
#[derive(Clone, Copy, PartialEq)]
enum Refusing {
    Own,
    Plainly,
}

impl AuthHooks for Refusing {
    fn pre_delete_account<'a>(
        &'a self,
        _: &'a HookCx,
        _: &'a AccountDeletion,
    ) -> BoxFuture<'a, HookResult> {
        let refusal = HookError::new("pay first");
        let refusal = if *self == Self::Own {
            refusal.status(402).code("unpaid")
        } else {
            refusal
        };
        Box::pin(async { Err(refusal) })
    }
}

async fn hooks_may_refuse_a_deletion(store: Store) {
    for (hooks, status, code) in [
        (Refusing::Own, 402, "unpaid"),
        (Refusing::Plainly, 400, "hook_rejected"),
    ] {
        let app = store.app_with(|auth| auth.hooks(hooks)).await;
        let ada = app.register(&format!("{code}@x.test")).await;
        let refused = delete(&app, &ada, proof()).await;
        refused.refused(status, code);
        assert_eq!(refused.text("error"), "pay first");
        assert_eq!(
            app.me(&ada.token).await.json()["deletionScheduledFor"],
            json!(null)
        );
        assert_eq!(app.get(&ada.token, "/auth/sessions").await.status, 200);
        app.stop().await;
    }
}

async fn a_deletion_needs_proof(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| deleting(auth, &post)).await;
    let ada = app.register("ada@x.test").await;
    let other = app.login("ada@x.test").await;
    delete(&app, &ada, json!({}))
        .await
        .refused(403, "step_up_required");
    delete(&app, &ada, json!({ "password": "wrong-otter-91-lamp" }))
        .await
        .refused(401, "invalid_credentials");
    assert_eq!(
        app.me(&other.token).await.status,
        200,
        "no session has ended"
    );
    let done = delete(&app, &ada, proof()).await;
    assert_eq!(done.status, 202, "{done:?}");
    let due = done.text("deletionScheduledFor");
    assert_eq!(due, "2026-03-11T05:06:07.008Z");
    app.me(&other.token).await.refused(401, "unauthorized");
    assert_eq!(app.me(&ada.token).await.text("deletionScheduledFor"), due);
    for (method, path) in [
        ("GET", "/auth/sessions"),
        ("PATCH", "/auth/me"),
        ("GET", "/auth/activity"),
        ("GET", "/__test/protected/user"),
    ] {
        let body = (method == "PATCH").then(|| json!({}));
        app.with(&ada.token, method, path, body)
            .await
            .refused(403, "deletion_scheduled");
    }
    delete(&app, &ada, proof())
        .await
        .refused(403, "deletion_scheduled");
    // A cancellation by the session. With a cookie it needs a CSRF token.
    app.raw(
        "POST",
        "/auth/cancel-deletion",
        &[("content-type", "application/json")],
        "{}",
    )
    .await
    .refused(401, "unauthorized");
    let kept = app
        .with(&ada.token, "POST", "/auth/cancel-deletion", Some(json!({})))
        .await;
    assert_eq!(
        (kept.status, kept.json()),
        (200, json!({ "ok": true, "message": "The account stays." }))
    );
    for path in ["/auth/sessions", "/auth/activity", "/__test/protected/user"] {
        assert_eq!(app.get(&ada.token, path).await.status, 200, "{path}");
    }
    app.with(&ada.token, "POST", "/auth/cancel-deletion", Some(json!({})))
        .await
        .refused(409, "not_scheduled");
    post.all("deletion_cancelled", 1).await;
    // The mailed link no longer works.
    let token = post.token("cancel_deletion", 1).await;
    app.post("/auth/cancel-deletion", json!({ "token": token }))
        .await
        .refused(400, "invalid_token");
    app.advance(WEEK + 1).await;
    assert_eq!(
        app.post(
            "/auth/login",
            json!({ "email": "ada@x.test", "password": GOOD })
        )
        .await
        .status,
        200
    );
}

async fn a_scheduled_deletion_can_be_cancelled(store: Store) {
    let (post, hooks) = (Post::default(), DeletionHooks::default());
    let app = store
        .app_with(|auth| deleting(auth, &post).hooks(hooks.clone()))
        .await;
    let ada = app.register("ada@x.test").await;
    let done = delete(&app, &ada, proof()).await;
    let due = done.text("deletionScheduledFor");
    // A later sign-in works, and is restricted.
    let again = app
        .post(
            "/auth/login",
            json!({ "email": "ada@x.test", "password": GOOD }),
        )
        .await;
    assert_eq!(
        (again.status, again.text("deletionScheduledFor")),
        (200, due)
    );
    let again = again.signed_in();
    app.get(&again.token, "/auth/sessions")
        .await
        .refused(403, "deletion_scheduled");
    let mail = post.all("cancel_deletion", 1).await[0].clone();
    assert!(
        mail.text.contains("deleted on 11 March 2026 at 05:06 UTC")
            && mail.vars["link"].starts_with("https://app.test/keep#token="),
        "{mail:?}"
    );
    let token = post.token("cancel_deletion", 1).await;
    app.post("/auth/verify-email", json!({ "token": token }))
        .await
        .refused(404, "not_found");
    let kept = app
        .post("/auth/cancel-deletion", json!({ "token": token }))
        .await;
    assert_eq!(
        (kept.status, kept.headers.get("set-cookie")),
        (200, None),
        "the mailed link opens no session"
    );
    app.post("/auth/cancel-deletion", json!({ "token": token }))
        .await
        .refused(400, "invalid_token");
    assert_eq!(app.get(&again.token, "/auth/sessions").await.status, 200);
    // The deletion is scheduled again and not cancelled.
    assert_eq!(delete(&app, &again, proof()).await.status, 202);
    let token = post.token("cancel_deletion", 2).await;
    let request = hooks.of("pre")[1].1.request_id.clone();
    app.advance(WEEK).await;
    app.post(
        "/auth/login",
        json!({ "email": "ada@x.test", "password": GOOD }),
    )
    .await
    .refused(401, "invalid_credentials");
    app.me(&again.token).await.refused(401, "unauthorized");
    app.post("/auth/cancel-deletion", json!({ "token": token }))
        .await
        .refused(400, "invalid_token");
    app.with(
        &again.token,
        "POST",
        "/auth/cancel-deletion",
        Some(json!({})),
    )
    .await
    .refused(401, "unauthorized");
    // The address is free, whether or not the job has run.
    let new = app.register("ada@x.test").await;
    assert_ne!(new.id, ada.id);
    let posts = hooks.posts(1).await;
    assert_eq!((posts.len(), hooks.of("pre").len()), (1, 2));
    let (deletion, cx) = &posts[0];
    assert_eq!(
        (&deletion.user_id, cx.request_id == request, cx.ip.is_some()),
        (&ada.id, true, true)
    );
    cx.services
        .provided::<linchpin_auth::AuthService>()
        .unwrap();
    post.all("account_deleted", 1).await;
    assert_eq!(app.me(&new.token).await.status, 200);
}

async fn a_deletion_without_grace_is_immediate(store: Store) {
    let hooks = DeletionHooks::default();
    let at_once =
        |auth: Auth| auth.configure(|config| config.auth.account_deletion.grace_seconds = 0);
    let app = store
        .app_with(|auth| at_once(auth).hooks(hooks.clone()))
        .await;
    let ada = app.register("ada@x.test").await;
    let deleted = delete(&app, &ada, proof()).await;
    assert_eq!(
        (deleted.status, deleted.json()),
        (
            200,
            json!({ "ok": true, "message": "The account was deleted." })
        )
    );
    assert!(
        deleted
            .cookie("__Host-token")
            .unwrap()
            .contains("Max-Age=0")
    );
    app.me(&ada.token).await.refused(401, "unauthorized");
    app.post(
        "/auth/login",
        json!({ "email": "ada@x.test", "password": GOOD }),
    )
    .await
    .refused(401, "invalid_credentials");
    assert_ne!(app.register("ada@x.test").await.id, ada.id);
    let posts = hooks.posts(1).await;
    assert_eq!(
        (posts.len(), &posts[0].1.request_id),
        (1, &deleted.header("x-request-id"))
    );
    assert!(posts[0].1.ip.is_some());
}

/// The job removes an account whose address is not registered again.
async fn the_job_removes_accounts_that_are_due(store: Store) {
    let hooks = DeletionHooks::default();
    let app = store.app_with(|auth| auth.hooks(hooks.clone())).await;
    let ada = app.register("ada@x.test").await;
    assert_eq!(delete(&app, &ada, proof()).await.status, 202);
    app.advance(WEEK).await;
    assert_eq!(hooks.posts(1).await[0].0.user_id, ada.id);
    assert_eq!(
        app.post("/__test/find", json!({ "identifier": "ada@x.test" }))
            .await
            .json()["id"],
        json!(null)
    );
}

/// The audit entries are kept without identity; everything else is removed.
async fn the_audit_of_a_deleted_account_is_anonymised(store: Store) {
    let (post, hooks) = (Post::default(), DeletionHooks::default());
    let app = store
        .app_with(|auth| {
            deleting(auth, &post)
                .hooks(hooks.clone())
                .configure(|config| {
                    config.auth.admin_role = Some("admin".into());
                    config.auth.account_deletion.grace_seconds = 0;
                    config.auth.password.history_count = 3;
                })
        })
        .await;
    let (root, ada) = (
        app.admin("root@x.test").await,
        app.register("ada@x.test").await,
    );
    let changed = json!({ "password": "amber-walrus-17-dune", "currentPassword": GOOD });
    assert_eq!(
        app.with(&ada.token, "POST", "/auth/set-password", Some(changed))
            .await
            .status,
        200
    );
    let events = async |user: &str| {
        let page = app
            .get(&root.token, &format!("/auth/admin/audit?limit=100{user}"))
            .await
            .json();
        page["items"].as_array().unwrap().clone()
    };
    let before = events(&format!("&userId={}", ada.id)).await.len();
    assert!(before >= 4);
    assert_eq!(
        delete(&app, &ada, json!({ "password": "amber-walrus-17-dune" }))
            .await
            .status,
        200
    );
    hooks.posts(1).await;
    assert!(events(&format!("&userId={}", ada.id)).await.is_empty());
    let all = events("").await;
    let deleted = all
        .iter()
        .find(|row| row["event"] == "auth:user.deleted")
        .unwrap();
    let pseudonym = deleted["userId"].as_str().unwrap();
    assert!(pseudonym.len() == 43 && pseudonym != ada.id);
    assert!(events(&format!("&userId={pseudonym}")).await.len() > before);
    assert!(!json!(all).to_string().contains(&ada.id));
    app.stop().await;
    if let Some(file) = store.file() {
        let found = Command::new("python3")
            .args(["-c", DUMP, &file.display().to_string(), &ada.id])
            .output()
            .unwrap();
        assert!(
            found.status.success(),
            "{}",
            String::from_utf8_lossy(&found.stderr)
        );
        assert_eq!(
            String::from_utf8_lossy(&found.stdout),
            "",
            "no table contains the id of the deleted user"
        );
    }
}

/// The audit entries of an administrator's actions are kept without the administrator's identity.
async fn the_audit_of_a_deleted_administrator_is_anonymised(store: Store) {
    let (post, hooks) = (Post::default(), DeletionHooks::default());
    let app = store
        .app_with(|auth| {
            deleting(auth, &post)
                .hooks(hooks.clone())
                .configure(|config| {
                    config.auth.admin_role = Some("admin".into());
                    config.auth.account_deletion.grace_seconds = 0;
                    config.auth.mfa.enabled = true;
                })
        })
        .await;
    let (root, other, ada) = (
        app.admin("root@x.test").await,
        app.admin("other@x.test").await,
        app.register("ada@x.test").await,
    );
    crate::factor::enrol(&app, &ada).await;
    for admin in [&root, &other] {
        for (method, what, body) in [
            ("POST", "suspend", Some(json!({}))),
            ("POST", "unsuspend", None),
            ("PUT", "roles", Some(json!({ "roles": ["member"] }))),
        ] {
            let done = app
                .with(
                    &admin.token,
                    method,
                    &format!("/auth/admin/users/{}/{what}", ada.id),
                    body,
                )
                .await;
            assert_eq!(done.status, 200, "{what}: {done:?}");
        }
    }
    assert_eq!(
        app.with(
            &root.token,
            "POST",
            &format!("/auth/admin/users/{}/reset-mfa", ada.id),
            None
        )
        .await
        .status,
        200
    );
    let rows = async || {
        let page = app
            .get(&other.token, "/auth/admin/audit?limit=100")
            .await
            .json();
        assert_eq!(page["hasMore"], json!(false));
        page["items"].as_array().unwrap().clone()
    };
    let count_by = |rows: &[serde_json::Value], who: &serde_json::Value| {
        rows.iter()
            .filter(|row| row["details"]["by"] == *who)
            .count()
    };
    let before = rows().await;
    assert_eq!(
        (
            count_by(&before, &json!(root.id)),
            count_by(&before, &json!(other.id))
        ),
        (4, 3),
        "{before:?}"
    );
    assert_eq!(delete(&app, &root, proof()).await.status, 200);
    hooks.posts(1).await;
    let after = rows().await;
    let deleted = after
        .iter()
        .find(|row| row["event"] == "auth:user.deleted")
        .unwrap();
    assert_eq!(
        (
            count_by(&after, &deleted["userId"]),
            count_by(&after, &json!(other.id))
        ),
        (4, 3),
        "{after:?}"
    );
    assert!(!json!(after).to_string().contains(&root.id));
    let roles = after
        .iter()
        .find(|row| {
            row["event"] == "auth:role.changed" && row["details"]["by"] == deleted["userId"]
        })
        .unwrap();
    assert_eq!(
        roles["details"]["roles"],
        json!(["member"]),
        "other details of the entry stay"
    );
    app.stop().await;
    if let Some(file) = store.file() {
        let found = Command::new("python3")
            .args(["-c", DUMP, &file.display().to_string(), &root.id])
            .output()
            .unwrap();
        assert!(
            found.status.success(),
            "{}",
            String::from_utf8_lossy(&found.stderr)
        );
        assert_eq!(String::from_utf8_lossy(&found.stdout), "");
    }
}

/// Prints the tables that contain a text.
const DUMP: &str = r#"
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
assert "auth_users" in tables and "auth_audits" in tables, tables
for table in tables:
    if any(sys.argv[2] in str(value) for row in db.execute(f'SELECT * FROM "{table}"') for value in row):
        print(table)
"#;

/// The next start deletes an account that became due while the app was stopped.
async fn a_deletion_due_while_the_app_is_stopped_runs_at_the_next_start(store: Store) {
    if !store.keeps() {
        return;
    }
    let app = store.app().await;
    let ada = app.register("ada@x.test").await;
    assert_eq!(delete(&app, &ada, proof()).await.status, 202);
    app.advance(WEEK).await;
    app.stop().await;
    let hooks = DeletionHooks::default();
    let app = store.app_with(|auth| auth.hooks(hooks.clone())).await;
    assert_eq!(hooks.posts(1).await[0].0.user_id, ada.id);
    assert_ne!(app.register("ada@x.test").await.id, ada.id);
}

/// Fails to read the audit of these accounts.
#[derive(Clone, Default)]
struct Unreadable(Arc<Mutex<HashSet<String>>>);

impl Watch for Unreadable {
    fn run<'a>(
        &'a self,
        store: &'a dyn linchpin::store::Store,
        to: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Answer<'a> {
        let ids = self.0.lock().unwrap();
        if to.entity.name == "Audit"
            && args
                .iter()
                .any(|arg| matches!(arg, Value::Text(text) if ids.contains(text)))
        {
            return Answer::Ready(Err(Error::unavailable(
                "the test makes this statement fail",
            )));
        }
        drop(ids);
        store.run(to, args, rows)
    }
}

/// Accounts that cannot be removed do not delay others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_that_cannot_be_removed_delays_no_other() {
    let (unreadable, hooks) = (Unreadable::default(), DeletionHooks::default());
    let unlimited = |auth: Auth| {
        auth.hooks(hooks.clone())
            .configure(|config| config.auth.rate_limit.enabled = false)
    };
    let app = Store::memory()
        .on(
            Around::new(Arc::new(Memory::new()), unreadable.clone()),
            unlimited,
        )
        .await;
    let mut last = String::new();
    for n in 0..=50 {
        let who = app.register(&format!("n{n}@x.test")).await;
        assert_eq!(delete(&app, &who, proof()).await.status, 202);
        last.clone_from(&who.id);
        unreadable.0.lock().unwrap().insert(who.id);
        app.advance(61).await;
    }
    unreadable.0.lock().unwrap().remove(&last);
    app.advance(WEEK).await;
    assert_eq!(hooks.posts(1).await[0].0.user_id, last);
    // They are removed as soon as it is possible.
    unreadable.0.lock().unwrap().clear();
    app.advance(11).await;
    assert_eq!(hooks.posts(51).await.len(), 51);
}

async fn a_deletion_without_a_page_mails_only_the_date(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| post.on(auth)).await;
    let ada = app.register("ada@x.test").await;
    assert_eq!(delete(&app, &ada, proof()).await.status, 202);
    let mails = post.all("deletion_scheduled", 1).await;
    assert!(
        mails[0].text.contains("on 11 March 2026 at 05:06 UTC")
            && mails[0].text.contains("127.0.0.1"),
        "{mails:?}"
    );
    assert_eq!(post.count("cancel_deletion"), 0);
}

async fn deletion_can_be_disabled(store: Store) {
    let app = store
        .app_with(|auth| auth.configure(|config| config.auth.account_deletion.enabled = false))
        .await;
    let ada = app.register("ada@x.test").await;
    assert_eq!(delete(&app, &ada, proof()).await.status, 405);
    app.post("/auth/cancel-deletion", json!({}))
        .await
        .refused(404, "not_found");
    app.stop().await;
    let wrong = store
        .try_app(|auth| {
            auth.configure(|config| {
                config.auth.account_deletion.link_base_url = Some("nowhere".into());
            })
        })
        .await;
    assert!(
        wrong
            .err()
            .unwrap()
            .to_string()
            .contains("auth.accountDeletion.linkBaseUrl")
    );
}
