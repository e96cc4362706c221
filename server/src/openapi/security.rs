//! Authentication in the document. The core knows only the names in `auth`; plugins describe their
//! security schemes.

use serde_json::{Map, Value as Json, json};

use crate::Code;
use crate::http::{AuthDesc, Endpoint, PathGuard};
use crate::operation::Method;

/// The `auth` name for a route that is public itself, but has a guard of the app.
const USER: &str = "userAuth";

/// A credential in a request: a security scheme of the document.
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

    /// A bearer token with a format, such as `JWT`.
    pub fn bearer_of(name: impl Into<String>, format: &str, doc: &str) -> Self {
        Self::new(
            name,
            json!({ "type": "http", "scheme": "bearer", "bearerFormat": format, "description": doc }),
        )
    }

    /// A value in the named header.
    pub fn header(name: impl Into<String>, header: &str, doc: &str) -> Self {
        Self::new(
            name,
            json!({ "type": "apiKey", "in": "header", "name": header, "description": doc }),
        )
    }

    /// A value in the named cookie.
    pub fn cookie(name: impl Into<String>, cookie: &str, doc: &str) -> Self {
        Self::new(
            name,
            json!({ "type": "apiKey", "in": "cookie", "name": cookie, "description": doc }),
        )
    }
}

/// The security schemes for routes whose `auth` has one of these names. Any one of the schemes is
/// enough.
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
    alternatives: Vec<(Scheme, Option<Scheme>)>,
    refuses: Vec<Code>,
    refuses_changes: Vec<Code>,
}

impl Security {
    /// Creates the description for these names in `auth` or of guards. Several descriptions may
    /// contain the same name.
    pub fn of<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        let names = names.into_iter().map(Into::into).collect();
        Self {
            names,
            alternatives: Vec::new(),
            refuses: Vec::new(),
            refuses_changes: Vec::new(),
        }
    }

    /// Adds a scheme that is enough by itself.
    #[must_use]
    pub fn by(mut self, scheme: Scheme) -> Self {
        self.alternatives.push((scheme, None));
        self
    }

    /// Adds a scheme that also needs `changing`, unless the method is GET, HEAD or OPTIONS.
    #[must_use]
    pub fn by_both(mut self, scheme: Scheme, changing: Scheme) -> Self {
        self.alternatives.push((scheme, Some(changing)));
        self
    }
}

/// The scheme for a name that no plugin describes.
fn assumed(name: &str) -> Json {
    match name {
        USER => Scheme::bearer_of(name, "JWT", "The access token of a user.").object,
        "bearer" => Scheme::bearer(name, "A static API credential.").object,
        _ => json!({ "type": "http", "scheme": "bearer" }),
    }
}

impl Security {
    /// Adds error codes besides `unauthorized` and `forbidden`, for routes whose `auth` or guards
    /// have one of these names.
    #[must_use]
    pub fn refuses(mut self, codes: impl IntoIterator<Item = Code>) -> Self {
        self.refuses.extend(codes);
        self
    }

    /// Adds error codes for all methods but GET, HEAD and OPTIONS.
    #[must_use]
    pub fn refuses_changes(mut self, codes: impl IntoIterator<Item = Code>) -> Self {
        self.refuses_changes.extend(codes);
        self
    }
}

/// The error codes of an endpoint, by the names in its `auth` and its guards.
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
    let matching = known.iter().filter(|security| {
        security
            .names
            .iter()
            .any(|known| names.contains(&known.as_str()))
    });
    let changes = endpoint.method != Method::Get;
    matching
        .flat_map(|security| {
            security
                .refuses
                .iter()
                .chain(security.refuses_changes.iter().filter(move |_| changes))
        })
        .copied()
        .collect()
}

/// The security requirement of an endpoint; the schemes that it uses are added to `schemes`.
pub(super) fn security(
    endpoint: &Endpoint,
    known: &[Security],
    schemes: &mut Map<String, Json>,
) -> Json {
    let name = match endpoint.policy.auth {
        AuthDesc::Named(name) => name,
        // A path guard of the app authenticates callers, as `auth` does for other routes.
        AuthDesc::None if endpoint.guards.iter().any(PathGuard::always) => USER,
        AuthDesc::None => return json!([]),
    };
    let Some(security) = known
        .iter()
        .filter(|security| !security.alternatives.is_empty())
        .find(|security| security.names.iter().any(|known| known == name))
    else {
        schemes
            .entry(name.to_owned())
            .or_insert_with(|| assumed(name));
        return json!([{ name: [] }]);
    };
    let changes = endpoint.method != Method::Get;
    let way = |(scheme, changing): &(Scheme, Option<Scheme>)| {
        let needed = [Some(scheme), changing.as_ref().filter(|_| changes)];
        let mut required = Map::new();
        for scheme in needed.into_iter().flatten() {
            schemes
                .entry(scheme.name.clone())
                .or_insert_with(|| scheme.object.clone());
            required.insert(scheme.name.clone(), json!([]));
        }
        Json::Object(required)
    };
    Json::Array(security.alternatives.iter().map(way).collect())
}
