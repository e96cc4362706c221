//! The JSON form of filters.
