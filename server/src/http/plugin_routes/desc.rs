//! The description of a plugin route.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::{PluginCall, Reply, RouteBody, RouteInput};
use crate::entity::{EntityDesc, FieldDesc, SourceLine};
use crate::http::{AuthDesc, GuardDesc, PolicyDesc, path};
use crate::operation::{CustomOutput, Method, Shape, Whole};
use crate::resource::BoxFuture;
use crate::{Code, Result};

/// A route of a plugin, as data.
#[derive(Debug)]
pub struct RouteDesc {
    /// The plugin's name, which is also the tag of the route in the OpenAPI document.
    pub of: &'static str,
    /// The name of the route in snake_case, unique within the plugin.
    pub name: &'static str,
    /// The method.
    pub method: Method,
    /// The path below the plugin's mount path, in axum's form: `sessions/{sessionId}`.
    pub path: &'static str,
    /// The access rules and limits.
    pub policy: PolicyDesc,
    /// The type of the body, as the single field of an entity that is never stored. `None` means
    /// that no body is read.
    pub body: Option<&'static EntityDesc>,
    /// Whether the body contains changes, so that members may be omitted.
    pub partial: bool,
    /// Whether the function reads the body itself, whatever its bytes are: [`RawBody`](super::RawBody).
    pub raw: bool,
    /// The query parameters. Optional ones may be omitted.
    pub query: &'static [FieldDesc],
    /// Whether the parameters are a form in the body instead of the query.
    pub form: bool,
    /// Whether undeclared parameters are ignored instead of refused.
    pub lenient: bool,
    /// The request headers that the route reads, besides credentials, each with its purpose. All
    /// are optional.
    pub reads: &'static [(&'static str, &'static str)],
    /// The form of the successful response: whole, streamed, or a change of protocol.
    pub transport: Transport,
    /// Whether the function authenticates the caller itself; the call then has the anonymous actor.
    pub finds_caller: bool,
    /// The successful responses.
    pub answers: &'static [AnswerDesc],
    /// The errors, in addition to those of every route.
    pub errors: &'static [Code],
    /// Headers of every response, errors included, unless the response has its own.
    pub headers: &'static [(&'static str, &'static str)],
    /// The first line is the summary.
    pub doc: &'static str,
    /// The source location of the declaration.
    pub at: SourceLine,
}

/// The form of the successful response of a plugin route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// The whole response at once.
    Whole,
    /// A body of this media type that the function writes while the client reads it.
    Stream(&'static str),
    /// The connection changes to this protocol, such as `websocket`.
    Upgrade(&'static str),
}

impl Transport {
    /// The name of the form in reports.
    pub(crate) const fn kind(self) -> &'static str {
        match self {
            Self::Whole => "plugin",
            Self::Stream(_) => "stream",
            Self::Upgrade(_) => "upgrade",
        }
    }
}

/// A successful response.
#[derive(Debug, Clone, Copy)]
pub struct AnswerDesc {
    /// 200 and so on.
    pub status: u16,
    /// The description.
    pub doc: &'static str,
    /// The body. If several responses have the same status, a response with this status has one of
    /// their bodies.
    pub shape: Shape,
    /// Whether null members are omitted.
    pub sparse: bool,
}

impl AnswerDesc {
    /// A response with a body of type `T`. Members that are null are included.
    #[must_use]
    pub const fn of<T: CustomOutput>(status: u16, doc: &'static str) -> Self {
        Self {
            status,
            doc,
            shape: T::SHAPE,
            sparse: false,
        }
    }

    /// A response with a body of type `T`. Members that are null are omitted.
    #[must_use]
    pub const fn sparse<T: CustomOutput>(status: u16, doc: &'static str) -> Self {
        Self {
            status,
            doc,
            shape: T::SHAPE,
            sparse: true,
        }
    }

    /// A response without a body.
    #[must_use]
    pub const fn empty(status: u16, doc: &'static str) -> Self {
        Self {
            status,
            doc,
            shape: Shape::Nothing,
            sparse: false,
        }
    }
}

