//! The plugin that receives webhooks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use linchpin::http::{PluginRoute, RateStore};
use linchpin::{BoxFuture, Error, Package, Plugin, PostCx, Problem, Result, RoutesCx};

use super::entity::RECEIVED;
use super::receive::Receiver;
use super::sink::{CONSUMER, Handler, Received, Sink};
use super::verify::Verifier;

/// Webhooks that other services send to `POST /webhooks/inbound/{provider}`.
///
/// A message is stored before the sender gets `200 {"received":true}`. A message with an id that
/// was received within the last 7 days gets `{"received":true,"duplicate":true}` and is not
/// processed again. Requests need no credential except the signature; cookies are not read.
///
/// The function of a provider gets each message at least once, after the response. If it fails, it
/// is called again after growing pauses, at most 20 times in total. Code can also subscribe to the
/// events: `adapters.events().listen("webhooks.inbound.<provider>")` gets messages within the
/// process that delivers them, and `App::on_event::<InboundMessage, _, _>` keeps its position
/// across restarts.
///
/// ```no_run
/// use linchpin::prelude::*;
/// use linchpin_webhooks::{Inbound, SigningSecret, Verifier};
///
/// # async fn start(secret: SigningSecret) -> linchpin::Result<()> {
/// let verifier = Verifier::StandardWebhooks { secrets: vec![secret] };
/// App::new(Config::from_env()?)
///     .plugin(Inbound::new().handled("billing", verifier, |message| async move {
///         println!("{} bytes from {}", message.body.len(), message.provider);
///         Ok(())
///     }))
///     .run()
///     .await
/// # }
/// ```
///
/// | Response | Reason |
/// |---|---|
/// | 400 `invalid_signature` | the signature is missing, wrong or stale |
/// | 404 `not_found` | no provider has this name |
/// | 413 `body_too_large` | the body is longer than 1 MiB |
/// | 429 `rate_limited` | more than 100 requests of one address to one provider in 60 s |
/// | 503 `unavailable` | the message cannot be stored; the sender tries again |
#[derive(Default)]
pub struct Inbound {
    providers: Vec<(String, Verifier, Option<Handler>)>,
    rates: Arc<OnceLock<Arc<dyn RateStore>>>,
}

impl fmt::Debug for Inbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.providers.iter().map(|(name, ..)| name);
        f.debug_struct("Inbound")
            .field("providers", &names.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Inbound {
    /// Creates the plugin without providers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a provider. Names have 1 to 64 of the characters `a-z`, `0-9`, `-` and `_`. Two
    /// providers with the same name are a start-up error.
    #[must_use]
    pub fn provider(mut self, name: impl Into<String>, verifier: Verifier) -> Self {
        self.providers.push((name.into(), verifier, None));
        self
    }

    /// Adds a provider with a function that is called with each message.
    #[must_use]
    pub fn handled<F, Fut>(mut self, name: impl Into<String>, verifier: Verifier, run: F) -> Self
    where
        F: Fn(Received) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        let handler: Handler = Arc::new(move |received| Box::pin(run(received)));
        self.providers.push((name.into(), verifier, Some(handler)));
        self
    }

    /// Checks all providers.
    fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut seen = BTreeMap::new();
        for (name, verifier, _) in &self.providers {
            let path = format!("webhooks.inbound.{name}");
            let usable = |byte: u8| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte)
            };
            if !(1..=64).contains(&name.len()) || !name.bytes().all(usable) {
                let text =
                    "the name of a provider must have 1 to 64 characters: a-z, 0-9, `-` and `_`";
                problems.push(Problem::new(&*path, "format", text));
            }
            if verifier.lacks_secret() {
                let text = "the provider has no secret, or an empty one; add a secret";
                problems.push(Problem::new(&*path, "required", text));
            }
            let count = seen.entry(name).or_insert(0);
            *count += 1;
            if *count == 2 {
                let text = "two providers have this name; rename one of them";
                problems.push(Problem::new(path, "duplicate", text));
            }
        }
        problems
    }
}

impl Plugin for Inbound {
    fn name(&self) -> &'static str {
        "webhooks-inbound"
    }

    fn packages(&self) -> &[&'static Package] {
        static PACKAGES: [&Package; 1] = [&RECEIVED];
        &PACKAGES
    }

    fn routes(&self) -> Vec<PluginRoute> {
        let verifiers = self.providers.iter();
        let receiver = Receiver {
            providers: verifiers
                .map(|(name, verifier, _)| (name.clone(), verifier.clone()))
                .collect(),
            rates: Arc::clone(&self.rates),
        };
        vec![receiver.route()]
    }

    fn setup_routes<'a>(&'a self, _: &'a mut RoutesCx) -> BoxFuture<'a, Result<()>> {
        let problems = self.problems();
        Box::pin(async {
            if problems.is_empty() {
                Ok(())
            } else {
                Err(Error::validation(problems))
            }
        })
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async {
            self.rates
                .set(Arc::clone(cx.rate_store()))
                .map_err(|_| Error::internal("the plugin was set up twice"))?;
            let handlers = self.providers.iter().filter_map(|(name, _, handler)| {
                handler.clone().map(|handler| (name.clone(), handler))
            });
            let sink = Sink {
                handlers: handlers.collect(),
                adapters: cx.adapters().clone(),
            };
            cx.registrar().event_sink(CONSUMER, sink);
            Ok(())
        })
    }
}
