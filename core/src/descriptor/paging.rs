//! The parameters with which calls select a page.

/// The parameters with which calls of a route select a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Paging {
    /// With `limit` and `cursor`.
    #[default]
    Limit,
    /// With `page` and `pageSize`; or with `cursor`, to continue after any of these pages.
    Number {
        /// The maximum page size. Greater sizes are clamped to it.
        most: u32,
    },
}

impl Paging {
    /// Numbered pages of at most 100 records.
    pub const NUMBER: Self = Self::Number { most: 100 };
    /// The page size of numbered pages, if the call does not name one.
    pub const SIZE: u32 = 20;

    /// Limits the page size to `cap`.
    #[must_use]
    pub const fn within(self, cap: u32) -> Self {
        match self {
            Self::Number { most } if cap < most => Self::Number { most: cap },
            other => other,
        }
    }
}
