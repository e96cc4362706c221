//! The counters of the endpoints of a node.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::connection::{Meter, Reading};

/// The counters of each endpoint of this node, for metrics. None of them is per room or user.
///
/// ```
/// use linchpin::Adapters;
/// use linchpin_realtime::Counts;
///
/// fn open_connections(adapters: &Adapters) -> linchpin::Result<u64> {
///     let counts = adapters.provided::<Counts>()?.read();
///     Ok(counts.values().map(|endpoint| endpoint.connections).sum())
/// }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Counts(Arc<HashMap<String, Arc<Meter>>>);

impl Counts {
    pub(super) fn new(paths: impl IntoIterator<Item = String>) -> Self {
        let meters = paths.into_iter().map(|path| (path, Arc::default()));
        Self(Arc::new(meters.collect()))
    }

    /// Returns the current values of the counters, by the path of the endpoint.
    pub fn read(&self) -> BTreeMap<String, Reading> {
        let meters = self.0.iter();
        meters
            .map(|(path, meter)| (path.clone(), meter.read()))
            .collect()
    }

    /// Returns the meter of an endpoint.
    pub(crate) fn of(&self, path: &str) -> Arc<Meter> {
        self.0.get(path).cloned().unwrap_or_default()
    }
}
