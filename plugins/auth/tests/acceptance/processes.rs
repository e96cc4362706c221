//! Two processes of one app: changes in one take effect in the other; and tenants of users.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use linchpin::{BoxFuture, Result};
use linchpin_auth::{Auth, AuthService, InvalidationBus, TenantCx, TenantResolver};
use serde_json::json;
use tokio::sync::broadcast;

use crate::cases;
use crate::server::{Server, Store};

cases!(
    a_bus_carries_changes,
    a_broken_bus_costs_time_only,
    tenants,
    roles_of_a_tenant
);

/// A bus between apps of one test.
#[derive(Clone)]
pub struct Wire {
    sender: broadcast::Sender<String>,
    listeners: Arc<AtomicUsize>,
    broken: Arc<AtomicBool>,
}

impl Wire {
    pub fn new() -> Self {
        Self {
            sender: broadcast::channel(64).0,
            listeners: Arc::default(),
            broken: Arc::default(),
        }
    }

    /// Once so many apps listen.
    pub async fn connects(&self, apps: usize) {
        let mut tries = 0;
        while self.listeners.load(Ordering::SeqCst) < apps {
            tries += 1;
            assert!(tries < 1000, "an app does not listen");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl InvalidationBus for Wire {
    fn publish<'a>(&'a self, user: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if self.broken.load(Ordering::SeqCst) {
                return Err(linchpin::Error::unavailable("the wire is cut"));
            }
            let _ = self.sender.send(user.to_owned());
            Ok(())
        })
    }

    fn listen<'a>(&'a self, heard: &'a (dyn Fn(&str) + Send + Sync)) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let mut receiver = self.sender.subscribe();
            self.listeners.fetch_add(1, Ordering::SeqCst);
            while let Ok(user) = receiver.recv().await {
                heard(&user);
            }
            Ok(())
        })
    }
}

/// With long cache times, so that only the bus can make changes visible: the test clock does not
/// advance.
pub fn cached(auth: Auth, bus: Option<Arc<dyn InvalidationBus>>) -> Auth {
    auth.configure(|config| {
        config.auth.session.cache_seconds = 30;
        config.auth.session.bus = bus;
    })
}

