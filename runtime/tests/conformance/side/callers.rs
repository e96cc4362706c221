//! The callers, and the HTTP service of the fixture.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use axum::http::request::Parts;
use linchpin::entity::EntityDesc;
use linchpin::http::{
    ActorResolver, Claims, HttpService, HttpState, Origin, Resolution, RouteAuth, endpoints,
    service,
};
use linchpin::prelude::*;
use linchpin::resource::{Adapters, CursorKey, Table};
use linchpin::store::Store;
use linchpin::store::create_tables;
use linchpin::{Actor, ActorKind, BoxFuture, MiddlewareCx, Plugin, PostCx};

use super::{SECRET, all};
use crate::fixture::ALL;
use crate::fixture::related::FixtureEvaluator;

/// The callers: an anonymous one, two of one tenant, one of another, and one without a tenant. The
/// first user is an editor.
pub const ACTORS: [Option<(&str, Option<&str>)>; 5] = [
    None,
    Some(("alice", Some("t1"))),
    Some(("bob", Some("t1"))),
    Some(("carol", Some("t2"))),
    Some(("dave", None)),
];

pub fn actor(n: usize) -> Arc<Actor> {
    let Some((id, tenant)) = ACTORS[n % ACTORS.len()] else {
        return Arc::new(Actor::anonymous());
    };
    let roles = if id == "alice" {
        vec!["editor".to_owned()]
    } else {
        Vec::new()
    };
    Arc::new(Actor {
        kind: ActorKind::User,
        tenant_id: tenant.map(str::to_owned),
        roles,
        ..Actor::user(id)
    })
}

/// An auth plugin that trusts the header `x-actor`.
pub struct HeaderActor(Vec<Arc<Actor>>);

impl HeaderActor {
    pub fn new() -> Self {
        Self((0..ACTORS.len()).map(actor).collect())
    }
}

impl ActorResolver for HeaderActor {
    fn resolve(&self, parts: &Parts, _: Origin<'_>) -> Resolution {
        let n = parts
            .headers
            .get("x-actor")
            .and_then(|v| v.to_str().ok())
            .and_then(|t| t.parse().ok())
            .unwrap_or(0_usize);
        Resolution::Ready(Ok(Arc::clone(&self.0[n % self.0.len()])))
    }
}

impl Plugin for HeaderActor {
    fn name(&self) -> &'static str {
        "believer"
    }

    fn setup_middleware<'a>(&'a self, cx: &'a mut MiddlewareCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { cx.set_actor_resolver(Arc::new(Self::new())) })
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async {
            cx.registrar().set_route_auth(RouteAuth::default())?;
            cx.registrar().set_evaluator(FixtureEvaluator)
        })
    }
}

/// The adapters and the HTTP service of the fixture on a store, without an `App`: events have no
/// consumers.
pub async fn app(store: &Arc<dyn Store>, clock: &Arc<AtomicI64>) -> (Adapters, HttpService) {
    let descs: Vec<&'static EntityDesc> = all().collect();
    create_tables(&**store, &descs)
        .await
        .unwrap_or_else(|e| panic!("{}: {e:?}", store.name()));
    let key = CursorKey::derive(&[SECRET]);
    let tables = ALL.entities.iter().map(|entry| {
        let table = Table::new(entry.desc, Arc::clone(store), key.clone());
        Arc::new(table.unwrap_or_else(|e| panic!("{e:?}")).bounded(entry))
    });
    let adapters = Adapters::new(tables);
    let mut state = HttpState::new(adapters.clone());
    let reading = Arc::clone(clock);
    state.clock = Arc::new(move || Timestamp::from_millis(reading.load(Ordering::SeqCst)));
    state.resolver = Some(Arc::new(HeaderActor::new()));
    state.registry.evaluator = Some(Arc::new(FixtureEvaluator));
    state.claims = Some(Arc::new(Claims::new(store).expect("claims")));
    let service = service(endpoints(&ALL, ALL.mount, &adapters), state).expect("a service");
    (adapters, service)
}