/// A route of a plugin with the type of its input.
///
/// ```
/// use linchpin::http::{AnswerDesc, Route};
/// use linchpin::Embedded;
///
/// #[derive(Embedded)]
/// pub struct Greet {
///     #[field(length = 1..=40)]
///     pub name: String,
/// }
///
/// #[derive(Embedded)]
/// pub struct Greeting {
///     pub text: String,
/// }
///
/// pub static GREET: Route<Greet> = Route::post("greet", "greet")
///     .of("greeter")
///     .doc("Greets somebody.")
///     .public()
///     .answers(&[AnswerDesc::of::<Greeting>(200, "The greeting.")]);
/// ```
pub struct Route<I> {
    desc: RouteDesc,
    input: PhantomData<fn() -> I>,
}

impl<I> fmt::Debug for Route<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.desc.fmt(f)
    }
}

impl<I: RouteInput> Route<I> {
    #[track_caller]
    const fn new(method: Method, name: &'static str, path: &'static str) -> Self {
        let desc = RouteDesc {
            of: "",
            name,
            method,
            path,
            policy: PolicyDesc::INHERIT,
            body: I::BODY,
            partial: I::PARTIAL,
            raw: I::RAW,
            query: &[],
            form: false,
            lenient: false,
            reads: &[],
            transport: Transport::Whole,
            finds_caller: false,
            answers: &[],
            errors: &[],
            headers: &[],
            doc: "",
            at: SourceLine::here(),
        };
        Self {
            desc,
            input: PhantomData,
        }
    }

    /// `GET`
    #[track_caller]
    pub const fn get(name: &'static str, path: &'static str) -> Self {
        Self::new(Method::Get, name, path)
    }

    /// `POST`
    #[track_caller]
    pub const fn post(name: &'static str, path: &'static str) -> Self {
        Self::new(Method::Post, name, path)
    }

    /// `PUT`
    #[track_caller]
    pub const fn put(name: &'static str, path: &'static str) -> Self {
        Self::new(Method::Put, name, path)
    }

    /// `PATCH`
    #[track_caller]
    pub const fn patch(name: &'static str, path: &'static str) -> Self {
        Self::new(Method::Patch, name, path)
    }

    /// `DELETE`
    #[track_caller]
    pub const fn delete(name: &'static str, path: &'static str) -> Self {
        Self::new(Method::Delete, name, path)
    }

    /// The plugin's name.
    #[must_use]
    pub const fn of(mut self, plugin: &'static str) -> Self {
        self.desc.of = plugin;
        self
    }

    /// Allows anonymous callers. Without this or [`Route::auth`], a route requires `userAuth`.
    #[must_use]
    pub const fn public(self) -> Self {
        let policy = self.desc.policy.auth(AuthDesc::None);
        self.policy(policy)
    }

    /// Sets `auth` to a registered name.
    #[must_use]
    pub const fn auth(self, name: &'static str) -> Self {
        let policy = self.desc.policy.auth(AuthDesc::Named(name));
        self.policy(policy)
    }

    /// Adds guards, which run in this order.
    #[must_use]
    pub const fn guards(self, guards: &'static [GuardDesc]) -> Self {
        let policy = self.desc.policy.guards(guards);
        self.policy(policy)
    }

    /// Sets the largest body in bytes; 1 MiB by default.
    #[must_use]
    pub const fn max_body(self, bytes: u64) -> Self {
        let policy = self.desc.policy.max_body(bytes);
        self.policy(policy)
    }

    /// Sets the whole policy.
    #[must_use]
    pub const fn policy(mut self, policy: PolicyDesc) -> Self {
        self.desc.policy = policy;
        self
    }

    /// Sets the description; the first line is the summary.
    #[must_use]
    pub const fn doc(mut self, doc: &'static str) -> Self {
        self.desc.doc = doc;
        self
    }

    /// Declares the parameters of the query.
    #[must_use]
    pub const fn query(mut self, query: &'static [FieldDesc]) -> Self {
        self.desc.query = query;
        self
    }

    /// Declares parameters as a form in the body, `application/x-www-form-urlencoded`, instead of
    /// the query.
    #[must_use]
    pub const fn form(mut self, fields: &'static [FieldDesc]) -> Self {
        self.desc.query = fields;
        self.desc.form = true;
        self
    }

