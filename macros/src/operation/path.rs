//! `route(..)`: policy keys, and the method and path that replace the default ones of the kind.
//! `#[route]` uses the same code.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::LitStr;

use crate::diagnostics::Diagnostics;
use crate::list::List;
use crate::options::{self, Opt};
use crate::policy::{self, Policy};

/// An HTTP method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

const METHODS: [(&str, Method); 5] = [
    ("GET", Method::Get),
    ("POST", Method::Post),
    ("PUT", Method::Put),
    ("PATCH", Method::Patch),
    ("DELETE", Method::Delete),
];

impl Method {
    /// Returns the name in upper case: `GET`.
    pub(crate) fn as_str(self) -> &'static str {
        METHODS
            .iter()
            .find(|(_, method)| *method == self)
            .map_or("", |(name, _)| name)
    }

    fn parse(text: &LitStr, d: &mut Diagnostics) -> Option<Self> {
        let value = text.value();
        let known = METHODS
            .iter()
            .find(|(name, _)| *name == value)
            .map(|(_, method)| *method);
        if known.is_none() {
            d.error(text, format!("unknown method `{value}`"))
                .suggest(&value, METHODS.iter().map(|(name, _)| *name));
        }
        known
    }
}

/// Writes the function that creates a route with this method.
impl ToTokens for Method {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.extend(match self {
            Self::Get => quote!(__lp::on_get),
            Self::Post => quote!(__lp::on_post),
            Self::Put => quote!(__lp::on_put),
            Self::Patch => quote!(__lp::on_patch),
            Self::Delete => quote!(__lp::on_delete),
        });
    }
}

/// A segment of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment {
    /// Static text, percent-decoded.
    Lit(String),
    /// A parameter. The name of a wildcard starts with `*`.
    Param(String),
}

impl ToTokens for Segment {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.extend(match self {
            Self::Lit(text) => quote!(__lp::seg(#text)),
            Self::Param(name) if name == "id" => quote!(__lp::ID),
            Self::Param(name) => quote!(__lp::param(#name)),
        });
    }
}

/// Returns `/posts/{id}/publish`, for docs. `base` is the path of the entity.
pub(crate) fn path_text(base: &str, segments: &[Segment]) -> String {
    let mut out = format!("/{}", base.trim_matches('/'));
    for segment in segments {
        out.push('/');
        match segment {
            Segment::Lit(text) => out.push_str(text),
            Segment::Param(name) => out.push_str(&format!("{{{name}}}")),
        }
    }
    out
}

/// The method and path that replace the default ones of a route, with their position in the
/// declaration.
#[derive(Debug, Clone, Default)]
pub(crate) struct RouteOverride {
    pub(crate) method: Option<(Method, LitStr)>,
    pub(crate) path: Option<(Vec<Segment>, LitStr)>,
}

impl RouteOverride {
    /// Whether the route keeps its default method and path.
    pub(crate) fn is_empty(&self) -> bool {
        self.method.is_none() && self.path.is_none()
    }

    /// Returns the position of the declared path, or else of the declared method.
    fn at(&self) -> Option<&LitStr> {
        self.path
            .as_ref()
            .map(|(_, text)| text)
            .or(self.method.as_ref().map(|(_, text)| text))
    }

    /// Reports a path that begins with the entity's path: the route is always mounted below it.
    pub(crate) fn refuse_entity_path(&self, base: &str, d: &mut Diagnostics) {
        let Some((_, text)) = &self.path else { return };
        let value = text.value();
        if let Some(rest) = after_entity_path(&value, base) {
            d.error(text, format!("this path is already relative to `/{base}`"))
                .help(format!("`path = \"{rest}\"`"));
        }
    }

    /// Returns the declared method, or the default `own`. A method that is not in `fitting` is
    /// reported.
    pub(crate) fn method(
        &self,
        own: Method,
        fitting: &[Method],
        of: &str,
        d: &mut Diagnostics,
    ) -> Method {
        let Some((method, text)) = &self.method else {
            return own;
        };
        if fitting.contains(method) {
            return *method;
        }
        let names: Vec<String> = fitting
            .iter()
            .map(|method| format!("`{}`", method.as_str()))
            .collect();
        let help = match names.split_last() {
            Some((last, first)) if !first.is_empty() => format!("{} or {last}", first.join(", ")),
            _ => names.concat(),
        };
        d.error(
            text,
            format!("method `{}` is not allowed on {of}", method.as_str()),
        )
        .help(help);
        own
    }

    /// Returns the segments of the declared path, or the default `own`. Each of `parameters` is a
    /// pair: the name in the declared path, and the name in the route. The path must contain all of
    /// them, because a request contains their values only in the path.
    pub(crate) fn path(
        &self,
        own: Vec<Segment>,
        parameters: &[(&str, &str)],
        of: &str,
        d: &mut Diagnostics,
    ) -> Vec<Segment> {
        let Some((segments, text)) = &self.path else {
            return own;
        };
        let known = || crate::diagnostics::list(parameters.iter().map(|(name, _)| name));
        let mut found = Vec::with_capacity(segments.len());
        let mut misspelt = false;
        for segment in segments {
            match segment {
                Segment::Lit(_) => found.push(segment.clone()),
                Segment::Param(name) => match parameters.iter().find(|(known, _)| known == name) {
                    Some((_, wire)) => found.push(Segment::Param((*wire).to_owned())),
                    None => {
                        misspelt = true;
                        let problem = d.error(
                            text,
                            format!("`{{{name}}}` of the path is not a parameter of {of}"),
                        );
                        if parameters.is_empty() {
                            problem.help("static segments only");
                        } else {
                            problem.help(format!("known: {}", known()));
                        }
                    }
                },
            }
        }
        // An unknown parameter may be a misspelt name of a missing one. Then the missing parameter
        // is not reported.
        for (name, wire) in parameters.iter().filter(|_| !misspelt) {
            if !found.contains(&Segment::Param((*wire).to_owned())) {
                d.error(text, format!("the path of {of} lacks `{{{name}}}`"))
                    .help(format!("`path = \"{}\"`", written_path(&own, parameters)));
            }
        }
        found
    }
}

/// Returns the rest of a path that begins with the entity's path. A relative path without a rest is
/// allowed: it may be intended as a segment.
fn after_entity_path<'p>(path: &'p str, base: &str) -> Option<&'p str> {
    let absolute = path.starts_with('/');
    let rest = path.trim_start_matches('/').strip_prefix(base)?;
    (rest.starts_with('/') || (rest.is_empty() && absolute)).then(|| rest.trim_start_matches('/'))
}

/// A route: its method and its segments below the entity.
pub(crate) type Route = (Method, Vec<Segment>);

/// Reports routes of one declaration that have the same method and path. The error points at the
/// declared method or path of one of the two routes. Each item of `routes` contains the name, the
/// declared method and path, and the final method and path.
pub(crate) fn check_distinct<'a>(
    routes: impl Iterator<Item = (String, &'a RouteOverride, &'a Route)>,
    d: &mut Diagnostics,
) {
    let routes: Vec<_> = routes.collect();
    for (at, (name, route_override, route)) in routes.iter().enumerate() {
        if let Some((first, other, _)) = routes[..at]
            .iter()
            .find(|(.., other)| same_route(other, route))
            && let Some(at) = route_override.at().or(other.at())
        {
            d.error(at, format!("`{first}` and `{name}` share a route"))
                .help("set another method or path for one of the routes");
        }
    }
}

