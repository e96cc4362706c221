//! The kinds of fields, as data.

use super::FieldDesc;

/// The type of a field. It determines the wire form, the storage form and the operators.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// Text.
    String,
    /// `true` or `false`.
    Boolean,
    /// An integer within ±(2^53−1).
    Integer,
    /// A finite double.
    Number,
    /// A point in time.
    Date,
    /// One of the variants of an enum, stored as its wire name.
    Enum(&'static EnumDesc),
    /// A list of strings.
    StringArray,
    /// Any JSON value.
    Json,
    /// A list of objects.
    Items(&'static [FieldDesc]),
}

impl Kind {
    /// The name of the type in descriptors and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Date => "date",
            Self::Enum(_) => "enum",
            Self::StringArray => "string_array",
            Self::Json => "json",
            Self::Items(_) => "items",
        }
    }

    /// Whether a value of this type may be compared with a field of the type `field`: the types are
    /// equal, or the value is a string and the field is a list of strings.
    #[doc(hidden)]
    pub fn meets(self, field: Self) -> bool {
        match (self, field) {
            (Self::Enum(a), Self::Enum(b)) => a.variants == b.variants,
            (Self::String, Self::StringArray) => true,
            (a, b) => a.name() == b.name(),
        }
    }

    /// The fields of the items; empty for other types.
    pub const fn item_fields(self) -> &'static [FieldDesc] {
        match self {
            Self::Items(fields) => fields,
            _ => &[],
        }
    }

    /// Whether values can be ordered: all types except lists and JSON.
    pub const fn is_scalar(self) -> bool {
        !matches!(self, Self::StringArray | Self::Json | Self::Items(_))
    }
}

/// The variants of an enum field, in their wire form.
#[derive(Debug)]
pub struct EnumDesc {
    /// `Status`.
    pub name: &'static str,
    /// In declaration order.
    pub variants: &'static [&'static str],
}
