//! Guards of the app: they protect all routes below a path, including those of packages and
//! plugins.
//!
//! Start-up finds the routes that a pattern matches always or never. If the result depends on a
//! path parameter, or the route belongs to a plugin, the path of each request is matched.

use std::fmt;
use std::sync::Arc;

use super::auth::{GuardCheck, GuardInput, RouteAuth};
use super::checks::{self, Registry};
use super::endpoint::Endpoint;
use super::{GuardArg, path};
use crate::{Cx, Error, Result};

/// A guard for [`App::guard`](crate::App::guard).
#[derive(Clone, Debug, PartialEq)]
pub struct RouteGuard(Requirement);

#[derive(Clone, Debug, PartialEq)]
enum Requirement {
    Roles(Arc<[String]>),
    Named(String, Option<GuardArg>),
}

/// Requires any of these roles: 401 for anonymous callers, 403 for others.
///
/// ```
/// # use linchpin::prelude::*;
/// # fn with(config: Config) -> App {
/// App::new(config).guard("/admin/{*rest}", require_role(["admin"]))
/// # }
/// ```
pub fn require_role<R: Into<String>>(roles: impl IntoIterator<Item = R>) -> RouteGuard {
    RouteGuard(Requirement::Roles(
        roles.into_iter().map(Into::into).collect(),
    ))
}

impl RouteGuard {
    /// A guard by its name in `guards` or `auth` of policies: `RouteGuard::named("require_mfa")`.
    pub fn named(name: impl Into<String>) -> Self {
        Self(Requirement::Named(name.into(), None))
    }

    /// A guard by its name, with an argument:
    /// `RouteGuard::with("require_step_up", GuardArg::Int(300))`.
    pub fn with(name: impl Into<String>, argument: GuardArg) -> Self {
        Self(Requirement::Named(name.into(), Some(argument)))
    }

    /// The name in policies, and the argument as JSON.
    pub(crate) fn name_and_argument(&self) -> (&str, Option<serde_json::Value>) {
        match &self.0 {
            Requirement::Roles(roles) => ("require_role", Some(serde_json::json!(**roles))),
            Requirement::Named(name, argument) => (name, argument.map(GuardArg::to_json)),
        }
    }

    /// The check of the guard.
    ///
    /// # Errors
    /// If the guard is not registered or does not accept the argument. The text completes a message
    /// that begins with the pattern.
    fn check(&self, auth: &RouteAuth) -> Result<GuardCheck, String> {
        match &self.0 {
            Requirement::Roles(roles) => {
                let (roles, check) = (Arc::clone(roles), Arc::clone(&auth.require_role));
                Ok(Arc::new(move |call: &GuardInput<'_>| {
                    if call.actor.id.is_none() {
                        return Err(Error::unauthorized());
                    }
                    let roles: Vec<&str> = roles.iter().map(String::as_str).collect();
                    check(call.actor, &roles)
                }))
            }
            Requirement::Named(name, argument) => match (auth.check(name), argument) {
                (Some(check), None) => {
                    let check = Arc::clone(check);
                    Ok(Arc::new(move |call: &GuardInput<'_>| check(call.actor)))
                }
                (_, argument) => {
                    let (check, argument) = (checks::guard_of(auth, name, *argument)?, *argument);
                    Ok(Arc::new(move |call: &GuardInput<'_>| {
                        check(&GuardInput { argument, ..*call })
                    }))
                }
            },
        }
    }
}

/// A guard and its path pattern.
#[derive(Clone, Debug)]
pub struct PathGuard {
    pattern: Arc<Pattern>,
    guard: RouteGuard,
    /// Whether every path of the route matches; otherwise the path of each request is matched.
    always: bool,
}

impl PathGuard {
    /// Creates a guard for every path that matches a pattern.
    ///
    /// # Errors
    /// The mistake in the pattern.
    pub fn new(pattern: &str, guard: RouteGuard) -> std::result::Result<Self, String> {
        Ok(Self {
            pattern: Arc::new(Pattern::parse(pattern)?),
            guard,
            always: false,
        })
    }

    /// The pattern as written.
    pub fn pattern(&self) -> &str {
        &self.pattern.text
    }

    /// The guard.
    pub fn guard(&self) -> &RouteGuard {
        &self.guard
    }

    /// Whether the guard applies to every call of the route; otherwise the path parameters decide.
    pub(crate) fn always(&self) -> bool {
        self.always
    }

    /// Whether any path of a route matches the pattern.
    pub(crate) fn may_match(&self, template: &str) -> bool {
        self.pattern.covers(template) != Cover::Never
    }

    /// The undeclared roles and unregistered names. Each text completes a message that begins with
    /// the pattern.
    pub(crate) fn missing(&self, auth: &RouteAuth, registry: &Registry) -> Vec<String> {
        let mut out: Vec<String> = self.guard.check(auth).err().into_iter().collect();
        if let Requirement::Roles(roles) = &self.guard.0 {
            out.extend(registry.unknown_roles(roles.iter().map(String::as_str)));
            if roles.is_empty() {
                out.push("has no role, so no caller could pass".to_owned());
            }
        }
        out
    }

