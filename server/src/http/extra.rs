//! Extra routes: functions of the user mounted below an entity, under its policy.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};

use super::{Contents, ExtraRouteSpec, PolicyDesc};
use crate::entity::{Entity, SourceLine};
use crate::operation::RouteSpec;
use crate::{BoxFuture, Code, Error, Problem};

/// What a mounted function looks like to the dispatcher: policy has been applied, the
/// [`Cx`](crate::Cx), the app's [`Adapters`](crate::Adapters) and path parameters are in the
/// request's extensions.
pub type ExtraHandler = fn(Request<Body>) -> ResponseFuture;

/// What an extra route takes and returns, as far as its types tell.
#[doc(hidden)]
pub type ContentsOf = fn() -> Contents;

/// The answer of an [`ExtraHandler`].
pub type ResponseFuture = Pin<Box<dyn Future<Output = Response> + Send>>;

/// An extra route of `E`: what `#[route]` makes of a function.
pub struct ExtraRoute<E> {
    spec: ExtraRouteSpec,
    entity: PhantomData<fn() -> E>,
}

impl<E: Entity> ExtraRoute<E> {
    /// Wraps what the macro wrote.
    #[doc(hidden)]
    pub const fn new(spec: ExtraRouteSpec) -> Self {
        Self {
            spec,
            entity: PhantomData,
        }
    }
}

impl<E> ExtraRoute<E> {
    /// Stands in for a declaration that does not compile, so that packages that list it do: one
    /// mistake, one error.
    #[doc(hidden)]
    pub const fn poisoned() -> Self {
        const NOWHERE: SourceLine = SourceLine { file: "", line: 0 };
        const HANDLER: ExtraHandler = |_| Box::pin(async { StatusCode::NOT_FOUND.into_response() });
        const NO_CONTENTS: ContentsOf = || Contents::default();
        // One that is not mounted meets no other.
        let policy = PolicyDesc::INHERIT.disable();
        let spec = ExtraRouteSpec {
            name: "",
            route: RouteSpec::CRUD[0],
            policy,
            handler: &HANDLER,
            contents: &NO_CONTENTS,
            doc: "",
            at: NOWHERE,
        };
        Self {
            spec,
            entity: PhantomData,
        }
    }

    /// The declaration, as data.
    pub const fn spec(&self) -> ExtraRouteSpec {
        self.spec
    }
}

/// What an extra route takes and returns, as far as its types tell.
pub(crate) fn contents_of(spec: &ExtraRouteSpec) -> Contents {
    spec.contents
        .downcast_ref::<ContentsOf>()
        .map_or_else(Contents::default, |contents| contents())
}

/// The function of an extra route.
///
/// # Errors
/// `internal` when the declaration carries something else, which the macro does not write.
pub(super) fn handler_of(spec: &ExtraRouteSpec) -> crate::Result<ExtraHandler> {
    let handler = spec
        .handler
        .downcast_ref()
        .copied()
        .filter(|_| spec.contents.is::<ContentsOf>());
    handler.ok_or_else(|| {
        Error::internal(format!(
            "the extra route `{}` carries no handler of this version",
            spec.name
        ))
    })
}

/// What an extractor refused a request with.
#[doc(hidden)]
#[derive(Debug)]
pub struct Refused(Box<Response>);

impl Refused {
    fn by(rejection: impl IntoResponse) -> Self {
        Self(Box::new(rejection.into_response()))
    }
}

/// An argument that leaves the body alone; its own trait beside axum's, for the words.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no extractor that may stand here",
    label = "not an extractor, or one that reads the body and belongs last",
    note = "write `Cx`, the entity's adapter, `Adapters`, `Path<T>`, `Query<T>`, `HeaderMap`, or a type of yours that implements axum's `FromRequestParts`",
    note = "a `T` inside derives serde's `Deserialize`; `axum::Json<T>`, `Bytes` and `String` read the body, and only the last argument may"
)]
pub trait Argument: Sized {
    /// Takes it from the head of a request.
    fn take(head: &mut Parts) -> BoxFuture<'_, Result<Self, Refused>>;
}

#[diagnostic::do_not_recommend]
impl<T: FromRequestParts<()>> Argument for T {
    fn take(head: &mut Parts) -> BoxFuture<'_, Result<Self, Refused>> {
        Box::pin(async { T::from_request_parts(head, &()).await.map_err(Refused::by) })
    }
}

