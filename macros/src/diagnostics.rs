//! The errors of a declaration: collected from all phases and reported together.
//!
//! A message says what is wrong; its help says what to write instead. Both point at the smallest
//! token that must change.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;

/// A collector of errors. All phases take it as `&mut Diagnostics`; [`Diagnostics::finish`]
/// consumes it at the end.
#[must_use]
#[derive(Debug)]
pub(crate) struct Diagnostics {
    problems: Vec<Problem>,
    consumed: bool,
}

/// One error; [`Problem::help`] completes it.
#[derive(Debug)]
pub(crate) struct Problem {
    at: TokenStream,
    message: String,
    help: Option<String>,
}

impl Problem {
    /// Adds the text to write instead, with code in backticks.
    pub(crate) fn help(&mut self, help: impl Into<String>) {
        self.help = Some(help.into());
    }

    /// Suggests the candidate that is nearest to `wrong`. If none is near, it lists all candidates,
    /// unless they are many.
    pub(crate) fn suggest<'a>(
        &mut self,
        wrong: &str,
        candidates: impl IntoIterator<Item = &'a str>,
    ) {
        let candidates: Vec<&str> = candidates.into_iter().collect();
        if let Some(nearest) = nearest(wrong, candidates.iter().copied()) {
            self.help(format!("`{nearest}`"));
        } else if (1..=24).contains(&candidates.len()) {
            self.help(format!("known: {}", list(candidates)));
        }
    }

    fn text(&self) -> String {
        match &self.help {
            Some(help) => format!("linchpin: {}\nhelp: {help}", self.message),
            None => format!("linchpin: {}", self.message),
        }
    }
}

impl Diagnostics {
    /// Creates an empty collector.
    pub(crate) fn new() -> Self {
        Self {
            problems: Vec::new(),
            consumed: false,
        }
    }

    /// Reports a problem at the tokens that must change.
    pub(crate) fn error(&mut self, at: &dyn ToTokens, message: impl Into<String>) -> &mut Problem {
        self.push(at.to_token_stream(), message.into())
    }

    /// Reports a problem at a span.
    pub(crate) fn error_at(&mut self, at: Span, message: impl Into<String>) -> &mut Problem {
        // An identifier carries the span. Its name does not appear in the error.
        self.push(
            proc_macro2::Ident::new("_x", at).into_token_stream(),
            message.into(),
        )
    }

    /// Adds an error of syn.
    pub(crate) fn syntax(&mut self, error: &syn::Error) {
        for error in error.clone() {
            self.error_at(error.span(), error.to_string());
        }
    }

    /// Returns the value, or `None` after its error is reported.
    pub(crate) fn take<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.syntax(&error)).ok()
    }

    /// Returns the number of problems so far.
    pub(crate) fn len(&self) -> usize {
        self.problems.len()
    }

    /// Whether no problem has been reported so far.
    pub(crate) fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    /// Returns all problems as `compile_error!` calls; empty if there are none.
    pub(crate) fn finish(mut self) -> TokenStream {
        self.consumed = true;
        let mut seen = std::collections::HashSet::new();
        // One mistake causes one error: the same message at the same token is reported once.
        self.problems
            .iter()
            .filter(|p| {
                seen.insert((
                    p.text(),
                    format!("{:?}", p.at.clone().into_iter().next().map(|t| t.span())),
                ))
            })
            .map(|p| syn::Error::new_spanned(&p.at, p.text()).into_compile_error())
            .collect()
    }

    /// Drops all problems, because another macro reports them: an operation reads the declaration
    /// of its entity, whose own macro reports its errors.
    pub(crate) fn ignore(mut self) {
        self.consumed = true;
    }

    /// Returns the messages, for unit tests.
    #[cfg(test)]
    pub(crate) fn into_texts(mut self) -> Vec<String> {
        self.consumed = true;
        self.problems.iter().map(Problem::text).collect()
    }

    fn push(&mut self, at: TokenStream, message: String) -> &mut Problem {
        // An empty stream has no span of its own; syn then points at the macro's call site.
        self.problems.push(Problem {
            at,
            message,
            help: None,
        });
        let last = self.problems.len() - 1;
        &mut self.problems[last]
    }
}

impl Drop for Diagnostics {
    fn drop(&mut self) {
        // An error that is never reported would let a wrong program compile, so a forgotten
        // collector panics.
        let handled = self.consumed || std::thread::panicking();
        assert!(
            handled,
            "linchpin bug: diagnostics dropped without `finish` or `ignore`: {:?}",
            self.problems
        );
    }
}

/// Returns the candidate nearest to `wrong` by edit distance, if it is near enough; otherwise the
/// only candidate that begins with `wrong` and an underscore (`owner_id` for `owner`).
pub(crate) fn nearest<'a>(
    wrong: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let wrong = wrong.to_lowercase();
    let limit = (wrong.chars().count() / 3).max(1);
    let candidates: Vec<(String, &str)> = candidates
        .into_iter()
        .map(|c| (c.to_lowercase(), c))
        .collect();
    let by_distance = candidates
        .iter()
        .map(|(name, c)| (strsim::damerau_levenshtein(&wrong, name), *c))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, c)| c);
    by_distance.or_else(|| {
        let mut begin = candidates.iter().filter(|(name, _)| {
            name.strip_prefix(&wrong)
                .is_some_and(|rest| rest.starts_with('_'))
        });
        let (_, only) = begin.next()?;
        begin.next().is_none().then_some(*only)
    })
}

/// `` `a`, `b`, `c` ``.
pub(crate) fn list<T: std::fmt::Display>(names: impl IntoIterator<Item = T>) -> String {
    names
        .into_iter()
        .map(|n| format!("`{n}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distant_names_are_not_suggested() {
        let fields = ["title", "slug", "created_at"];
        assert_eq!(nearest("titel", fields), Some("title"));
        assert_eq!(nearest("createdAt", fields), Some("created_at"));
        assert_eq!(nearest("owner", fields), None);
        assert_eq!(nearest("xy", fields), None);
        assert_eq!(nearest("created", fields), Some("created_at"));
        assert_eq!(nearest("owner", ["id", "owner_id"]), Some("owner_id"));
        assert_eq!(nearest("owner", ["owner_id", "owner_name"]), None);
        assert_eq!(nearest("own", ["id", "owner_id"]), None);
    }

    #[test]
    fn messages_carry_prefix_and_help() {
        let mut d = Diagnostics::new();
        d.error_at(Span::call_site(), "unknown field `titel` in index")
            .suggest("titel", ["title", "slug"]);
        d.error_at(Span::call_site(), "another");
        assert_eq!(
            d.into_texts(),
            [
                "linchpin: unknown field `titel` in index\nhelp: `title`",
                "linchpin: another"
            ]
        );
    }

    #[test]
    fn the_same_error_is_reported_once() {
        let mut d = Diagnostics::new();
        d.error_at(Span::call_site(), "twice");
        d.error_at(Span::call_site(), "twice");
        assert_eq!(d.finish().to_string().matches("compile_error").count(), 1);
    }

    #[test]
    #[should_panic(expected = "dropped without `finish` or `ignore`")]
    fn dropping_unreported_errors_panics() {
        let mut d = Diagnostics::new();
        d.error_at(Span::call_site(), "lost");
    }
}
