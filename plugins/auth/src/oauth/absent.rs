//! Replaces the providers in an app that is built without the feature `providers`.

use linchpin::Result;

/// A provider. Start-up refuses settings of providers, so no value exists.
#[derive(Clone, Debug)]
pub(crate) enum Provider {}

/// The providers of an app: none.
#[derive(Debug)]
pub(crate) struct Oauth;

impl Oauth {
    /// Accepts the same list as the version with the feature, and never fails.
    #[expect(
        clippy::unnecessary_wraps,
        reason = "the same signature as with the feature"
    )]
    pub(crate) fn new(_: Vec<Provider>) -> Result<Self> {
        Ok(Self)
    }

    /// Whether the app has no providers.
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
