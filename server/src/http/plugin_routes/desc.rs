//! What a plugin says of a route.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{PluginCall, Reply};
use crate::entity::{Embedded, EntityDesc, FieldDesc, Kind, SourceLine};
use crate::http::{AuthDesc, GuardDesc, PolicyDesc, path};
use crate::operation::{CustomOutput, Method, Shape, Whole};
use crate::resource::BoxFuture;
use crate::{Code, Error, Result};

/// A route of a plugin, as data.
#[derive(Debug)]
pub struct RouteDesc {
    /// The plugin's name; its tag in the document.
    pub of: &'static str,
    /// snake_case, unique within the plugin.
    pub name: &'static str,
    /// The method.
    pub method: Method,
    /// Below the plugin's mount, in axum's form: `sessions/{sessionId}`.
    pub path: &'static str,
    /// Who may call it, and its limits.
    pub policy: PolicyDesc,
    /// The body, as the one field of an entity that nobody stores; `None`: no body is read.
    pub body: Option<&'static EntityDesc>,
    /// Whether the body holds changes: then members may be left out.
    pub partial: bool,
    /// Parameters of the query; all may be left out unless they are not optional.
    pub query: &'static [FieldDesc],
    /// Whether they come as a form in the body, and not in the query.
    pub form: bool,
    /// Whether parameters that are not declared are passed over, and not refused.
    pub lenient: bool,
    /// Headers that it reads beside those that say who calls, each with what it is for; all may be
    /// left out.
    pub reads: &'static [(&'static str, &'static str)],
    /// What it answers when it succeeds.
    pub answers: &'static [AnswerDesc],
    /// What it can refuse a call with beside what every route can.
    pub errors: &'static [Code],
    /// Headers of every answer, errors included, unless the answer has its own.
    pub headers: &'static [(&'static str, &'static str)],
    /// The first line is the summary.
    pub doc: &'static str,
    /// Where it is declared.
    pub at: SourceLine,
}

/// An answer of success.
#[derive(Debug, Clone, Copy)]
pub struct AnswerDesc {
    /// 200 and so on.
    pub status: u16,
    /// What it is.
    pub doc: &'static str,
    /// The body; with several answers of one status, it is one of them.
    pub shape: Shape,
    /// Whether members that are null are left out.
    pub sparse: bool,
}

impl AnswerDesc {
    /// A body of a type: every member is there, null among them.
    #[must_use]
    pub const fn of<T: CustomOutput>(status: u16, doc: &'static str) -> Self {
        Self {
            status,
            doc,
            shape: T::SHAPE,
            sparse: false,
        }
    }

    /// A body of a type: members that are null are left out.
    #[must_use]
    pub const fn sparse<T: CustomOutput>(status: u16, doc: &'static str) -> Self {
        Self {
            status,
            doc,
            shape: T::SHAPE,
            sparse: true,
        }
    }

    /// No body.
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
            query: &[],
            form: false,
            lenient: false,
            reads: &[],
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

    /// Open to anybody. Without this or [`Route::auth`], a route asks for `userAuth`.
    #[must_use]
    pub const fn public(self) -> Self {
        let policy = self.desc.policy.auth(AuthDesc::None);
        self.policy(policy)
    }

    /// Asks for a name of the route-auth registry.
    #[must_use]
    pub const fn auth(self, name: &'static str) -> Self {
        let policy = self.desc.policy.auth(AuthDesc::Named(name));
        self.policy(policy)
    }

    /// Asks these guards, in order.
    #[must_use]
    pub const fn guards(self, guards: &'static [GuardDesc]) -> Self {
        let policy = self.desc.policy.guards(guards);
        self.policy(policy)
    }

    /// Largest body in bytes: 1 MiB unless it is said here.
    #[must_use]
    pub const fn max_body(self, bytes: u64) -> Self {
        let policy = self.desc.policy.max_body(bytes);
        self.policy(policy)
    }

    /// The whole policy.
    #[must_use]
    pub const fn policy(mut self, policy: PolicyDesc) -> Self {
        self.desc.policy = policy;
        self
    }

    /// What it does; the first line is the summary.
    #[must_use]
    pub const fn doc(mut self, doc: &'static str) -> Self {
        self.desc.doc = doc;
        self
    }

    /// Parameters of the query.
    #[must_use]
    pub const fn query(mut self, query: &'static [FieldDesc]) -> Self {
        self.desc.query = query;
        self
    }

    /// Its parameters come as a form, `application/x-www-form-urlencoded`, in the body and not in
    /// the query.
    #[must_use]
    pub const fn form(mut self, fields: &'static [FieldDesc]) -> Self {
        self.desc.query = fields;
        self.desc.form = true;
        self
    }