fn same_route(one: &Route, other: &Route) -> bool {
    let same_segment = |pair: (&Segment, &Segment)| {
        matches!(pair, (Segment::Param(_), Segment::Param(_))) || pair.0 == pair.1
    };
    one.0 == other.0 && one.1.len() == other.1.len() && one.1.iter().zip(&other.1).all(same_segment)
}

/// Returns a path as written: `{id}/state`.
fn written_path(segments: &[Segment], parameters: &[(&str, &str)]) -> String {
    let written = |segment: &Segment| match segment {
        Segment::Lit(text) => text.clone(),
        Segment::Param(wire) => {
            let name = parameters
                .iter()
                .find(|(_, known)| known == wire)
                .map_or(wire.as_str(), |(name, _)| name);
            format!("{{{name}}}")
        }
    };
    segments.iter().map(written).collect::<Vec<_>>().join("/")
}

/// The contents of `route(..)`.
#[derive(Debug, Default)]
pub(crate) struct RouteArgs {
    pub(crate) policy: Policy,
    pub(crate) route_override: RouteOverride,
    /// The other options. The kind reads or refuses them.
    pub(crate) others: Vec<Opt>,
}

impl RouteArgs {
    pub(crate) fn parse(list: List, d: &mut Diagnostics) -> Self {
        let options = options::parse(list, d);
        options::repeated(&options, &[], d);
        let mut args = Self::default();
        for opt in &options {
            if !args.option(opt, false, d) {
                args.others.push(opt.clone());
            }
        }
        args
    }

    /// Reads `http(..)` of a custom operation: only the method and the path.
    pub(crate) fn parse_http(list: List, d: &mut Diagnostics) -> Self {
        let options = options::parse(list, d);
        options::repeated(&options, &[], d);
        let mut args = Self::default();
        for opt in &options {
            if matches!(opt.name().as_str(), "method" | "path") {
                args.option(opt, false, d);
            } else {
                options::unknown(opt, "http", &["method", "path"], &[], d);
            }
        }
        args
    }

    /// Whether `event` is the only option.
    pub(crate) fn names_events_only(&self) -> bool {
        let mut rest = self.policy.clone();
        rest.event = None;
        self.policy.event.is_some()
            && rest.is_inherit()
            && self.route_override.is_empty()
            && self.others.is_empty()
    }

