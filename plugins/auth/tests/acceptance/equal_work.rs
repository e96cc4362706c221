//! Requests about known and unknown accounts do the same work in the store, so response times do
//! not reveal whether an account exists.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use linchpin::store::memory::Memory;
use linchpin::store::{Plan, Reply, Rows, Statement, Store, Transaction};
use linchpin::{BoxFuture, Value};
use linchpin_auth::{PrimaryField, ProviderSection};
use serde_json::json;
use tokio::sync::Notify;

use crate::around::{Around, Watch};
use crate::post::Post;
use crate::server::{GOOD, Server};

/// Records the statements of a store, and can pause the background work of requests.
#[derive(Default)]
struct StatementLog {
    log: Mutex<Vec<String>>,
    paused: AtomicBool,
    resume: Notify,
}

impl StatementLog {
    fn note(&self, statement: &Statement) {
        let what = match &statement.plan {
            // Only background jobs read users in sorted order, to find the due ones. Requests never
            // do.
            Plan::Select { order, .. } if statement.entity.name == "User" && !order.is_empty() => {
                None
            }
            Plan::Select { .. } if statement.entity.name == "Outbox" => None,
            Plan::Select { .. } => Some("select"),
            Plan::Insert => Some("insert"),
            _ => Some("other"),
        };
        self.log
            .lock()
            .unwrap()
            .extend(what.map(|what| format!("{} {what}", statement.entity.name)));
    }

    /// The statements on these entities during a call.
    async fn during<T>(
        &self,
        entities: &[&str],
        call: impl Future<Output = T>,
    ) -> (T, Vec<String>) {
        self.log.lock().unwrap().clear();
        let done = call.await;
        let log = std::mem::take(&mut *self.log.lock().unwrap());
        (
            done,
            log.into_iter()
                .filter(|line| entities.iter().any(|entity| line.starts_with(entity)))
                .collect(),
        )
    }
}

impl Watch for Arc<StatementLog> {
    fn run<'a>(
        &'a self,
        store: &'a dyn Store,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Reply<'a> {
        let is_outbox_read =
            matches!(&statement.plan, Plan::Select { .. }) && statement.entity.name == "Outbox";
        if is_outbox_read && self.paused.load(Ordering::SeqCst) {
            return Reply::Later(Box::pin(async move {
                self.resume.notified().await;
                store.run(statement, args, rows).await
            }));
        }
        self.note(statement);
        store.run(statement, args, rows)
    }

    fn wrap_transaction(&self, inner: Box<dyn Transaction>) -> Box<dyn Transaction> {
        Box::new(Within {
            inner,
            log: Arc::clone(self),
        })
    }
}

/// A transaction of such a store.
struct Within {
    inner: Box<dyn Transaction>,
    log: Arc<StatementLog>,
}

impl Transaction for Within {
    fn run<'a>(
        &'a mut self,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> BoxFuture<'a, linchpin::Result<Rows>> {
        self.log.note(statement);
        self.inner.run(statement, args, rows)
    }

    fn take_advisory_lock(&mut self, key: i64) -> BoxFuture<'_, linchpin::Result<()>> {
        self.inner.take_advisory_lock(key)
    }

    fn commit(self: Box<Self>) -> BoxFuture<'static, linchpin::Result<()>> {
        self.inner.commit()
    }

    fn rollback(self: Box<Self>) -> BoxFuture<'static, ()> {
        self.inner.rollback()
    }
}

