//! The facts of a store, and how it is opened from a URL.

use std::path::PathBuf;
use std::sync::Arc;

use linchpin_vocabulary::store as vocabulary;

use super::{DatabaseUrl, Store};
use crate::Result;
use crate::suggest::did_you_mean;

/// The facts of a store: its name, the schemes of its URLs, its capabilities.
///
/// They are data, so that start-up, reports and messages can use them before the store is opened.
///
/// ```
/// use linchpin::store::StoreKind;
///
/// static TOY: StoreKind = StoreKind::new("toy", &["toy"], "toy:<name>")
///     .granting(&["core.crud", "core.list", "operation.lookup"])
///     .alone();
/// assert!(TOY.grants("core.crud") && !TOY.grants("transaction"));
/// assert_eq!(TOY.flaw(), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreKind {
    /// The name in `stores(..)` and `handler(..)`: an identifier in lower case, such as `sqlite`.
    pub name: &'static str,
    /// The schemes of its URLs. The first is the usual one.
    pub schemes: &'static [&'static str],
    /// The form of its URLs, for messages: `sqlite:<file>`.
    pub url: &'static str,
    /// The capabilities that it grants, such as `atomic.increment`. The reference of stores lists
    /// all names.
    pub grants: &'static [&'static str],
    /// Whether a transaction is the only writer, so that the records it read cannot change.
    pub alone: bool,
    /// Whether records outlive the process.
    pub durable: bool,
    /// Whether JSON keeps its meaning but not its text: white space and the order of members may
    /// change.
    pub respells_json: bool,
    /// The prefixes of environment variables that its provider reads, such as `LINCHPIN_TOY_`.
    pub variables: &'static [&'static str],
}

impl StoreKind {
    /// A store that grants nothing, has several writers and keeps records across restarts. `url`
    /// shows the form of its URLs.
    #[must_use]
    pub const fn new(
        name: &'static str,
        schemes: &'static [&'static str],
        url: &'static str,
    ) -> Self {
        Self {
            name,
            schemes,
            url,
            grants: &[],
            alone: false,
            durable: true,
            respells_json: false,
            variables: &[],
        }
    }

    /// Grants these capabilities.
    #[must_use]
    pub const fn granting(self, grants: &'static [&'static str]) -> Self {
        Self { grants, ..self }
    }

    /// Sets that a transaction is the only writer.
    #[must_use]
    pub const fn alone(self) -> Self {
        Self {
            alone: true,
            ..self
        }
    }

    /// Sets that records are lost when the process ends.
    #[must_use]
    pub const fn volatile(self) -> Self {
        Self {
            durable: false,
            ..self
        }
    }

    /// Sets that JSON comes back with the same meaning, and perhaps with another text.
    #[must_use]
    pub const fn respelling_json(self) -> Self {
        Self {
            respells_json: true,
            ..self
        }
    }

    /// Reads the environment variables with these prefixes.
    #[must_use]
    pub const fn reading(self, variables: &'static [&'static str]) -> Self {
        Self { variables, ..self }
    }

    /// Whether the store grants a capability.
    pub fn grants(&self, capability: &str) -> bool {
        self.grants.contains(&capability)
    }

    /// Returns the first mistake in the facts: a name that is not an identifier, an invalid or
    /// missing URL scheme, an unknown capability.
    pub fn flaw(&self) -> Option<String> {
        let Self { name, schemes, .. } = self;
        if !is_identifier(name) {
            return Some(format!(
                "the store name `{name}` is not an identifier: use lower-case letters, digits and `_`"
            ));
        }
        if schemes.is_empty() {
            return Some(format!(
                "store `{name}` has no URL scheme: add at least one"
            ));
        }
        if let Some(scheme) = schemes.iter().find(|scheme| !is_scheme(scheme)) {
            return Some(format!(
                "`{scheme}` of store `{name}` is not a URL scheme: use lower-case letters, digits, \
                 `+`, `-` and `.`, beginning with a letter"
            ));
        }
        let unknown = |capability: &&&str| !vocabulary::is_known(capability);
        self.grants.iter().find(unknown).map(|capability| {
            let hint = did_you_mean(capability, vocabulary::CAPABILITIES);
            format!("store `{name}` grants the unknown capability `{capability}`{hint}")
        })
    }
}

