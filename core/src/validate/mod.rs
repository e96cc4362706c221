//! Input: conversion of bytes to values, and all rules on values, each in one place.
//!
//! [`read_object`] and [`read_draft`] convert a body to a draft, [`parse_scalar`] reads queries and
//! path segments, and the [`Validator`] checks values from all sources.

mod draft;
mod filter;
#[cfg(test)]
mod fixture;
mod format;
mod input;
mod path;
mod read;
mod rules;
mod scalar;
mod tree;

pub use crate::entity::{Flaw, canonical, canonical_value, out_of_range};
pub use draft::Draft;
pub use filter::FilterError;
pub use format::FORMATS;
pub use input::{Body, Mode, read_draft, read_object, read_param_members, read_whole};
pub use path::MOST as MAX_PROBLEMS;
pub use rules::Validator;
pub use scalar::too_long_for_index;
pub use scalar::{MAX_INTEGER, list_value, parse_scalar};
pub use tree::Json;
