//! The body of a plugin route as a typed value.

use std::fmt;
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::RawBody;
use crate::entity::{Embedded, EntityDesc, FieldDesc, Kind};
use crate::{Error, Result};

/// The body of a request in the form that the function of a plugin route gets.
#[derive(Debug)]
pub enum RouteBody {
    /// No body: the route has no body, or its body is a form.
    None,
    /// Valid JSON of the declared type.
    Json(String),
    /// A body that has not been read.
    Raw(RawBody),
}

/// The body of a plugin route: [`Nothing`], a `#[derive(Embedded)]` struct, [`Partial`] changes of
/// such a struct, or [`RawBody`].
pub trait RouteInput: Sized + Send + 'static {
    /// The type of the body; `None` if no body is read.
    const BODY: Option<&'static EntityDesc>;
    /// Whether members may be omitted.
    const PARTIAL: bool = false;
    /// Whether the function reads the body itself, whatever its bytes are.
    const RAW: bool = false;

    /// Creates the value from a body that the server has accepted.
    ///
    /// # Errors
    /// `internal` if the body has another form; the server prevents that.
    fn read(body: RouteBody) -> Result<Self>;
}

impl<T: Embedded + Send + 'static> RouteInput for T {
    const BODY: Option<&'static EntityDesc> =
        // The body is described as one item of a list, because it is read and validated in the same
        // way as an item.
        Some(&EntityDesc::new(
            "",
            "",
            "",
            &[FieldDesc::new("", "", "", Kind::Items(T::FIELDS), false)],
        ));

    fn read(body: RouteBody) -> Result<Self> {
        serde_json::from_str(&body.json()?).map_err(Error::internal)
    }
}

impl RouteBody {
    /// The JSON.
    fn json(self) -> Result<String> {
        match self {
            Self::Json(text) => Ok(text),
            Self::None | Self::Raw(_) => Err(Error::internal("the route got no JSON")),
        }
    }
}

/// The input of a route that reads no body.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl RouteInput for Nothing {
    const BODY: Option<&'static EntityDesc> = None;

    fn read(_: RouteBody) -> Result<Self> {
        Ok(Self)
    }
}

/// The members of a `T` that a body contains, including null ones.
pub struct Partial<T> {
    members: serde_json::Map<String, serde_json::Value>,
    of: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for Partial<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The values are not printed, because they may be secrets.
        f.debug_tuple("Partial")
            .field(&self.members.keys().collect::<Vec<_>>())
            .finish()
    }
}

impl<T> Partial<T> {
    /// Removes a member by its wire name, and returns it; `None` if the body does not have it.
    ///
    /// # Errors
    /// `internal` if the member is not a `V`.
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

    fn read(body: RouteBody) -> Result<Self> {
        Ok(Self {
            members: serde_json::from_str(&body.json()?).map_err(Error::internal)?,
            of: PhantomData,
        })
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
