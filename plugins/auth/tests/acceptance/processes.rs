//! Changes between two processes of one app, and tenants of users.

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
    a_broken_bus_only_delays_changes,
    the_tenant_comes_from_the_resolver_only,
    roles_of_a_tenant_apply_to_its_members_only
);

/// A bus between apps of one test.
#[derive(Clone)]
pub struct TestBus {
    sender: broadcast::Sender<String>,
    listeners: Arc<AtomicUsize>,
    broken: Arc<AtomicBool>,
}

impl TestBus {
    pub fn new() -> Self {
        Self {
            sender: broadcast::channel(64).0,
            listeners: Arc::default(),
            broken: Arc::default(),
        }
    }

    /// Waits until this number of apps listen.
    pub async fn wait_for_listeners(&self, apps: usize) {
        let mut tries = 0;
        while self.listeners.load(Ordering::SeqCst) < apps {
            tries += 1;
            assert!(tries < 1000, "an app does not listen");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl InvalidationBus for TestBus {
    fn publish<'a>(&'a self, user: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if self.broken.load(Ordering::SeqCst) {
                return Err(linchpin::Error::unavailable("the test bus is broken"));
            }
            let _ = self.sender.send(user.to_owned());
            Ok(())
        })
    }

    fn listen<'a>(
        &'a self,
        on_message: &'a (dyn Fn(&str) + Send + Sync),
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let mut receiver = self.sender.subscribe();
            self.listeners.fetch_add(1, Ordering::SeqCst);
            while let Ok(user) = receiver.recv().await {
                on_message(&user);
            }
            Ok(())
        })
    }
}

/// Caches sessions for 30 s. The test clock does not advance, so the other app notices a change
/// only through the bus.
pub fn with_cache(auth: Auth, bus: Option<Arc<dyn InvalidationBus>>) -> Auth {
    auth.configure(|config| {
        config.auth.session.cache_seconds = 30;
        config.auth.session.bus = bus;
    })
}

/// Waits until the app refuses the token.
async fn wait_until_refused(app: &Server, token: &str) {
    for _ in 0..3000 {
        if app.me(token).await.status == 401 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the other process did not get the change");
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
            store.app_with(|auth| with_cache(auth, Some(bus()))).await,
            store.app_with(|auth| with_cache(auth, Some(bus()))).await,
        );
        // The apps start to listen in the background, so the change is repeated until it arrives.
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
        panic!("the other process did not get the change");
    }
    let test_bus = TestBus::new();
    let (one, two) = (
        store
            .app_with(|auth| with_cache(auth, Some(Arc::new(test_bus.clone()))))
            .await,
        store
            .app_with(|auth| with_cache(auth, Some(Arc::new(test_bus.clone()))))
            .await,
    );
    test_bus.wait_for_listeners(2).await;
    let (ada, bob) = (
        one.register("ada@x.test").await,
        one.register("bob@x.test").await,
    );
    for token in [&ada.token, &bob.token] {
        assert_eq!(two.me(token).await.status, 200);
    }
    one.change(&ada.id, json!({ "suspended": true })).await;
    wait_until_refused(&two, &ada.token).await;
    assert_eq!(two.me(&bob.token).await.status, 200);
    two.change(&bob.id, json!({ "roles": ["admin"] })).await;
    for _ in 0..3000 {
        if one.get(&bob.token, "/__test/protected/admin").await.status == 200 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the other process did not get the change");
}

async fn a_broken_bus_only_delays_changes(store: Store) {
    if !store.keeps() {
        return;
    }
    let test_bus = TestBus::new();
    test_bus.broken.store(true, Ordering::SeqCst);
    let (one, two) = (
        store
            .app_with(|auth| with_cache(auth, Some(Arc::new(test_bus.clone()))))
            .await,
        store
            .app_with(|auth| with_cache(auth, Some(Arc::new(test_bus))))
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

/// A directory of members.
#[derive(Clone, Default)]
struct Members {
    /// Accounts with their tenants.
    tenants: Arc<Mutex<Vec<(String, String)>>>,
    /// Whether requests to the directory fail.
    fails: Arc<AtomicBool>,
    /// The roles of every member in its tenant.
    tenant_roles: Arc<Mutex<Vec<&'static str>>>,
}

impl TenantResolver for Members {
    fn tenant<'a>(&'a self, cx: &'a TenantCx) -> BoxFuture<'a, Result<Option<String>>> {
        Box::pin(async move {
            if self.fails.load(Ordering::SeqCst) {
                return Err(linchpin::Error::internal("the directory is down"));
            }
            assert!(cx.claims["sub"] == json!(cx.user_id) && cx.roles == ["member"]);
            Ok(self
                .tenants
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
                .tenant_roles
                .lock()
                .unwrap()
                .iter()
                .map(|role| (*role).to_owned())
                .collect())
        })
    }
}

/// Roles of a tenant apply to its members only. A change takes effect after `membership_changed`.
async fn roles_of_a_tenant_apply_to_its_members_only(store: Store) {
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
        *members.tenants.lock().unwrap() = vec![(user.to_owned(), "north".to_owned())];
        *members.tenant_roles.lock().unwrap() = given.to_vec();
    };
    assert_eq!(
        (roles(&ada.token).await, roles(&bob.token).await),
        (json!(["member"]), json!(["member"]))
    );
    set(&ada.id, &["member", "editor"]);
    assert_eq!(
        roles(&ada.token).await,
        json!(["member"]),
        "the former roles are cached"
    );
    service.membership_changed(&ada.id);
    assert_eq!(
        (roles(&ada.token).await, roles(&bob.token).await),
        (json!(["member", "editor"]), json!(["member"]))
    );
    assert_eq!(app.me(&ada.token).await.json()["tenantId"], "north");
    // The resolver may return neither the administrator role nor an undeclared role.
    for given in ["admin", "owner"] {
        set(&ada.id, &[given]);
        service.membership_changed(&ada.id);
        assert_eq!(
            app.get_any(&ada.token, "/__test/actor").await.status,
            503,
            "{given}"
        );
    }
    // A former member loses the roles at once.
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

async fn the_tenant_comes_from_the_resolver_only(store: Store) {
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
        .tenants
        .lock()
        .unwrap()
        .push((ada.id.clone(), "north".to_owned()));
    let tenant_of = async |token: &str| {
        let actor = app.get(token, "/__test/actor?x=1").await.json();
        let me = app.me(token).await.json();
        assert_eq!(actor["tenantId"], me["tenantId"]);
        me["tenantId"].clone()
    };
    assert_eq!(
        (tenant_of(&ada.token).await, tenant_of(&bob.token).await),
        (json!("north"), json!(null))
    );
    // Nothing in a request changes the tenant.
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
    // A former member has no tenant as soon as the cache is refreshed.
    members.tenants.lock().unwrap().clear();
    app.advance(5).await;
    assert_eq!(tenant_of(&ada.token).await, json!(null));
    // If the resolver fails, requests with a session fail with 503.
    members.fails.store(true, Ordering::SeqCst);
    app.advance(5).await;
    assert_eq!(app.get_any(&ada.token, "/auth/me").await.status, 503);
}