/// Once the other process has heard of it.
async fn ends(app: &Server, token: &str) {
    for _ in 0..3000 {
        if app.me(token).await.status == 401 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the other process never heard of it");
}

async fn a_bus_carries_changes(store: Store) {
    if !store.keeps() {
        return;
    }
    #[cfg(feature = "postgres")]
    if store.url().starts_with("postgres") {
        let bus = || {
            let options = linchpin::store::postgres::PostgresOptions::new(store.url());
            Arc::new(linchpin_auth::PostgresBus::new(&options).unwrap()) as Arc<dyn InvalidationBus>
        };
        let (one, two) = (
            store.app_with(|auth| cached(auth, Some(bus()))).await,
            store.app_with(|auth| cached(auth, Some(bus()))).await,
        );
        // The first one listens in its own time: the change is repeated until it does.
        for n in 0..100 {
            let ada = one.register(&format!("ada{n}@x.test")).await;
            assert_eq!(two.me(&ada.token).await.status, 200);
            assert_eq!(
                one.with(&ada.token, "POST", "/auth/logout", None)
                    .await
                    .status,
                200
            );
            for _ in 0..20 {
                if two.me(&ada.token).await.status == 401 {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        panic!("the other process never heard of it");
    }
    let wire = Wire::new();
    let (one, two) = (
        store
            .app_with(|auth| cached(auth, Some(Arc::new(wire.clone()))))
            .await,
        store
            .app_with(|auth| cached(auth, Some(Arc::new(wire.clone()))))
            .await,
    );
    wire.connects(2).await;
    let (ada, bob) = (
        one.register("ada@x.test").await,
        one.register("bob@x.test").await,
    );
    for token in [&ada.token, &bob.token] {
        assert_eq!(two.me(token).await.status, 200);
    }
    one.change(&ada.id, json!({ "suspended": true })).await;
    ends(&two, &ada.token).await;
    assert_eq!(two.me(&bob.token).await.status, 200);
    two.change(&bob.id, json!({ "roles": ["admin"] })).await;
    for _ in 0..3000 {
        if one.get(&bob.token, "/__test/protected/admin").await.status == 200 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the other process never heard of it");
}

async fn a_broken_bus_costs_time_only(store: Store) {
    if !store.keeps() {
        return;
    }
    let wire = Wire::new();
    wire.broken.store(true, Ordering::SeqCst);
    let (one, two) = (
        store
            .app_with(|auth| cached(auth, Some(Arc::new(wire.clone()))))
            .await,
        store
            .app_with(|auth| cached(auth, Some(Arc::new(wire))))
            .await,
    );
    let ada = one.register("ada@x.test").await;
    assert_eq!(two.me(&ada.token).await.status, 200);
    assert_eq!(
        one.with(&ada.token, "POST", "/auth/logout", None)
            .await
            .status,
        200
    );
    one.me(&ada.token).await.refused(401, "unauthorized");
    two.advance(30).await;
    two.me(&ada.token).await.refused(401, "unauthorized");
}

/// Members of one tenant, by account, whether the directory is down, and the roles that it gives.
#[derive(Clone, Default)]
struct Members(
    Arc<Mutex<Vec<(String, String)>>>,
    Arc<AtomicBool>,
    Arc<Mutex<Vec<&'static str>>>,
);

impl TenantResolver for Members {
    fn tenant<'a>(&'a self, cx: &'a TenantCx) -> BoxFuture<'a, Result<Option<String>>> {
        Box::pin(async move {
            if self.1.load(Ordering::SeqCst) {
                return Err(linchpin::Error::internal("the directory is down"));
            }
            assert!(cx.claims["sub"] == json!(cx.user_id) && cx.roles == ["member"]);
            Ok(self
                .0
                .lock()
                .unwrap()
                .iter()
                .find(|(user, _)| *user == cx.user_id)
                .map(|(_, tenant)| tenant.clone()))
        })
    }

    fn roles<'a>(&'a self, _: &'a TenantCx, tenant: &'a str) -> BoxFuture<'a, Result<Vec<String>>> {
        assert_eq!(tenant, "north");
        Box::pin(async {
            Ok(self
                .2
                .lock()
                .unwrap()
                .iter()
                .map(|role| (*role).to_owned())
                .collect())
        })
    }
}

/// Roles of a tenant hold in it only, and a change takes effect when it is announced.
async fn roles_of_a_tenant(store: Store) {
    let members = Members::default();
    let resolver = members.clone();
    let with = |auth: Auth| {
        auth.roles(["admin", "editor", "member"])
            .configure(|config| {
                config.auth.tenants = Some(Arc::new(resolver));
                config.auth.admin_role = Some("admin".to_owned());
            })
    };
    let app = store.app_with(with).await;
    let service = app.provided::<AuthService>();
    let (ada, bob) = (
        app.register("ada@x.test").await,
        app.register("bob@x.test").await,
    );
    let roles = async |token: &str| app.get(token, "/__test/actor").await.json()["roles"].clone();
    let set = |user: &str, given: &[&'static str]| {
        *members.0.lock().unwrap() = vec![(user.to_owned(), "north".to_owned())];
        *members.2.lock().unwrap() = given.to_vec();
    };
    assert_eq!(
        (roles(&ada.token).await, roles(&bob.token).await),
        (json!(["member"]), json!(["member"]))
    );
    set(&ada.id, &["member", "editor"]);
    assert_eq!(
        roles(&ada.token).await,
        json!(["member"]),
        "what is known of a session counts for a while"
    );
    service.membership_changed(&ada.id);
    assert_eq!(
        (roles(&ada.token).await, roles(&bob.token).await),
        (json!(["member", "editor"]), json!(["member"]))
    );
    assert_eq!(app.me(&ada.token).await.json()["tenantId"], "north");
    // A role in a tenant does not make an administrator.
    for given in ["admin", "owner"] {
        set(&ada.id, &[given]);
        service.membership_changed(&ada.id);
        assert_eq!(
            app.get_any(&ada.token, "/__test/actor").await.status,
            503,
            "{given}"
        );
    }
    // Out at once.
    set("nobody", &["editor"]);
    service.membership_changed(&ada.id);
    assert_eq!(
        (
            roles(&ada.token).await,
            app.me(&ada.token).await.json()["tenantId"].clone()
        ),
        (json!(["member"]), json!(null))
    );
}

async fn tenants(store: Store) {
    let members = Members::default();
    let resolver = members.clone();
    let app = store
        .app_with(|auth| auth.configure(|config| config.auth.tenants = Some(Arc::new(resolver))))
        .await;
    let (ada, bob) = (
        app.register("ada@x.test").await,
        app.register("bob@x.test").await,
    );
    members
        .0
        .lock()
        .unwrap()
        .push((ada.id.clone(), "north".to_owned()));
    let of = async |token: &str| {
        let actor = app.get(token, "/__test/actor?x=1").await.json();
        let me = app.me(token).await.json();
        assert_eq!(actor["tenantId"], me["tenantId"]);
        me["tenantId"].clone()
    };
    assert_eq!(
        (of(&ada.token).await, of(&bob.token).await),
        (json!("north"), json!(null))
    );
    // Nothing that a request says changes it.
    let bearer = format!("Bearer {}", bob.token);
    for header in ["x-tenant", "x-tenant-id", "tenant"] {
        let actor = app
            .raw(
                "GET",
                "/__test/actor?x=north",
                &[("authorization", &bearer), (header, "north")],
                "",
            )
            .await;
        assert_eq!(actor.json()["tenantId"], json!(null), "{header}");
    }
    // A former member is refused as soon as the cache is refreshed.
    members.0.lock().unwrap().clear();
    app.advance(5).await;
    assert_eq!(of(&ada.token).await, json!(null));
    // If the resolver fails, the sign-in fails too.
    members.1.store(true, Ordering::SeqCst);
    app.advance(5).await;
    assert_eq!(app.get_any(&ada.token, "/auth/me").await.status, 503);
}