    /// Passes over parameters that it does not declare: for routes whose callers follow a protocol
    /// that adds some.
    #[must_use]
    pub const fn lenient(mut self) -> Self {
        self.desc.lenient = true;
        self
    }

    /// Headers that it reads beside those that say who calls, each with what it is for; all may be
    /// left out.
    #[must_use]
    pub const fn reads(mut self, headers: &'static [(&'static str, &'static str)]) -> Self {
        self.desc.reads = headers;
        self
    }

    /// What it answers when it succeeds.
    #[must_use]
    pub const fn answers(mut self, answers: &'static [AnswerDesc]) -> Self {
        self.desc.answers = answers;
        self
    }

    /// What it can refuse a call with beside what every route can.
    #[must_use]
    pub const fn errors(mut self, errors: &'static [Code]) -> Self {
        self.desc.errors = errors;
        self
    }

    /// Headers of every answer.
    #[must_use]
    pub const fn headers(mut self, headers: &'static [(&'static str, &'static str)]) -> Self {
        self.desc.headers = headers;
        self
    }

    /// The declaration, without its type.
    pub const fn desc(&self) -> &RouteDesc {
        &self.desc
    }

    /// The route below a mount, with what it does.
    pub fn bind<F, Fut>(&'static self, mount: &str, run: F) -> PluginRoute
    where
        F: Fn(PluginCall, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Reply>> + Send + 'static,
    {
        let run: PluginHandler =
            Arc::new(
                move |call: PluginCall, body: Option<String>| match I::read(body) {
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

/// What stands behind a route: the call and the body, as JSON that keeps every rule.
pub(crate) type PluginHandler =
    Arc<dyn Fn(PluginCall, Option<String>) -> BoxFuture<'static, Result<Reply>> + Send + Sync>;

/// A route of a plugin, ready to be mounted.
#[derive(Clone)]
pub struct PluginRoute {
    pub(crate) desc: &'static RouteDesc,
    pub(crate) path: String,
    pub(crate) run: PluginHandler,
}

impl PluginRoute {
    /// What it says of itself.
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

/// What a plugin's route takes as its body: [`Nothing`], a `#[derive(Embedded)]` struct, or
/// [`Partial`] changes of one.
pub trait RouteInput: Sized + Send + 'static {
    /// How it is read.
    const BODY: Option<&'static EntityDesc>;
    /// Whether members may be left out.
    const PARTIAL: bool = false;

    /// From what was read and judged.
    ///
    /// # Errors
    /// `internal` when it has another form, which reading it rules out.
    fn read(body: Option<String>) -> Result<Self>;
}

impl<T: Embedded + Send + 'static> RouteInput for T {
    const BODY: Option<&'static EntityDesc> =
        // What reads and judges items reads and judges it.
        Some(&EntityDesc::new(
            "",
            "",
            "",
            &[FieldDesc::new("", "", "", Kind::Items(T::FIELDS), false)],
        ));

    fn read(body: Option<String>) -> Result<Self> {
        serde_json::from_str(&body.unwrap_or_default()).map_err(Error::internal)
    }
}

/// No body: none is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl RouteInput for Nothing {
    const BODY: Option<&'static EntityDesc> = None;

    fn read(_: Option<String>) -> Result<Self> {
        Ok(Self)
    }
}

/// Some members of a `T`: those that a body holds, null among them.
pub struct Partial<T> {
    members: serde_json::Map<String, serde_json::Value>,
    of: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for Partial<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Their values may be secrets.
        f.debug_tuple("Partial")
            .field(&self.members.keys().collect::<Vec<_>>())
            .finish()
    }
}

impl<T> Partial<T> {
    /// A member by its name on the wire; `None` when the body has none.
    ///
    /// # Errors
    /// `internal` when it is no `V`.
    pub fn take<V: DeserializeOwned>(&mut self, wire: &str) -> Result<Option<V>> {
        self.members
            .remove(wire)
            .map(|value| serde_json::from_value(value).map_err(Error::internal))
            .transpose()
    }
}

impl<T: Embedded + Send + 'static> RouteInput for Partial<T> {
    const BODY: Option<&'static EntityDesc> = <T as RouteInput>::BODY;
    const PARTIAL: bool = true;

    fn read(body: Option<String>) -> Result<Self> {
        Ok(Self {
            members: serde_json::from_str(&body.unwrap_or_default()).map_err(Error::internal)?,
            of: PhantomData,
        })
    }
}

impl RouteDesc {
    /// How the body is read.
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

/// A value as JSON, without members that are null.
pub(super) fn sparse(value: &impl Serialize) -> Result<Vec<u8>> {
    let mut json = serde_json::to_value(value).map_err(Error::internal)?;
    if let Some(members) = json.as_object_mut() {
        members.retain(|_, member| !member.is_null());
    }
    serde_json::to_vec(&json).map_err(Error::internal)
}
