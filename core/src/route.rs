//! Method and path of a route, as data.

/// A route an operation or entity mounts, relative to the entity's path.
#[derive(Debug, Clone, Copy)]
pub struct RouteSpec {
    /// The method.
    pub method: Method,
    /// Segments below the entity's path.
    pub segments: &'static [Seg],
}

impl RouteSpec {
    /// Where the five routes of an entity are, unless it says otherwise: create, list, get, update,
    /// delete.
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
    /// A parameter; its name does not count when paths are compared.
    Param(&'static str),
}

/// A method of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// Reads.
    Get,
    /// Changes something.
    Post,
    /// Puts something in place of what is there.
    Put,
    /// Changes parts of a record.
    Patch,
    /// Takes something away.
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
