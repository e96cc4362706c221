//! `collection`: the items of a list inside a record, one by one. Each method has its own route.

use super::{Answer, Kind, Options};
use crate::Code;
use linchpin_vocabulary::kind::{self as facts, KindFacts};

/// One method of a collection.
#[derive(Debug)]
pub struct Collection {
    /// The action of the method.
    pub method: Method,
    /// The position of the list's field.
    pub field: usize,
    /// The wire name of the member that identifies an item.
    pub key: &'static str,
    /// The maximum number of items.
    pub max: Option<u32>,
}

/// The action of a method of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Returns the items.
    List,
    /// Appends an item.
    Add,
    /// Removes an item.
    Remove,
    /// Changes members of an item.
    Update,
    /// Replaces all items.
    Set,
}

/// The limits of a list. They hold for every write of the list.
#[derive(Debug, Clone, Copy)]
pub struct ItemBounds {
    /// The position of the list's field.
    pub field: usize,
    /// The wire name of the member that is unique in the list.
    pub key: &'static str,
    /// The maximum number of items.
    pub max: Option<u32>,
}

#[doc(hidden)]
impl Collection {
    /// A method of the collection of a field.
    pub const fn new(method: Method, field: usize, key: &'static str) -> Self {
        Self {
            method,
            field,
            key,
            max: None,
        }
    }

    /// Sets the maximum number of items.
    #[must_use]
    pub const fn max(self, max: u32) -> Self {
        Self {
            max: Some(max),
            ..self
        }
    }
}

impl Collection {
    /// Returns the limits of the list.
    pub(super) fn bounds(&self) -> ItemBounds {
        ItemBounds {
            field: self.field,
            key: self.key,
            max: self.max,
        }
    }
}

impl Kind for Collection {
    fn options(&'static self) -> Options {
        Options::Collection(self)
    }

    fn facts(&self) -> &'static KindFacts {
        &facts::COLLECTION
    }

    fn touches(&self, _: &crate::entity::EntityDesc) -> crate::entity::FieldSet {
        if self.method == Method::List {
            crate::entity::FieldSet::NONE
        } else {
            crate::entity::FieldSet::NONE.with(self.field)
        }
    }

    fn returns(&self) -> Answer {
        let field = self.field;
        match self.method {
            Method::List | Method::Set => Answer::Items { field },
            Method::Add => Answer::Item {
                field,
                created: true,
            },
            Method::Update => Answer::Item {
                field,
                created: false,
            },
            Method::Remove => Answer::Nothing,
        }
    }

    fn reads(&self) -> bool {
        self.method == Method::List
    }

    fn by_id(&self) -> bool {
        self.method != Method::List
    }

    fn errors(&self) -> &'static [Code] {
        match self.method {
            Method::List => &[Code::NotFound],
            Method::Remove => &[Code::NotFound, Code::Conflict],
            Method::Update => &[Code::NotFound, Code::ValidationFailed, Code::Conflict],
            Method::Add | Method::Set => &[
                Code::NotFound,
                Code::ValidationFailed,
                Code::Conflict,
                Code::CollectionFull,
            ],
        }
    }
}