    /// Reports the options that were not read.
    pub(crate) fn refuse_others(&self, d: &mut Diagnostics) {
        let known: Vec<&str> = policy::KEYS
            .iter()
            .chain(&["method", "path"])
            .copied()
            .collect();
        for opt in &self.others {
            options::unknown(opt, "route", &known, policy::PLANNED_KEYS, d);
        }
    }

    /// Reports the options that were not read, for a route without its own doc comment.
    pub(crate) fn refuse_others_of(&self, of: &str, d: &mut Diagnostics) {
        let known: Vec<&str> = policy::KEYS
            .iter()
            .chain(policy::SINGLE_ROUTE_KEYS)
            .copied()
            .collect();
        for opt in &self.others {
            options::unknown(opt, of, &known, policy::PLANNED_KEYS, d);
        }
    }

    /// Reads one option; `false` if it is not an option of a route. `wildcards` is whether a path
    /// may contain `{*rest}`.
    pub(crate) fn option(&mut self, opt: &Opt, wildcards: bool, d: &mut Diagnostics) -> bool {
        match opt.name().as_str() {
            "method" => {
                self.route_override.method = opt
                    .text("method = \"POST\"", d)
                    .and_then(|text| Method::parse(&text, d).map(|method| (method, text)));
            }
            "path" => {
                self.route_override.path = opt
                    .text("path = \"{id}/state\"", d)
                    .map(|text| (segments(&text, wildcards, d), text));
            }
            _ => return self.policy.option(opt, d),
        }
        true
    }
}

/// Returns the segments of a path: `{id}/state`, `:id/state`. Duplicate slashes collapse.
/// `wildcards` is whether the path may contain `{*rest}`.
pub(crate) fn segments(text: &LitStr, wildcards: bool, d: &mut Diagnostics) -> Vec<Segment> {
    let value = text.value();
    let mut segments: Vec<Segment> = Vec::new();
    let parts: Vec<&str> = value.split('/').filter(|part| !part.is_empty()).collect();
    for (i, part) in parts.iter().enumerate() {
        let name = part.strip_prefix(':').or_else(|| {
            part.strip_prefix('{')
                .and_then(|part| part.strip_suffix('}'))
        });
        let problem = match name {
            Some(name) if name.starts_with('*') && !wildcards => Some(format!(
                "a wildcard `{part}` cannot be bound to a parameter"
            )),
            Some(name) if name.starts_with('*') && i + 1 < parts.len() => {
                Some(format!("the wildcard `{part}` must come last"))
            }
            Some(name) if syn::parse_str::<syn::Ident>(name.trim_start_matches('*')).is_err() => {
                Some(format!("`{part}` needs a valid parameter name"))
            }
            Some(name) if segments.contains(&Segment::Param(name.to_owned())) => {
                Some(format!("`{part}` is in the path twice"))
            }
            Some(name) => {
                segments.push(Segment::Param(name.to_owned()));
                None
            }
            None if part.contains(['{', '}', '?', '#', '\\', '*'])
                || *part == "."
                || *part == ".."
                || part.contains(char::is_whitespace) =>
            {
                Some(format!("`{part}` is not a valid path segment"))
            }
            None => match decode(part) {
                Some(text) => {
                    segments.push(Segment::Lit(text));
                    None
                }
                None => Some(format!("`{part}` is not percent-encoded UTF-8")),
            },
        };
        if let Some(problem) = problem {
            d.error(text, problem)
                .help("segments are static text or `{name}`");
        }
    }
    segments
}

fn decode(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || rest.next().and_then(|b| char::from(b).to_digit(16));
            let (high, low) = (digit()?, digit()?);
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the segments of a path, and the number of errors in it.
    fn read_segments(path: &str) -> (Vec<Segment>, usize) {
        let mut d = Diagnostics::new();
        let segments = segments(
            &syn::LitStr::new(path, proc_macro2::Span::call_site()),
            false,
            &mut d,
        );
        (segments, d.into_texts().len())
    }

    #[test]
    fn a_path_that_begins_with_the_path_of_the_entity_is_detected() {
        for (path, rest) in [
            ("/posts/feed", Some("feed")),
            ("posts/{id}/x", Some("{id}/x")),
            ("/posts", Some("")),
            ("posts", None),
            ("postscript/a", None),
        ] {
            assert_eq!(after_entity_path(path, "posts"), rest, "{path}");
        }
    }

    #[test]
    fn paths_are_split_into_segments() {
        let (lit, param) = (
            |t: &str| Segment::Lit(t.to_owned()),
            |t: &str| Segment::Param(t.to_owned()),
        );
        assert_eq!(
            read_segments("{id}/state"),
            (vec![param("id"), lit("state")], 0)
        );
        assert_eq!(
            read_segments("//:id//a%20b/"),
            (vec![param("id"), lit("a b")], 0)
        );
        assert_eq!(read_segments(""), (vec![], 0));
        for wrong in [
            "{id",
            "a{b}",
            "{*rest}",
            "..",
            "a?b",
            "%zz",
            "{id}/{id}",
            ":",
        ] {
            assert_eq!(read_segments(wrong).1, 1, "{wrong}");
        }
    }
}
