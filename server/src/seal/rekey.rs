//! Encryption of stored values with the newest key: the command `rekey`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::DataKeys;
use crate::resource::BoxFuture;
use crate::{Cx, Error, Result};

/// Stored values that depend on data keys. A plugin registers them with
/// [`Registrar::reseal`](crate::Registrar::reseal), and the command `rekey` encrypts them with the
/// newest key.
///
/// A text field that holds one encrypted value needs no implementation of this trait:
/// [`PostCx::sealed_field`](crate::PostCx::sealed_field) registers it.
///
/// ```
/// use linchpin::seal::Reseal;
/// use linchpin::{BoxFuture, Cx, Result};
///
/// /// Codes of which only a MAC is stored. Another key cannot compute their MACs.
/// struct Codes;
///
/// impl Codes {
///     async fn count(&self, cx: &Cx, kid: &str) -> Result<u64> {
///         // Reads the records whose MAC begins with `v1.<kid>.`.
/// #       let _ = (cx, kid);
///         Ok(0)
///     }
/// }
///
/// impl Reseal for Codes {
///     fn name(&self) -> &str {
///         "codes"
///     }
///     fn reseal<'a>(&'a self, _: &'a Cx, _kid: &'a str) -> BoxFuture<'a, Result<u64>> {
///         Box::pin(async { Ok(0) })
///     }
///     fn needs<'a>(&'a self, cx: &'a Cx, kid: &'a str) -> BoxFuture<'a, Result<bool>> {
///         Box::pin(async move { Ok(self.count(cx, kid).await? > 0) })
///     }
/// }
/// ```
pub trait Reseal: Send + Sync + 'static {
    /// The name of the values in messages, such as `endpoints.secret`.
    fn name(&self) -> &str;

    /// Encrypts the values under the key `kid` with the newest key, and returns their number. It
    /// reads and writes in batches of bounded size, and can be interrupted and run again.
    fn reseal<'a>(&'a self, cx: &'a Cx, kid: &'a str) -> BoxFuture<'a, Result<u64>>;

    /// Whether any value needs the key `kid`.
    fn needs<'a>(&'a self, cx: &'a Cx, kid: &'a str) -> BoxFuture<'a, Result<bool>>;

    /// Returns the id of a key that a value needs and that is not configured. Start-up calls it
    /// after `setup_post` of all plugins, when [`Rekey`] is provided. It must not read all records.
    /// The default finds none.
    fn gone<'a>(&'a self, cx: &'a Cx) -> BoxFuture<'a, Result<Option<String>>> {
        let _ = cx;
        Box::pin(async { Ok(None) })
    }
}

impl std::fmt::Debug for dyn Reseal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reseal({})", self.name())
    }
}

/// The stored values of all plugins that depend on data keys. An app with data keys
/// [provides](crate::Adapters::provided) it once it has started.
///
/// ```
/// # use linchpin::Cx;
/// use linchpin::prelude::*;
/// use linchpin::seal::Rekey;
///
/// async fn rekey(adapters: &Adapters) -> Result<u64> {
///     let rekey = adapters.provided::<Rekey>()?;
///     Ok(rekey.run(&Cx::system("rekey")).await?.rewritten)
/// }
/// ```
#[derive(Debug)]
pub struct Rekey {
    keys: Arc<DataKeys>,
    all: Vec<Box<dyn Reseal>>,
}

/// The result of [`Rekey::run`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resealed {
    /// The number of values that were encrypted again with the newest key.
    pub rewritten: u64,
    /// Former keys that are still needed, by id, with the names of the values that need them.
    pub needed: BTreeMap<String, Vec<String>>,
}

impl Rekey {
    pub(crate) fn new(keys: Arc<DataKeys>, all: Vec<Box<dyn Reseal>>) -> Self {
        Self { keys, all }
    }

    /// The data keys of the app.
    pub fn keys(&self) -> &Arc<DataKeys> {
        &self.keys
    }

    /// Encrypts all values under former keys with the newest key.
    ///
    /// # Errors
    /// If the store fails, or if a value cannot be decrypted. Values that were encrypted before the
    /// error stay encrypted with the newest key.
    pub async fn run(&self, cx: &Cx) -> Result<Resealed> {
        let mut done = Resealed::default();
        for kid in self.keys.kids().skip(1) {
            for values in &self.all {
                done.rewritten += values.reseal(cx, kid).await?;
            }
            let names = self.needed(cx, kid).await?;
            if !names.is_empty() {
                done.needed.insert(kid.to_owned(), names);
            }
        }
        Ok(done)
    }

    /// The names of the values that need the key `kid`.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn needed(&self, cx: &Cx, kid: &str) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for values in &self.all {
            if values.needs(cx, kid).await? {
                names.push(values.name().to_owned());
            }
        }
        Ok(names)
    }

    /// Refuses to start if a value needs a key that is not configured.
    pub(crate) async fn check(&self, cx: &Cx) -> Result<()> {
        for values in &self.all {
            if let Some(kid) = values.gone(cx).await? {
                return Err(Error::internal(format!(
                    "`{}` needs data key `{kid}`, which is not configured: add it after the newest \
                     one, and remove it after `rekey` reports that it is not needed",
                    values.name()
                )));
            }
        }
        Ok(())
    }
}
