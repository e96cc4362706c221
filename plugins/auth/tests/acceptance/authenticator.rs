//! A software authenticator, which can also return responses that no real authenticator returns.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
    RsaKeyPair,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use minicbor::Encoder;
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

pub const ORIGIN: &str = "https://app.test";
pub const SITE: &str = "app.test";

pub const PRESENT: u8 = 1;
pub const VERIFIED: u8 = 1 << 2;
pub const ELIGIBLE: u8 = 1 << 3;
pub const BACKED_UP: u8 = 1 << 4;
const ATTESTED: u8 = 1 << 6;

/// The key of a credential.
enum Signer {
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

/// An authenticator with one credential.
pub struct Authenticator {
    signer: Signer,
    pub credential_id: Vec<u8>,
    /// The user handle from the registration options.
    user_handle: String,
    /// The signature counter. It grows with each use if it is not zero.
    pub count: u32,
    pub flags: u8,
}

/// The parts of a response, which tests change.
pub struct Draft {
    pub client_data: Json,
    pub site: String,
    pub flags: u8,
    pub count: u32,
    pub credential_id: Vec<u8>,
    /// The id outside of the signed data.
    pub outer_id: Vec<u8>,
    pub user_handle: Option<String>,
    pub key: Vec<u8>,
    pub format: &'static str,
    /// The attestation statement in CBOR.
    pub statement: Vec<u8>,
    /// Bytes after the authenticator data.
    pub trailing: Vec<u8>,
    pub spoil_signature: bool,
}

impl Authenticator {
    pub fn p256() -> Self {
        Self::with(Signer::P256(
            EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap(),
        ))
    }

    pub fn ed25519() -> Self {
        Self::with(Signer::Ed25519(Ed25519KeyPair::generate().unwrap()))
    }

    pub fn rsa() -> Self {
        Self::with(Signer::Rsa(
            RsaKeyPair::generate(aws_lc_rs::rsa::KeySize::Rsa2048).unwrap(),
        ))
    }

    fn with(signer: Signer) -> Self {
        let mut credential_id = vec![0; 32];
        aws_lc_rs::rand::fill(&mut credential_id).unwrap();
        Self {
            signer,
            credential_id,
            user_handle: String::new(),
            count: 0,
            flags: PRESENT | VERIFIED,
        }
    }

    /// The public key as COSE.
    pub fn key(&self) -> Vec<u8> {
        let mut out = Encoder::new(Vec::new());
        match &self.signer {
            Signer::P256(key) => {
                let point = key.public_key().as_ref();
                out.map(5)
                    .unwrap()
                    .i64(1)
                    .unwrap()
                    .i64(2)
                    .unwrap()
                    .i64(3)
                    .unwrap()
                    .i64(-7)
                    .unwrap();
                out.i64(-1).unwrap().i64(1).unwrap();
                out.i64(-2)
                    .unwrap()
                    .bytes(&point[1..33])
                    .unwrap()
                    .i64(-3)
                    .unwrap()
                    .bytes(&point[33..])
                    .unwrap();
            }
            Signer::Ed25519(key) => {
                out.map(4)
                    .unwrap()
                    .i64(1)
                    .unwrap()
                    .i64(1)
                    .unwrap()
                    .i64(3)
                    .unwrap()
                    .i64(-8)
                    .unwrap();
                out.i64(-1)
                    .unwrap()
                    .i64(6)
                    .unwrap()
                    .i64(-2)
                    .unwrap()
                    .bytes(key.public_key().as_ref())
                    .unwrap();
            }
            Signer::Rsa(key) => {
                let parts =
                    aws_lc_rs::signature::RsaPublicKeyComponents::<Vec<u8>>::from(key.public_key());
                out.map(4)
                    .unwrap()
                    .i64(1)
                    .unwrap()
                    .i64(3)
                    .unwrap()
                    .i64(3)
                    .unwrap()
                    .i64(-257)
                    .unwrap();
                out.i64(-1)
                    .unwrap()
                    .bytes(&parts.n)
                    .unwrap()
                    .i64(-2)
                    .unwrap()
                    .bytes(&parts.e)
                    .unwrap();
            }
        }
        out.into_writer()
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        match &self.signer {
            Signer::P256(key) => key
                .sign(&SystemRandom::new(), message)
                .unwrap()
                .as_ref()
                .to_vec(),
            Signer::Ed25519(key) => key.sign(message).as_ref().to_vec(),
            Signer::Rsa(key) => {
                let mut out = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut out)
                    .unwrap();
                out
            }
        }
    }

