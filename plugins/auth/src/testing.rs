//! Shared code of unit tests: an app on each store, with a clock that tests advance.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use linchpin::seal::DataKeys;
use linchpin::{App, Config, Package, Running, Timestamp};

use crate::env::{Clock, Env};
use crate::keys::derive::Ring;
use crate::secret::Key;

#[cfg(feature = "postgres")]
#[path = "../../../runtime/tests/support/postgres.rs"]
mod postgres_server;

pub(crate) mod sink;

const SECRET: &str = "only a test: 32 bytes or more of it";

/// A clock that stands still until a test advances it.
#[derive(Clone, Debug)]
pub(crate) struct StandingClock(Arc<AtomicI64>);

impl StandingClock {
    pub(crate) fn advance(&self, by: Duration) {
        self.0
            .fetch_add(i64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for StandingClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// An app with the entities of a test.
pub(crate) struct Bed {
    pub(crate) app: Running,
    pub(crate) clock: StandingClock,
    pub(crate) env: Env,
    pub(crate) ring: Arc<Ring>,
    pub(crate) keys: Arc<DataKeys>,
    _folder: Option<tempfile::TempDir>,
}

impl Bed {
    pub(crate) async fn memory(package: &'static Package) -> Self {
        Self::start(package, "memory:".into(), None).await
    }

    pub(crate) async fn sqlite(package: &'static Package) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("test.db").display());
        Self::start(package, url, Some(folder)).await
    }

    #[cfg(feature = "postgres")]
    pub(crate) async fn postgres(package: &'static Package) -> Self {
        Self::start(package, postgres_server::fresh_url(), None).await
    }

    async fn start(
        package: &'static Package,
        url: String,
        folder: Option<tempfile::TempDir>,
    ) -> Self {
        let start = Timestamp::parse("2026-03-04T05:06:07.008Z").unwrap();
        let clock = StandingClock(Arc::new(AtomicI64::new(start.millis())));
        let env = Env {
            clock: Arc::new(clock.clone()),
            rng: Env::system().rng,
        };
        let app_clock = clock.clone();
        let config = Config::new().signing_secret(SECRET).port(0).database(url);
        let app = App::new(config)
            .package(package)
            .clock(move || app_clock.now())
            .start()
            .await
            .unwrap();
        let ring = Arc::new(Ring::new([SECRET]).unwrap());
        let keys = Arc::new(DataKeys::new([("a".to_owned(), Key::new([7; 32]))]).unwrap());
        Self {
            app,
            clock,
            env,
            ring,
            keys,
            _folder: folder,
        }
    }
}

/// Runs each function as a test on each store. A function has the parameter `&Bed`: an app with the
/// entities of the package.
macro_rules! on_stores {
    ($package:expr => $($name:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(&crate::testing::Bed::memory($package).await).await;
            })*
        }
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(&crate::testing::Bed::sqlite($package).await).await;
            })*
        }
        #[cfg(feature = "postgres")]
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(&crate::testing::Bed::postgres($package).await).await;
            })*
        }
    };
}
pub(crate) use on_stores;
