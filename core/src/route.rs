//! The method and path of a route, as data.

/// A route of an operation or entity, relative to the entity's path.
#[derive(Debug, Clone, Copy)]
pub struct RouteSpec {
    /// The method.
    pub method: Method,
    /// Segments below the entity's path.
    pub segments: &'static [Seg],
}

impl RouteSpec {
    /// The default routes of an entity: create, list, get, update, delete.
    pub const CRUD: [Self; 5] = [
        Self {
            method: Method::Post,
            segments: &[],
        },
        Self {
            method: Method::Get,
            segments: &[],
        },
        Self {
            method: Method::Get,
            segments: &[Seg::Param("id")],
        },
        Self {
            method: Method::Patch,
            segments: &[Seg::Param("id")],
        },
        Self {
            method: Method::Delete,
            segments: &[Seg::Param("id")],
        },
    ];
}

/// A segment of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seg {
    /// Static text, percent-decoded.
    Lit(&'static str),
    /// A parameter. Comparisons of paths ignore its name.
    Param(&'static str),
}

/// An HTTP method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// Reads records.
    Get,
    /// Changes records.
    Post,
    /// Replaces a value.
    Put,
    /// Changes parts of a record.
    Patch,
    /// Deletes a record or an item.
    Delete,
}

impl Method {
    /// `GET` and so on.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}
