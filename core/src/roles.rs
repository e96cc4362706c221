//! Roles as an enum.

/// An enum whose variants are the roles of an app; `#[derive(Roles)]` implements it.
///
/// ```
/// use linchpin::{Actor, Roles};
///
/// #[derive(Clone, Copy, Roles)]
/// enum Role {
///     Admin,
///     #[role(rename = "chief-editor")]
///     ChiefEditor,
/// }
///
/// assert_eq!(Role::NAMES, ["admin", "chief-editor"]);
/// let actor = Actor::user("ada").with_roles([Role::ChiefEditor]);
/// assert!(actor.has_any_role(&[Role::ChiefEditor.as_str()]));
/// ```
#[diagnostic::on_unimplemented(
    message = "linchpin: `{Self}` is not a set of roles",
    label = "not an enum with `#[derive(Roles)]`",
    note = "help: `#[derive(Roles)]` on the enum, or texts: `roles = [\"admin\"]`"
)]
pub trait Roles {
    /// The names of the roles in tokens, in the order of the variants.
    const NAMES: &'static [&'static str];
}
