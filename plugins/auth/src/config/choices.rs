//! Settings that accept a fixed list of words.

use super::reader::Choices;
use super::{Linking, OnPasswordChange, ResponseMode, SameSite, Transport, UserVerification};
use crate::identity::PrimaryField;
use crate::keys::signing::Algorithm;
use crate::password::BreachOnError;
use crate::totp::TotpAlgorithm;

macro_rules! words {
    ($($type:ident { $($word:literal = $variant:ident),+ })+) => {
        $(impl Choices for $type {
            const CHOICES: &'static [(&'static str, Self)] = &[$(($word, Self::$variant)),+];
        })+
    };
}

words! {
    Algorithm { "HS256" = Hs256, "EdDSA" = EdDsa, "RS256" = Rs256 }
    BreachOnError { "allow" = Allow, "refuse" = Refuse }
    Linking { "never" = Never, "verified" = Verified }
    OnPasswordChange { "revokeOthers" = RevokeOthers, "revokeAllAndReissue" = RevokeAllAndReissue }
    PrimaryField { "email" = Email, "username" = Username, "phone" = Phone }
    ResponseMode { "query" = Query, "form_post" = FormPost }
    SameSite { "lax" = Lax, "strict" = Strict, "none" = None }
    TotpAlgorithm { "SHA1" = Sha1, "SHA256" = Sha256, "SHA512" = Sha512 }
    Transport { "both" = Both, "cookie" = Cookie, "bearer" = Bearer }
    UserVerification { "required" = Required, "preferred" = Preferred }
}
