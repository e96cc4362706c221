//! `#[entity]`: parse → model → check → expand.

mod date;
mod docs;
mod model;
mod parse;
mod rules;

pub(crate) use model::{Default, EntityModel, Field, Flag, Kind, doc_of};
pub(crate) use parse::{Member, ROUTES, member};
