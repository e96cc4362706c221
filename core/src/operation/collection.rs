//! `collection`: the items of a list inside a record, one by one. Each of its methods is a route of
//! its own.

use super::{Answer, Kind, Options};
use crate::Code;
use linchpin_vocabulary::kind::{self as facts, KindFacts};

/// One method of a collection.
#[derive(Debug)]
pub struct Collection {
    /// What it does.
    pub method: Method,
    /// Position of the list's field.
    pub field: usize,
    /// The name on the wire of the member that tells items apart.
    pub key: &'static str,
    /// Most items of the list.
    pub max: Option<u32>,
}

/// What a method of a collection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Answers the items.
    List,
    /// Appends an item.
    Add,
    /// Takes an item out.
    Remove,
    /// Changes members of an item.
    Update,
    /// Replaces all items.
    Set,
}

/// What holds for the list, whoever writes it.
#[derive(Debug, Clone, Copy)]
pub struct ItemBounds {
    /// Position of the list's field.
    pub field: usize,
    /// The name on the wire of the member that no two items share.
    pub key: &'static str,
    /// Most items of the list.
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

    /// With a bound.
    #[must_use]
    pub const fn max(self, max: u32) -> Self {
        Self {
            max: Some(max),
            ..self
        }
    }
}

impl Collection {
    /// The limits of the list.
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
