//! The stores that an app can open: those of this build, and those that the app adds.

use std::sync::Arc;

use super::checks::startup;
use super::config::Config;
use crate::Result;
use crate::store::{DatabaseUrl, Store, StoreKind, StoreProvider};
use crate::suggest::did_you_mean;
use linchpin_core::{causes, one_of};

/// URL schemes of stores that need a feature, and the message of an app without that feature.
const FEATURES: &[(&[&str], &str)] = &[
    #[cfg(not(feature = "sqlite"))]
    (
        &["sqlite"],
        "this build has no `sqlite` feature; enable it in Cargo.toml, or set the database URL to `memory:`",
    ),
    #[cfg(not(feature = "postgres"))]
    (
        &["postgres", "postgresql"],
        "this build has no `postgres` feature; enable it in Cargo.toml",
    ),
];

/// The providers of an app, those of this build first.
pub(super) struct Stores<'a> {
    built_in: Vec<Box<dyn StoreProvider>>,
    own: &'a [Box<dyn StoreProvider>],
}

impl<'a> Stores<'a> {
    /// The stores of this build with the settings of a configuration, and the app's own.
    pub(super) fn new(config: &Config, own: &'a [Box<dyn StoreProvider>]) -> Self {
        Self {
            built_in: config.providers(),
            own,
        }
    }

    fn all(&self) -> impl Iterator<Item = &dyn StoreProvider> {
        self.built_in
            .iter()
            .chain(self.own)
            .map(|provider| &**provider)
    }

    /// The facts of every store.
    pub(super) fn kinds(&self) -> Vec<&'static StoreKind> {
        self.all().map(StoreProvider::kind).collect()
    }

    /// The provider of a URL's scheme.
    pub(super) fn find(&self, url: &DatabaseUrl) -> Option<&dyn StoreProvider> {
        let scheme = url.scheme()?;
        self.all()
            .find(|provider| provider.kind().schemes.contains(&scheme))
    }

    /// Refuses invalid facts, and two stores with the same name or scheme.
    ///
    /// # Errors
    /// A start-up error with one line for each.
    pub(super) fn check(&self) -> Result<()> {
        let kinds = self.kinds();
        let mut problems: Vec<String> = kinds.iter().filter_map(|kind| kind.flaw()).collect();
        for (at, kind) in kinds.iter().enumerate() {
            for other in &kinds[..at] {
                let name = kind.name;
                if other.name == name {
                    problems.push(format!(
                        "two stores are named `{name}`: register only one of them"
                    ));
                } else if let Some(scheme) =
                    kind.schemes.iter().find(|s| other.schemes.contains(*s))
                {
                    problems.push(format!(
                        "stores `{}` and `{name}` both take URLs that begin with `{scheme}:`: \
                         register only one of them",
                        other.name
                    ));
                }
            }
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(startup(problems.join("\n")))
        }
    }

    /// The mistake in a URL, without its secrets.
    pub(super) fn flaw(&self, url: &DatabaseUrl) -> Option<String> {
        if let Some(provider) = self.find(url) {
            return provider.check(url).err().map(|flaw| url.redact(&flaw));
        }
        if feature_of(url).is_some() {
            return None;
        }
        let forms: Vec<String> = self
            .kinds()
            .iter()
            .map(|k| format!("`{}`", k.url))
            .collect();
        let found = match url.scheme() {
            Some(scheme) => {
                let known = self
                    .kinds()
                    .into_iter()
                    .flat_map(|kind| kind.schemes.iter().copied());
                format!("found `{scheme}`{}", did_you_mean(scheme, known))
            }
            None => "found no scheme".to_owned(),
        };
        Some(format!("must be {}, {found}", one_of(&forms)))
    }

    /// The facts of the store for a URL.
    ///
    /// # Errors
    /// If this build lacks it.
    pub(super) fn kind(&self, url: &DatabaseUrl) -> Result<&'static StoreKind> {
        self.provider(url).map(StoreProvider::kind)
    }

    fn provider(&self, url: &DatabaseUrl) -> Result<&dyn StoreProvider> {
        self.find(url).ok_or_else(|| {
            startup(feature_of(url).unwrap_or("no registered store can open the database URL"))
        })
    }

    /// Opens the store for a URL.
    ///
    /// # Errors
    /// If this build lacks the store, or if the store cannot be opened. The message contains no
    /// secret of the URL.
    pub(super) fn open(&self, url: &DatabaseUrl) -> Result<Arc<dyn Store>> {
        let provider = self.provider(url)?;
        provider.open(url).map_err(|error| {
            let mut why: Vec<String> = causes(&error).map(ToString::to_string).collect();
            if why.is_empty() {
                why.push(error.message().to_owned());
            }
            let (name, why) = (provider.kind().name, url.redact(&why.join(": ")));
            startup(format!("cannot open the store `{name}`: {why}"))
        })
    }
}

/// The message for a scheme whose feature is not enabled.
fn feature_of(url: &DatabaseUrl) -> Option<&'static str> {
    let scheme = url.scheme()?;
    FEATURES
        .iter()
        .find(|(schemes, _)| schemes.contains(&scheme))
        .map(|(_, text)| *text)
}
