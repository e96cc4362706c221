//! The share of a process that one tenant may take: of the attempts at the same time, and of the
//! endpoints that are served at the same time.
//!
//! A tenant may have many endpoints that answer slowly or not at all. Deliveries of the others go on
//! beside them. Endpoints of the app itself have no tenant and share nothing.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The fewest endpoints that a process serves at the same time. It leases up to eight at once, so
/// the share of a tenant may be exceeded by seven.
const FEWEST_SERVED: usize = 32;

/// The attempts and endpoints under way in this process.
pub(crate) struct Slots {
    all: Arc<Semaphore>,
    /// The most attempts at the same time.
    most: usize,
    tenants: Mutex<HashMap<String, Tenant>>,
}

/// What a tenant has under way.
struct Tenant {
    attempts: Arc<Semaphore>,
    served: usize,
}

/// The right to make one attempt.
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
    /// So many attempts at the same time. A tenant takes at most half of them.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(most)),
            most,
            tenants: Mutex::default(),
        }
    }

    /// The most endpoints that are served at the same time.
    pub(super) fn most_served(&self) -> usize {
        self.most.max(FEWEST_SERVED)
    }

    fn of<T>(&self, tenant: &str, read: impl FnOnce(&mut Tenant) -> T) -> T {
        let mut tenants = self.tenants.lock();
        let known = tenants.entry(tenant.to_owned()).or_insert_with(|| Tenant {
            attempts: Arc::new(Semaphore::new(self.most.div_ceil(2))),
            served: 0,
        });
        read(known)
    }

    fn attempts(&self, tenant: &str) -> Arc<Semaphore> {
        self.of(tenant, |tenant| Arc::clone(&tenant.attempts))
    }

    /// A slot, if one is free.
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

    /// Waits for a slot. `None` means that the process ends.
    pub(super) async fn take(&self, tenant: Option<&str>) -> Option<Slot> {
        // A slot of the process is not held while the tenant waits for its own.
        let of_tenant = match tenant {
            None => None,
            Some(tenant) => Some(self.attempts(tenant).acquire_owned().await.ok()?),
        };
        Some(Slot {
            _of_process: Arc::clone(&self.all).acquire_owned().await.ok()?,
            _of_tenant: of_tenant,
        })
    }

    /// Notes that an endpoint is served.
    pub(super) fn serve(self: &Arc<Self>, tenant: Option<&str>) -> Served {
        if let Some(tenant) = tenant {
            self.of(tenant, |tenant| tenant.served += 1);
        }
        Served {
            slots: Arc::clone(self),
            tenant: tenant.map(str::to_owned),
        }
    }

    /// The tenants of which no further endpoint is served at present.
    pub(super) fn full(&self) -> Vec<String> {
        let share = self.most_served() / 2;
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
            // Attempts end before the service of their endpoint, so nothing of the tenant is left.
            if known.served == 0 {
                tenants.remove(tenant);
            }
        }
    }
}
