//! Compiles and tests the snippet of `docs/guide.md` about a plugin that reads a value from a
//! request.

use linchpin::axum::extract::Request;
use linchpin::axum::http::HeaderValue;
use linchpin::axum::middleware::{Next, from_fn};
use linchpin::axum::response::Response;
use linchpin::prelude::*;
use linchpin::testing::Client;
use linchpin::{BoxFuture, MiddlewareCx, Plugin};

linchpin::context! {
    /// The language that the caller reads.
    pub locale: String;
}

/// A sentence in one language.
#[entity(index(locale), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Phrase {
    #[field(primary)]
    pub id: String,
    pub locale: String,
    pub text: String,
}

/// `GET /phrases/mine`: the phrases in the language of the caller.
#[operation(kind = "lookup", fields(locale = ctx(locale)), returns = "many")]
pub const MINE: Operation<Phrase>;

/// Provides the language that the browser requests.
struct Languages;

impl Plugin for Languages {
    fn name(&self) -> &str {
        "languages"
    }

    fn setup_middleware<'a>(&'a self, cx: &'a mut MiddlewareCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async {
            cx.layer(from_fn(described));
            cx.provide(locale, |call| {
                let asked = call
                    .parts
                    .headers
                    .get("accept-language")
                    .and_then(|value| value.to_str().ok());
                Ok(asked.map(|text| text.chars().take(2).collect()))
            })
        })
    }
}

/// Sets `vary`, so that caches keep one response per language.
async fn described(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    response
        .headers_mut()
        .insert("vary", HeaderValue::from_static("accept-language"));
    response
}

static PHRASES: Package = package!(name = "phrases", entities = [entity(Phrase, [MINE])]);

#[tokio::test]
async fn each_caller_reads_records_in_its_own_language() {
    let config = Config::new()
        .port(0)
        .database("memory:")
        .signing_secret("only a test: 32 bytes or more of it");
    let app = App::new(config)
        .package(&PHRASES)
        .plugin(Languages)
        .start()
        .await
        .expect("the app starts");
    let phrases = app.adapter::<Phrase>().expect("the adapter");
    for (id, text) in [("de", "Guten Tag"), ("en", "Good day")] {
        let phrase = PhraseCreate {
            id: id.to_owned(),
            locale: id.to_owned(),
            text: text.to_owned(),
        };
        phrases
            .create(&Cx::system("seed"), phrase)
            .await
            .expect("created");
    }
    let german = Client::new(&app)
        .with_header("accept-language", "de-AT")
        .expect("a header");
    let answer = german.get("/phrases/mine").await.expect("answered");
    assert_eq!(
        answer.json().expect("a page")["items"][0]["text"],
        "Guten Tag"
    );
    assert_eq!(answer.header("vary"), Some("accept-language"));
    // An anonymous caller without a language is refused.
    assert_eq!(
        Client::new(&app)
            .get("/phrases/mine")
            .await
            .expect("answered")
            .status(),
        401
    );
    assert_eq!(Phrase::DESC.name, "Phrase");
    app.stop().await.expect("it stops");
}
