//! The input and output of a `#[route]` function for the API document, as far as its types describe
//! them.
//!
//! The macro sees a type only as tokens, so it calls a method of [`Probe`] for the type. Several
//! traits have this method. Method resolution tries the receiver with the most references first, so
//! the compiler selects the first trait whose condition holds.

use std::marker::PhantomData;

use axum::body::Bytes;
use axum::response::Html;

use crate::entity::{EntityDesc, OfRecords};
use crate::operation::{CustomOutput, Shape};

/// The body of a request or of a response.
#[derive(Clone, Copy, Debug)]
pub struct Content {
    /// `application/json` and so on.
    pub media: &'static str,
    /// The schema of the content.
    pub schema: ContentSchema,
    /// Whether the body may be absent.
    pub optional: bool,
}

/// The schema of a body.
#[derive(Clone, Copy, Debug)]
pub enum ContentSchema {
    /// Any value: the type has no description.
    Any,
    /// Text.
    Text,
    /// Bytes.
    Binary,
    /// The fields of a type.
    Shape(Shape),
    /// A record.
    Record(&'static EntityDesc),
    /// A list of records.
    Records(&'static EntityDesc),
}

/// The request body and the response body of a route.
#[derive(Clone, Copy, Debug, Default)]
pub struct Contents {
    /// The body that the last argument reads.
    pub body: Option<Content>,
    /// The successful response.
    pub answer: Option<Content>,
    /// Whether the status of a response with this body is 200.
    pub ok: bool,
}

impl Contents {
    /// For a function whose types have no description.
    pub const NONE: fn() -> Self = Self::default;
}

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";
const MULTIPART: &str = "multipart/form-data";

const fn content(media: &'static str, schema: ContentSchema) -> Content {
    Content {
        media,
        schema,
        optional: false,
    }
}

/// Describes the type `T`, for expansions of `#[route]`.
#[derive(Debug)]
pub struct Probe<T: ?Sized>(PhantomData<fn() -> Box<T>>);

impl<T: ?Sized> Probe<T> {
    /// Creates the probe of a type.
    #[must_use]
    #[allow(clippy::new_without_default)] // only expansions create one
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

/// JSON and forms with known members.
pub trait ByShape {
    /// The content.
    fn content(&self) -> Option<Content>;
}

impl<T: CustomOutput> ByShape for &&&Probe<axum::Json<T>> {
    fn content(&self) -> Option<Content> {
        Some(content(JSON, ContentSchema::Shape(T::SHAPE)))
    }
}

impl<T: CustomOutput> ByShape for &&&Probe<Option<axum::Json<T>>> {
    fn content(&self) -> Option<Content> {
        Some(Content {
            optional: true,
            ..content(JSON, ContentSchema::Shape(T::SHAPE))
        })
    }
}

impl<T: CustomOutput> ByShape for &&&Probe<axum::Form<T>> {
    fn content(&self) -> Option<Content> {
        Some(content(FORM, ContentSchema::Shape(T::SHAPE)))
    }
}

/// JSON of records.
pub trait ByRecord {
    /// The content.
    fn content(&self) -> Option<Content>;
}

impl<T: OfRecords> ByRecord for &&Probe<axum::Json<T>> {
    fn content(&self) -> Option<Content> {
        Some(content(
            JSON,
            if T::MANY {
                ContentSchema::Records(T::DESC)
            } else {
                ContentSchema::Record(T::DESC)
            },
        ))
    }
}

/// Types whose content type is known, but not their members.
pub trait ByMedia {
    /// The content.
    fn content(&self) -> Option<Content>;
}

macro_rules! by_media {
    ($([$($generic:ident)?] $ty:ty => $media:expr, $schema:expr;)*) => {$(
        impl $(<$generic>)? ByMedia for &Probe<$ty> {
            fn content(&self) -> Option<Content> {
                Some(content($media, $schema))
            }
        }
    )*};
}
by_media! {
    [T] axum::Json<T> => JSON, ContentSchema::Any;
    [T] axum::Form<T> => FORM, ContentSchema::Any;
    [T] Html<T> => "text/html", ContentSchema::Text;
    [] axum::extract::Multipart => MULTIPART, ContentSchema::Any;
    [] String => "text/plain", ContentSchema::Text;
    [] &'static str => "text/plain", ContentSchema::Text;
    [] Bytes => "application/octet-stream", ContentSchema::Binary;
    [] Vec<u8> => "application/octet-stream", ContentSchema::Binary;
}

impl<T> ByMedia for &Probe<Option<axum::Json<T>>> {
    fn content(&self) -> Option<Content> {
        Some(Content {
            optional: true,
            ..content(JSON, ContentSchema::Any)
        })
    }
}

/// All other types have no description.
pub trait Otherwise {
    /// Returns `None`.
    fn content(&self) -> Option<Content>;
}

impl<T: ?Sized> Otherwise for Probe<T> {
    fn content(&self) -> Option<Content> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses the traits as expansions do.
    macro_rules! media {
        ($ty:ty) => {
            (&&&&Probe::<$ty>::new())
                .content()
                .map(|known| (known.media, format!("{:?}", known.schema), known.optional))
        };
    }

    #[derive(serde::Deserialize)]
    struct Unknown;

    #[test]
    fn the_most_specific_description_of_a_type_is_used() {
        let known = |media, schema: &str| Some((media, schema.to_owned(), false));
        assert_eq!(
            media!(axum::Json<i64>),
            known(JSON, "Shape(Value(Integer))")
        );
        assert_eq!(
            media!(Option<axum::Json<i64>>),
            Some((JSON, "Shape(Value(Integer))".to_owned(), true))
        );
        assert_eq!(media!(axum::Json<Unknown>), known(JSON, "Any"));
        assert_eq!(media!(axum::Form<Unknown>), known(FORM, "Any"));
        assert_eq!(media!(axum::extract::Multipart), known(MULTIPART, "Any"));
        assert_eq!(media!(String), known("text/plain", "Text"));
        assert_eq!(media!(Html<String>), known("text/html", "Text"));
        assert_eq!(media!(Unknown), None);
        assert_eq!(media!(crate::Cx), None);
    }
}
