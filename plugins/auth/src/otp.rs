//! Numeric codes that are sent: made without bias, kept as a MAC.
