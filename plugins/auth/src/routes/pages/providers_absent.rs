//! Sign-in by providers in an app that is built without the feature `providers`: no button, no
//! section, no route.

use linchpin::Result;
use maud::Markup;

use super::visit::Visit;
use crate::entities::User;

/// A way to each provider: none.
pub(super) fn buttons(_: &Visit) -> Vec<Markup> {
    Vec::new()
}

/// Whether providers make accounts.
pub(super) fn sign_up(_: &Visit) -> bool {
    false
}

/// The providers, and which of them know whoever is signed in: nothing to show.
#[expect(
    clippy::unused_async,
    reason = "the same signature as with the feature"
)]
pub(super) async fn section(_: &Visit, _: &User) -> Result<Option<Markup>> {
    Ok(None)
}