fn watched() -> (Around<Arc<StatementLog>>, Arc<StatementLog>) {
    let seen = Arc::<StatementLog>::default();
    (
        Around::new(Arc::new(Memory::new()), Arc::clone(&seen)),
        seen,
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concealed_sign_ups_do_equal_work() {
    let ((store, seen), post) = (watched(), Post::default());
    let app = crate::server::Store::memory()
        .on(store, |auth| crate::concealed::concealed(auth, &post))
        .await;
    let sign_up = async |email: &str, password: &str| {
        app.post(
            "/auth/register",
            json!({ "email": email, "password": password }),
        )
        .await
    };
    sign_up("proved@x.test", GOOD).await;
    let token = post.token("verify_email", 1).await;
    assert_eq!(
        app.post("/auth/verify-and-login", json!({ "token": token }))
            .await
            .status,
        200
    );
    sign_up("waiting@x.test", GOOD).await;
    post.token("verify_email", 2).await;
    // The account of the address is not read before the response was sent.
    seen.paused.store(true, Ordering::SeqCst);
    let mut all = Vec::new();
    for email in ["new@x.test", "waiting@x.test", "proved@x.test"] {
        let (reply, statements) = seen
            .during(
                &["User", "Audit", "OneTime", "Outbox", "Counter"],
                sign_up(email, "amber-walrus-17-dune"),
            )
            .await;
        assert_eq!(reply.status, 202);
        all.push(statements);
    }
    assert!(
        all.iter()
            .all(|statements| *statements == all[0]
                && statements.contains(&"Outbox insert".to_owned())),
        "{all:?}"
    );
    assert!(
        !all[0].iter().any(|line| line.starts_with("User")),
        "{all:?}"
    );
    // It is read after the response.
    seen.paused.store(false, Ordering::SeqCst);
    seen.resume.notify_one();
    post.token("verify_email", 3).await;
    post.only("existing_account", 2).await;
    app.stop().await;
}

/// A change of the email address runs the same statements before the response, whether or not
/// another account has the new address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn email_changes_do_equal_work_for_used_and_free_addresses() {
    let ((store, seen), post) = (watched(), Post::default());
    let changing = |auth| {
        post.on(auth)
            .configure(|config| config.auth.email_verification.enabled = true)
    };
    let app = crate::server::Store::memory().on(store, changing).await;
    let (ada, _) = (
        app.register("ada@x.test").await,
        app.register("bob@x.test").await,
    );
    let change = async |email: &str| {
        let body = json!({ "email": email, "password": GOOD });
        app.with(&ada.token, "POST", "/auth/change-email", Some(body))
            .await
    };
    // The first request has no earlier link to invalidate.
    assert_eq!(change("first@x.test").await.status, 202);
    let mut all = Vec::new();
    for email in ["bob@x.test", "free@x.test", "bob@x.test"] {
        let (reply, statements) = seen
            .during(&["User", "OneTime", "Outbox insert"], change(email))
            .await;
        assert_eq!(reply.status, 202);
        all.push(statements);
    }
    assert!(
        all.iter().all(|statements| *statements == all[0]),
        "{all:?}"
    );
    assert!(
        all[0].contains(&"OneTime insert".to_owned())
            && all[0]
                .iter()
                .filter(|line| *line == "Outbox insert")
                .count()
                == 2,
        "{all:?}"
    );
    app.stop().await;
}

async fn guess(app: &Server, name: &str) {
    let reply = app
        .post(
            "/auth/login",
            json!({ "username": name, "password": "wrong-otter-91-lamp" }),
        )
        .await;
    reply.refused(401, "invalid_credentials");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_passwords_do_equal_work_for_all_identifiers() {
    let (store, seen) = watched();
    let with_all_methods = |auth: linchpin_auth::Auth| {
        auth.configure(|config| {
            let auth = &mut config.auth;
            auth.primary_field = PrimaryField::Username;
            auth.public_url = Some("https://me.test".into());
            auth.oauth.providers.insert(
                "github".into(),
                ProviderSection::new("an-app").secret("a-secret".to_owned()),
            );
            auth.passkeys.enabled = true;
            auth.passkeys.rp_id = "me.test".into();
            auth.passkeys.origins = vec!["https://me.test".into()];
        })
    };
    let app = crate::server::Store::memory()
        .on(store, with_all_methods)
        .await;
    let made = app
        .post(
            "/auth/register",
            json!({ "username": "signed-in", "password": GOOD }),
        )
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    let seed = json!({ "identifier": "never-seen", "password": GOOD, "emailVerified": false });
    assert_eq!(app.post("/__test/users", seed).await.status, 200);
    let mut all = Vec::new();
    for name in ["nobody-at-all", "signed-in", "never-seen"] {
        all.push(
            seen.during(
                &["User", "Device", "Credential", "ProviderLink"],
                guess(&app, name),
            )
            .await
            .1,
        );
    }
    assert!(
        all.iter().all(|statements| *statements == all[0]) && all[0].len() == 4,
        "{all:?}"
    );
    app.stop().await;
}
