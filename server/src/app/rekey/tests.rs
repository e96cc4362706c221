//! Values of every plugin are encrypted with the newest key.

#![cfg(feature = "sqlite")]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::entity::{Field, ListQuery};
use crate::seal::{DataKeys, Place, Reseal, SealedField};
use crate::{App, Config, Package, Plugin, PostCx, Running, Timestamp};
use linchpin_macros::{entity, package};

/// A receiver, with an index on its secret.
#[entity(
    routes(disabled),
    soft_delete(deleted_at),
    index(secret),
    pagination(default = 300, max = 300)
)]
#[derive(Debug)]
pub(crate) struct Endpoint {
    #[field(primary)]
    pub(crate) id: String,
    pub(crate) secret: String,
    pub(crate) deleted_at: Option<Timestamp>,
}

/// A device, without an index on its token.
#[entity(routes(disabled))]
#[derive(Debug)]
pub(crate) struct Device {
    #[field(primary)]
    pub(crate) id: i64,
    pub(crate) token: Option<String>,
}

static SEALED: Package = package!(
    name = "sealed",
    entities = [entity(Endpoint), entity(Device)]
);

/// A plugin with encrypted fields; with `codes`, also with values that always need the key `a`.
struct Sealing {
    codes: bool,
}

struct Codes;

impl Reseal for Codes {
    fn name(&self) -> &'static str {
        "codes"
    }

    fn reseal<'a>(&'a self, _: &'a Cx, _: &'a str) -> BoxFuture<'a, Result<u64>> {
        Box::pin(async { Ok(0) })
    }

    fn needs<'a>(&'a self, _: &'a Cx, kid: &'a str) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move { Ok(kid == "a") })
    }
}

impl Plugin for Sealing {
    fn name(&self) -> &'static str {
        "sealing"
    }

    fn packages(&self) -> &[&'static Package] {
        static PACKAGES: [&Package; 1] = [&SEALED];
        &PACKAGES
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async {
            if self.codes {
                cx.registrar().reseal(Codes);
            }
            cx.sealed_field(endpoint::secret)?;
            cx.sealed_field(device::token)
        })
    }
}

fn config(url: &str, kids: &[&str]) -> Config {
    let keys = kids
        .iter()
        .map(|kid| (*kid, STANDARD.encode([kid.as_bytes()[0]; 32])));
    Config::new()
        .signing_secret("0123456789abcdef0123456789abcdef")
        .port(0)
        .database(url)
        .data_keys(keys)
}

async fn start(url: &str, kids: &[&str]) -> Result<Running> {
    let app = App::new(config(url, kids)).plugin(Sealing { codes: false });
    app.start().await
}

fn keys(app: &Running) -> std::sync::Arc<DataKeys> {
    let rekey = app.adapters().provided::<Rekey>().unwrap();
    std::sync::Arc::clone(rekey.keys())
}

fn file() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("test.db").display());
    (folder, url)
}

fn cx() -> Cx {
    Cx::system("test")
}

async fn put<F: Field<Entity = Endpoint>>(app: &Running, field: F, id: &str) {
    let secret = keys(app).seal(Place::of(field, id), id.as_bytes()).unwrap();
    let new = EndpointCreate {
        id: id.to_owned(),
        secret,
    };
    let endpoints = app.adapters().get::<Endpoint>().unwrap();
    endpoints.create(&cx(), new).await.unwrap();
}

async fn rekeyed(app: &Running) -> String {
    run(app.adapters().clone(), Vec::new()).await.unwrap()
}