    fn draft(&self, ceremony: &str, options: &Json, flags: u8) -> Draft {
        Draft {
            client_data: json!({ "type": ceremony, "challenge": options["challenge"], "origin": ORIGIN, "crossOrigin": false }),
            site: SITE.to_owned(),
            flags,
            count: self.count,
            credential_id: self.credential_id.clone(),
            outer_id: self.credential_id.clone(),
            user_handle: Some(self.user_handle.clone()),
            key: self.key(),
            format: "none",
            statement: vec![0xa0],
            trailing: Vec::new(),
            spoil_signature: false,
        }
    }

    /// Returns the response to registration options.
    pub fn register(&mut self, options: &Json) -> Json {
        self.register_changed(options, |_| {})
    }

    /// Like [`Authenticator::register`], with a changed response.
    pub fn register_changed(&mut self, options: &Json, change: impl FnOnce(&mut Draft)) -> Json {
        self.user_handle = options["user"]["id"].as_str().unwrap().into();
        let mut draft = self.draft("webauthn.create", options, self.flags | ATTESTED);
        change(&mut draft);
        let client_data = draft.client_data.to_string().into_bytes();
        let data = draft.data(true);
        let statement = match draft.statement.as_slice() {
            // Self attestation.
            [] => {
                let mut out = Encoder::new(Vec::new());
                let mut signature =
                    self.sign(&[data.as_slice(), &Sha256::digest(&client_data)].concat());
                if draft.spoil_signature {
                    signature[10] ^= 1;
                }
                out.map(2)
                    .unwrap()
                    .str("alg")
                    .unwrap()
                    .i64(-7)
                    .unwrap()
                    .str("sig")
                    .unwrap()
                    .bytes(&signature)
                    .unwrap();
                out.into_writer()
            }
            given => given.to_vec(),
        };
        let mut head = Encoder::new(Vec::new());
        head.map(3)
            .unwrap()
            .str("fmt")
            .unwrap()
            .str(draft.format)
            .unwrap()
            .str("attStmt")
            .unwrap();
        let mut tail = Encoder::new(Vec::new());
        tail.str("authData").unwrap().bytes(&data).unwrap();
        let object = [head.into_writer(), statement, tail.into_writer()].concat();
        let id = URL_SAFE_NO_PAD.encode(&draft.outer_id);
        json!({
            "id": id, "rawId": id, "type": "public-key", "clientExtensionResults": {}, "authenticatorAttachment": "platform",
            "response": {
                "clientDataJSON": URL_SAFE_NO_PAD.encode(client_data),
                "attestationObject": URL_SAFE_NO_PAD.encode(object),
                "transports": ["internal", "hybrid", "telepathy", "internal"],
            },
        })
    }

    /// Returns the response to assertion options.
    pub fn assert(&mut self, options: &Json) -> Json {
        self.assert_changed(options, |_| {})
    }

    /// Like [`Authenticator::assert`], with a changed response.
    pub fn assert_changed(&mut self, options: &Json, change: impl FnOnce(&mut Draft)) -> Json {
        if self.count > 0 {
            self.count += 1;
        }
        let mut draft = self.draft("webauthn.get", options, self.flags);
        change(&mut draft);
        let client_data = draft.client_data.to_string().into_bytes();
        let data = draft.data(false);
        let mut signature = self.sign(&[data.as_slice(), &Sha256::digest(&client_data)].concat());
        if draft.spoil_signature {
            signature[10] ^= 1;
        }
        let id = URL_SAFE_NO_PAD.encode(&draft.outer_id);
        json!({
            "id": id, "rawId": id, "type": "public-key", "clientExtensionResults": {},
            "response": {
                "clientDataJSON": URL_SAFE_NO_PAD.encode(client_data),
                "authenticatorData": URL_SAFE_NO_PAD.encode(data),
                "signature": URL_SAFE_NO_PAD.encode(signature),
                "userHandle": draft.user_handle,
            },
        })
    }
}

impl Draft {
    fn data(&self, attested: bool) -> Vec<u8> {
        let mut out = Sha256::digest(self.site.as_bytes()).to_vec();
        out.push(self.flags);
        out.extend(self.count.to_be_bytes());
        if attested {
            out.extend([0; 16]);
            out.extend(
                u16::try_from(self.credential_id.len())
                    .unwrap()
                    .to_be_bytes(),
            );
            out.extend(&self.credential_id);
            out.extend(&self.key);
        }
        out.extend(&self.trailing);
        out
    }
}
