//! A test double of sessions: the header `x-user` names the user.

use super::*;

/// Sessions by the name in `x-user`. Users in `ended` no longer have a session.
#[derive(Clone, Default)]
pub(in crate::rooms) struct Sessions {
    pub(in crate::rooms) ended: Arc<Mutex<Vec<String>>>,
    /// Users whose session checks never end.
    pub(in crate::rooms) stuck: Arc<Mutex<Vec<&'static str>>>,
    /// A user, and the other user to whom its sessions now belong.
    pub(in crate::rooms) acting: Arc<Mutex<Option<(&'static str, &'static str)>>>,
    /// If set, the next answer waits until this is notified.
    pub(in crate::rooms) late: Arc<Mutex<Option<Arc<Notify>>>>,
    /// The number of started session checks.
    pub(super) checks: Arc<AtomicUsize>,
    pub(in crate::rooms) feed: CredentialFeed,
    /// The route caller and the adapters of the app, known after its start.
    pub(super) found: Arc<OnceLock<(RouteCaller, Adapters)>>,
}

impl Sessions {
    /// Returns the number of session checks so far.
    pub(in crate::rooms) fn checks(&self) -> usize {
        self.checks.load(Ordering::Relaxed)
    }
}

pub(in crate::rooms) fn credential(user: &str) -> Credential {
    Credential {
        actor: Arc::new(Actor::user(user)),
        expires_at: None,
        attached: Attached::default(),
    }
}

impl ActorResolver for Sessions {
    fn resolve(&self, parts: &Parts, _: Origin<'_>) -> Resolution {
        let user = parts.headers.get("x-user").and_then(|v| v.to_str().ok());
        Resolution::Ready(Ok(Arc::new(
            user.map_or_else(Actor::anonymous, Actor::user),
        )))
    }
}

impl Credentials for Sessions {
    fn presented(&self, headers: &HeaderMap) -> Option<CredentialPlace> {
        headers.get("x-user").map(|_| CredentialPlace::Header)
    }

    fn of_headers<'a>(
        &'a self,
        headers: &'a HeaderMap,
    ) -> BoxFuture<'a, Result<Option<Credential>>> {
        let user = headers.get("x-user").and_then(|v| v.to_str().ok());
        let found = user.map(credential);
        Box::pin(async move { Ok(found) })
    }

    fn of_token<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<Credential>>> {
        Box::pin(async move { Ok(Some(credential(token))) })
    }

    fn again<'a>(
        &'a self,
        earlier: &'a Credential,
        _: CredentialUse,
    ) -> BoxFuture<'a, Result<Option<Credential>>> {
        self.checks.fetch_add(1, Ordering::Relaxed);
        let user = earlier.actor.id.clone().unwrap_or_default();
        let has_session = !self.ended.lock().contains(&user);
        let stuck = self.stuck.lock().contains(&user.as_str());
        let acting = *self.acting.lock();
        let late = self.late.lock().take();
        Box::pin(async move {
            if let Some(late) = late {
                late.notified().await;
            }
            if stuck {
                std::future::pending::<()>().await;
            }
            Ok(has_session.then(|| match acting {
                Some((who, other)) if who == user => credential(other),
                _ => earlier.clone(),
            }))
        })
    }

    fn changes(&self) -> CredentialChanges {
        self.feed.subscribe()
    }
}

impl Plugin for Sessions {
    fn name(&self) -> &'static str {
        "sessions"
    }

    fn setup_middleware<'a>(&'a self, cx: &'a mut MiddlewareCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async {
            cx.set_credentials(Arc::new(self.clone()))?;
            cx.set_actor_resolver(Arc::new(self.clone()))
        })
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        let found = (cx.route_caller().clone(), cx.adapters().clone());
        let _ = self.found.set(found);
        Box::pin(async { cx.registrar().set_route_auth(RouteAuth::default()) })
    }
}
