//! One secret, a key for each purpose.
