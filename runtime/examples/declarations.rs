//! Declarations without the server, for a crate that shares entities with other programs.
//!
//! `cargo run -p linchpin --no-default-features --example declarations` lists the declarations; no
//! code of HTTP or of a store is compiled in. The checks of this repository build this example, so
//! that expansions use only items that exist without the server.

use linchpin::filter::Filter;
use linchpin::prelude::*;

/// The state of a parcel.
#[derive(FieldEnum, Clone, Copy, PartialEq, Debug)]
pub enum Status {
    /// Not sent yet.
    Packed,
    /// Handed to the carrier.
    Sent,
}

/// One article in a parcel.
#[derive(Embedded, Clone, Debug)]
pub struct Line {
    /// The name of the article.
    #[field(length = 1..=80)]
    pub article: String,
    /// The number of pieces.
    #[field(range = 1..)]
    pub count: i64,
}

/// A parcel.
#[entity(namespace = "mail", unique(number), index(status, created_at), version, routes(auth = none, delete(roles = ["admin"])))]
#[derive(Clone, Debug)]
pub struct Parcel {
    /// The key.
    #[field(primary, default = uuid)]
    pub id: String,
    /// The number on the label.
    #[field(length = 1..=40)]
    pub number: String,
    /// The state.
    #[field(default = Status::Packed)]
    pub status: Status,
    /// The contents.
    pub lines: Vec<Line>,
    /// The number of views.
    #[field(default = 0)]
    pub looks: i64,
    /// When it was sent.
    pub sent_at: Option<Timestamp>,
    /// When it was packed.
    #[field(default = now)]
    pub created_at: Timestamp,
}

/// The parcel with this number.
#[operation(kind = "lookup", fields(number = param(number)), returns = "one")]
pub const BY_NUMBER: Operation<Parcel>;

/// The parcels that were sent at or before a given time.
#[operation(kind = "lookup", fields(status = param(status)), filter = (sent_at <= param(by)), returns = "many", paginate)]
pub const SENT_BY: Operation<Parcel>;

/// Whether a parcel has this number.
#[operation(kind = "exists", fields(number = param(number)))]
pub const NUMBER_TAKEN: Operation<Parcel>;

/// Sends a parcel.
#[operation(kind = "transition", field = status, from = Status::Packed, to = Status::Sent, set(sent_at = now()))]
pub const SEND: Operation<Parcel>;

/// Counts a view.
#[operation(kind = "increment", field = looks)]
pub const LOOK: Operation<Parcel>;

/// Parcels and their operations.
pub static MAIL: Package = package!(
    name = "mail",
    entities = [entity(
        Parcel,
        [BY_NUMBER, SENT_BY, NUMBER_TAKEN, SEND, LOOK]
    )]
);

fn main() {
    for entry in MAIL.entities {
        println!(
            "{} ({}): {} fields",
            entry.desc.name,
            entry.desc.storage_name,
            entry.desc.fields.len()
        );
        for operation in entry.operations {
            println!("  {}: {}", operation.name, operation.doc);
        }
    }
    // Typed inputs and filters need no server either.
    let create = ParcelCreate {
        number: "P-1".to_owned(),
        status: None,
        lines: None,
        looks: None,
        sent_at: None,
    };
    let filter: Filter = parcel::status.eq(Status::Sent);
    println!("{} {filter:?}", create.number);
}