    /// Whether the guard requires roles, so that a role check must be registered.
    pub(crate) fn requires_roles(&self) -> bool {
        matches!(self.guard.0, Requirement::Roles(_))
    }
}

/// Adds guards to the endpoints that they match.
pub fn guard(guards: &[PathGuard], endpoints: &mut [Endpoint]) {
    for endpoint in endpoints {
        let matching =
            guards
                .iter()
                .filter_map(|guard| match guard.pattern.covers(&endpoint.path) {
                    Cover::Never => None,
                    cover => Some(PathGuard {
                        always: cover == Cover::Always,
                        ..guard.clone()
                    }),
                });
        endpoint.guards = matching.collect();
    }
}

/// The guards of a mounted route, or of all routes of plugins.
pub(super) struct PathGuards(Box<[(Option<Arc<Pattern>>, GuardCheck)]>);

impl PathGuards {
    /// Returns `None` if there are no guards.
    ///
    /// # Errors
    /// The names that are not registered.
    pub(super) fn new(
        guards: &[PathGuard],
        auth: &RouteAuth,
    ) -> std::result::Result<Option<Self>, Vec<String>> {
        let one = |guard: &PathGuard| {
            let pattern = (!guard.always).then(|| Arc::clone(&guard.pattern));
            guard
                .guard
                .check(auth)
                .map(|check| (pattern, check))
                .map_err(|what| vec![format!("below `{}` {what}", guard.pattern.text)])
        };
        let guards = guards
            .iter()
            .map(one)
            .collect::<std::result::Result<Box<[_]>, _>>()?;
        Ok((!guards.is_empty()).then_some(Self(guards)))
    }

    /// Whether any of the guards applies to a path.
    pub(super) fn apply_to(&self, path: &str) -> bool {
        self.0
            .iter()
            .any(|(pattern, _)| pattern.as_ref().is_none_or(|pattern| pattern.matches(path)))
    }

    /// Runs the guards that match a path; without a path, all of them.
    ///
    /// # Errors
    /// The error of the first guard that refuses the call.
    pub(super) fn admit(&self, cx: &Cx, path: Option<&str>) -> Result<()> {
        let Some(actor) = cx.get_actor() else {
            return Ok(());
        };
        let applies = |pattern: &Option<Arc<Pattern>>| match (pattern, path) {
            (Some(pattern), Some(path)) => pattern.matches(path),
            _ => true,
        };
        let call = GuardInput {
            actor,
            argument: None,
            now: cx.now(),
        };
        self.0
            .iter()
            .filter(|(pattern, _)| applies(pattern))
            .try_for_each(|(_, check)| check(&call))
    }
}

/// A path pattern: static segments, `{name}` for any one segment, and `{*rest}` at the end for zero
/// or more segments.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    text: String,
    parts: Box<[Part]>,
    rest: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Part {
    /// Percent-decoded.
    Static(String),
    Any,
}

/// The extent to which a pattern matches the paths of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cover {
    Never,
    Sometimes,
    Always,
}

impl Pattern {
    fn parse(text: &str) -> std::result::Result<Self, String> {
        if !text.starts_with('/') {
            return Err("a pattern begins with `/`".to_owned());
        }
        let segments: Vec<&str> = text
            .split('/')
            .filter(|segment| !segment.is_empty())
            .collect();
        let mut parts = Vec::with_capacity(segments.len());
        let mut rest = false;
        for (n, segment) in segments.iter().enumerate() {
            match segment
                .strip_prefix('{')
                .and_then(|inner| inner.strip_suffix('}'))
            {
                Some(name) if name.starts_with('*') => {
                    if n + 1 < segments.len() {
                        return Err(format!("`{segment}` must be the last segment of a pattern"));
                    }
                    rest = true;
                }
                Some(name) if !name.is_empty() && !name.contains(['{', '}', '*']) => {
                    parts.push(Part::Any);
                }
                None if !segment.contains(['{', '}', '*', '?', '#']) => {
                    let decoded =
                        path::decode(segment).ok_or_else(|| format!("`{segment}` is not UTF-8"))?;
                    parts.push(Part::Static(decoded.into_owned()));
                }
                _ => {
                    return Err(format!(
                        "`{segment}` is neither static, nor `{{name}}`, nor `{{*rest}}`"
                    ));
                }
            }
        }
        Ok(Self {
            text: text.to_owned(),
            parts: parts.into(),
            rest,
        })
    }

