//! `custom`: a function of the app for each store, with the same policy checks as every other kind.
//!
//! The declaration defines the input and the output.

use super::{Answer, Kind, Options};
use crate::Code;
use crate::entity::{self, EntityDesc, FieldDesc};
use linchpin_vocabulary::kind::{self as facts, KindFacts};

/// The maximum number of stores for which one operation has functions.
pub const MAX_HANDLERS: usize = 8;

/// The name of a store, and the function of a custom operation for it.
pub type StoreHandler = (&'static str, crate::Attachment);

/// The options of a custom operation.
#[derive(Debug)]
pub struct Custom {
    /// The form of the result.
    pub output: Shape,
    /// Whether it only reads. Its method is then GET.
    pub reads: bool,
    /// Whether its path names a record.
    pub by_id: bool,
    /// The SQL statements and conditions of its functions. The app does not start if the database
    /// refuses one.
    pub texts: &'static [&'static str],
    /// The functions with the names of their stores.
    pub handlers: [Option<StoreHandler>; MAX_HANDLERS],
}

/// The form of an answer.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// No content: 204.
    Nothing,
    /// A value of a type.
    Value(entity::Kind),
    /// An object.
    Object(&'static [FieldDesc]),
    /// The inner form, or null.
    Optional(&'static Shape),
    /// A list of the inner form.
    List(&'static Shape),
    /// The record whose key the function returns.
    Record,
    /// The record whose key the function returns, or null.
    RecordOrNull,
    /// The records whose keys the function returns, in that order.
    Records,
}

/// A type that a custom operation may return.
///
/// Implemented for `String`, `Uuid`, `bool`, `i64`, `f64`, `Timestamp`, `serde_json::Value`,
/// `Json<T>`, `#[derive(Embedded)]` structs, and `Option` and `Vec` of each. If the output is the
/// entity itself, or an `Option` or a `Vec` of the entity, the function returns keys.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the output of a custom operation",
    label = "not an output",
    note = "use a #[derive(Embedded)] struct, a plain value, Json<T>, an Option or a Vec of one, or the operation's own entity"
)]
pub trait Output: serde::Serialize + serde::de::DeserializeOwned + Send + 'static {
    /// The form of the type.
    const SHAPE: Shape;
}

macro_rules! plain {
    ($($ty:ty),*) => {$(
        impl Output for $ty {
            const SHAPE: Shape = Shape::Value(<$ty as entity::FieldType>::KIND);
        }
    )*};
}
plain!(
    String,
    entity::Uuid,
    bool,
    i64,
    f64,
    crate::Timestamp,
    serde_json::Value
);

impl<T: entity::Embedded + Send + 'static> Output for T {
    const SHAPE: Shape = Shape::Object(T::FIELDS);
}

impl<T: serde::Serialize + serde::de::DeserializeOwned + Send + 'static> Output
    for entity::Json<T>
{
    const SHAPE: Shape = Shape::Value(entity::Kind::Json);
}

impl<T: Output> Output for Option<T> {
    const SHAPE: Shape = Shape::Optional(&T::SHAPE);
}

impl<T: Output> Output for Vec<T> {
    const SHAPE: Shape = Shape::List(&T::SHAPE);
}

#[doc(hidden)]
impl Custom {
    /// An operation with a result of this form.
    pub const fn new(output: Shape) -> Self {
        Self {
            output,
            reads: false,
            by_id: false,
            texts: &[],
            handlers: [None; MAX_HANDLERS],
        }
    }

    /// Sets the SQL texts.
    #[must_use]
    pub const fn sql(self, texts: &'static [&'static str]) -> Self {
        Self { texts, ..self }
    }

    /// Reads only.
    #[must_use]
    pub const fn reads(self) -> Self {
        Self {
            reads: true,
            ..self
        }
    }

    /// Works on the record in its path.
    #[must_use]
    pub const fn by_id(self) -> Self {
        Self {
            by_id: true,
            ..self
        }
    }

    /// Does nothing at run time: the argument is an expression that makes the compiler check the
    /// type of the function in the next call, [`on`](Self::on).
    #[must_use]
    pub const fn checked(self, (): ()) -> Self {
        self
    }

    /// Adds the function of a store. `handler` is `None` if this build lacks the store.
    ///
    /// # Panics
    /// In const evaluation if more than eight stores have functions.
    #[must_use]
    pub const fn on(mut self, handler: Option<StoreHandler>) -> Self {
        let mut free = 0;
        while self.handlers[free].is_some() {
            free += 1;
            assert!(
                free < MAX_HANDLERS,
                "linchpin: an operation can have functions for at most 8 stores"
            );
        }
        self.handlers[free] = handler;
        self
    }

    /// Returns the function of a store.
    pub fn handler(&self, store: &str) -> Option<crate::Attachment> {
        self.handlers
            .iter()
            .flatten()
            .find(|(name, _)| *name == store)
            .map(|(_, handler)| *handler)
    }
}

/// The parameters of a custom operation, as fields of an entity that is not stored.
#[doc(hidden)]
pub const fn custom_params(fields: &'static [FieldDesc]) -> EntityDesc {
    EntityDesc::new("", "", "", fields)
}

impl Kind for Custom {
    fn options(&'static self) -> Options {
        Options::Custom(self)
    }

    fn facts(&self) -> &'static KindFacts {
        &facts::CUSTOM
    }

    fn touches(&self, _: &crate::entity::EntityDesc) -> crate::entity::FieldSet {
        if self.reads {
            crate::entity::FieldSet::NONE
        } else {
            crate::entity::FieldSet::ALL
        }
    }

    fn returns(&self) -> Answer {
        match self.output {
            Shape::Nothing => Answer::Nothing,
            Shape::Record => Answer::Record,
            Shape::RecordOrNull => Answer::RecordOrNull,
            Shape::Records => Answer::Records,
            Shape::Value(_) | Shape::Object(_) | Shape::Optional(_) | Shape::List(_) => {
                Answer::Value
            }
        }
    }

    fn by_id(&self) -> bool {
        self.by_id
    }

    fn reads(&self) -> bool {
        self.reads
    }

    fn statements(&self, _: &EntityDesc) -> Option<usize> {
        None
    }

    fn errors(&self) -> &'static [Code] {
        &[Code::ValidationFailed, Code::NotFound, Code::Conflict]
    }
}
