//! Who calls.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Value;
use crate::filter::CtxPath;

/// Who is calling, as an authentication plugin verified it.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Actor {
    /// `None` for anonymous requests.
    pub id: Option<String>,
    /// `user`, `service`, `anonymous` or a kind of the plugin's own.
    pub kind: ActorKind,
    /// The tenant, when there is one.
    pub tenant_id: Option<String>,
    /// The session, when there is one.
    pub session_id: Option<String>,
    /// Roles held.
    pub roles: Vec<String>,
    /// Verified token claims.
    pub claims: BTreeMap<String, serde_json::Value>,
    /// What the plugin that found the actor knows of it besides, for its own guards and routes.
    pub attached: Attached,
}

/// A value that a plugin puts beside an actor. Nobody else can read it without its type.
#[derive(Clone, Default)]
pub struct Attached(Option<Arc<dyn Any + Send + Sync>>);

impl Attached {
    /// This value.
    pub fn new<T: Any + Send + Sync>(value: Arc<T>) -> Self {
        Self(Some(value))
    }

    /// The value, when it is a `T`.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.0.as_ref()?.downcast_ref()
    }
}

impl PartialEq for Attached {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }
}

impl std::fmt::Debug for Attached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // It may hold what must not be printed.
        f.write_str(if self.0.is_some() {
            "Attached(..)"
        } else {
            "Attached"
        })
    }
}

/// Marks anonymous callers whose credential cannot be used.
struct InvalidCredential;

/// The kind of an actor.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum ActorKind {
    /// A person.
    User,
    /// A program with a credential of its own.
    Service,
    /// Nobody known.
    #[default]
    Anonymous,
    /// A kind of a plugin's own.
    Other(String),
}

impl ActorKind {
    /// `user`, `service`, `anonymous`, or the plugin's name for it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::User => "user",
            Self::Service => "service",
            Self::Anonymous => "anonymous",
            Self::Other(name) => name,
        }
    }
}

impl Actor {
    /// Nobody known.
    pub fn anonymous() -> Self {
        Self::default()
    }

    /// Nobody known, though the request presents a credential: it has ended, was revoked, or is
    /// malformed. Routes that anonymous callers may call answer as they do to [`Actor::anonymous`],
    /// and say `WWW-Authenticate: Bearer error="invalid_token"`.
    pub fn with_invalid_credential() -> Self {
        Self {
            attached: Attached::new(Arc::new(InvalidCredential)),
            ..Self::default()
        }
    }

    /// Whether this is an anonymous caller whose credential cannot be used.
    pub fn has_invalid_credential(&self) -> bool {
        self.attached.get::<InvalidCredential>().is_some()
    }

    /// A person with this id and no roles.
    pub fn user(id: impl Into<String>) -> Self {
        Self {
            id: Some(id.into()),
            kind: ActorKind::User,
            ..Self::default()
        }
    }

    /// Adds roles.
    #[must_use]
    pub fn with_roles<R: Into<String>>(mut self, roles: impl IntoIterator<Item = R>) -> Self {
        self.roles.extend(roles.into_iter().map(Into::into));
        self
    }

    /// Whether the actor holds one of `roles`.
    pub fn has_any_role(&self, roles: &[&str]) -> bool {
        self.roles.iter().any(|r| roles.contains(&r.as_str()))
    }

    /// A value of the context; null when absent.
    pub fn lookup(&self, path: CtxPath) -> Value {
        let text = |t: &Option<String>| t.clone().map_or(Value::Null, Value::Text);
        match path {
            CtxPath::ActorId => text(&self.id),
            CtxPath::TenantId => text(&self.tenant_id),
            CtxPath::SessionId => text(&self.session_id),
            CtxPath::ActorKind => Value::Text(self.kind.as_str().to_owned()),
            CtxPath::Claim(name) => match self.claims.get(name) {
                Some(serde_json::Value::String(s)) => Value::Text(s.clone()),
                Some(serde_json::Value::Bool(b)) => Value::Bool(*b),
                Some(serde_json::Value::Number(n)) => n
                    .as_i64()
                    .map(Value::Int)
                    .or_else(|| n.as_f64().map(Value::Float))
                    .unwrap_or_default(),
                _ => Value::Null,
            },
            // The request's, not the actor's.
            CtxPath::Value(_) => Value::Null,
        }
    }
}
