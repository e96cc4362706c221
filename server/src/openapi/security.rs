//! How callers prove who they are, as the document says it. The core knows names of `auth` alone;
//! plugins say what is behind them.

use serde_json::{Map, Value as Json, json};

use crate::Code;
use crate::http::{AuthDesc, Endpoint, PathGuard};
use crate::operation::Method;

/// What a route asks whom it lets pass for, where it is public itself and a guard of the app stands
/// before it.
const USER: &str = "userAuth";

/// One thing that a request may carry: a security scheme of the document.
#[derive(Clone, Debug)]
pub struct Scheme {
    name: String,
    object: Json,
}

impl Scheme {
    fn new(name: impl Into<String>, object: Json) -> Self {
        Self {
            name: name.into(),
            object,
        }
    }

    /// A token in `Authorization: Bearer`, under this name in the document.
    pub fn bearer(name: impl Into<String>, doc: &str) -> Self {
        Self::new(
            name,
            json!({ "type": "http", "scheme": "bearer", "description": doc }),
        )
    }

    /// The same, of a format that clients may care for: `JWT`.
    pub fn bearer_of(name: impl Into<String>, format: &str, doc: &str) -> Self {
        Self::new(
            name,
            json!({ "type": "http", "scheme": "bearer", "bearerFormat": format, "description": doc }),
        )
    }

    /// A header.
    pub fn header(name: impl Into<String>, header: &str, doc: &str) -> Self {
        Self::new(
            name,
            json!({ "type": "apiKey", "in": "header", "name": header, "description": doc }),
        )
    }

    /// A cookie.
    pub fn cookie(name: impl Into<String>, cookie: &str, doc: &str) -> Self {
        Self::new(
            name,
            json!({ "type": "apiKey", "in": "cookie", "name": cookie, "description": doc }),
        )
    }
}

/// What proves who calls, on routes whose `auth` has one of these names. Any of its ways will do.
///
/// ```
/// use linchpin::openapi::{Scheme, Security};
///
/// let session = Scheme::cookie("session", "session", "What signing in has set.");
/// let form = Scheme::header("formToken", "x-form-token", "What the page holds.");
/// Security::of(["userAuth"]).by(Scheme::bearer("token", "An access token.")).by_both(session, form);
/// ```
#[derive(Clone, Debug)]
pub struct Security {
    names: Vec<String>,
    ways: Vec<(Scheme, Option<Scheme>)>,
    refuses: Vec<Code>,
    refuses_changes: Vec<Code>,
}

impl Security {
    /// Of these names of `auth`, or of guards: a name may stand in several of them.
    pub fn of<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        let names = names.into_iter().map(Into::into).collect();
        Self {
            names,
            ways: Vec::new(),
            refuses: Vec::new(),
            refuses_changes: Vec::new(),
        }
    }

    /// A request may carry this.
    #[must_use]
    pub fn by(mut self, scheme: Scheme) -> Self {
        self.ways.push((scheme, None));
        self
    }

    /// A request may carry this, and `changing` beside it unless its method is GET, HEAD or
    /// OPTIONS.
    #[must_use]
    pub fn by_both(mut self, scheme: Scheme, changing: Scheme) -> Self {
        self.ways.push((scheme, Some(changing)));
        self
    }
}

/// What a name is taken for that no plugin speaks of.
fn assumed(name: &str) -> Json {
    match name {
        USER => Scheme::bearer_of(name, "JWT", "The access token of a user.").object,
        "bearer" => Scheme::bearer(name, "A static API credential.").object,
        _ => json!({ "type": "http", "scheme": "bearer" }),
    }
}

impl Security {
    /// Codes that callers are refused with beside `unauthorized` and `forbidden`, where `auth` has
    /// one of these names or a guard is one.
    #[must_use]
    pub fn refuses(mut self, codes: impl IntoIterator<Item = Code>) -> Self {
        self.refuses.extend(codes);
        self
    }

    /// The same, unless the method is GET, HEAD or OPTIONS.
    #[must_use]
    pub fn refuses_changes(mut self, codes: impl IntoIterator<Item = Code>) -> Self {
        self.refuses_changes.extend(codes);
        self
    }
}

/// Codes that an endpoint refuses callers with, by the names of its `auth` and its guards.
pub(super) fn refusals(endpoint: &Endpoint, known: &[Security]) -> Vec<Code> {
    let auth = match endpoint.policy.auth {
        AuthDesc::Named(name) => Some(name),
        AuthDesc::None => endpoint
            .guards
            .iter()
            .any(PathGuard::always)
            .then_some(USER),
    };
    let names: Vec<&str> = auth
        .into_iter()
        .chain(endpoint.policy.guards.iter().map(|guard| guard.name))
        .collect();
    let asked = known.iter().filter(|security| {
        security
            .names
            .iter()
            .any(|known| names.contains(&known.as_str()))
    });
    let changes = endpoint.method != Method::Get;
    asked
        .flat_map(|security| {
            security
                .refuses
                .iter()
                .chain(security.refuses_changes.iter().filter(move |_| changes))
        })
        .copied()
        .collect()
}

/// What an endpoint asks for; the schemes it names are noted in `schemes`.
pub(super) fn security(
    endpoint: &Endpoint,
    known: &[Security],
    schemes: &mut Map<String, Json>,
) -> Json {
    let name = match endpoint.policy.auth {
        AuthDesc::Named(name) => name,
        // Whom a guard of the app lets pass is known like the callers of other routes.
        AuthDesc::None if endpoint.guards.iter().any(PathGuard::always) => USER,
        AuthDesc::None => return json!([]),
    };
    let Some(security) = known
        .iter()
        .filter(|security| !security.ways.is_empty())
        .find(|security| security.names.iter().any(|known| known == name))
    else {
        schemes
            .entry(name.to_owned())
            .or_insert_with(|| assumed(name));
        return json!([{ name: [] }]);
    };
    let changes = endpoint.method != Method::Get;
    let way = |(scheme, changing): &(Scheme, Option<Scheme>)| {
        let asked = [Some(scheme), changing.as_ref().filter(|_| changes)];
        let mut together = Map::new();
        for scheme in asked.into_iter().flatten() {
            schemes
                .entry(scheme.name.clone())
                .or_insert_with(|| scheme.object.clone());
            together.insert(scheme.name.clone(), json!([]));
        }
        Json::Object(together)
    };
    Json::Array(security.ways.iter().map(way).collect())
}
