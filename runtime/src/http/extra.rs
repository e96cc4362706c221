//! Extra routes: functions of the user mounted below an entity, under its policy.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};

use super::PolicyDesc;
use crate::entity::{Entity, SourceLine};
use crate::operation::RouteSpec;
use crate::{Code, Error, Problem};

/// What a mounted function looks like to the dispatcher: policy has been applied, the [`Cx`](crate::Cx), the app's
/// [`Adapters`](crate::Adapters) and path parameters are in the request's extensions.
pub type ExtraHandler = fn(Request<Body>) -> ResponseFuture;

/// The answer of an [`ExtraHandler`].
pub type ResponseFuture = Pin<Box<dyn Future<Output = Response> + Send>>;

/// An extra route as declared with `#[route]`.
#[derive(Debug, Clone, Copy)]
pub struct ExtraRouteSpec {
    /// The function's name.
    pub name: &'static str,
    /// Method and path below the entity.
    pub route: RouteSpec,
    /// Its part of the policy, merged over `routes.defaults`.
    pub policy: PolicyDesc,
    /// The function, as an axum handler.
    pub handler: ExtraHandler,
    /// The doc comment.
    pub doc: &'static str,
    /// Where it is declared.
    pub at: SourceLine,
}

/// An extra route of `E`: what `#[route]` makes of a function.
pub struct ExtraRoute<E> {
    spec: ExtraRouteSpec,
    entity: PhantomData<fn() -> E>,
}

impl<E: Entity> ExtraRoute<E> {
    /// Wraps what the macro wrote.
    #[doc(hidden)]
    pub const fn new(spec: ExtraRouteSpec) -> Self {
        Self { spec, entity: PhantomData }
    }

    /// The declaration, as data.
    pub const fn spec(&self) -> ExtraRouteSpec {
        self.spec
    }
}

/// Marks the answer of a user's function; one without it is what an extractor refused the request with.
#[derive(Clone)]
struct Answered;

/// The answer of a function, marked as its own; for expansions of `#[route]`.
#[doc(hidden)]
pub fn answered(answer: impl IntoResponse) -> Response {
    let mut response = answer.into_response();
    response.extensions_mut().insert(Answered);
    response
}

/// Runs a function with any of axum's extractors as arguments; for expansions of `#[route]`.
#[doc(hidden)]
pub fn call_handler<H, T>(handler: H, request: Request<Body>) -> ResponseFuture
where
    H: axum::handler::Handler<T, ()>,
    T: 'static,
{
    Box::pin(async move {
        let mut response = handler.call(request, ()).await;
        let own = response.extensions_mut().remove::<Answered>().is_some();
        // Our extractors refuse with our errors already.
        if own || response.extensions().get::<super::response::Raised>().is_some() { response } else { refused(response).await }
    })
}

/// Longest text of axum's that is handed on.
const MAX_TEXT: usize = 1 << 10;
/// How axum begins the text for a body that is no JSON. Its status is that of a path or query it cannot read, too.
const NO_JSON: &str = "Failed to parse the request body as JSON";

/// What an extractor of axum's refused a request with, as the contract's error.
async fn refused(response: Response) -> Response {
    let status = response.status();
    let own = match status {
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => Code::ValidationFailed,
        StatusCode::PAYLOAD_TOO_LARGE => return super::body::too_large().into_response(),
        StatusCode::UNSUPPORTED_MEDIA_TYPE => Code::UnsupportedMediaType,
        _ if status.is_server_error() => Code::Internal,
        // An extractor of the user's own, which knows what it says.
        _ => return response,
    };
    let text = axum::body::to_bytes(response.into_body(), MAX_TEXT).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let error = match own {
        Code::Internal => Error::internal(text),
        Code::ValidationFailed if text.starts_with(NO_JSON) => Error::new(Code::MalformedJson, text),
        Code::ValidationFailed => Error::invalid(Problem::new("", "type", text)),
        code => Error::new(code, text),
    };
    error.into_response()
}
