//! Fields by position, for generated methods.

use super::{Entity, Field, ItemOf, ItemPatchOf, ValueOf};

/// The field at a position, in the order of declaration. Operations in any module find markers by
/// position.
pub trait FieldAt<const INDEX: usize>: Entity {
    /// `post::status`.
    type Marker: Field<Entity = Self>;
}

/// The marker of the field at a position. The name is one letter so that expansions of operations
/// are easy to read.
pub type F<E, const INDEX: usize> = <E as FieldAt<INDEX>>::Marker;

/// The type of the field at a position, counted from 0. Generated methods use it because it works
/// in every module.
///
/// ```
/// use linchpin::entity::{ItemAt, ItemPatchAt, TypeAt, ValueAt};
/// use linchpin::prelude::*;
///
/// #[derive(Clone, Debug, Embedded)]
/// pub struct Line {
///     pub text: String,
/// }
///
/// #[entity]
/// pub struct Note {
///     #[field(primary)]
///     pub id: String,
///     pub due_at: Option<Timestamp>,
///     pub lines: Vec<Line>,
/// }
///
/// let due_at: TypeAt<Note, 1> = None;
/// let at: ValueAt<Note, 1> = Timestamp::from_millis(0);
/// let line: ItemAt<Note, 2> = Line { text: "x".to_owned() };
/// let patch: ItemPatchAt<Note, 2> = LinePatch::default();
/// # let _ = (due_at, at, line, patch);
/// ```
pub type TypeAt<E, const INDEX: usize> = <F<E, INDEX> as Field>::Ty;

/// The type of a value at a position without `Option`, like [`ValueOf`]; see [`TypeAt`].
pub type ValueAt<E, const INDEX: usize> = ValueOf<F<E, INDEX>>;

/// The type of one item of the field at a position, like [`ItemOf`]; see [`TypeAt`].
pub type ItemAt<E, const INDEX: usize> = ItemOf<F<E, INDEX>>;

/// The type of a partial change of one item of the field at a position, like [`ItemPatchOf`]; see
/// [`TypeAt`].
pub type ItemPatchAt<E, const INDEX: usize> = ItemPatchOf<F<E, INDEX>>;
