//! Passwords: what they must be, how they are hashed, and whether others have seen them.