    /// Ignores undeclared parameters, for routes whose callers follow a protocol that adds some.
    #[must_use]
    pub const fn lenient(mut self) -> Self {
        self.desc.lenient = true;
        self
    }

    /// Declares the request headers that the route reads, besides credentials, each with its
    /// purpose. All are optional.
    #[must_use]
    pub const fn reads(mut self, headers: &'static [(&'static str, &'static str)]) -> Self {
        self.desc.reads = headers;
        self
    }

    /// Declares that the successful response is a stream of this media type, such as
    /// `text/event-stream`. The function returns [`Reply::stream`]; the time limit of the policy
    /// ends when the stream begins.
    #[must_use]
    pub const fn streams(mut self, media: &'static str) -> Self {
        self.desc.transport = Transport::Stream(media);
        self
    }

    /// Declares that the connection changes to this protocol, such as `websocket`. The function
    /// calls [`PluginCall::upgrade`] and returns [`Reply::upgrade`].
    #[must_use]
    pub const fn upgrades(mut self, protocol: &'static str) -> Self {
        self.desc.transport = Transport::Upgrade(protocol);
        self
    }

    /// Declares that the function authenticates the caller itself, with
    /// [`Credentials`](crate::http::Credentials): the server reads no credential, and anonymous
    /// callers may call the route. This is for protocols that prescribe the order of their checks.
    /// If a guard of the app covers the path, the server authenticates the caller first.
    #[must_use]
    pub const fn finds_caller(mut self) -> Self {
        self.desc.finds_caller = true;
        self.public()
    }

    /// Declares the successful responses.
    #[must_use]
    pub const fn answers(mut self, answers: &'static [AnswerDesc]) -> Self {
        self.desc.answers = answers;
        self
    }

    /// Declares the errors, in addition to those of every route.
    #[must_use]
    pub const fn errors(mut self, errors: &'static [Code]) -> Self {
        self.desc.errors = errors;
        self
    }

    /// Sets headers of every response.
    #[must_use]
    pub const fn headers(mut self, headers: &'static [(&'static str, &'static str)]) -> Self {
        self.desc.headers = headers;
        self
    }

    /// The declaration, without its type.
    pub const fn desc(&self) -> &RouteDesc {
        &self.desc
    }

    /// Binds a function to the route below a mount path.
    pub fn bind<F, Fut>(&'static self, mount: &str, run: F) -> PluginRoute
    where
        F: Fn(PluginCall, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Reply>> + Send + 'static,
    {
        let run: PluginHandler =
            Arc::new(
                move |call: PluginCall, body: RouteBody| match I::read(body) {
                    Ok(input) => Box::pin(run(call, input)),
                    Err(error) => Box::pin(std::future::ready(Err(error))),
                },
            );
        PluginRoute {
            desc: &self.desc,
            path: path::join(mount, self.desc.path),
            run,
        }
    }
}

/// The function of a route: it gets the call and the body.
pub(crate) type PluginHandler =
    Arc<dyn Fn(PluginCall, RouteBody) -> BoxFuture<'static, Result<Reply>> + Send + Sync>;

/// A route of a plugin, ready to be mounted.
#[derive(Clone)]
pub struct PluginRoute {
    pub(crate) desc: &'static RouteDesc,
    pub(crate) path: String,
    pub(crate) run: PluginHandler,
}

impl PluginRoute {
    /// Returns its description.
    pub fn desc(&self) -> &'static RouteDesc {
        self.desc
    }

    /// The full path, in axum's form.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Debug for PluginRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PluginRoute")
            .field("path", &self.path)
            .field("desc", self.desc)
            .finish_non_exhaustive()
    }
}

impl RouteDesc {
    /// The form of the body: all members, or changes.
    pub(crate) fn whole(&self) -> Whole {
        if self.partial {
            Whole::Patch
        } else {
            Whole::Item
        }
    }

    /// The fields of the body.
    pub(crate) fn body_fields(&self) -> &'static [FieldDesc] {
        self.body
            .map_or(&[], |body| body.fields[0].kind.item_fields())
    }
}
