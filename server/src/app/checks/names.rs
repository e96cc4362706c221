//! The names in policies: auth checks, roles, guards and middleware that a plugin must register.

use super::{entity_of, startup};
use crate::Result;
use crate::http::{AuthDesc, Endpoint, NamedCheck, PathGuard, Registry, RouteAuth};
use crate::suggest::did_you_mean;

/// Checks that every name in a policy is registered, and that roles have a checker.
pub(in crate::app) fn known_names(
    auth: Option<RouteAuth>,
    registry: &Registry,
    endpoints: &[Endpoint],
    guards: &[PathGuard],
) -> Result<RouteAuth> {
    let mut missing = MissingNames::default();
    let registered = auth.is_some();
    let mut auth = auth.unwrap_or_default();
    for (name, check) in &registry.named {
        if auth.named.insert(name.clone(), check.clone()).is_some() {
            missing
                .twice
                .push(format!("two plugins register `{name}`; keep one"));
        }
    }
    for endpoint in endpoints {
        let (name, entity, at) = (&endpoint.name, entity_of(endpoint), endpoint.at);
        let route = format!("route `{name}` of `{entity}` ({at})");
        match endpoint.policy.auth {
            AuthDesc::Named("userAuth") if !registered => {
                missing.add(
                    &route,
                    "needs auth `userAuth`, but no plugin registers it".to_owned(),
                );
            }
            AuthDesc::Named(wanted) if auth.check(wanted).is_none() => {
                let what = match auth.named.get(wanted) {
                    Some(NamedCheck::Unset(why)) => format!("needs auth `{wanted}`, {why}"),
                    Some(_) => {
                        format!("needs auth `{wanted}`, which is a guard: write it in `guards(..)`")
                    }
                    None => {
                        let checks = auth
                            .named
                            .iter()
                            .filter(|(_, check)| matches!(check, NamedCheck::Actor(_)));
                        let known = checks
                            .map(|(name, _)| name.as_str())
                            .chain(registered.then_some("userAuth"));
                        format!(
                            "needs auth `{wanted}`, but no plugin registers it{}",
                            did_you_mean(wanted, known)
                        )
                    }
                };
                missing.add(&route, what);
            }
            _ if !registered && !endpoint.policy.roles.is_empty() => {
                let roles = endpoint.policy.roles.join(", ");
                missing.add(
                    &route,
                    format!("needs roles {roles}, but no plugin registers a role check"),
                );
            }
            _ => {}
        }
        for what in crate::http::missing(endpoint, &auth, registry) {
            missing.add(&route, what);
        }
    }
    for guard in guards {
        let place = format!("guard of `{}`", guard.pattern());
        if guard.requires_roles() && !registered {
            missing.add(
                &place,
                "needs roles, but no plugin registers a role check".to_owned(),
            );
        }
        for what in guard.missing(&auth, registry) {
            missing.add(&place, what);
        }
    }
    missing
        .message()
        .map_or(Ok(auth), |text| Err(startup(text)))
}

/// The names in policies that are not registered, each with the places that use it.
#[derive(Default)]
struct MissingNames {
    twice: Vec<String>,
    named: Vec<(String, Vec<String>)>,
}

impl MissingNames {
    /// The maximum number of places reported per name.
    const MAX_PLACES: usize = 8;

    fn add(&mut self, place: &str, what: String) {
        match self.named.iter_mut().find(|(other, _)| *other == what) {
            Some((_, places)) if places.iter().any(|other| other == place) => {}
            Some((_, places)) => places.push(place.to_owned()),
            None => self.named.push((what, vec![place.to_owned()])),
        }
    }

    fn message(self) -> Option<String> {
        let mut lines = self.twice;
        // A message that already names a missing plugin needs no further hint.
        let needs_plugin_hint = self
            .named
            .iter()
            .any(|(what, _)| what.contains("but no plugin"));
        lines.extend(self.named.iter().map(|(what, places)| {
            match places.split_at_checked(Self::MAX_PLACES) {
                _ if places.len() == 1 => format!("{} {what}", places[0]),
                Some((first, rest)) if !rest.is_empty() => {
                    format!("{} and {} more: {what}", first.join(", "), rest.len())
                }
                _ => format!("{}: {what}", places.join(", ")),
            }
        }));
        if lines.is_empty() {
            return None;
        }
        if needs_plugin_hint {
            let help = "help: correct the name, or add the plugin that registers it: `linchpin_auth::Auth` for accounts and sessions, \
                        `JwtAuth` for tokens that another server issues; `auth = none` makes a route public";
            lines.push(help.to_owned());
        }
        Some(lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_missing_in_many_routes_is_reported_once() {
        let mut missing = MissingNames::default();
        let role = "needs role `admin`, which no plugin declares".to_owned();
        for n in [1, 2, 2, 3] {
            missing.add(&format!("route `{n}`"), role.clone());
        }
        assert_eq!(
            missing.message().as_deref(),
            Some("route `1`, route `2`, route `3`: needs role `admin`, which no plugin declares")
        );
        let mut missing = MissingNames::default();
        for n in 0..10 {
            missing.add(
                &format!("r{n}"),
                "needs auth `userAuth`, but no plugin registers it".to_owned(),
            );
        }
        missing.add("r0", role.clone());
        let message = missing.message().unwrap_or_default();
        let lines: Vec<&str> = message.lines().collect();
        assert_eq!(
            lines[0],
            "r0, r1, r2, r3, r4, r5, r6, r7 and 2 more: needs auth `userAuth`, but no plugin registers it"
        );
        assert_eq!(lines[1], format!("r0 {role}"));
        assert!(
            lines[2].starts_with("help: ") && lines.len() == 3,
            "{message}"
        );
        assert_eq!(MissingNames::default().message(), None);
    }
}
