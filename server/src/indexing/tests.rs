//! The command that rebuilds an index.

use std::collections::BTreeSet;
use std::sync::Arc;

use linchpin_macros::{entity, package};
use parking_lot::Mutex;

use crate::resource::BoxFuture;
use crate::search::{Change, Hit, Opened, SearchIndex, SearchProvider, SearchQuery};
use crate::{App, Config, Cx, Package, Result};

#[entity(search(provider = "ids", fields(title = 1)), routes(auth = none))]
#[derive(Clone, Debug)]
struct Leaflet {
    #[field(primary)]
    id: String,
    title: String,
}

static PAGES: Package = package!(name = "pages", entities = [entity(Leaflet, [])]);

/// Stores ids, and counts the rebuilds.
#[derive(Clone, Default)]
struct Ids(Arc<Mutex<(BTreeSet<String>, usize)>>);

impl SearchProvider for Ids {
    fn open<'a>(&'a self, _: &'a SearchIndex) -> BoxFuture<'a, Result<Opened>> {
        let complete = self.0.lock().1 > 0;
        Box::pin(async move {
            Ok(Opened {
                complete,
                ..Opened::default()
            })
        })
    }

    fn apply<'a>(&'a self, _: &'a SearchIndex, changes: Vec<Change>) -> BoxFuture<'a, Result<()>> {
        for change in changes {
            let mut state = self.0.lock();
            let _ = match change {
                Change::Put(document) => state.0.insert(document.id),
                Change::Remove(id) => state.0.remove(&id),
            };
        }
        Box::pin(async { Ok(()) })
    }

    fn begin<'a>(&'a self, _: &'a SearchIndex) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn finish<'a>(&'a self, _: &'a SearchIndex) -> BoxFuture<'a, Result<()>> {
        self.0.lock().1 += 1;
        Box::pin(async { Ok(()) })
    }

    fn query<'a>(
        &'a self,
        _: &'a SearchIndex,
        _: &'a SearchQuery<'a>,
    ) -> BoxFuture<'a, Result<Vec<Hit>>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reindex_command_rebuilds_indexes() {
    let folder = tempfile::tempdir().expect("a folder");
    let ids = Ids::default();
    let counts = || {
        let state = ids.0.lock();
        (state.0.len(), state.1)
    };
    let app = || {
        let database = format!("sqlite:{}", folder.path().join("test.db").display());
        let config = Config::new()
            .signing_secret("a-secret-of-the-search-tests-32-b")
            .port(0)
            .database(database);
        App::new(config)
            .package(&PAGES)
            .search_provider("ids", ids.clone())
    };
    let running = app().start().await.expect("a start");
    let pages = running.adapter::<Leaflet>().expect("an adapter");
    for id in ["a", "b", "c"] {
        pages
            .create(
                &Cx::system("a test"),
                LeafletCreate {
                    id: id.to_owned(),
                    title: id.to_owned(),
                },
            )
            .await
            .expect("a record");
    }
    running.stop().await.expect("a stop");
    assert_eq!(
        counts(),
        (3, 1),
        "built at the first start, and updated afterwards"
    );
    ids.0.lock().0.clear();

    let run = async |args: &[&str]| {
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        app()
            .search(&args)
            .await
            .map_err(|error| error.message().to_owned())
    };
    assert_eq!(
        run(&["rebuild", "Leaflet"]).await.as_deref(),
        Ok("Leaflet: 3 records indexed")
    );
    assert_eq!(counts(), (3, 2));
    assert_eq!(
        run(&["rebuild", "leaflets"]).await.as_deref(),
        Ok("Leaflet: 3 records indexed"),
        "the command also accepts the name of the table"
    );
    let refused = async |args: &[&str]| run(args).await.expect_err("refused");
    assert_eq!(
        refused(&["rebuild", "Laeflet"]).await,
        "no entity `Laeflet` has a search index; did you mean `Leaflet`?"
    );
    for args in [&[][..], &["rebuild"], &["find", "Leaflet"]] {
        assert!(refused(args).await.contains("search rebuild <entity>"));
    }
}
