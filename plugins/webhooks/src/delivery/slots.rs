//! Limits the share of one tenant in a process. One limit applies to the concurrent attempts, and
//! another one to the endpoints that are served concurrently.
//!
//! A tenant may have many endpoints that answer slowly or not at all. They must not delay the
//! deliveries of other tenants. Endpoints of the app itself have no tenant and no such limit.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The minimum of [`Slots::max_served`]. A process leases up to eight endpoints at once, so a
/// tenant may exceed its share by seven.
const MIN_SERVED: usize = 32;

/// The running attempts and the served endpoints of this process.
pub(crate) struct Slots {
    all: Arc<Semaphore>,
    /// The maximum number of concurrent attempts.
    max_attempts: usize,
    tenants: Mutex<HashMap<String, Tenant>>,
}

/// The running attempts and the served endpoints of a tenant.
struct Tenant {
    attempts: Arc<Semaphore>,
    served: usize,
}

/// The permit for one attempt.
pub(super) struct Slot {
    _of_process: OwnedSemaphorePermit,
    _of_tenant: Option<OwnedSemaphorePermit>,
}

/// An endpoint that is served.
pub(super) struct Served {
    slots: Arc<Slots>,
    tenant: Option<String>,
}

impl Slots {
    /// Creates slots for at most `max_attempts` concurrent attempts. A tenant takes at most half of
    /// them.
    pub(crate) fn new(max_attempts: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(max_attempts)),
            max_attempts,
            tenants: Mutex::default(),
        }
    }

    /// The maximum number of endpoints that are served concurrently.
    pub(super) fn max_served(&self) -> usize {
        self.max_attempts.max(MIN_SERVED)
    }

    fn with_tenant<T>(&self, tenant: &str, read: impl FnOnce(&mut Tenant) -> T) -> T {
        let mut tenants = self.tenants.lock();
        let known = tenants.entry(tenant.to_owned()).or_insert_with(|| Tenant {
            attempts: Arc::new(Semaphore::new(self.max_attempts.div_ceil(2))),
            served: 0,
        });
        read(known)
    }

    fn attempts(&self, tenant: &str) -> Arc<Semaphore> {
        self.with_tenant(tenant, |tenant| Arc::clone(&tenant.attempts))
    }

    /// Takes a slot, if one is free.
    pub(super) fn try_take(&self, tenant: Option<&str>) -> Option<Slot> {
        let of_tenant = match tenant {
            None => None,
            Some(tenant) => Some(self.attempts(tenant).try_acquire_owned().ok()?),
        };
        Some(Slot {
            _of_process: Arc::clone(&self.all).try_acquire_owned().ok()?,
            _of_tenant: of_tenant,
        })
    }

    /// Waits for a slot. Returns `None` only if a semaphore is closed, which does not happen.
    pub(super) async fn take(&self, tenant: Option<&str>) -> Option<Slot> {
        // The permit of the tenant is taken first, so that no slot of the process is held while the
        // tenant waits.
        let of_tenant = match tenant {
            None => None,
            Some(tenant) => Some(self.attempts(tenant).acquire_owned().await.ok()?),
        };
        Some(Slot {
            _of_process: Arc::clone(&self.all).acquire_owned().await.ok()?,
            _of_tenant: of_tenant,
        })
    }

    /// Counts an endpoint as served until the result is dropped.
    pub(super) fn serve(self: &Arc<Self>, tenant: Option<&str>) -> Served {
        if let Some(tenant) = tenant {
            self.with_tenant(tenant, |tenant| tenant.served += 1);
        }
        Served {
            slots: Arc::clone(self),
            tenant: tenant.map(str::to_owned),
        }
    }

    /// The tenants that have reached their share of served endpoints.
    pub(super) fn full(&self) -> Vec<String> {
        let share = self.max_served() / 2;
        let tenants = self.tenants.lock();
        let full = tenants.iter().filter(|(_, tenant)| tenant.served >= share);
        full.map(|(name, _)| name.clone()).collect()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let Some(tenant) = &self.tenant else { return };
        let mut tenants = self.slots.tenants.lock();
        if let Some(known) = tenants.get_mut(tenant) {
            known.served = known.served.saturating_sub(1);
            // Attempts end before the service of their endpoint, so the tenant has no running
            // attempts now.
            if known.served == 0 {
                tenants.remove(tenant);
            }
        }
    }
}
