//! Actions between two steps of a call: a store that pauses a call at a statement while the test
//! does something else, or that fails a statement.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use linchpin::store::{Plan, Reply as Answer, Rows, Statement, Transaction};
use linchpin::{BoxFuture, Error, Value};
use linchpin_auth::Auth;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::around::{Around, Watch};
use crate::server::{Server, Store};

/// A statement of a call: the `nth` one on records of an `entity`, counted from the start of the
/// watch.
#[derive(Clone, Copy)]
pub struct At {
    pub entity: &'static str,
    /// Whether only inserts count; otherwise every statement counts.
    pub insert: bool,
    pub nth: usize,
}

impl At {
    pub fn any(entity: &'static str, nth: usize) -> Self {
        Self {
            entity,
            insert: false,
            nth,
        }
    }

    pub fn insert(entity: &'static str, nth: usize) -> Self {
        Self {
            entity,
            insert: true,
            nth,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Wait,
    Fail,
}

/// The store that pauses calls.
#[derive(Default)]
pub struct PausingStore {
    at: Mutex<Option<(At, Then)>>,
    paused: Notify,
    resume: Notify,
}

impl PausingStore {
    /// An app on such a store.
    pub async fn app(store: &Store, change: impl FnOnce(Auth) -> Auth) -> (Server, Arc<Self>) {
        let between = Arc::<Self>::default();
        (
            store
                .on(Around::new(store.opened(), Arc::clone(&between)), change)
                .await,
            between,
        )
    }

    /// Pauses a call before one of its statements and runs `other` meanwhile. The call continues
    /// when `other` ends, or when `other` waits for the call.
    pub async fn meanwhile<T>(
        &self,
        at: At,
        call: impl Future<Output = T>,
        other: impl Future<Output = ()>,
    ) -> T {
        *self.at.lock().unwrap() = Some((at, Then::Wait));
        let between = async {
            timeout(Duration::from_mins(1), self.paused.notified())
                .await
                .expect("the call never ran this statement");
            let mut other = pin!(other);
            let done = timeout(Duration::from_millis(700), &mut other)
                .await
                .is_ok();
            self.resume.notify_one();
            if !done {
                other.await;
            }
        };
        futures_util::future::join(call, between).await.0
    }

    /// Makes a later statement fail.
    pub fn fail(&self, at: At) {
        *self.at.lock().unwrap() = Some((at, Then::Fail));
    }

    /// Whether that statement has failed.
    pub fn has_failed(&self) -> bool {
        self.at.lock().unwrap().is_none()
    }

    /// The action for a statement, if it is the expected one.
    fn reached(&self, statement: &Statement) -> Option<Then> {
        let mut at = self.at.lock().unwrap();
        let (awaited, then) = at.as_mut()?;
        // Only background jobs read due records in an order; their statements are not counted.
        let is_job = matches!(&statement.plan, Plan::Select { order, .. } if !order.is_empty());
        let matches = statement.entity.name == awaited.entity
            && (!awaited.insert || matches!(&statement.plan, Plan::Insert));
        if is_job || !matches {
            return None;
        }
        awaited.nth -= 1;
        let then = *then;
        if awaited.nth > 0 {
            return None;
        }
        *at = None;
        Some(then)
    }

    async fn pass(&self, then: Option<Then>) -> linchpin::Result<()> {
        match then {
            Some(Then::Wait) => {
                self.paused.notify_one();
                self.resume.notified().await;
                Ok(())
            }
            Some(Then::Fail) => Err(Error::unavailable("the test makes this statement fail")),
            None => Ok(()),
        }
    }
}

impl Watch for Arc<PausingStore> {
    fn run<'a>(
        &'a self,
        store: &'a dyn linchpin::store::Store,
        to: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Answer<'a> {
        match self.reached(to) {
            None => store.run(to, args, rows),
            then => Answer::Later(Box::pin(async move {
                self.pass(then).await?;
                store.run(to, args, rows).await
            })),
        }
    }

    fn wrap_transaction(&self, inner: Box<dyn Transaction>) -> Box<dyn Transaction> {
        Box::new(Within {
            inner,
            between: Arc::clone(self),
        })
    }
}

/// A transaction of such a store.
struct Within {
    inner: Box<dyn Transaction>,
    between: Arc<PausingStore>,
}

impl Transaction for Within {
    fn run<'a>(
        &'a mut self,
        to: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> BoxFuture<'a, linchpin::Result<Rows>> {
        Box::pin(async move {
            let then = self.between.reached(to);
            self.between.pass(then).await?;
            self.inner.run(to, args, rows).await
        })
    }

    fn take_advisory_lock(&mut self, key: i64) -> BoxFuture<'_, linchpin::Result<()>> {
        self.inner.take_advisory_lock(key)
    }

    fn commit(self: Box<Self>) -> BoxFuture<'static, linchpin::Result<()>> {
        self.inner.commit()
    }

    fn rollback(self: Box<Self>) -> BoxFuture<'static, ()> {
        self.inner.rollback()
    }
}
