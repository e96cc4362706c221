//! Recovery codes: for whoever has lost every other factor.