fn is_identifier(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_lowercase() || c == '_';
    name.starts_with(letter)
        && name.chars().all(|c| letter(c) || c.is_ascii_digit())
        && name.chars().any(|c| c != '_')
}

pub(super) fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '+' | '-' | '.'))
}

/// Opens a store from a URL. An app registers a provider with `App::store_provider`. Each store of
/// Linchpin has its own provider.
///
/// The provider holds the settings of its store, for example from environment variables: see
/// [`StoreKind::variables`].
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use linchpin::Result;
/// use linchpin::store::memory::Memory;
/// use linchpin::store::{DatabaseUrl, Store, StoreKind, StoreProvider};
///
/// struct Scratch;
///
/// impl StoreProvider for Scratch {
///     fn kind(&self) -> &'static StoreKind {
///         static KIND: StoreKind = StoreKind::new("scratch", &["scratch"], "scratch:").volatile();
///         &KIND
///     }
///
///     fn open(&self, _: &DatabaseUrl) -> Result<Arc<dyn Store>> {
///         Ok(Arc::new(Memory::new()))
///     }
/// }
/// ```
pub trait StoreProvider: Send + Sync + 'static {
    /// The facts of the store.
    fn kind(&self) -> &'static StoreKind;

    /// Checks the form of a URL. It opens nothing.
    ///
    /// # Errors
    /// The error and the fix, such as "needs a file: `sqlite:<file>`". It must not contain a
    /// password.
    fn check(&self, url: &DatabaseUrl) -> Result<(), String> {
        let _ = url;
        Ok(())
    }

    /// Returns the file of the records, if there is one. Start-up refuses a file whose folder does
    /// not exist. In development the signing secret is stored in the same folder.
    fn file(&self, url: &DatabaseUrl) -> Option<PathBuf> {
        let _ = url;
        None
    }

    /// Returns the schema of the database without opening the store, for commands that only read or
    /// change the schema; `None` if the store has no schema, which is the default. The call itself
    /// opens no connection and no file.
    ///
    /// # Errors
    /// The reason, without a password.
    fn schema(&self, url: &DatabaseUrl) -> Result<Option<Arc<dyn crate::schema::SchemaStore>>> {
        let _ = url;
        Ok(None)
    }

    /// Opens the store. It runs in a tokio runtime, once per start, after all checks.
    ///
    /// # Errors
    /// The reason; start-up adds the name of the store and removes the URL and its password.
    fn open(&self, url: &DatabaseUrl) -> Result<Arc<dyn Store>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_invalid_store_kind_is_reported() {
        let kind = |name, schemes, grants| StoreKind::new(name, schemes, "toy:").granting(grants);
        let cases: [(StoreKind, Option<&str>); 9] = [
            (kind("toy", &["toy", "toy+tls"], &["transaction"]), None),
            (kind("toy_2", &["t"], &[]), None),
            (
                kind("my-toy", &["toy"], &[]),
                Some("`my-toy` is not an identifier"),
            ),
            (
                kind("Toy", &["toy"], &[]),
                Some("`Toy` is not an identifier"),
            ),
            (kind("", &["toy"], &[]), Some("`` is not an identifier")),
            (
                kind("2toy", &["toy"], &[]),
                Some("`2toy` is not an identifier"),
            ),
            (kind("toy", &[], &[]), Some("store `toy` has no URL scheme")),
            (
                kind("toy", &["toy:"], &[]),
                Some("`toy:` of store `toy` is not a URL scheme"),
            ),
            (
                kind("toy", &["toy"], &["core.crud", "transactions"]),
                Some("unknown capability `transactions`; did you mean `transaction`?"),
            ),
        ];
        for (kind, wanted) in cases {
            match (kind.flaw(), wanted) {
                (None, None) => {}
                (Some(flaw), Some(wanted)) => assert!(flaw.contains(wanted), "{flaw}"),
                (flaw, _) => panic!("{kind:?}: {flaw:?}"),
            }
        }
    }
}
