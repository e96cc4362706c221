//! Stores of other crates: which provider a URL selects, and which registrations are refused.

use std::sync::Arc;

use linchpin::store::memory::Memory;
use linchpin::store::{DatabaseUrl, Store, StoreKind, StoreProvider};
use linchpin::{App, Config, Error, Result};

use crate::fixture::{KEY, refused};

/// A provider that opens a memory store, or fails with its own text.
struct Provider(&'static StoreKind, Option<&'static str>);

impl StoreProvider for Provider {
    fn kind(&self) -> &'static StoreKind {
        self.0
    }

    fn check(&self, url: &DatabaseUrl) -> Result<(), String> {
        if url.rest().contains("crooked") {
            Err(format!("must be straight, not {}", url.expose()))
        } else {
            Ok(())
        }
    }

    fn open(&self, url: &DatabaseUrl) -> Result<Arc<dyn Store>> {
        match self.1 {
            None => Ok(Arc::new(Memory::new())),
            Some(why) => Err(Error::unavailable(format!("{why} {}", url.expose()))),
        }
    }
}

static TOY: StoreKind =
    StoreKind::new("toy", &["toy", "toys"], "toy:<name>").reading(&["LINCHPIN_TOY_"]);

fn config(url: &str) -> Config {
    Config::new().port(0).signing_secret(KEY).database(url)
}

async fn text(url: &str, providers: Vec<Provider>) -> String {
    let app = providers
        .into_iter()
        .fold(App::new(config(url)), App::store_provider);
    refused(app.start().await)
}

#[tokio::test]
async fn the_scheme_of_the_url_selects_the_provider() {
    for url in ["toy:box", "toys://box"] {
        let variables = [
            ("LINCHPIN_DATABASE_URL", url),
            ("LINCHPIN_TOY_COLOUR", "red"),
            ("LINCHPIN_SIGNING_SECRET", KEY),
            ("LINCHPIN_PORT", "0"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let app =
            App::new(Config::from_vars(variables).unwrap()).store_provider(Provider(&TOY, None));
        app.start().await.unwrap().stop().await.unwrap();
    }
}

#[tokio::test]
async fn an_unknown_scheme_lists_the_stores_of_the_app() {
    for (url, found) in [
        ("mysql://me:hush@host/db", "found `mysql`"),
        ("toi:box", "found `toi`; did you mean `toy`?"),
        ("app.db", "found no scheme"),
        ("hush@host/db", "found no scheme"),
        (":memory:", "found no scheme"),
        ("", "found no scheme"),
    ] {
        let text = text(url, vec![Provider(&TOY, None)]).await;
        let expected = [
            "stores.default: must be `memory:`, ",
            "`toy:<name>`, ",
            found,
        ];
        assert!(expected.iter().all(|part| text.contains(part)), "{text}");
        assert!(
            text.contains("or `toy:<name>`") && !text.contains("hush"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn two_stores_with_one_name_or_one_scheme_are_refused() {
    static NAMED: StoreKind = StoreKind::new("memory", &["mine"], "mine:");
    static SCHEME: StoreKind = StoreKind::new("mine", &["mine", "memory"], "mine:");
    static TWICE: StoreKind = StoreKind::new("toy", &["other"], "other:");
    assert_eq!(
        text("memory:", vec![Provider(&NAMED, None)]).await,
        "two stores are named `memory`: register only one of them"
    );
    assert_eq!(
        text("memory:", vec![Provider(&SCHEME, None)]).await,
        "stores `memory` and `mine` both take URLs that begin with `memory:`: register only one of them"
    );
    assert_eq!(
        text(
            "memory:",
            vec![Provider(&TOY, None), Provider(&TWICE, None)]
        )
        .await,
        "two stores are named `toy`: register only one of them"
    );
}

#[tokio::test]
async fn invalid_store_kinds_are_refused() {
    static DASHED: StoreKind = StoreKind::new("my-toy", &["toy"], "toy:");
    static MISSPELT: StoreKind =
        StoreKind::new("toy", &["toy"], "toy:").granting(&["core.crud", "transactions"]);
    let dashed = text("memory:", vec![Provider(&DASHED, None)]).await;
    assert!(
        dashed.starts_with("the store name `my-toy` is not an identifier"),
        "{dashed}"
    );
    let misspelt = text("memory:", vec![Provider(&MISSPELT, None)]).await;
    assert!(
        misspelt.contains("unknown capability `transactions`"),
        "{misspelt}"
    );
}

#[tokio::test]
async fn a_store_that_does_not_open_is_named_and_its_password_is_not() {
    let fails = Provider(&TOY, Some("the box is shut:"));
    assert_eq!(
        text("toy://me:hush@box/a?token=sesame", vec![fails]).await,
        "cannot open the store `toy`: the box is shut: toy:.."
    );
    let crooked = text("toy://me:hush@crooked", vec![Provider(&TOY, None)]).await;
    assert!(
        crooked.contains("stores.default: must be straight, not toy:.."),
        "{crooked}"
    );
    assert!(!crooked.contains("hush"), "{crooked}");
}
