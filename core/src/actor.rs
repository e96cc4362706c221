//! The caller of a request.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Value;
use crate::filter::CtxPath;

/// The caller, as an authentication plugin verified it.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Actor {
    /// `None` for anonymous requests.
    pub id: Option<String>,
    /// `user`, `service`, `anonymous` or a kind that a plugin defines.
    pub kind: ActorKind,
    /// The tenant, if there is one.
    pub tenant_id: Option<String>,
    /// The session, if there is one.
    pub session_id: Option<String>,
    /// The roles of the actor.
    pub roles: Vec<String>,
    /// The verified claims of the token.
    pub claims: BTreeMap<String, serde_json::Value>,
    /// Further data of the plugin that authenticated the actor, for its own guards and routes.
    pub attached: Attached,
}

/// A value that a plugin attaches to an actor. Reading it requires its type.
#[derive(Clone, Default)]
pub struct Attached(Option<Arc<dyn Any + Send + Sync>>);

impl Attached {
    /// Attaches this value.
    pub fn new<T: Any + Send + Sync>(value: Arc<T>) -> Self {
        Self(Some(value))
    }

    /// Returns the value if it is a `T`.
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
        // It may contain secrets.
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
    /// A program with its own credential.
    Service,
    /// An anonymous caller.
    #[default]
    Anonymous,
    /// A kind that a plugin defines.
    Other(String),
}

impl ActorKind {
    /// `user`, `service`, `anonymous`, or the name that the plugin gives it.
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
    /// An anonymous caller.
    pub fn anonymous() -> Self {
        Self::default()
    }

    /// An anonymous caller whose credential is expired, revoked or malformed. Public routes respond
    /// in the same way as for [`Actor::anonymous`], but add the header
    /// `WWW-Authenticate: Bearer error="invalid_token"`.
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

    /// Whether the actor has one of `roles`.
    pub fn has_any_role(&self, roles: &[&str]) -> bool {
        self.roles.iter().any(|r| roles.contains(&r.as_str()))
    }

    /// Returns a context value; null if it is absent.
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
            // These values belong to the request, not to the actor.
            CtxPath::Value(_) => Value::Null,
        }
    }
}