#[tokio::test]
async fn every_secret_is_encrypted_again() {
    let (_folder, url) = file();
    let app = start(&url, &["a"]).await.unwrap();
    // More than two batches; some of the records are deleted.
    for n in 0..230 {
        put(&app, endpoint::secret, &format!("e{n}")).await;
    }
    let endpoints = app.adapters().get::<Endpoint>().unwrap();
    for id in ["e7", "e8"] {
        endpoints.delete(&cx(), id, None).await.unwrap();
    }
    let devices = app.adapters().get::<Device>().unwrap();
    for id in 1..=3 {
        let place = Place::of(device::token, "2");
        let token = (id == 2).then(|| keys(&app).seal(place, b"token").unwrap());
        devices
            .create(&cx(), DeviceCreate { id, token })
            .await
            .unwrap();
    }
    app.stop().await.unwrap();

    let app = start(&url, &["b", "a"]).await.unwrap();
    put(&app, endpoint::secret, "new").await;
    let done = rekeyed(&app).await;
    assert_eq!(
        done,
        "231 stored values were encrypted with the newest key\n\
         no former key is needed any more: former data keys can be removed"
    );
    assert!(rekeyed(&app).await.starts_with("0 stored values"));
    app.stop().await.unwrap();

    let app = start(&url, &["b"]).await.unwrap();
    let endpoints = app.adapters().get::<Endpoint>().unwrap();
    let query = ListQuery::new().include_deleted();
    let all = endpoints.list(&cx(), query).await.unwrap().items;
    assert_eq!(all.len(), 231);
    for one in all {
        let opened = keys(&app).open(Place::of(endpoint::secret, &one.id), &one.secret);
        assert_eq!(opened.unwrap().expose(), one.id.as_bytes());
    }
    let devices = app.adapters().get::<Device>().unwrap();
    let token = devices.get(&cx(), 2).await.unwrap().unwrap().token.unwrap();
    let opened = keys(&app).open(Place::of(device::token, "2"), &token);
    assert_eq!(opened.unwrap().expose(), b"token");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_start_without_a_key_that_is_needed_fails() {
    // The missing key sorts before, between or after the other keys in the index.
    for kid in ["a", "a-b", "m", "z"] {
        let (_folder, url) = file();
        let app = start(&url, &[kid]).await.unwrap();
        put(&app, endpoint::secret, "e1").await;
        app.stop().await.unwrap();
        for others in [&["b"][..], &["zz", "a-", "b", "l", "n"]] {
            let error = start(&url, others).await.expect_err("a key is missing");
            let error = error.to_string();
            assert!(
                error.contains(&format!("`endpoints.secret` needs data key `{kid}`"))
                    && !error.contains("v1."),
                "{error}"
            );
        }
        let app = start(&url, &["b", kid]).await.unwrap();
        assert!(rekeyed(&app).await.starts_with("1 stored values"));
        app.stop().await.unwrap();
        start(&url, &["b"]).await.unwrap().stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_value_that_changes_meanwhile_is_kept() {
    let (_folder, url) = file();
    let app = start(&url, &["a"]).await.unwrap();
    put(&app, endpoint::secret, "e1").await;
    app.stop().await.unwrap();
    let app = start(&url, &["b", "a"]).await.unwrap();
    let field = SealedField::new(endpoint::secret, app.adapters(), &keys(&app)).unwrap();
    let stale = field.encrypted_with(&cx(), "a", 1).await.unwrap().remove(0);
    let endpoints = app.adapters().get::<Endpoint>().unwrap();
    let other = keys(&app)
        .seal(Place::of(endpoint::secret, "e1"), b"other")
        .unwrap();
    let patch = EndpointPatch {
        secret: Some(other.clone()),
    };
    endpoints.update(&cx(), "e1", patch, None).await.unwrap();
    assert_eq!(field.rewrite(&cx(), stale).await.unwrap(), 0);
    let kept = endpoints.get(&cx(), "e1").await.unwrap().unwrap().secret;
    assert_eq!(kept, other);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_value_that_cannot_be_decrypted_is_named() {
    let (_folder, url) = file();
    let app = start(&url, &["b", "a"]).await.unwrap();
    let new = EndpointCreate {
        id: "e1".to_owned(),
        secret: "v1.a.AAAAAAAAAAAAAAAA.hush".to_owned(),
    };
    let endpoints = app.adapters().get::<Endpoint>().unwrap();
    endpoints.create(&cx(), new).await.unwrap();
    let error = run(app.adapters().clone(), Vec::new()).await.unwrap_err();
    let debug_text = format!("{error:?}");
    assert!(
        debug_text.contains("`endpoints.secret` of `e1`") && !debug_text.contains("hush"),
        "{debug_text}"
    );
    app.stop().await.unwrap();
}

#[tokio::test]
async fn remaining_uses_of_a_former_key_and_wrong_calls_are_reported() {
    let app = App::new(config("memory:", &["b", "a"])).plugin(Sealing { codes: true });
    let app = app.start().await.unwrap();
    assert_eq!(
        rekeyed(&app).await,
        "0 stored values were encrypted with the newest key\nstill needed: a, by codes"
    );
    let refused = run(app.adapters().clone(), vec!["--all".to_owned()]).await;
    assert!(refused.unwrap_err().message().ends_with("usage: rekey"));
    app.stop().await.unwrap();
    let app = App::new(config("memory:", &[])).start().await.unwrap();
    let refused = run(app.adapters().clone(), Vec::new()).await.unwrap_err();
    assert!(refused.message().contains("LINCHPIN_DATA_KEYS"));
    app.stop().await.unwrap();
}