/// The last argument, which may read the body. As with axum, `M` says whether it does.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no extractor",
    label = "not an extractor",
    note = "write `Cx`, the entity's adapter, `Adapters`, `Path<T>`, `Query<T>`, `axum::Json<T>`, or a type of yours that implements axum's `FromRequestParts` or `FromRequest`",
    note = "a `T` inside derives serde's `Deserialize`"
)]
pub trait LastArgument<M>: Sized {
    /// Takes it from a request.
    fn take(request: Request<Body>) -> BoxFuture<'static, Result<Self, Refused>>;
}

#[diagnostic::do_not_recommend]
impl<M, T: FromRequest<(), M> + 'static> LastArgument<M> for T {
    fn take(request: Request<Body>) -> BoxFuture<'static, Result<Self, Refused>> {
        Box::pin(async { T::from_request(request, &()).await.map_err(Refused::by) })
    }
}

/// What a function answers.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no answer of a route",
    label = "not an answer",
    note = "answer a `String`, an `axum::Json<T>`, a `StatusCode`, what implements axum's `IntoResponse`, a tuple of these, or a `Result` of one"
)]
pub trait Answer {
    /// The answer on the wire.
    fn answer(self) -> Response;
}

#[diagnostic::do_not_recommend]
impl<T: IntoResponse> Answer for T {
    fn answer(self) -> Response {
        self.into_response()
    }
}

/// A request that a function takes its arguments from, in their order; for expansions of
/// `#[route]`.
#[doc(hidden)]
#[derive(Debug)]
pub struct Arguments {
    head: Parts,
    body: Body,
}

impl Arguments {
    /// Those of a request.
    pub fn of(request: Request<Body>) -> Self {
        let (head, body) = request.into_parts();
        Self { head, body }
    }

    /// The next one.
    ///
    /// # Errors
    /// What it refuses the request with.
    // An `async fn` would have rustc say of its future, too, that there is none of such an
    // argument.
    pub fn take<T: Argument>(&mut self) -> BoxFuture<'_, Result<T, Refused>> {
        T::take(&mut self.head)
    }

    /// The last one.
    ///
    /// # Errors
    /// What it refuses the request with.
    pub fn last<T: LastArgument<M>, M>(self) -> BoxFuture<'static, Result<T, Refused>> {
        T::take(Request::from_parts(self.head, self.body))
    }
}

/// The answer of a function; for expansions of `#[route]`.
///
/// # Errors
/// None: it is the end of a body whose arguments may refuse.
#[doc(hidden)]
pub fn answered(answer: impl Answer) -> Result<Response, Refused> {
    Ok(answer.answer())
}

/// Runs a function behind its arguments; for expansions of `#[route]`.
#[doc(hidden)]
pub fn serve_route(
    answer: impl Future<Output = Result<Response, Refused>> + Send + 'static,
) -> ResponseFuture {
    Box::pin(async move {
        match answer.await {
            Ok(response) => response,
            // Our extractors refuse with our errors already.
            Err(Refused(response))
                if response
                    .extensions()
                    .get::<super::response::Raised>()
                    .is_some() =>
            {
                *response
            }
            Err(Refused(response)) => refused(*response).await,
        }
    })
}

/// Longest text of axum's that is handed on.
const MAX_TEXT: usize = 1 << 10;
/// How axum begins the text for a body that is no JSON. Its status is that of a path or query it
/// cannot read, too.
const NO_JSON: &str = "Failed to parse the request body as JSON";

/// What an extractor of axum's refused a request with, as the contract's error.
async fn refused(response: Response) -> Response {
    let status = response.status();
    let own = match status {
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => Code::ValidationFailed,
        StatusCode::PAYLOAD_TOO_LARGE => return Error::too_large(None).into_response(),
        StatusCode::UNSUPPORTED_MEDIA_TYPE => Code::UnsupportedMediaType,
        _ if status.is_server_error() => Code::Internal,
        // An extractor of the user's own, which knows what it says.
        _ => return response,
    };
    let text = axum::body::to_bytes(response.into_body(), MAX_TEXT)
        .await
        .unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let error = match own {
        Code::Internal => Error::internal(text),
        Code::ValidationFailed if text.starts_with(NO_JSON) => {
            Error::new(Code::MalformedJson, text)
        }
        Code::ValidationFailed => Error::invalid(Problem::new("", "type", text)),
        code => Error::new(code, text),
    };
    error.into_response()
}
