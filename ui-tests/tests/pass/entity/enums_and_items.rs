//! Valid enums and items that are similar to the mistakes in `fail/entity/field_enum` and
//! `fail/entity/embedded`.
#![deny(warnings)]
#![allow(dead_code)] // the test is that it compiles

use linchpin::prelude::*;

#[derive(FieldEnum, Clone, Copy, PartialEq, Debug)]
pub enum One {
    Only,
}

#[derive(FieldEnum, Clone, Copy, PartialEq, Debug)]
#[repr(u8)]
pub enum Odd {
    // A keyword, an explicit discriminant, a name that is not ASCII, and exchanged names.
    r#Type = 7,
    #[field(rename = "größe")]
    Größe,
    #[field(rename = "b")]
    A,
    #[field(rename = "a")]
    B,
    /// A name with spaces and quotes: all characters except control characters are allowed.
    #[field(rename = "in \"review\"")]
    #[doc(hidden)]
    Review,
    #[cfg(any())]
    Never(String),
}

#[derive(Embedded, Clone, Debug)]
pub struct Empty {}

#[derive(Embedded, Clone, Debug)]
pub struct Item {
    #[field(primary, default = uuid)]
    pub id: String,
    // Clients cannot send it, but responses contain it, so it is not hidden.
    #[field(read_only, default = now)]
    pub added_at: Timestamp,
    #[field(sensitive)]
    pub phone: Option<String>,
    #[field(default = Odd::Review)]
    pub state: Odd,
    pub r#type: Option<One>,
    #[cfg(any())]
    #[field(private)]
    pub never: String,
}

#[entity]
pub struct Order {
    #[field(primary)]
    pub id: String,
    #[field(items = 1.., unique_items)]
    pub items: Vec<Item>,
    pub empties: Option<Vec<Empty>>,
    // The entity's own field hides the whole list.
    #[field(private)]
    pub notes: Vec<Item>,
    pub odd: Odd,
    #[field(default = One::Only)]
    pub one: One,
}

#[test]
fn variants_have_their_declared_names() {
    let names: Vec<&str> = [Odd::Type, Odd::Größe, Odd::A, Odd::B, Odd::Review]
        .into_iter()
        .map(FieldEnum::as_str)
        .collect();
    assert_eq!(names, ["type", "größe", "b", "a", "in \"review\""]);
    assert_eq!(serde_json::to_string(&Empty {}).unwrap(), "{}");
    assert!(
        Order::DESC.fields[3]
            .flags
            .has(linchpin::entity::Flags::PRIVATE)
    );
}