    /// Whether a path matches after at least one of two ways to decode it: split at `/`, then
    /// decode each segment; or decode first, then split at `/` and `\`, and resolve `.` and `..`.
    /// Running a guard unnecessarily is a smaller mistake than skipping it.
    fn matches(&self, path: &str) -> bool {
        let segments: Vec<_> = path
            .split('/')
            .filter(|s| !s.is_empty())
            .map(path::decode)
            .collect();
        // A segment that is not UTF-8 equals no static segment.
        if self.matches_segments(segments.iter().map(|segment| segment.as_deref())) {
            return true;
        }
        let Some(decoded) = path::decode(path) else {
            return false;
        };
        let mut resolved: Vec<&str> = Vec::new();
        for segment in decoded.split(['/', '\\']) {
            match segment {
                "" | "." => {}
                ".." => drop(resolved.pop()),
                segment => resolved.push(segment),
            }
        }
        self.matches_segments(resolved.into_iter().map(Some))
    }

    fn matches_segments<'a>(&self, mut segments: impl Iterator<Item = Option<&'a str>>) -> bool {
        for part in &self.parts {
            match (part, segments.next()) {
                (_, None) => return false,
                (Part::Static(text), Some(segment)) if segment != Some(text) => return false,
                _ => {}
            }
        }
        self.rest || segments.next().is_none()
    }

    /// The extent to which the pattern matches the paths of a route in axum's form.
    fn covers(&self, template: &str) -> Cover {
        let mut segments = template.split('/').filter(|segment| !segment.is_empty());
        let mut cover = Cover::Always;
        for part in &self.parts {
            let Some(segment) = segments.next() else {
                return Cover::Never;
            };
            let inner = segment
                .strip_prefix('{')
                .and_then(|inner| inner.strip_suffix('}'));
            match (part, inner) {
                // Whether the pattern matches depends on the rest of the request's path.
                (_, Some(name)) if name.starts_with('*') => return Cover::Sometimes,
                (Part::Static(_), Some(_)) => cover = Cover::Sometimes,
                (Part::Static(text), None) if path::decode(segment).as_deref() != Some(text) => {
                    return Cover::Never;
                }
                _ => {}
            }
        }
        match segments.next() {
            None => cover,
            Some(_) if self.rest => cover,
            Some(segment) if segment.starts_with("{*") => Cover::Sometimes,
            Some(_) => Cover::Never,
        }
    }
}

impl fmt::Debug for PathGuards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PathGuards").field(&self.0.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text).unwrap()
    }

    #[test]
    fn invalid_path_patterns_are_rejected() {
        for text in [
            "admin",
            "",
            "/{*rest}/x",
            "/a{b}",
            "/{}",
            "/{a}b",
            "/a*",
            "/a?b",
            "/%ff",
            "/{a{b}",
        ] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
        for text in [
            "/",
            "/admin",
            "/admin/",
            "//admin//x",
            "/{tenant}/admin/{*rest}",
            "/{*rest}",
        ] {
            assert!(Pattern::parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_pattern_matches_all_spellings_of_a_request_path() {
        let admin = pattern("/admin/{*rest}");
        for path in [
            "/admin",
            "/admin/",
            "/admin/users",
            "/admin/users/1",
            "//admin//users",
            "/%61dmin/users",
            "/admin%2Fusers",
            "/public/../admin/users",
            "/public/%2e%2e/admin",
            "/./admin",
            "\\admin\\users",
            "/admin/../public",
            "/admin/%ff",
        ] {
            assert!(admin.matches(path), "{path}");
        }
        for path in [
            "/",
            "/administration",
            "/public/admin",
            "/Admin/users",
            "/%ff/admin",
            "/public",
        ] {
            assert!(!admin.matches(path), "{path}");
        }
        assert!(pattern("/{tenant}/admin").matches("/acme/admin"));
        assert!(!pattern("/{tenant}/admin").matches("/acme/admin/users"));
        assert!(pattern("/caf%C3%A9").matches("/café"));
        assert!(pattern("/{*rest}").matches("/"));
    }

    #[test]
    fn a_pattern_covers_a_route_always_sometimes_or_never() {
        use Cover::{Always, Never, Sometimes};
        for (pattern_text, template, expected) in [
            ("/admin/{*rest}", "/admin/users", Always),
            ("/admin/{*rest}", "/admin", Always),
            ("/admin/{*rest}", "/admin/users/{id}", Always),
            ("/admin/{*rest}", "/posts/{id}", Never),
            ("/admin/{*rest}", "/{slug}", Sometimes),
            ("/admin/{*rest}", "/{tenant}/users", Sometimes),
            ("/admin/{*rest}", "/{*page}", Sometimes),
            ("/admin/{*rest}", "/%61dmin/x", Always),
            ("/admin", "/admin/users", Never),
            ("/admin/users", "/admin", Never),
            ("/admin", "/admin/{*page}", Sometimes),
            ("/{tenant}/admin", "/acme/admin", Always),
            ("/{tenant}/admin", "/{t}/admin", Always),
            ("/posts/{id}", "/posts/{id}/publish", Never),
            ("/{*rest}", "/", Always),
        ] {
            assert_eq!(
                pattern(pattern_text).covers(template),
                expected,
                "{pattern_text} for route {template}"
            );
        }
    }
}
