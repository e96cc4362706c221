//! The providers of an app that is built without the feature `providers`: there are none.

use linchpin::Result;

/// A provider: settings that name one are refused at start-up, so no value of it exists.
#[derive(Clone, Debug)]
pub(crate) enum Provider {}

/// Every provider of an app: none.
#[derive(Debug)]
pub(crate) struct Oauth;

impl Oauth {
    /// Takes the same list as the one with providers, and never fails.
    #[expect(
        clippy::unnecessary_wraps,
        reason = "the same signature as with the feature"
    )]
    pub(crate) fn new(_: Vec<Provider>) -> Result<Self> {
        Ok(Self)
    }

    /// Whether there are none.
    #[expect(clippy::unused_self, reason = "the same signature as with the feature")]
    pub(crate) fn is_empty(&self) -> bool {
        true
    }

    /// The name of the provider with this id.
    #[expect(clippy::unused_self, reason = "the same signature as with the feature")]
    pub(crate) fn name_of(&self, _: &str) -> Option<&str> {
        None
    }
}
