//! Replaces the pages for providers in an app that is built without the feature `providers`.

use linchpin::Result;
use maud::Markup;

use super::visit::Visit;
use crate::entities::User;

/// A button for each provider: none.
pub(super) fn buttons(_: &Visit) -> Vec<Markup> {
    Vec::new()
}

/// Whether a sign-in with a provider may create an account.
pub(super) fn sign_up(_: &Visit) -> bool {
    false
}

/// The providers of the account: nothing to show.
#[expect(
    clippy::unused_async,
    reason = "the same signature as with the feature"
)]
pub(super) async fn section(_: &Visit, _: &User) -> Result<Option<Markup>> {
    Ok(None)
}
